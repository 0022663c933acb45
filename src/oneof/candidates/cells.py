"""Values as people write them, turned into numbers: labels into columns, tasks into rows, names into indices.

Every value is looked at once, however often it occurs, so that a million lines take seconds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneof.candidates.sets import CandidateError

Place = Callable[[int], str]
"""Says where a line of the input is: 'row 17, column "label"'."""

COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)


class CellError(CandidateError):
    """A value that cannot be used. `line` is its number in the input, for readers that know its place."""

    def __init__(self, line: int, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.line = line


def in_column(name: str) -> Place:
    return lambda line: f'row {line}, column "{name}"'


@dataclass(frozen=True)
class Codes:
    """`number[i]` is the place of the i-th value in `values`; `first[k]` the first line with value k."""

    number: np.ndarray
    values: list[Any]
    first: list[int]


def encode(values: Iterable[Any]) -> Codes:
    """Number the values by their first appearance. A collection of labels is one value, a tuple."""
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers: list[int] = []
    for line, given in enumerate(_listed(values)):
        value = given
        if isinstance(value, COLLECTIONS):
            ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            value = tuple(plain(v) for v in ordered)
        try:
            number = seen.setdefault((value.__class__, value), len(first))  # 1 and True are two values here
        except TypeError:
            raise CellError(
                line, f"row {line}", f"{given!r:.80} is neither text nor a number nor a list of them."
            ) from None
        if number == len(first):
            first.append(line)
        numbers.append(number)
    return Codes(np.array(numbers, dtype=np.int64), [plain(value) for _, value in seen], first)


def _listed(values: Any) -> Iterable[Any]:
    """A column, array or data-frame series as plain Python values where that is cheap."""
    return values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values


def plain(value: Any) -> Any:
    """A numpy value as a Python one, a whole float as an int (data frames write 3 as 3.0), text trimmed."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return value.strip()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_missing(value: Any) -> bool:
    """None, NaN, empty text, an empty collection, or a data frame's missing value."""
    if value is None or (isinstance(value, str | tuple) and not value):
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # pandas' NA refuses to be compared
        return True


def is_whole(value: Any) -> bool:
    """A whole number, or the text of one as it is normally written (not 007)."""
    if isinstance(value, str):
        return re.fullmatch(r"0|-?[1-9]\d{0,17}", value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


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
        raise CellError(
            late,
            place(late),
            f"this {what} is a {other}, that of row {early} a {kind}.\n  Use one type in the whole column.",
        )
    odd = set(kinds) - {"text", "number", "bool"}
    if odd:
        line = kinds[odd.pop()]
        raise CellError(line, place(line), f"a {what} is text or a number, not {codes.values[0]!r:.80}.")


def ordered(values: Sequence[Any]) -> list[Any]:
    """Sorted: whole numbers by their value even where they are text, all else by text."""
    if all(is_whole(value) for value in values):
        return sorted(values, key=int)
    return sorted(
        values, key=lambda value: (0, value, "") if isinstance(value, float | int) else (1, 0, value)
    )


# ---- labels -----------------------------------------------------------------------------------


def label_columns(
    labels: list[tuple[Any, int]], classes: Sequence[Any] | None, place: Place, what: str = "class"
) -> tuple[list[int], tuple[Any, ...]]:
    """The column of every (label, line), and the classes.

    With `classes` a label is the name of one of them, or, where no label is a name, its number, counted
    from 0. Without, the classes are the labels that occur.
    """
    if classes is None:
        names = ordered(list(dict.fromkeys(label for label, _ in labels)))
        column = {name: k for k, name in enumerate(names)}
        return [column[label] for label, _ in labels], tuple(names)
    names = [plain(name) for name in classes]
    by_text = {str(name): k for k, name in enumerate(names)}
    found = [by_text.get(str(label), -1) for label, _ in labels]
    if labels and max(found) < 0 and all(is_whole(label) for label, _ in labels):
        for label, line in labels:
            if not 0 <= int(label) < len(names):
                raise CellError(
                    line,
                    place(line),
                    f"label {label} is no number of a class; there are {len(names)} (0 to {len(names) - 1}): "
                    f"{short(names)}.",
                )
        return [int(label) for label, _ in labels], tuple(names)
    for (label, line), k in zip(labels, found):
        if k < 0:
            raise CellError(line, place(line), f"{unknown(label, names, what)}")
    return found, tuple(names)


def unknown(name: Any, known: Iterable[Any], what: str) -> str:
    """The sentence for a name that is none of the known ones, with the nearest of them."""
    texts = [str(value) for value in known]
    near = difflib.get_close_matches(str(name), texts, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{name!r} is no known {what}; known are {short(texts)}.{hint}"


def short(values: Iterable[Any], limit: int = 10) -> str:
    values = list(values)
    return ", ".join(map(repr, values[:limit])) + (f", … {len(values)} in all" if len(values) > limit else "")


# ---- rows -------------------------------------------------------------------------------------


def rows_of_tasks(
    codes: Codes, place: Place, ids: Sequence[Any] | None, n_rows: int | None
) -> tuple[np.ndarray, list[Any]]:
    """The row of every task value, and the ids of all rows.

    `n_rows`: tasks are the numbers of rows. `ids`: they are among these, in this order. Else the rows are
    the tasks that occur: whole numbers sorted, other names in the order of their first appearance.
    """
    values = codes.values
    if n_rows is not None:
        for value, line in zip(values, codes.first):
            if not is_whole(value) or not 0 <= int(value) < n_rows:
                raise CellError(
                    line,
                    place(line),
                    f"task {value!r} is no row; with {n_rows} rows a task is a whole number from 0 to "
                    f"{n_rows - 1}.",
                )
        return np.array([int(value) for value in values], dtype=np.int64), list(range(n_rows))
    if ids is not None:
        names = [plain(name) for name in ids]
        position = {str(name): k for k, name in enumerate(names)}
        if len(position) < len(names):
            twice = next(n for k, n in enumerate(names) if position[str(n)] != k)
            raise CandidateError(f"the id {twice!r} stands twice in the list of ids; a row has one id.")
        for value, line in zip(values, codes.first):
            if str(value) not in position:
                raise CellError(line, place(line), unknown(value, names, "id of a row"))
        return np.array([position[str(value)] for value in values], dtype=np.int64), names
    if all(is_whole(value) for value in values):
        numbers = [int(value) for value in values]
        names = sorted(numbers)
        rank = {number: k for k, number in enumerate(names)}
        return np.array([rank[number] for number in numbers], dtype=np.int64), names
    return np.arange(len(values)), list(values)
