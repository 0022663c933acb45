"""Trusted labels: a column of the table, a file of ids and labels, decisions of a review, or further rows.

Some are kept aside: nothing is learned from them, so that a model can be checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.fit.training_data import TrainingData
from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import recorded_id_column
from oneof.candidates.cells import cell_text, short, spelled_as
from oneof.candidates.questions import QuestionError
from oneof.classifier.inputs import known, label_columns
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.importers.column_names import column
from oneof.tables.reader import read_table
from oneof.tables.table import Table
from oneof.training.clean import divide_rows

ROW = "row"
KEYS = ("id", ROW, "task", "item")
LABELS = ("label", "clean", "trusted", "truth", "class", "answer", "y")
FEWEST_CHECKED = 20


@dataclass
class CleanLabels:
    """Labels that can be trusted: of training rows, or of further rows that bring their own features.

    Some, or all, are kept aside: nothing is learned from them.
    """

    columns: np.ndarray
    """Column of the class, -1 where it is not known: one per training row, or one per further row."""
    further: Table | None = None
    x: np.ndarray | None = None
    """Features of further rows, once they are encoded."""
    notes: list[str] = field(default_factory=list)
    learns: bool = True
    """Whether the method learns from clean rows at all."""
    share: float = 0.0
    """How many should be kept aside."""
    aside: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Places in `columns` of labels that nothing is learned from."""

    @property
    def rows(self) -> np.ndarray:
        """Where a label is known."""
        return np.flatnonzero(self.columns >= 0)

    def __len__(self) -> int:
        return len(self.rows)

    def divide(self, learns: bool, share: float, seed: int) -> None:
        """Keep a part aside, all of them where the method does not learn from any.

        Stratified, so that the accuracy on them is honest. None where they would be fewer than 20: their
        accuracy would say little, and the model needs them more.
        """
        self.learns, self.share, rows = learns, share, self.rows
        if not learns:
            self.aside = rows
        elif share > 0 and len(rows) * share >= FEWEST_CHECKED:
            self.aside = rows[divide_rows(len(rows), share, seed, self.columns[rows])[1]]

    @property
    def trusted(self) -> np.ndarray:
        """Training rows whose label was given."""
        return self.rows if self.further is None else self.rows[:0]

    @property
    def checked(self) -> np.ndarray:
        """Training rows that are kept aside: they do not decide how a table is encoded."""
        return self.aside if self.further is None else self.aside[:0]

    @property
    def left_out(self) -> np.ndarray:
        """Training rows that `fit` never sees."""
        return self.checked if self.learns else self.aside[:0]

    def encode(self, encoder: TableEncoder | None) -> None:
        """Encode further rows like the training rows."""
        if self.further is None:
            return
        if encoder is None:
            raise DataError(
                f"{self.further.path}: clean rows with features go with a table, not with images."
            )
        columns = dict(self.further.columns)
        vectors = [name for name, values in columns.items() if getattr(values, "ndim", 1) == 2]
        if len(encoder.codes) == 1 and encoder.codes[0].kind == "vector" and len(vectors) == 1:
            columns = {encoder.codes[0].name: columns[vectors[0]]}  # two matrices need no common name
        if columns.keys().isdisjoint(encoder.column_names):
            what = f"no column that names the rows, and no features; it has {short(columns, 20)}"
            raise DataError(f'{self.further.path} has {what}.\n  Call the column with the ids "id".')
        self.x = encoder.transform(Table(self.further.path, columns))

    def argument(self, classes: Sequence[Any], rows: np.ndarray) -> Any:
        """What `fit(clean=...)` gets beside these training rows."""
        labels = self.named(classes, np.arange(len(self.columns)))
        if self.x is not None:
            learned = np.setdiff1d(self.rows, self.aside) if self.learns else self.rows
            return self.x[learned], labels[learned]
        return labels[rows] if len(self) else None

    def named(self, classes: Sequence[Any], places: np.ndarray) -> np.ndarray:
        """The names of some of the labels, None where one is not known."""
        return np.array([*classes, None], dtype=object)[self.columns[places]]

    def sentence(self) -> str:
        """What became of them."""
        n, aside = len(self), len(self.aside)
        if not n:
            return "No trusted labels were given."
        if not self.learns:
            return f"{n} trusted labels were given; the method does not learn from them, so all are checked."
        if aside:
            return f"{n} trusted labels were given: {n - aside} were learned from, {aside} kept aside."
        why = ": too few to keep some aside" if self.share else ""
        return f"{n} trusted labels were given and all were learned from{why}."


# ---- what `--clean` names ---------------------------------------------------------------------


def read_all_clean(values: Sequence[str], data: TrainingData, ids: str | None = None) -> CleanLabels:
    """One source or several. Where two have a label for a row, the later one counts."""
    parts = [read_clean(value, data, ids) for value in values]
    if len(parts) == 1:
        return parts[0]
    made = CleanLabels(np.full(len(data), -1))
    for value, part in zip(values, parts):
        if part.further is not None:
            raise DataError(
                f"--clean {value}: it has further rows with features of their own, and is one of "
                f"{len(parts)} sources.\n"
                "  Several sources can only say labels of the training rows; put further rows into one table."
            )
        columns, classes = made.columns, data.candidates.classes
        changed = np.flatnonzero((columns >= 0) & (part.columns >= 0) & (columns != part.columns))
        if len(changed):
            i = int(changed[0])
            made.notes.append(
                f"{len(changed)} trusted labels are others in {value} (first: row {data.name_of(i)}, "
                f"{classes[columns[i]]} becomes {classes[part.columns[i]]}); the later source counts"
            )
        columns[part.rows] = part.columns[part.rows]
        made.notes += part.notes
    return made


def read_clean(value: str, data: TrainingData, ids: str | None = None) -> CleanLabels:
    """A column of the training table, else a file."""
    table, file = data.table, Path(value)
    if table is not None and value in table.columns:
        return _of_rows(table.labels(value), data, "clean", value)
    if not file.is_file():
        where, columns = "", ""
        if table is not None:
            where = f"no column of {table.path} and "
            columns = f"\n  The table has {short(table.columns, 20)}."
        raise DataError(f"--clean {value}: there is {where}no file of that name.{columns}")
    return _from_decisions(file, data) if file.suffix.lower() == ".jsonl" else _from_table(file, ids, data)


def _columns_of(labels: np.ndarray, data: TrainingData, what: str, numbers: np.ndarray) -> np.ndarray:
    """Columns of the classes that labels name, -1 where there is none; rows have these numbers in errors."""
    given = np.flatnonzero(known(labels))
    if not len(given):
        raise DataError(f"{what} names no trusted label: every entry is missing.")
    spelled = spelled_as(labels, data.candidates.classes)
    other = [i for i in given.tolist() if spelled[i] != labels[i]]
    if other and "alike" not in data.accept:
        label, name = labels[other[0]], spelled[other[0]]
        raise QuestionError(
            f"{what.partition(', ')[0]}: the trusted label {label!r} is spelled otherwise than the class "
            f"{name!r} ({len(other)} such labels).\n  --accept alike: it is that class."
        )
    numbered = np.full(numbers.max() + 1, None, dtype=object)
    numbered[numbers] = spelled
    columns, classes = np.full(len(labels), -1), np.array(data.candidates.classes, dtype=object)
    columns[given] = label_columns(numbered, classes, what, rows=numbers[given])
    return columns


def _of_rows(labels: np.ndarray, data: TrainingData, what: str, source: str) -> CleanLabels:
    """One label per training row, None where there is none."""
    return _among_candidates(_columns_of(labels, data, what, data.numbers), data, source)


def _among_candidates(columns: np.ndarray, data: TrainingData, source: str) -> CleanLabels:
    """Labels of training rows, with a note about those that their candidates do not hold."""
    rows = np.flatnonzero(columns >= 0)
    outside = rows[~data.candidates.has(rows, columns[rows])]
    notes = []
    if len(outside):
        i = int(outside[0])
        notes.append(
            f"{len(outside)} trusted labels of {source} are not among the candidates of their row (first: "
            f"row {data.name_of(i)}, {data.candidates.classes[columns[i]]}); the trusted label counts"
        )
    return CleanLabels(columns, notes=notes)


# ---- files ------------------------------------------------------------------------------------


def _from_decisions(file: Path, data: TrainingData) -> CleanLabels:
    """The labels a person decided about, each on its row wherever that stands now."""
    notes = []
    column = recorded_id_column(file.parent)
    if data.ids is None and data.table is not None and column in data.table.columns:
        data.name_rows_by(column)
        notes.append(f'rows are named by the column "{column}", as in the fit that {file} belongs to')
    found = Decisions(file, data, strict=True)
    if found.foreign and not found.events:
        raise DataError(
            f"{file}: all {found.foreign} decisions are about other rows than those of {data.source}, or its "
            "rows were moved or changed.\n"
            "  Row numbers are no use then; fit with --id COLUMN, and decisions hold from fit to fit."
        )
    if not found.decided:
        raise DataError(f"{file} names no trusted label: nothing is decided in it.")
    if found.foreign:
        notes.append(f"{file}: {found.foreign} decisions are about other data and left out")
    if found.reviewed:
        notes.append(
            f"{file} comes from a review, which shows doubtful rows first: accuracy and prediction sets that "
            "go by some of these rows are those of difficult rows"
        )
    columns = np.full(len(data), -1, dtype=np.int64)
    columns[list(found.decided)] = list(found.decided.values())
    made = _among_candidates(columns, data, str(file))
    made.notes[:0] = notes
    return made


def _key_and_label(table: Table, ids: str | None, data: TrainingData) -> tuple[str | None, str]:
    """The columns that name the row and its label."""
    keys = KEYS if data.ids is not None else (ROW, *KEYS)  # labels.csv has both
    key = ids if ids in table.columns else column(table.columns, None, keys, table.path)
    others = {name: values for name, values in table.columns.items() if name != key}
    label = column(others, None, LABELS, table.path)
    if label is None and key is not None and len(others) == 1:
        (label,) = others
    if label is None:
        raise DataError(
            f"{table.path} has no column with trusted labels; it has {short(table.columns, 20)}.\n"
            '  Call the column "label", and the one that names the row "id" or "row".'
        )
    return key, label


def _from_table(file: Path, ids: str | None, data: TrainingData) -> CleanLabels:
    """Labels of training rows, named by id or number or all in their order; or further rows."""
    table = read_table(file)
    key, label = _key_and_label(table, ids, data)
    values = table.labels(label)
    if key is not None and _are_further(table, key, data):
        key = None
    if key is None and len(table.columns) > 1:
        further = _columns_of(values, data, f'column "{label}" of {file}', np.arange(len(values)))
        table.columns.pop(label)
        return CleanLabels(further, table, notes=[f"{file}: further rows with features of their own"])
    unused = 0
    if key is not None:
        values, unused = _by_key(table, key, values, data)
    elif data.whole is not None and len(values) == len(data.whole):
        values = values[data.numbers]
    elif len(values) != len(data):
        raise DataError(
            f"{file} has {len(values)} labels, but there are {len(data)} training rows.\n"
            '  Give one per row, or a column "id" or "row" that says whose label it is.'
        )
    if key is None:  # -1 as in `Candidates.truth`, unless a class is called so
        names = set(map(cell_text, data.candidates.classes))
        unknown = [isinstance(v, int) and v < 0 and cell_text(v) not in names for v in values]
        values[unknown] = None
    made = _of_rows(values, data, f"{file}, training row", str(file))
    if unused:
        which = "of rows without features or candidates, and not used"
        made.notes.append(f"{unused} trusted labels of {file} are {which}")
    return made


def _are_further(table: Table, key: str, data: TrainingData) -> bool:
    """Whether rows that are named by id are none of the training rows, and have all of their features."""
    if data.whole is None or _is_number(key, data):
        return False
    features = set(data.whole.columns) - {*data.taken, key}
    there = {*data.places(False), *map(cell_text, data.whole.columns.get(key, ()))}
    whole = bool(features) and features <= table.columns.keys()
    return whole and there.isdisjoint(map(cell_text, table.column(key)))


def _is_number(key: str, data: TrainingData) -> bool:
    return key.lower() == ROW and key != data.id_column


def _by_key(table: Table, key: str, values: np.ndarray, data: TrainingData) -> tuple[np.ndarray, int]:
    """One label per training row, None where the table has none; how many are of other rows."""
    given, by_number = table.column(key), _is_number(key, data)
    if not by_number and data.ids is None:
        raise DataError(
            f"{table.path} names rows by id ({given[0]!r}), but the training rows have none.\n"
            '  Say which column has the ids: --id COLUMN. Or name rows by number, in a column "row".'
        )
    place = data.places(by_number)
    rows = [place.get(cell_text(name) or "") for name in given]
    absent = [name for name, row in zip(given, rows) if row is None]
    if absent and (by_number or "unknown-tasks" not in data.accept):
        there = f"0 to {max([*data.numbers, *data.rest_numbers])}" if by_number else short(data.ids or (), 5)
        raise DataError(
            f"{table.path}: {len(absent)} {'row numbers' if by_number else 'ids'} are no training rows: "
            f"{short(absent, 5)}.\n  The training rows are {there}."
            + ("" if by_number else "\n  To leave such labels out: --accept unknown-tasks.")
        )
    labels = np.full(len(data), None, dtype=object)
    used = [(row, value) for row, value in zip(rows, values) if row is not None and row >= 0]
    for row, value in used:
        before = labels[row]
        if before is not None and value is not None and before != value:
            raise DataError(
                f"{table.path} has two labels for {data.name_of(row)!r}: {before!r} and {value!r}."
            )
        labels[row] = before if value is None else value
    return labels, len(rows) - len(used)
