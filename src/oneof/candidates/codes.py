"""Columns of values as numbers: tasks, annotators and labels, each by the place among the distinct ones.

Work goes over the distinct values, so that a million lines take seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneof.candidates.cells import (
    COLLECTIONS,
    CandidateError,
    CellError,
    Place,
    as_cells,
    as_set,
    is_missing,
    is_whole,
    ordered,
    short,
    tidy,
    unknown,
)


@dataclass(frozen=True)
class Codes:
    """`number[i]` is the place of the i-th value in `values`; `first[k]` the first line with value k."""

    number: np.ndarray
    values: list[Any]
    first: list[int]


class Numbering:
    """Numbers values by their first appearance; `first` are the lines of these."""

    def __init__(self, place: Place) -> None:
        self.place, self.first = place, list[int]()
        self._seen: dict[Any, int] = {}

    def of(self, value: Any, line: int, given: Any) -> int:
        """The number of a value of a line, which errors call as it was `given`."""
        try:
            number = self._seen.setdefault((value.__class__, value), len(self.first))  # 1 and True are two
        except TypeError:
            what = f"{given!r:.80} is neither text nor a number nor a list of them."
            raise CellError(line, self.place(line), what) from None
        if number == len(self.first):
            self.first.append(line)
        return number

    def codes(self, numbers: array[int]) -> Codes:
        return Codes(np.array(numbers), [tidy(value) for _, value in self._seen], self.first)


def encode(values: Iterable[Any], place: Place) -> Codes:
    """Number the values by their first appearance; a collection is one value."""
    made, numbers = Numbering(place), array("q")
    for line, given in enumerate(as_cells(values)):
        value = tuple(given) if isinstance(given, COLLECTIONS) else given
        numbers.append(made.of(value, line, given))
    return made.codes(numbers)


def encode_labels(lines: Iterable[Any], place: Place) -> tuple[Codes, np.ndarray]:
    """Number the labels of lines, each of which has one, several or none; and how many each line has."""
    made, numbers, sizes = Numbering(place), array("i"), array("i")
    for line, given in enumerate(as_cells(lines)):
        labels = sorted(given, key=repr) if isinstance(given, set | frozenset) else as_set(given)
        for label in labels:
            if is_missing(label):
                raise CellError(line, place(line), f"one of the labels {labels!r:.80} is empty.")
            numbers.append(made.of(label, line, given))
        sizes.append(len(labels))
    return made.codes(numbers), np.array(sizes)


def check_one_type(codes: Codes, place: Place, what: str) -> None:
    """Text or numbers, not both: nobody knows whether 1 and "1" are the same."""
    kinds: dict[str, int] = {}
    for value, line in zip(codes.values, codes.first):
        for single in value if isinstance(value, tuple) else (value,):
            kind = "text" if isinstance(single, str) else "number"
            if isinstance(single, bool) or not isinstance(single, str | int | float):
                kind = type(single).__name__
            kinds.setdefault(kind, line)
    if len(kinds) > 1:
        (kind, early), (other, late) = sorted(kinds.items(), key=lambda item: item[1])[:2]
        what = f"this {what} is a {other}, that of row {early} a {kind}.\n  Use one type in the whole column."
        raise CellError(late, place(late), what)
    odd = set(kinds) - {"text", "number", "bool"}
    if odd:
        line = kinds[odd.pop()]
        raise CellError(line, place(line), f"a {what} is text or a number, not {codes.values[0]!r:.80}.")


def named_columns(
    labels: list[tuple[Any, int]], classes: Sequence[Any] | None, place: Place
) -> tuple[list[int], tuple[Any, ...]]:
    """The column of every (label, line), and the classes.

    With `classes` a label is the name of one of them, or, where no label is a name, its number, counted
    from 0. Without, the classes are the labels that occur.
    """
    if classes is None:
        classes = ordered(dict.fromkeys(label for label, _ in labels))
        column = {name: k for k, name in enumerate(classes)}
        return [column[label] for label, _ in labels], tuple(classes)
    names = [tidy(name) for name in classes]
    by_text = {str(name): k for k, name in enumerate(names)}
    found = [by_text.get(str(label), -1) for label, _ in labels]
    numbered = bool(labels) and max(found) < 0 and all(is_whole(label) for label, _ in labels)
    if numbered:
        found = [int(label) if 0 <= int(label) < len(names) else -1 for label, _ in labels]
    for (label, line), k in zip(labels, found):
        if k < 0:
            what = unknown(label, names, "class")
            if numbered:
                what = f"label {label} is no number of a class; there are {len(names)}, counted from 0: "
                what += f"{short(names)}."
            raise CellError(line, place(line), what)
    return found, tuple(names)


def rows_of_tasks(
    codes: Codes, place: Place, ids: Sequence[Any] | None, n_rows: int | None, drop_unknown: bool = False
) -> tuple[np.ndarray, list[Any]]:
    """The row of every task value, and the ids of all rows.

    `n_rows`: tasks are the numbers of rows. `ids`: they are among these, in this order. Else the rows are
    the tasks that occur: whole numbers sorted, other names in the order of their first appearance.
    `drop_unknown`: a task that is none of the rows gets -1; else it is an error.
    """
    values = codes.values
    if n_rows is not None:
        ids = range(n_rows)
    if ids is not None:
        names = [tidy(name) for name in ids]
    elif all(is_whole(value) for value in values):
        names = sorted(int(value) for value in values)
    else:
        return np.arange(len(values)), list(values)
    position = {str(name): k for k, name in enumerate(names)}
    if len(position) < len(names):
        twice = next(n for k, n in enumerate(names) if position[str(n)] != k)
        raise CandidateError(f"the id {twice!r} stands twice in the list of ids; a row has one id.")
    rows = [position.get(str(value), -1) for value in values]
    if min(rows) < 0 and not (drop_unknown and max(rows) >= 0):
        value, line = values[rows.index(-1)], codes.first[rows.index(-1)]
        what = unknown(value, names, "id of a row")
        if n_rows is not None:
            bound = f"with {n_rows} rows a task is a whole number from 0 to {n_rows - 1}"
            what = f"task {value!r} is no row; {bound}."
        raise CellError(line, place(line), f"{what}\n  To leave such answers out: --accept unknown-tasks.")
    return np.array(rows, dtype=np.int64), names
