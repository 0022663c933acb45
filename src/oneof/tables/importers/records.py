"""One record per row, as JSONL files hold them: a set, a set per annotator, or a mapping by annotator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import COLLECTIONS, CellError, is_missing, plain
from oneof.candidates.sets import CandidateError
from oneof.tables.importers.assemble import Settings, assemble


def from_records(
    labels: Iterable[Any],
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    column: str = "labels",
    **more: Any,
) -> Annotations:
    """From one entry per row.

    Parameters
    ----------
    labels : iterable
        Each entry is one of: a label; a list of labels, the candidate set as it is; a list of lists, one
        per annotator whose name is not known; a mapping {annotator: label or labels}.
    ids : sequence, optional
        Names of the rows.
    column : str
        What the entries are called in messages.
    settings, **more
        See `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.

    Examples
    --------
    >>> made = from_records([{"ann": "cat", "bob": ["cat", "dog"]}, {"bob": "dog"}])
    >>> made.candidates.sets()
    [['cat', 'dog'], ['dog']]
    """
    settings = (settings or Settings()).of("records", more)
    row: list[int] = []
    who: list[Any] = []
    said: list[Any] = []
    forms: dict[str, int] = {}
    n = 0
    for i, entry in enumerate(labels):
        n = i + 1
        form, answers = _answers(entry, i, column)
        if form:
            forms.setdefault(form, i)
        for name, label in answers:
            if not is_missing(label):
                row.append(i)
                who.append(name)
                said.append(label)
    if not n:
        raise CandidateError("there is no record at all.")
    if not row:
        raise CandidateError(f'no record has a label in "{column}".')
    if "by annotator" in forms and len(forms) > 1:
        line = min(i for form, i in forms.items() if form != "by annotator")
        raise CellError(
            line,
            f'row {line}, "{column}"',
            f"this entry does not say who answered, the one of row {forms['by annotator']} does.\n"
            "  Use one form in the whole file.",
        )
    names = list(range(n)) if ids is None else [plain(name) for name in ids]
    if len(names) != n:
        raise CandidateError(f"there are {len(names)} ids for {n} records; give one each.")

    def place(line: int) -> str:
        return f'row {row[line]}, "{column}"'

    people = who if "by annotator" in forms else None
    try:
        return assemble(np.array(row, dtype=np.int64), people, said, names, settings, place, place)
    except CellError as error:
        error.line = row[error.line]
        raise


def _answers(entry: Any, i: int, column: str) -> tuple[str, list[tuple[Any, Any]]]:
    """The form of an entry, empty where it says nothing, and its (annotator, labels)."""
    if isinstance(entry, Mapping):
        return "by annotator", [(name, _labels(label, i, column)) for name, label in entry.items()]
    if not isinstance(entry, COLLECTIONS):
        value = plain(entry)
        return ("", []) if is_missing(value) else ("a set", [(None, value)])
    parts = list(entry)
    nested = [isinstance(part, COLLECTIONS) for part in parts]
    if any(nested) and not all(nested):
        raise CellError(i, f'row {i}, "{column}"', f"{parts!r:.80} mixes labels and lists of labels.")
    if any(nested):
        return "sets", [(None, _labels(part, i, column)) for part in parts]
    return ("a set", [(None, tuple(parts))]) if parts else ("", [])


def _labels(label: Any, i: int, column: str) -> Any:
    if isinstance(label, Mapping):
        raise CellError(i, f'row {i}, "{column}"', f"{label!r:.80} is neither a label nor a list of labels.")
    return tuple(label) if isinstance(label, COLLECTIONS) else plain(label)
