"""A table: columns by name, as sets, labels or numbers, and what a column holds.

In text files labels are text, exactly as written: `1` is the class "1" and `01` another one. Parquet and
npz files keep the types they have. Work goes over the distinct values of a column wherever it can, so that a
million rows take no loop.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.cells import (
    NO_VALUE,
    CellError,
    as_set,
    first_where,
    in_column,
    is_missing,
    native,
    ordered,
    refuse_dates_and_complex,
    short,
)
from oneof.candidates.questions import QuestionError, about_classes, about_sizes, answered, ask, read_labels
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
            raise DataError(f'there is no column "{name}" in {self.path}; it has {short(self.columns, 20)}.')
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
        """The labels of a column, cell by cell, as `read_labels` gives them, after the answers."""
        try:
            return list(answered(read_labels(self.column(name), name, accept), accept))
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
        """Numeric columns as (n, d), and their names; text and empty cells are an error, with this advice.

        Default: all columns that have a name; one without is the row number that data frames write in front.
        """
        parts, titles = [], []
        for name in wanted or [name for name in self.columns if name]:
            column = self.column(name)
            try:
                values = numbers_of(column, name)
                for i, *_ in first_where(~np.isfinite(values)):
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


def numbers_of(column: Any, name: str) -> np.ndarray:
    """A column in double precision, (n,) or for vectors (n, d); a cell that is no number is an error."""
    refuse_dates_and_complex(column, name)
    try:
        return _floats(column)
    except (TypeError, ValueError, OverflowError):
        read = numbers(column)  # such as True, False
        if read is not None and np.isfinite(read).all():
            return read
        for i, cell in enumerate(column):
            try:
                _floats([cell])
            except (TypeError, ValueError, OverflowError):
                what = "empty" if is_missing(cell) else f"{cell!r:.80}, not a number"
                raise CellError(i, in_column(name)(i), f"the cell is {what}.") from None
        what = f'column "{name}" has lists of different lengths'
        raise CellError(0, what, "a feature column has one number per row, or equally many.") from None


def stacked(columns: list[Any]) -> np.ndarray | None:
    """(n, d): columns of finite numbers side by side; None where there is anything else among them.

    The quick way for large Parquet files; single precision stays single.
    """
    plain = (isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "biuf" for v in columns)
    if not columns or not all(plain):
        return None
    made = np.column_stack(columns)
    made = made.astype(np.result_type(np.float32, made.dtype), copy=False)
    return made if np.isfinite(made).all() else None


MOSTLY_NUMBERS = 0.9
DATED = "holds dates"
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
ID_NAME = re.compile(r"(?i)(.*[_\- ])?(id|uuid|guid|index|key)")


def as_columns(table: Any) -> dict[str, Any]:
    """Columns by name: of a dictionary, of a `Table`, or of a data frame."""
    columns = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if isinstance(columns, Mapping):
        return dict(columns)
    if columns is None:
        raise DataError(f"a table is a dictionary of columns or a data frame, not a {type(table).__name__}.")
    return {str(name): table[name] for name in columns}


def as_column(column: Any) -> np.ndarray | list[Any]:
    """An array where the column is one of numbers, booleans or dates, else a list."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        return column if column.dtype.kind in "biufmM" else column.tolist()
    return column if isinstance(column, list) else list(column)


class OneColumn:
    """What all kinds of columns share; `encode` makes numbers of one, which errors call by its `title`."""

    name: str
    flag: bool
    """Whether a column of 0 and 1 says which were missing: only where some were in training."""
    width: int

    @property
    def parts(self) -> list[str]:
        return [f"{self.name}.{k}" for k in range(self.width)]

    @property
    def names(self) -> list[str]:
        """One name per column of what `encode` gives."""
        return [*self.parts, *([f"{self.name}=(missing)"] * self.flag)]

    def flagged(self, made: np.ndarray, absent: Any) -> np.ndarray:
        return np.column_stack([made, absent]) if self.flag else made


# ---- numbers ----------------------------------------------------------------------------------


def numbers(values: np.ndarray | list[Any], commas: bool = False) -> np.ndarray | None:
    """(n,) float64, NaN where a cell is missing; None where the column does not hold numbers.

    Booleans, also as text, are 0 and 1. For `commas` see `number_reader`.
    """
    if isinstance(values, np.ndarray):
        return values.astype(np.float64) if values.dtype.kind in "biuf" and values.ndim == 1 else None
    try:
        made = _floats(values)
        return made if made.ndim == 1 else None
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        different = set(values)
    except TypeError:  # lists cannot be in a set
        return None
    for read in (as_number, _truth_value, number_reader(different, commas)):
        known = {}
        for value in different:
            known[value] = read(value)
            if known[value] is None:
                break
        else:
            return np.array([known[v] for v in values], dtype=np.float64)
    return None


def odd_cell(values: list[Any]) -> tuple[int, float]:
    """Row of a cell that is no number, and the share of the cells present that are numbers."""
    read = number_reader(values)
    if not any(read(v) is not None and not _absent_number(v) for v in values[:1000]):
        # texts, as the first rows show: no need to try them all
        return next((i for i, v in enumerate(values) if not _absent_number(v)), 0), 0.0
    verdicts = {v: None if _absent_number(v) else read(v) is not None for v in set(values)}
    rows = Counter(map(verdicts.__getitem__, values))
    share = rows[True] / max(1, rows[True] + rows[False])
    return next((i for i, v in enumerate(values) if verdicts[v] is False), -1), share


def _absent_number(value: Any) -> bool:
    return value.strip().lower() in NO_VALUE if isinstance(value, str) else is_missing(value)


def as_number(value: Any) -> float | None:
    """The number of a cell, NaN where it is missing, None where it is something else."""
    if _absent_number(value):
        return np.nan
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _floats(values: Any) -> np.ndarray:
    """Numbers as numpy reads them; but 1_2 is no number here, whatever Python says: codes look like that."""
    if not isinstance(values, np.ndarray) and any(isinstance(v, str) and "_" in v for v in values):
        raise ValueError("a text with an underscore")
    return np.array(values, dtype=np.float64)


def has_decimal_commas(values: Iterable[Any]) -> bool:
    """Whether some cell has a comma that cannot mean thousands."""
    commas = (v.strip() for v in values if isinstance(v, str) and "," in v)
    return any(DECIMAL_COMMA.fullmatch(v) and not THOUSANDS.fullmatch(v) for v in commas)


def number_reader(values: Iterable[Any], commas: bool = False) -> Callable[[Any], float | None]:
    """What reads the numbers of these cells; a comma is a decimal mark where they show it or others did."""
    return _decimal_comma if commas or has_decimal_commas(values) else as_number


def _decimal_comma(value: Any) -> float | None:
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return float(value.replace(",", "."))
    return as_number(value)


def _truth_value(value: Any) -> float | None:
    return np.nan if is_missing(value) else {"true": 1.0, "false": 0.0}.get(str(value).strip().lower())


def why_an_id(name: str, values: np.ndarray) -> str | None:
    """Why a column of numbers looks like the name of its row rather than a property of it."""
    if len(values) < 20 or np.isnan(values).any() or (values != np.rint(values)).any():
        return None
    ordered = np.sort(values)
    if (np.diff(ordered) == 1).all():
        return "counts the rows"
    if ID_NAME.fullmatch(name.strip()) and (np.diff(ordered) > 0).all():
        return "has a different whole number in every row (an id)"
    return None


# ---- vectors ----------------------------------------------------------------------------------


def vectors(values: np.ndarray | list[Any], width: int | None = None) -> np.ndarray | None:
    """(n, d) float64, NaN in the rows of missing cells; None where cells are no vectors of one length."""
    if isinstance(values, np.ndarray):
        several = values.ndim > 1 and values.dtype.kind in "biuf"
        return values.reshape(len(values), -1).astype(np.float64) if several else None
    try:
        rows = [_vector(v) for v in values]
        found = next((len(row) for row in rows if row is not None), width)
        if found is None:
            return None
        nothing = [np.nan] * found
        made = np.array([nothing if row is None else row for row in rows], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return made.reshape(len(rows), -1) if len(rows) else made.reshape(0, found)


def holds_vectors(value: Any) -> bool:
    """Whether a cell is a list of numbers, or text that is one: [0.1, 0.2]."""
    if not isinstance(value, str):
        return isinstance(value, list | tuple | np.ndarray)
    try:
        return value.strip().startswith("[") and _vector(value) is not None
    except ValueError:
        return False


def _vector(value: Any) -> Any:
    """The numbers of a cell, None where it is missing; a ValueError where it is something else."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except RecursionError:
            value = None
        if not isinstance(value, list) or not all(isinstance(v, int | float) for v in value):
            raise ValueError("not a list of numbers")
    return value
