"""What a column of a table holds: numbers, vectors, texts, or nothing a classifier can use.

Columns come as people have them: lists of Python values, arrays, or text that may stand for numbers.
Work goes over the distinct values of a column wherever it can, so that a million rows take no loop.
"""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oneof.candidates.cells import NO_VALUE, cell_text, is_missing
from oneof.tables.errors import DataError

MOSTLY_NUMBERS = 0.9
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
DATED = "holds dates"
DATE_TEXT = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([ T].*)?")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
ID_NAME = re.compile(r"(?i)(.*[_\- ])?(id|uuid|guid|index|key)")


def as_columns(table: Any) -> dict[str, Any]:
    """Columns by name: of a dictionary, of a `Table`, or of a data frame."""
    if isinstance(table, Mapping):
        return dict(table)
    columns = getattr(table, "columns", None)
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


def first_present(values: Sequence[Any]) -> Any:
    """The first value that is not missing, or None."""
    return next((v for v in values if not is_missing(v)), None)


# ---- numbers ----------------------------------------------------------------------------------


def numbers(values: np.ndarray | list[Any]) -> np.ndarray | None:
    """(n,) float64, NaN where a cell is missing; None where the column does not hold numbers.

    Booleans, also as text (true, false), are 0 and 1. A decimal comma is read as one where some cell
    cannot mean thousands.
    """
    if isinstance(values, np.ndarray):
        return values.astype(np.float64) if values.dtype.kind in "biuf" and values.ndim == 1 else None
    try:
        made = np.array(values, dtype=np.float64)
        return made if made.ndim == 1 else None
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        different = set(values)
    except TypeError:  # lists cannot be in a set
        return None
    commas = [v for v in different if isinstance(v, str) and "," in v]
    european = any(not THOUSANDS.fullmatch(v.strip()) for v in commas)
    for read in (_number, _truth_value, *([_decimal_comma] if european else [])):
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
    if not any(_number(v) is not None and not _absent_number(v) for v in values[:1000]):
        # texts, as the first rows show: no need to try them all
        return next((i for i, v in enumerate(values) if not _absent_number(v)), 0), 0.0
    verdicts = {v: None if _absent_number(v) else _number(v) is not None for v in set(values)}
    rows = Counter(map(verdicts.__getitem__, values))
    share = rows[True] / max(1, rows[True] + rows[False])
    return next((i for i, v in enumerate(values) if verdicts[v] is False), -1), share


def _absent_number(value: Any) -> bool:
    return value.strip().lower() in NO_VALUE if isinstance(value, str) else is_missing(value)


def _number(value: Any) -> float | None:
    if _absent_number(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _decimal_comma(value: Any) -> float | None:
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return float(value.replace(",", "."))
    return _number(value)


def _truth_value(value: Any) -> float | None:
    if is_missing(value):
        return np.nan
    return {"true": 1.0, "false": 0.0}.get(str(value).strip().lower())


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
        return values.reshape(len(values), -1).astype(np.float64) if values.ndim > 1 else None
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


# ---- texts ------------------------------------------------------------------------------------


def text_counts(values: Sequence[Any]) -> Counter[str]:
    """How often every text occurs; missing cells are not counted."""
    made: Counter[str] = Counter()
    for value, count in Counter(values).items():
        text = cell_text(value)
        if text is not None:
            made[text] += count
    return made


def why_no_category(counts: Counter[str], largest: int) -> str | None:
    """Why a column of texts tells a classifier nothing, or None where its values can be told apart."""
    rows, different = counts.total(), len(counts)
    if all(DATE_TEXT.fullmatch(text) for text in counts):
        return DATED
    if different == rows > 10:
        return "has a different text in every row (an id, or free text)"
    if different > largest and different > rows / 2:
        return f"has {different} different texts in {rows} rows (free text, or ids)"
    return None
