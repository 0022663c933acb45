"""Label Studio's JSON exports: the full one and JSON-MIN; choices by one or several annotators.

Full: a list of tasks with `annotations[].result[]`; entries of type "choices" count. Cancelled annotations
and `predictions` (of models) are left out. JSON-MIN: one flat object per annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    full = any("annotations" in task or "completions" in task for task in tasks)
    ids = [_identity(task, i, id_field) for i, task in enumerate(tasks)]
    names = list(dict.fromkeys(ids))
    row = {name: k for k, name in enumerate(names)}
    if full and len(names) < len(ids):
        twice = next(i for i, name in enumerate(ids) if row[name] != i)
        raise CellError(twice, f"task {twice}", f"{id_field} {ids[twice]!r} stands for two tasks.")
    notes: list[str] = []
    if full:
        by_control: dict[str, list[Line]] = {}
        for name, line in _full_answers(tasks, notes):
            by_control.setdefault(name, []).append(line)
        control = _chosen(sorted(by_control), control, tasks)
        lines = by_control[control]
    else:
        control = _flat_control(tasks, control)
        lines = [line._replace(row=row[ids[line.entry]]) for line in _flat_answers(tasks, control)]
    if not lines:
        raise CandidateError(f"no task has a choice in {control!r}: nothing was annotated.")

    def place(line: int) -> str:
        task = lines[line].entry
        return f'task {task} (id {ids[task]!r}), control "{control}"'

    known = [line.worker is not None for line in lines]
    if any(known) and not all(known):
        first = known.index(False)
        raise CellError(lines[first].entry, place(first), "this annotation does not say who made it.")
    told = [*settings.provenance.get("notes", ()), *notes]
    settings = replace(settings, provenance={**settings.provenance, "control": control, "notes": told})
    return assemble_lines(lines, all(known), names, settings, place)


# ---- the full export --------------------------------------------------------------------------


def _full_answers(tasks: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[tuple[str, Line]]:
    cancelled = 0
    for i, task in enumerate(tasks):
        annotations = task.get("annotations", task.get("completions", []))
        if not isinstance(annotations, list):
            raise CellError(i, f"task {i}", f'"annotations" is {annotations!r:.80}, not a list.')
        for annotation in annotations:
            if not isinstance(annotation, Mapping) or not isinstance(annotation.get("result", []), list):
                raise CellError(i, f"task {i}", f"the annotation {annotation!r:.80} has no list of results.")
            if annotation.get("was_cancelled"):
                cancelled += 1
                continue
            worker = _person(annotation.get("completed_by"))
            for result in annotation.get("result", []):
                if isinstance(result, Mapping) and result.get("type") == "choices":
                    value = result.get("value")
                    choices = value.get("choices") if isinstance(value, Mapping) else None
                    if not isinstance(choices, list):
                        raise CellError(
                            i, f"task {i}", f'value of the choice is {value!r:.80}, no "choices".'
                        )
                    if choices:
                        yield str(result.get("from_name")), Line(i, worker, tuple(choices), i)
    if cancelled:
        notes.append(f"cancelled annotations, left out: {cancelled}")


def _person(completed_by: Any) -> Any:
    """An id, or an object with an id or an e-mail address; the id first, so that both forms agree."""
    if isinstance(completed_by, Mapping):
        completed_by = completed_by.get("id", completed_by.get("email"))
    return cell_text(completed_by)


def _chosen(names: list[str], wanted: str | None, tasks: Sequence[Mapping[str, Any]]) -> str:
    if not names:
        types = sorted(
            {
                str(result.get("type"))
                for task in tasks
                for annotation in task.get("annotations", task.get("completions", []))
                for result in annotation.get("result", [])
                if isinstance(result, Mapping)
            }
        )
        found = f"; its results have the types {short(types)}" if types else "; nothing was annotated"
        raise CandidateError(f"this export has no choices{found}.")
    if wanted is None and len(names) > 1:
        raise CandidateError(f"there are several controls, {short(names)}; say which one (--control).")
    if wanted is not None and wanted not in names:
        raise CandidateError(f"there is no control {wanted!r} with choices; there are {short(names)}.")
    return wanted or names[0]


# ---- JSON-MIN ---------------------------------------------------------------------------------


def _flat_control(tasks: Sequence[Mapping[str, Any]], wanted: str | None) -> str:
    fields = list(dict.fromkeys(name for task in tasks for name in task if name not in _OWN))
    if wanted is not None:
        if wanted not in fields:
            raise CandidateError(f"there is no field {wanted!r}; there are {short(fields)}.")
        return wanted
    sure = [name for name in fields if any(isinstance(task.get(name), Mapping) for task in tasks)]
    if len(sure) != 1:
        raise CandidateError(
            f"in JSON-MIN the choices cannot be told from the data; the fields are {short(fields)}.\n"
            "  Say which one holds the choices (--control)."
        )
    return sure[0]


def _flat_answers(tasks: Sequence[Mapping[str, Any]], control: str) -> Iterator[Line]:
    for i, task in enumerate(tasks):
        value = task.get(control)
        if isinstance(value, Mapping):
            value = value.get("choices")
        if isinstance(value, Mapping):
            raise CellError(i, f'task {i}, "{control}"', f"{task[control]!r:.80} holds no choices.")
        choices = tuple(value) if isinstance(value, list) else (value,)
        if not is_missing(choices) and not all(is_missing(choice) for choice in choices):
            yield Line(i, _person(task.get("annotator")), choices, i)


def _identity(task: Mapping[str, Any], i: int, field: str) -> Any:
    data = task.get("data")
    found = task.get(field, data.get(field) if isinstance(data, Mapping) else None)
    if is_missing(found) or not isinstance(found, str | int):
        known = [*task, *(data if isinstance(data, Mapping) else ())]
        raise CellError(i, f"task {i}", f"there is no {field!r} to name it; it has {short(known)}.")
    return tidy(found)
