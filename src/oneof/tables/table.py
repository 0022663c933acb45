"""A table: columns by name, as sets, labels or numbers. `oneof.tables.reader` reads it from a file.

In text files labels are text, exactly as written: `1` is the class "1" and `01` another one. Parquet and
npz files keep the types they have.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.cells import COLLECTIONS, CellError, in_column, is_missing, native, ordered, short
from oneof.candidates.questions import QuestionError, about_classes, about_sizes, ask, read_labels
from oneof.tables.errors import DataError
from oneof.tables.text import TextForm


@dataclass
class Table:
    """Columns by name. A column is a list, or an array whose first axis are the rows.

    `classes` are the names of the columns of a mask, where the file holds them (npz).
    """

    path: Path
    columns: dict[str, Any]
    classes: list[Any] | None = None
    form: TextForm | None = None
    """How the file is written, where it is a text file."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, rows: np.ndarray) -> Table:
        """Some rows by their numbers, in that order; the table itself where these are all."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(rows))):
            return self
        picked = rows.tolist()
        columns = {
            name: values[rows] if isinstance(values, np.ndarray) else [values[i] for i in picked]
            for name, values in self.columns.items()
        }
        return Table(self.path, columns, self.classes, self.form)

    def column(self, name: str) -> Any:
        if name not in self.columns:
            raise DataError(f'there is no column "{name}" in {self.path}; it has {listed(self.columns)}.')
        return self.columns[name]

    def candidates(self, name: str, accept: Collection[str] | None = None) -> Candidates:
        """A column of candidate sets: lists, or text such as `cat|dog`; in an npz file a mask (n, c).

        With `accept` labels that look like a mistake are asked about; see `oneof.candidates.questions`.
        """
        values = self.column(name)
        source = f'column "{name}" of {self.path.name}, row'
        if isinstance(values, np.ndarray) and values.ndim >= 2:
            return Candidates.from_mask(values, self.classes, source=source)
        sets = [as_set(labels) for labels in self.label_sets(name, accept or ())]
        if accept is not None:
            names = dict.fromkeys(v for labels in sets for v in labels if isinstance(v, Hashable))
            questions = [
                *about_classes(ordered(names), len(sets)),
                *about_sizes(np.array([len(labels) for labels in sets if labels])),
            ]
            ask(questions, accept, f'{self.path}, column "{name}"')
        return Candidates.from_sets(sets, source=source)

    def label_sets(self, name: str, accept: Collection[str] = ()) -> list[Any]:
        """The labels of a column, cell by cell, as `read_labels` gives them."""
        try:
            return read_labels(self.column(name), name, accept)
        except QuestionError as error:
            raise DataError(f"{self.path}, {error}") from None
        except CellError as error:
            what = str(error).partition(": ")[2]
            raise DataError(f'row {error.line} of column "{name}" in {self.path}: {what}') from None

    def labels(self, name: str) -> np.ndarray:
        """A column of labels, None where a cell is empty."""
        values = self.column(name)
        if any(isinstance(v, list | np.ndarray) for v in values):
            raise DataError(f'column "{name}" of {self.path} holds more than one value per row, not labels.')
        made = np.empty(len(values), dtype=object)
        made[:] = [None if is_missing(v) else v.strip() if isinstance(v, str) else native(v) for v in values]
        return made

    def features(self, wanted: Collection[str] = (), advice: str = "") -> tuple[np.ndarray, list[str]]:
        """Numeric columns as (n, d), and their names. Text and empty cells in them are an error.

        Default: all columns that have a name. A column without a name is the row number that data frames
        write in front of a table. `advice` is a line for the errors.
        """
        parts, titles = [], []
        for name in wanted or [name for name in self.columns if name]:
            column = self.column(name)
            try:
                values = numbers_of(column, name)
                wrong = np.argwhere(~np.isfinite(values))
                if len(wrong):
                    i = int(wrong[0][0])
                    cell = "empty" if is_missing(column[i]) else f"{column[i]!s:.80}"
                    what = f"the cell is {cell}; every feature needs a finite number."
                    raise CellError(i, in_column(name)(i), what)
            except CellError as error:
                raise DataError(f"{self.path}, {error}" + (f"\n  {advice}" if advice else "")) from None
            parts.append(values.reshape(len(values), -1))
            titles += [name] if values.ndim == 1 else [f"{name}.{k}" for k in range(parts[-1].shape[1])]
        if not parts:
            raise DataError(f"{self.path} has no feature column left.")
        return np.hstack(parts), titles


def as_set(labels: Any) -> list[Any]:
    """One label, several or none as a list."""
    if isinstance(labels, COLLECTIONS):
        return list(labels)
    return [] if is_missing(labels) else [labels]


def listed(columns: Collection[str]) -> str:
    """The names of columns, for messages."""
    return short(columns, 20)


def numbers_of(column: Any, name: str) -> np.ndarray:
    """A column in double precision, (n,) or for vectors (n, d); a cell that is no number is an error."""
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    try:
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        for i, cell in enumerate(column):
            try:
                np.asarray(cell, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                what = "empty" if is_missing(cell) else f"{cell!r:.80}, not a number"
                raise CellError(i, in_column(name)(i), f"the cell is {what}.") from None
        what = f'column "{name}" has lists of different lengths'
        raise CellError(0, what, "a feature column has one number per row, or equally many.") from None


def stacked(columns: list[Any]) -> np.ndarray | None:
    """(n, d): columns of finite numbers side by side; None where there is anything else among them.

    The quick way for large Parquet files; single precision stays single.
    """
    if not all(isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "biuf" for v in columns):
        return None
    kind = np.result_type(np.float32, *{v.dtype for v in columns})
    made = np.empty((len(columns[0]), len(columns)), dtype=kind)
    # a block of rows at a time stays in the cache while it is filled column by column
    for start in range(0, len(made), 1024):
        block = made[start : start + 1024]
        for k, values in enumerate(columns):
            block[:, k] = values[start : start + 1024]
    return made if np.isfinite(made).all() else None
