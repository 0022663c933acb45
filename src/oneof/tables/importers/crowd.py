"""Answers of several people: long tables (task, worker, label), wide ones (a column per person), counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import (
    COLLECTIONS,
    CellError,
    check_one_type,
    encode,
    in_column,
    is_missing,
    plain,
    rows_of_tasks,
)
from oneof.candidates.sets import CandidateError
from oneof.tables.importers.assemble import Settings, assemble, decide


def from_answers(
    task: Iterable[Any],
    worker: Iterable[Any] | None,
    label: Iterable[Any],
    *,
    ids: Sequence[Any] | None = None,
    n_rows: int | None = None,
    settings: Settings | None = None,
    columns: tuple[str, str, str] = ("task", "worker", "label"),
    **more: Any,
) -> Annotations:
    """From a long table: one line per answer.

    Parameters
    ----------
    task, worker, label : sequences of equal length
        What was asked, who answered and the answer. `worker` may be None where nobody knows. A label may
        be a collection, for people who tick several; the same person may also answer on several lines.
    ids : sequence, optional
        All tasks, in the order of the rows, also those that nobody answered.
    n_rows : int, optional
        Instead of ids: tasks are the numbers 0..n_rows-1.
    columns : (str, str, str)
        What the three columns are called in messages.
    settings, **more
        See `Settings`: `rule, classes, taxonomy, missing, skip_empty, truth_may_be_outside`.

    Examples
    --------
    >>> made = from_answers(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "dog"])
    >>> made.candidates.sets(), made.ids
    ([['cat', 'dog'], ['dog']], ('a', 'b'))
    """
    settings = (settings or Settings()).of("crowd", more)
    if ids is not None and n_rows is not None:
        raise CandidateError("give ids or n_rows, not both: either says which rows there are.")
    place = in_column(columns[0])
    codes = encode(task)
    if not codes.values:
        raise CandidateError("there is no answer at all.")
    for value, line in zip(codes.values, codes.first):
        if is_missing(value) or isinstance(value, tuple):
            raise CellError(line, place(line), f"{value!r:.80} names no task; every answer belongs to one.")
    check_one_type(codes, place, "task")
    if len(set(codes.values)) < len(codes.values):  # "a" and "a " are the same once trimmed
        codes = encode([codes.values[k] for k in codes.number])
    rows, names = rows_of_tasks(codes, place, ids, n_rows)
    return assemble(
        rows[codes.number], worker, label, names, settings, in_column(columns[2]), in_column(columns[1])
    )


def from_wide(
    table: Any,
    *,
    ids: Sequence[Any] | None = None,
    workers: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From a wide table: one row per task, one column per annotator, a label, a list or nothing in a cell.

    Parameters
    ----------
    table : mapping or data frame of columns by annotator, or array (n, annotators)
        Nothing is None, NaN, empty text or an empty list; in an array of whole numbers also every
        negative number.
    ids : sequence, optional
        Names of the rows.
    workers : sequence, optional
        Names of the columns of an array. Without them an array does not say who answered.
    settings, **more
        See `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.

    Examples
    --------
    >>> from_wide({"ann": ["cat", None], "bob": [["cat", "dog"], "dog"]}).candidates.sets()
    [['cat', 'dog'], ['dog']]
    """
    settings = (settings or Settings()).of("wide", more)
    named, titles, cells = _wide_columns(table, workers)
    n = len(cells[0]) if cells else 0
    if not n:
        raise CandidateError("the table has no annotator or no row.")
    for title, column in zip(titles, cells):
        if len(column) != n:
            raise CandidateError(f'column "{title}" has {len(column)} cells, the first one {n}.')
    row: list[int] = []
    who: list[int] = []
    label: list[Any] = []
    for i, line_of_cells in enumerate(zip(*cells)):
        for j, cell in enumerate(line_of_cells):
            value = tuple(cell) if isinstance(cell, COLLECTIONS) else plain(cell)
            if not is_missing(value):
                row.append(i)
                who.append(j)
                label.append(value)
    if not row:
        raise CandidateError(f"no cell of the columns {', '.join(titles[:10])} holds an answer.")
    names_of_rows = _row_names(ids, n)

    def place(line: int) -> str:
        return f'row {row[line]}, column "{titles[who[line]]}"'

    people = [titles[j] for j in who] if named else None
    try:
        return assemble(np.array(row, dtype=np.int64), people, label, names_of_rows, settings, place, place)
    except CellError as error:
        error.line = row[error.line]
        raise


def from_counts(
    counts: Any,
    classes: Sequence[Any] | None = None,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From an (n, c) array of how often each class was named; who did is not known.

    Parameters
    ----------
    counts : array (n, c)
        Whole numbers of at least 0.
    classes : sequence, optional
        Names of the columns; default 0..c-1.
    ids : sequence, optional
        Names of the rows.
    settings, **more
        See `Settings`: `rule, missing, truth_may_be_outside`.

    Examples
    --------
    >>> from_counts([[3, 0, 1], [0, 5, 0]], ["ant", "bee", "cow"]).candidates.sets()
    [['ant', 'cow'], ['bee']]
    """
    settings = (settings or Settings()).of("counts", more)
    values = np.asarray(counts)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise CandidateError(
            f"counts are {values.dtype} of shape {values.shape}; give numbers, a row per task and a column "
            "per class."
        )
    wrong = np.argwhere(~(np.isfinite(values) & (values >= 0) & (values == np.floor(values))))
    if len(wrong):
        i, k = wrong[0].tolist()
        raise CellError(i, f"row {i}, column {k}", f"{values[i, k]} is no count; counts are 0, 1, 2, ...")
    names = tuple(range(values.shape[1])) if classes is None else tuple(classes)
    if len(names) != values.shape[1]:
        raise CandidateError(f"counts have {values.shape[1]} columns, but {len(names)} classes were given.")
    names_of_rows = _row_names(ids, len(values))
    row, column = np.nonzero(values)
    times = values[row, column].astype(np.int64)
    if not len(times):
        raise CandidateError("all counts are 0: there is no answer at all.")
    row, column = np.repeat(row, times), np.repeat(column, times)
    worker = np.arange(len(row)) - np.searchsorted(row, row)  # the how-manieth answer of its row
    workers = tuple(f"answer {k + 1}" for k in range(int(worker.max()) + 1))
    answers = Answers(row, worker, column, workers, named=False)
    return decide(answers, names, names_of_rows, settings, [], len(row))


def _row_names(ids: Sequence[Any] | None, n: int) -> list[Any]:
    names = list(range(n)) if ids is None else [plain(name) for name in ids]
    if len(names) != n:
        raise CandidateError(f"there are {len(names)} ids for {n} rows; give one per row.")
    return names


def _wide_columns(table: Any, workers: Sequence[Any] | None) -> tuple[bool, list[str], list[Any]]:
    """Whether the annotators are known, names of the columns, and the columns."""
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        names = list(table) if isinstance(table, Mapping) else list(table.columns)
        columns = [table[name] for name in names]
        cells = [c.tolist() if isinstance(c, np.ndarray) else list(c) for c in columns]
        named = True
    else:
        values = np.asarray(table)
        if values.ndim != 2:
            raise CandidateError(
                f"the table has shape {values.shape}; give one row per task and a column per annotator."
            )
        cells = values.T.tolist()
        if values.dtype.kind in "iu":
            cells = [[None if v < 0 else v for v in column] for column in cells]
        names, named = list(range(len(cells))), workers is not None
    titles = [str(name) for name in (names if workers is None else workers)]
    if len(titles) != len(cells):
        raise CandidateError(f"{len(titles)} annotators were named, the table has {len(cells)} columns.")
    return named, titles, cells
