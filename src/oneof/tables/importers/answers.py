"""Answers of people: long tables (task, worker, label), wide ones (a column each), one entry per row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import (
    COLLECTIONS,
    CandidateError,
    CellError,
    as_array,
    as_cells,
    in_column,
    is_missing,
)
from oneof.candidates.codes import rows_of_tasks
from oneof.candidates.questions import answered
from oneof.candidates.rules import not_named
from oneof.candidates.taxonomy import Taxonomy
from oneof.tables.importers.assemble import Line, Settings, assemble, assemble_lines, encode_names, row_names


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
    codes = encode_names(task, place, "task", "; every answer belongs to one.")
    if not codes.values:
        raise CandidateError("there is no answer at all.")
    accept = settings.accept or ()
    rows, names = rows_of_tasks(codes, place, ids, n_rows, "unknown-tasks" in accept)
    if accept:
        label = answered(list(as_cells(label)), accept, settings.known)
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
        Nothing is None, NaN, empty text or an empty list; in an array of whole numbers, of any type,
        also every negative number.
    workers : sequence, optional
        Names of the columns of an array. Without them an array does not say who answered.
    ids, settings, **more
        Names of the rows; see `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.

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
    rows = enumerate(zip(*cells))
    lines = [Line(i, who, cell) for i, row in rows for who, cell in zip(titles, row) if not is_missing(cell)]
    if not lines:
        raise CandidateError(f"no cell of the columns {', '.join(titles[:10])} holds an answer.")
    names = row_names(ids, n)
    return assemble_lines(
        lines, names, settings, lambda line: f'row {line.entry}, column "{line.worker}"', named=named
    )


def _wide_columns(table: Any, workers: Sequence[Any] | None) -> tuple[bool, list[str], list[Any]]:
    """Whether the annotators are known, names of the columns, and the columns."""
    if isinstance(table, Mapping) or hasattr(table, "columns"):
        names = list(table) if isinstance(table, Mapping) else list(table.columns)
        columns = [table[name] for name in names]
        cells = [list(as_cells(column)) for column in columns]
        named = True
    else:
        values = np.asarray([as_array(row) for row in table] if isinstance(table, list | tuple) else table)
        if values.ndim != 2:
            raise CandidateError(
                f"the table has shape {values.shape}; give one row per task and a column per annotator."
            )
        cells = values.T.tolist()
        if values.dtype.kind in "iuf" and not (np.nan_to_num(values) % 1).any():
            cells = [[None if v < 0 else v for v in column] for column in cells]
        names, named = list(range(len(cells))), workers is not None
    titles = [str(name) for name in (names if workers is None else workers)]
    if len(titles) != len(cells):
        raise CandidateError(f"{len(titles)} annotators were named, the table has {len(cells)} columns.")
    return named, titles, cells


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
    column : str
        What the entries are called in messages.
    ids, settings, **more
        Names of the rows; see `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.

    Examples
    --------
    >>> made = from_records([{"ann": "cat", "bob": ["cat", "dog"]}, {"bob": "dog"}])
    >>> made.candidates.sets()
    [['cat', 'dog'], ['dog']]
    """
    settings = (settings or Settings()).of("records", more)
    lines: list[Line] = []
    first: dict[bool, int] = {}  # the first entry that says who answered, and the first that does not
    n = 0
    for i, entry in enumerate(as_cells(labels)):
        n = i + 1
        answers = _answers(entry, i, column)
        if answers:
            first.setdefault(isinstance(entry, Mapping), i)
        lines += [Line(i, name, label) for name, label in answers if not is_missing(label)]
    if not n:
        raise CandidateError("there is no record at all.")
    if not lines:
        raise CandidateError(f'no record has a label in "{column}".')
    if len(first) > 1:
        what = f"this entry does not say who answered, the one of row {first[True]} does.\n"
        what += "  Use one form in the whole file."
        raise CellError(first[False], f'row {first[False]}, "{column}"', what)
    named = True in first
    names = row_names(ids, n)
    return assemble_lines(lines, names, settings, lambda line: f'row {line.entry}, "{column}"', named=named)


def _answers(entry: Any, i: int, column: str) -> list[tuple[Any, Any]]:
    """The (annotator, labels) of an entry; the annotator is None where it does not say who answered."""
    if isinstance(entry, Mapping):
        for label in entry.values():
            if isinstance(label, Mapping):
                what = f"{label!r:.80} is neither a label nor a list of labels."
                raise CellError(i, f'row {i}, "{column}"', what)
        return list(entry.items())
    if is_missing(entry):
        return []
    parts = list(entry) if isinstance(entry, COLLECTIONS) else [entry]
    nested = [isinstance(part, COLLECTIONS) for part in parts]
    if any(nested) and not all(nested):
        raise CellError(i, f'row {i}, "{column}"', f"{parts!r:.80} mixes labels and lists of labels.")
    return [(None, part) for part in parts] if any(nested) else [(None, entry)]


def from_complementary(
    labels: Iterable[Any],
    classes: Sequence[Any] | None = None,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From what each row is *not*: all other classes are its candidates.

    Parameters
    ----------
    labels : iterable
        Per row a label, or several, that are wrong; as in `from_records` also by annotator.
    classes : sequence, optional
        All classes; default: the labels that occur. A class that is never excluded must be named here.
    ids, settings, **more
        Names of the rows; see `Settings`. `truth_may_be_outside` is False unless it is said otherwise:
        complementary labels are taken at their word.

    Examples
    --------
    >>> from_complementary(["cat", ["cat", "dog"]], ["bee", "cat", "dog"]).candidates.sets()
    [['bee', 'dog'], ['bee']]
    """
    base = settings or Settings(truth_may_be_outside=False)
    chosen = {"rule": not_named, "classes": classes if classes is not None else base.classes, **more}
    return from_records(labels, ids=ids, settings=base.of("complementary", chosen))


def from_taxonomy(
    labels: Iterable[Any],
    taxonomy: Taxonomy,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From labels of any level: a coarse one stands for all its leaves, which are the classes.

    Parameters
    ----------
    labels : iterable
        Per row a label of the taxonomy, or several; as in `from_records` also by annotator.
    taxonomy : Taxonomy
    ids, settings, **more
        Names of the rows; see `Settings`. `truth_may_be_outside` is False unless it is said otherwise.

    Examples
    --------
    >>> tree = Taxonomy.from_nested({"bird": ["robin", "sparrow"], "mammal": ["cat"]})
    >>> from_taxonomy(["bird", "cat"], tree).candidates.sets()
    [['robin', 'sparrow'], ['cat']]
    """
    base = settings or Settings(truth_may_be_outside=False)
    return from_records(labels, ids=ids, settings=base.of("taxonomy", {"taxonomy": taxonomy, **more}))
