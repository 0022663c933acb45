"""Trusted labels: a column of the table, a file of ids and labels, decisions of a review, or further rows.

And who learns from what: rows for training, trusted labels to learn from, and some kept aside to check.
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
from oneof.tables.reader import read_table
from oneof.tables.table import Table
from oneof.training.clean import divide_rows

KEYS = ("id", "row", "task", "item")
LABELS = ("label", "clean", "trusted", "truth", "class", "answer", "y")
FEWEST_CHECKED = 20


@dataclass
class CleanLabels:
    """Labels that can be trusted: of training rows, or of further rows that bring their own features."""

    columns: np.ndarray
    """Column of the class, -1 where it is not known: one per training row, or one per further row."""
    further: Table | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def rows(self) -> np.ndarray:
        """Where a label is known."""
        return np.flatnonzero(self.columns >= 0)

    def __len__(self) -> int:
        return len(self.rows)

    def kept_aside(self, share: float, seed: int) -> np.ndarray:
        """Rows (among `rows`) that nothing is learned from, so that the accuracy on them is honest.

        Stratified. None where they would be fewer than 20: their accuracy would say little, and the
        model needs them more.
        """
        rows = self.rows
        if share <= 0 or len(rows) * share < FEWEST_CHECKED:
            return np.zeros(0, dtype=np.int64)
        return rows[divide_rows(len(rows), share, seed, self.columns[rows])[1]]


def read_all_clean(values: Sequence[str], data: TrainingData, ids: str | None = None) -> CleanLabels | None:
    """What one `--clean` or several name. Where two have a label for a row, the later one counts."""
    parts = [read_clean(value, data, ids) for value in values]
    if len(parts) < 2:
        return parts[0] if parts else None
    columns, notes = np.full(len(data), -1), []
    for value, part in zip(values, parts):
        if part.further is not None:
            raise DataError(
                f"--clean {value}: it has further rows with features of their own, and is one of "
                f"{len(parts)} sources.\n"
                "  Several sources can only say labels of the training rows; put further rows into one table."
            )
        changed = np.flatnonzero((columns >= 0) & (part.columns >= 0) & (columns != part.columns))
        if len(changed):
            i, classes = int(changed[0]), data.candidates.classes
            notes.append(
                f"{len(changed)} trusted labels are others in {value} (first: row {data.name_of(i)}, "
                f"{classes[columns[i]]} becomes {classes[part.columns[i]]}); the later source counts"
            )
        columns[part.rows] = part.columns[part.rows]
        notes += part.notes
    return CleanLabels(columns, notes=notes)


def read_clean(value: str, data: TrainingData, ids: str | None = None) -> CleanLabels:
    """What `--clean` names: a column of the training table, else a file."""
    table, file = data.table, Path(value)
    if table is not None and value in table.columns:
        return _among_candidates(_columns_of(table.labels(value), data, "clean"), data, value)
    if not file.is_file():
        where, columns = "", ""
        if table is not None:
            where = f"no column of {table.path} and "
            columns = f"\n  The table has {short(table.columns, 20)}."
        raise DataError(f"--clean {value}: there is {where}no file of that name.{columns}")
    if file.suffix.lower() == ".jsonl":
        return _from_decisions(file, data)
    clean = read_table(file)
    key, label = _key_and_label(clean, ids)
    if key is None and len(clean.columns) > 1:
        further = _columns_of(clean.labels(label), data, f'column "{label}" of {file}')
        clean.columns.pop(label)
        return CleanLabels(further, clean, [f"{file}: further rows with features of their own"])
    labels, unused = _from_table(clean, key, label, data)
    made = _among_candidates(_columns_of(labels, data, f"{file}, training row"), data, value)
    if unused:
        which = "of rows without features or candidates, and not used"
        made.notes.append(f"{unused} trusted labels of {value} are {which}")
    return made


def clean_inputs(clean: CleanLabels, encoder: TableEncoder | None) -> np.ndarray | None:
    """Features of further clean rows, encoded like the training rows; None where there are none."""
    if clean.further is None:
        return None
    if encoder is None:
        raise DataError(f"{clean.further.path}: clean rows with features go with a table, not with images.")
    columns = dict(clean.further.columns)
    vectors = [name for name, values in columns.items() if getattr(values, "ndim", 1) == 2]
    if len(encoder.codes) == 1 and encoder.codes[0].kind == "vector" and len(vectors) == 1:
        columns = {encoder.codes[0].name: columns[vectors[0]]}  # two matrices need no common name
    return encoder.transform(Table(clean.further.path, columns))


def _columns_of(labels: np.ndarray, data: TrainingData, what: str) -> np.ndarray:
    """Columns of the classes that labels name, -1 where there is none."""
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
    labels = spelled
    columns = np.full(len(labels), -1, dtype=np.int64)
    columns[given] = label_columns(labels, np.array(data.candidates.classes, dtype=object), what, rows=given)
    return columns


def _among_candidates(columns: np.ndarray, data: TrainingData, what: str) -> CleanLabels:
    """Labels of training rows, with a note about those that their candidates do not hold."""
    rows = np.flatnonzero(columns >= 0)
    outside = rows[~data.candidates.has(rows, columns[rows])]
    notes = []
    if len(outside):
        i = int(outside[0])
        notes.append(
            f"{len(outside)} trusted labels of {what} are not among the candidates of their row (first: row "
            f"{data.name_of(i)}, {data.candidates.classes[columns[i]]}); the trusted label counts"
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


def _key_and_label(table: Table, ids: str | None) -> tuple[str | None, str]:
    """The columns that name the row and its label."""
    names = list(table.columns)
    lower = {name.lower(): name for name in names}
    key = ids if ids in names else next((lower[k] for k in KEYS if k in lower), None)
    label = next((lower[k] for k in LABELS if k in lower and lower[k] != key), None)
    if label is None and len(names) == 2 and key is not None:
        label = next(name for name in names if name != key)
    if label is None:
        raise DataError(
            f"{table.path} has no column with trusted labels; it has {short(names, 20)}.\n"
            '  Call the column "label", and the one that names the row "id" or "row".'
        )
    return key, label


def _from_table(clean: Table, key: str | None, label: str, data: TrainingData) -> tuple[np.ndarray, int]:
    """One label per training row, None where the table has none; how many are of other rows."""
    values = clean.labels(label)
    if key is None:  # nothing but labels: one per row
        if len(values) != len(data):
            raise DataError(
                f"{clean.path} has {len(values)} labels, but there are {len(data)} training rows.\n"
                '  Give one per row, or a column "id" or "row" that says whose label it is.'
            )
        for i, value in enumerate(values):
            if isinstance(value, int | np.integer) and value < 0:
                values[i] = None  # -1 as in `Candidates.truth`
        return values, 0
    given, by_number = clean.column(key), key.lower() == "row"
    if not by_number and data.ids is None:
        raise DataError(
            f"{clean.path} names rows by id ({given[0]!r}), but the training rows have none.\n"
            '  Say which column has the ids: --id COLUMN. Or name rows by number, in a column "row".'
        )
    there = list(map(str, range(len(data)))) if by_number else list(data.ids or ())
    place = {name: i for i, name in enumerate(there)}
    names = [cell_text(name) for name in given]
    rest = set() if by_number else set(data.rest_ids)
    absent = [value for value, name in zip(given, names) if name not in place and name not in rest]
    if absent and (by_number or "unknown-tasks" not in data.accept):
        raise DataError(
            f"{clean.path}: {len(absent)} {'row numbers' if by_number else 'ids'} are no training rows: "
            f"{short(absent, 5)}.\n"
            f"  The training rows are {f'0 to {len(data) - 1}' if by_number else short(there, 5)}."
            + ("" if by_number else "\n  To leave such labels out: --accept unknown-tasks.")
        )
    rest.update(str(cell_text(value)) for value in absent)
    labels = np.full(len(data), None, dtype=object)
    for name, value in zip(names, values):
        if name in rest:
            continue
        row = place[str(name)]
        before = labels[row]
        if before is not None and value is not None and before != value:
            raise DataError(
                f"{clean.path} has two labels for {data.name_of(row)!r}: {before!r} and {value!r}."
            )
        labels[row] = before if value is None else value
    return labels, sum(name in rest for name in names)


# ---- who learns from what ---------------------------------------------------------------------


@dataclass
class Division:
    """The rows `fit` gets, and the clean rows that it does not learn from."""

    rows: np.ndarray
    """Training rows handed to `fit`."""
    aside: np.ndarray
    """Places in `clean.columns` of labels that nothing is learned from."""
    clean: CleanLabels | None
    learns: bool
    """Whether the method learns from clean rows at all."""

    @property
    def encoder_rows(self) -> np.ndarray:
        """Rows that decide how a table is encoded: none that are kept aside."""
        if self.clean is None or self.clean.further is not None:
            return self.rows
        return np.setdiff1d(self.rows, self.aside)

    def trusted(self, n_rows: int) -> np.ndarray:
        """Boolean (n,): training rows whose label was given."""
        made = np.zeros(n_rows, dtype=bool)
        if self.clean is not None and self.clean.further is None:
            made[self.clean.rows] = True
        return made

    def left_out(self) -> dict[int, int]:
        """Training rows that `fit` never sees, with the column of their label."""
        if self.clean is None or self.clean.further is not None or not self.learns:
            return {}
        return dict(zip(self.aside.tolist(), self.clean.columns[self.aside].tolist()))

    def clean_argument(self, names: np.ndarray, further: np.ndarray | None) -> Any:
        """What `fit(clean=...)` gets."""
        clean = self.clean
        if clean is None:
            return None
        if clean.further is None:
            labels = np.full(len(clean.columns), None, dtype=object)
            labels[clean.rows] = names[clean.columns[clean.rows]]
            return labels[self.rows]
        assert further is not None
        learned = np.setdiff1d(clean.rows, self.aside) if self.learns else clean.rows
        return further[learned], names[clean.columns[learned]]

    def sentence(self) -> str:
        """What became of the trusted labels."""
        if self.clean is None:
            return "No trusted labels were given."
        n, aside = len(self.clean), len(self.aside)
        if not self.learns:
            return f"{n} trusted labels were given; the method does not learn from them, so all are checked."
        if aside:
            return f"{n} trusted labels were given: {n - aside} were learned from, {aside} kept aside."
        return (
            f"{n} trusted labels were given and all were learned from: too few to keep some aside, or none "
            "were to be."
        )


def divide(data: TrainingData, clean: CleanLabels | None, learns: bool, share: float, seed: int) -> Division:
    """Keep a part of the trusted labels aside, all of them where the method does not learn from any."""
    rows = np.arange(len(data))
    if clean is None:
        return Division(rows, np.zeros(0, dtype=np.int64), None, learns)
    if not learns:
        return Division(rows, clean.rows, clean, learns)
    aside = clean.kept_aside(share, seed)
    if clean.further is None:
        rows = np.setdiff1d(rows, aside)
    return Division(rows, aside, clean, learns)
