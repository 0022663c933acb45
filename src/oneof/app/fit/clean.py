"""Trusted labels: a column of the table, a file of ids and labels, decisions of a review, or further rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.fit.matching import shown
from oneof.app.fit.training_data import TrainingData
from oneof.classifier.inputs import known, label_columns
from oneof.datasets.splits import hold_out
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.table import Table, is_empty, not_utf8, read_table

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
        return rows[hold_out(len(rows), share, seed, labels=self.columns[rows]).validation]


def read_all_clean(values: Sequence[str], data: TrainingData, ids: str | None = None) -> CleanLabels | None:
    """What one `--clean` or several name. Where two have a label for a row, the later one counts."""
    parts = [read_clean(value, data, ids) for value in values]
    if len(parts) < 2:
        return parts[0] if parts else None
    for value, part in zip(values, parts):
        if part.further is not None:
            raise DataError(
                f"--clean {value}: it has further rows with features of their own, and is one of "
                f"{len(parts)} sources.\n"
                "  Several sources can only say labels of the training rows; put further rows into one table."
            )
    columns, notes = parts[0].columns.copy(), list(parts[0].notes)
    for value, part in zip(values[1:], parts[1:]):
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
    table, classes = data.table, np.array(data.candidates.classes, dtype=object)
    if table is not None and value in table.columns:
        return _among_classes(_by_row(table.labels(value), classes, "clean"), data, value)
    file = Path(value)
    if not file.is_file():
        where = "" if table is None else f"no column of {table.path} and "
        columns = (
            "" if table is None else f"\n  The table has {', '.join(map(repr, list(table.columns)[:20]))}."
        )
        raise DataError(f"--clean {value}: there is {where}no file of that name.{columns}")
    if file.suffix.lower() == ".jsonl":
        labels, notes = _from_lines(file, data)
    else:
        clean = read_table(file)
        key, label = _columns(clean, ids)
        if key is None and len(clean.columns) > 1:
            further = _by_row(clean.labels(label), classes, f'column "{label}" of {file}')
            clean.columns.pop(label)
            return CleanLabels(further, clean, [f"{file}: further rows with features of their own"])
        labels, notes = _from_table(clean, key, label, data), []
    made = _among_classes(_by_row(labels, classes, f"{file}, row"), data, str(file))
    made.notes = notes + made.notes
    return made


def clean_inputs(clean: CleanLabels, encoder: TableEncoder | None) -> np.ndarray:
    """Features of further clean rows, encoded like the training rows."""
    assert clean.further is not None
    if encoder is None:
        raise DataError(f"{clean.further.path}: clean rows with features go with a table, not with images.")
    columns = dict(clean.further.columns)
    vectors = [name for name, values in columns.items() if getattr(values, "ndim", 1) == 2]
    if len(encoder.codes) == 1 and encoder.codes[0].kind == "vector" and len(vectors) == 1:
        columns = {encoder.codes[0].name: columns[vectors[0]]}  # two matrices need no common name
    return encoder.transform(Table(clean.further.path, columns))


def _by_row(labels: np.ndarray, classes: np.ndarray, what: str) -> np.ndarray:
    given = np.flatnonzero(known(labels))
    if not len(given):
        raise DataError(f"{what} names no trusted label: every entry is missing.")
    columns = np.full(len(labels), -1, dtype=np.int64)
    columns[given] = label_columns(labels, classes, what, rows=given)
    return columns


def _among_classes(columns: np.ndarray, data: TrainingData, what: str) -> CleanLabels:
    rows = np.flatnonzero(columns >= 0)
    outside = rows[~data.candidates.mask[rows, columns[rows]]]
    notes = []
    if len(outside):
        i = int(outside[0])
        notes.append(
            f"{len(outside)} trusted labels of {what} are not among the candidates of their row (first: row "
            f"{data.name_of(i)}, {data.candidates.classes[columns[i]]}); the trusted label counts"
        )
    return CleanLabels(columns, notes=notes)


# ---- files ------------------------------------------------------------------------------------


def _columns(table: Table, ids: str | None) -> tuple[str | None, str]:
    """The columns that name the row and its label."""
    names = list(table.columns)
    lower = {name.lower(): name for name in names}
    key = ids if ids in names else next((lower[k] for k in KEYS if k in lower), None)
    label = next((lower[k] for k in LABELS if k in lower and lower[k] != key), None)
    if label is None and len(names) == 2 and key is not None:
        label = next(name for name in names if name != key)
    if label is None:
        raise DataError(
            f"{table.path} has no column with trusted labels; it has {', '.join(map(repr, names[:20]))}.\n"
            '  Call the column "label", and the one that names the row "id" or "row".'
        )
    return key, label


def _from_table(clean: Table, key: str | None, label: str, data: TrainingData) -> np.ndarray:
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
        return values
    pairs = [(v, clean.path, i) for i, v in enumerate(clean.column(key))]
    labels = _empty(len(data))
    rows = _find_rows(pairs, data, by_number=key.lower() == "row")
    for row, value in zip(rows, values):
        if labels[row] is not None and value is not None and labels[row] != value:
            raise DataError(
                f"{clean.path} has two labels for {data.name_of(row)!r}: {labels[row]!r} and {value!r}."
            )
        labels[row] = labels[row] if value is None else value
    return labels


def _from_lines(file: Path, data: TrainingData) -> tuple[np.ndarray, list[str]]:
    """Lines of JSON with a label and an id or a row. The last line of a row counts, null takes it back."""
    labels, other, lines = _empty(len(data)), 0, list(_lines(file))
    for number, line in lines:
        if "label" not in line or not {"id", "row"} & line.keys():
            raise DataError(
                f'{file}, line {number}: {str(line)[:80]} has no "label", or neither "id" nor "row".'
            )
        if line.get("data") not in (None, data.candidates.hash) and line.get("id") is None:
            other += 1  # a review of other candidate sets: its row numbers mean other rows
            continue
        by_number = line.get("id") is None or data.ids is None
        name = line.get("row") if by_number else line["id"]
        row = _find_rows([(name, file, number)], data, by_number)[0]
        labels[row] = None if is_empty(line["label"]) else line["label"]
    if other == len(lines):
        raise DataError(
            f"{file}: all {other} decisions are about other candidate sets than those of {data.source}.\n"
            "  Row numbers are no use then; fit with --id COLUMN, and decisions hold from fit to fit."
        )
    notes = [f"{file}: {other} decisions are about other data and left out"] if other else []
    if any("action" in line for _, line in lines):
        notes.append(
            f"{file} comes from a review, which shows doubtful rows first: accuracy and prediction sets that "
            "go by some of these rows are those of difficult rows"
        )
    return labels, notes


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise not_utf8(file) from None
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                return  # cut short by a crash; it was never confirmed
            raise DataError(f"{file}, line {number}: {line[:80]} is no JSON object ({error}).") from None
        yield number, found


def _find_rows(pairs: list[tuple[Any, Path, int]], data: TrainingData, by_number: bool) -> list[int]:
    """Row numbers of names from a file."""
    if not by_number and data.ids is None:
        raise DataError(
            f"{pairs[0][1]} names rows by id ({pairs[0][0]!r}), but the training rows have none.\n"
            '  Say which column has the ids: --id COLUMN. Or name rows by number, in a column "row".'
        )
    place = None if by_number else {name: i for i, name in enumerate(data.ids or ())}
    rows: list[int] = []
    absent = []
    for name, _, _ in pairs:
        text = str(name).strip().removesuffix(".0")
        found = (int(text) if text.isdecimal() else -1) if place is None else place.get(str(name).strip(), -1)
        if not 0 <= found < len(data):
            absent.append(name)
        rows.append(found)
    if absent:
        first = next(pair for pair in pairs if pair[0] == absent[0])
        there = f"0 to {len(data) - 1}" if place is None else shown(data.ids or ())
        what = "row numbers" if place is None else "ids"
        raise DataError(
            f"{first[1]}: {len(absent)} {what} are no training rows: {shown(absent)}.\n"
            f"  The training rows are {there}."
        )
    return rows


def _empty(n: int) -> np.ndarray:
    return np.full(n, None, dtype=object)
