"""Ids of rows: as text, each at most once, and where they are in another file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneof.candidates.cells import cell_text, short
from oneof.candidates.questions import Question
from oneof.tables.errors import DataError
from oneof.tables.importers.column_names import ID, TASK, column
from oneof.tables.table import ID_NAME, Table


def as_ids(values: Any, what: str) -> tuple[str, ...]:
    """Ids as text, each at most once."""
    first: dict[str, int] = {}
    for i, text in enumerate(map(cell_text, values)):
        if text is None:
            raise DataError(f"row {i} of {what} has no id.")
        if first.setdefault(text, i) != i:
            raise DataError(
                f"the id {text!r} stands in row {first[text]} and in row {i} of {what}.\n"
                "  Keep one of the two, or give them ids of their own. Is every line the answer of one "
                "annotator?\n  Then `oneof candidates import` makes sets of them (--format crowd), and this "
                "table has each row once."
            )
    return tuple(first)


def distinct_rows(table: Table, column: str) -> np.ndarray:
    """Rows without those that stand in the table before, the same in every cell; all where any differ."""
    first: dict[str | None, int] = {}
    for i, name in enumerate(map(cell_text, table.column(column))):
        before = first.setdefault(name, i)
        if before != i and _cells(table, i) != _cells(table, before):
            return np.arange(len(table))
    return np.array(list(first.values()), dtype=np.int64)


def _cells(table: Table, row: int) -> list[str]:
    # as text: gaps are equal
    return [repr(np.asarray(values[row]).tolist()) for values in table.columns.values()]


def positions(
    wanted: Sequence[str], there: Sequence[str], wanted_in: str, there_in: str, advice: str = ""
) -> np.ndarray:
    """The place of every wanted id among those that are there; an error names ids that are not."""
    place = {name: i for i, name in enumerate(there)}
    absent = [name for name in wanted if name not in place]
    if absent:
        raise DataError(
            f"{len(absent)} of {len(wanted)} ids of {wanted_in} are not in {there_in}: {short(absent, 5)}.\n"
            f"  Its ids are {short(there, 5)}.{advice}"
        )
    return np.array([place[name] for name in wanted], dtype=np.int64)


def id_column(table: Table, ids: Sequence[str]) -> str | None:
    """The column of a table that holds exactly these ids, where there is one; else one that holds them all,
    each value once: rows without candidates have ids too. Where ids may be row numbers, that is one with a
    usual name."""
    wanted, numbers = set(ids), row_numbers(ids, len(table)) is not None
    usual = {column(table.columns, None, [guess], table.path) for guess in (*ID, *TASK)}
    more = None
    for name, values in sorted(table.columns.items(), key=lambda item: item[0] not in usual):
        if len(values) < len(wanted) or getattr(values, "ndim", 1) > 1 or isinstance(values[0], list):
            continue
        texts = {cell_text(v) for v in values}
        if texts == wanted and len(values) == len(wanted):
            return name
        if more is None and (name in usual or not numbers) and wanted < texts and len(texts) == len(values):
            more = name
    return more


def about_other_ids(table: Table, ids: Sequence[str], how: str) -> list[Question]:
    """Rows are matched so although a column has other ids of them: it is called so, or has a few of these."""
    wanted = set() if row_numbers(ids, len(table)) is not None else set(ids)
    for name, values in table.columns.items() if ids else ():
        if getattr(values, "ndim", 1) > 1 or isinstance(values[0], list):
            continue
        texts = {cell_text(v) for v in values}
        called = column({name: values}, None, (*ID, *TASK), table.path) or ID_NAME.fullmatch(name.strip())
        if len(texts) == len(values) and (called or not wanted.isdisjoint(texts)):
            text = f"{ids[0]!r} is an id here, {cell_text(values[0])!r} in column {name!r} of {table.path}."
            return [Question(f"{text}\n  Write ids of the same rows alike in both files.", {"order": how})]
    return []


def row_numbers(ids: Sequence[Any], n_rows: int) -> np.ndarray | None:
    """The ids as row numbers, where each is a whole number below n_rows."""
    texts = [cell_text(v) or "" for v in ids]
    if not all(text.isdecimal() and len(text) < 12 for text in texts):
        return None
    numbers = np.array([int(text) for text in texts], dtype=np.int64)
    return numbers if len(numbers) and numbers.max() < n_rows else None
