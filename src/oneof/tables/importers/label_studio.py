"""Label Studio's JSON exports: the full one and JSON-MIN; choices by one or several annotators.

Full: a list of tasks with `annotations[].result[]`; entries of type "choices" count. Cancelled annotations
and `predictions` (of models) are left out. JSON-MIN: one flat object per annotation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import CandidateError, CellError, cell_text, is_missing, short, tidy
from oneof.tables.importers.assemble import Line, Settings, assemble_lines

# fields of JSON-MIN that Label Studio itself writes
_OWN = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time", "agreement")


def from_label_studio(
    tasks: Sequence[Mapping[str, Any]],
    *,
    control: str | None = None,
    id_field: str = "id",
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From the parsed JSON of an export.

    Parameters
    ----------
    tasks : list of dict
        What the file holds.
    control : str, optional
        Name of the `<Choices>` tag (`from_name`). Needed where there are several, and in JSON-MIN where
        it cannot be told from the data.
    id_field : str, default="id"
        Field that names the rows: the task's own id, or a field of its data such as "image".
    settings, **more
        See `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.
    """
    settings = (settings or Settings()).of("label-studio", more)
    if not isinstance(tasks, list | tuple) or not tasks:
        raise CandidateError("a Label Studio export is a list of tasks, with at least one.")
    for i, task in enumerate(tasks):
        if not isinstance(task, Mapping):
            raise CellError(i, f"task {i}", f"{task!r:.80} is no object with annotations.")
    ids = [_identity(task, i, id_field) for i, task in enumerate(tasks)]
    row = {name: k for k, name in enumerate(dict.fromkeys(ids))}
    notes: list[str] = []
    if any("annotations" in task or "completions" in task for task in tasks):
        for i, name in enumerate(ids):
            if row[name] != i:
                raise CellError(i, f"task {i}", f"{id_field} {name!r} stands for two tasks.")
        control, lines = _full(tasks, control, notes)
    else:
        control, lines = _flat(tasks, control)
    if not lines:
        raise CandidateError(f"no task has a choice in {control!r}: nothing was annotated.")

    def place(line: Line) -> str:
        return f'task {line.entry} (id {ids[line.entry]!r}), control "{control}"'

    named = any(line.worker is not None for line in lines)
    for line in lines:
        if named and line.worker is None:
            raise CellError(line.entry, place(line), "this annotation does not say who made it.")
    told = [*settings.provenance.get("notes", ()), *notes]
    settings = replace(settings, provenance={**settings.provenance, "control": control, "notes": told})
    rows = [row[name] for name in ids]
    return assemble_lines(lines, list(row), settings, place, named=named, rows=rows)


def _full(tasks: Sequence[Mapping[str, Any]], wanted: str | None, notes: list[str]) -> tuple[str, list[Line]]:
    """The control of a full export, and its answers."""
    by_control: dict[str, list[Line]] = {}
    types: set[str] = set()
    cancelled = 0
    for i, task in enumerate(tasks):
        annotations = task.get("annotations", task.get("completions", []))
        if not isinstance(annotations, list):
            raise CellError(i, f"task {i}", f'"annotations" is {annotations!r:.80}, not a list.')
        for annotation in annotations:
            if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result", []), list):
                raise CellError(i, f"task {i}", f"the annotation {annotation!r:.80} has no list of results.")
            results = [result for result in annotation.get("result", []) if isinstance(result, Mapping)]
            types.update(str(result.get("type")) for result in results)
            if annotation.get("was_cancelled"):
                cancelled += 1
                continue
            worker = _person(annotation.get("completed_by"))
            for result in results:
                if result.get("type") != "choices":
                    continue
                value = result.get("value")
                choices = value.get("choices") if isinstance(value, Mapping) else None
                if not isinstance(choices, list):
                    what = f'value of the choice is {value!r:.80}, no "choices".'
                    raise CellError(i, f"task {i}", what)
                if choices:
                    name = str(result.get("from_name"))
                    by_control.setdefault(name, []).append(Line(i, worker, tuple(choices)))
    if cancelled:
        notes.append(f"cancelled annotations, left out: {cancelled}")
    names = sorted(by_control)
    if not names:
        found = f"its results have the types {short(sorted(types))}" if types else "nothing was annotated"
        raise CandidateError(f"this export has no choices; {found}.")
    if wanted is None and len(names) > 1:
        raise CandidateError(f"there are several controls, {short(names)}; say which one (--control).")
    if wanted is not None and wanted not in names:
        raise CandidateError(f"there is no control {wanted!r} with choices; there are {short(names)}.")
    control = wanted or names[0]
    return control, by_control[control]


def _flat(tasks: Sequence[Mapping[str, Any]], wanted: str | None) -> tuple[str, list[Line]]:
    """The control of JSON-MIN, and its answers."""
    fields = list(dict.fromkeys(name for task in tasks for name in task if name not in _OWN))
    if wanted is not None and wanted not in fields:
        raise CandidateError(f"there is no field {wanted!r}; there are {short(fields)}.")
    sure = [name for name in fields if any(isinstance(task.get(name), Mapping) for task in tasks)]
    if wanted is None and len(sure) != 1:
        raise CandidateError(
            f"in JSON-MIN the choices cannot be told from the data; the fields are {short(fields)}.\n"
            "  Say which one holds the choices (--control)."
        )
    control, lines = wanted or sure[0], []
    for i, task in enumerate(tasks):
        value = task.get(control)
        if isinstance(value, Mapping):
            value = value.get("choices")
        if isinstance(value, Mapping):
            raise CellError(i, f'task {i}, "{control}"', f"{task[control]!r:.80} holds no choices.")
        choices = tuple(value) if isinstance(value, list) else (value,)
        if not all(map(is_missing, choices)):
            lines.append(Line(i, _person(task.get("annotator")), choices))
    return control, lines


def _person(completed_by: Any) -> Any:
    """An id, or an object with an id or an e-mail address; the id first, so that both forms agree."""
    if isinstance(completed_by, Mapping):
        completed_by = completed_by.get("id", completed_by.get("email"))
    return cell_text(completed_by)


def _identity(task: Mapping[str, Any], i: int, field: str) -> Any:
    data = task.get("data")
    found = task.get(field, data.get(field) if isinstance(data, Mapping) else None)
    if is_missing(found) or not isinstance(found, str | int):
        known = [*task, *(data if isinstance(data, Mapping) else ())]
        raise CellError(i, f"task {i}", f"there is no {field!r} to name it; it has {short(known)}.")
    return tidy(found)
