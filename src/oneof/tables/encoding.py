"""`TableEncoder`: columns of a table as the numbers a network takes, learned from the training rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oneof.candidates.cells import DATES, NO_VALUE, counted, first_where, is_missing, short
from oneof.tables.errors import DataError
from oneof.tables.free_text import (
    MOST_VALUES,
    CategoryColumn,
    SentenceColumn,
    TextColumn,
    is_prose,
    text_counts,
    why_no_category,
)
from oneof.tables.table import (
    DATED,
    MOSTLY_NUMBERS,
    OneColumn,
    as_column,
    as_columns,
    has_decimal_commas,
    holds_vectors,
    number_reader,
    numbers,
    odd_cell,
    vectors,
    why_an_id,
)


@dataclass(frozen=True)
class NumberColumn(OneColumn):
    """A number per row; a missing one becomes the median of the training rows."""

    name: str
    fill: float
    flag: bool
    offset: float = 0.0
    """Subtracted where float32 could not tell the values apart otherwise, such as time stamps."""
    decimal_comma: bool = False
    """Whether training rows had decimal commas: of a few new ones it may not show (3,605)."""

    kind: ClassVar[str] = "number"

    @classmethod
    def fit(cls, name: str, values: np.ndarray, decimal_comma: bool = False) -> NumberColumn:
        absent = np.isnan(values)
        present = values[~absent]
        fill = float(np.median(present)) if len(present) else 0.0
        far = len(present) and np.abs(present).max() > 1e5 * np.ptp(present) > 0
        return cls(name, fill, bool(absent.any()), fill if far else 0.0, decimal_comma)

    @property
    def parts(self) -> list[str]:
        return [self.name]

    def encode(self, column: Any, title: str) -> np.ndarray:
        values = numbers(column, self.decimal_comma)
        if values is None:
            read = number_reader(column, self.decimal_comma)
            i = next((i for i, cell in enumerate(column) if read(cell) is None), 0)
            what = f"{column[i]!r:.80}, not a number; the model was trained on numbers there."
            raise DataError(f"row {i} of {title} is {what}")
        _refuse_infinite(values, title)
        values = values[:, None] - self.offset
        gaps = np.isnan(values)
        return self.flagged(np.where(gaps, self.fill - self.offset, values), gaps)

    def is_sound(self) -> bool:
        finite = np.isfinite([float(self.fill), float(self.offset)]).all()
        return bool(finite) and isinstance(self.decimal_comma, bool)


@dataclass(frozen=True)
class VectorColumn(OneColumn):
    """A list of numbers per row, such as an embedding; a missing one becomes the training mean."""

    name: str
    fill: list[float]
    flag: bool

    kind: ClassVar[str] = "vector"

    @classmethod
    def fit(cls, name: str, values: np.ndarray) -> VectorColumn:
        absent = np.isnan(values).all(axis=1)
        present = values[~absent]
        mean = np.nan_to_num(np.nanmean(present, axis=0)) if len(present) else np.zeros(values.shape[1])
        return cls(name, mean.tolist(), bool(absent.any()))

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.fill)

    def encode(self, column: Any, title: str) -> np.ndarray:
        values = vectors(column, self.width)
        if values is None or values.shape[1] != self.width:
            found = "does not hold lists of numbers"
            if values is not None:
                found = f"has {values.shape[1]} numbers a row"
            raise DataError(f"{title} {found}; in training every row had {self.width}.")
        _refuse_infinite(values, title)
        gaps = np.isnan(values)
        return self.flagged(np.where(gaps, self.fill, values), gaps.all(axis=1))

    def is_sound(self) -> bool:
        return self.width > 0 and bool(np.isfinite(np.array(self.fill, dtype=np.float64)).all())


ColumnCode = NumberColumn | VectorColumn | CategoryColumn | TextColumn | SentenceColumn
COLUMN_CODES: dict[str, tuple[type[ColumnCode], str]] = {
    "number": (NumberColumn, "numeric"),
    "category": (CategoryColumn, "categorical"),
    "vector": (VectorColumn, "vector"),
    "text": (TextColumn, "text"),
    "sentence": (SentenceColumn, "embedded text"),
}
"""Kinds of columns by their names in files, and in words."""


def learned_code(
    name: str, title: str, column: np.ndarray | list[Any], prose: bool, sentences: str | None
) -> ColumnCode | str:
    """How to encode a column, or why it cannot be a feature; errors call it by its title.

    `prose`: it is free text, whatever it looks like; `sentences`: the digest of the model to read texts by.
    """

    def as_text() -> ColumnCode | str:
        if sentences is None:
            return TextColumn.fit(name, column)
        return SentenceColumn.fit(name, column, sentences)

    if prose:
        return as_text()
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "mM":
            return DATED
        example = column[0] if len(column) else None
    else:
        example = next((cell for cell in column if not is_missing(cell)), None)
    if example is None:
        return "is empty in every row"
    if isinstance(example, DATES):
        return DATED
    if holds_vectors(example):
        many = vectors(column)
        if many is None:
            return "has lists of different lengths, or with something else than numbers"
        _refuse_infinite(many, title)
        return VectorColumn.fit(name, many)
    values = numbers(column)
    if values is not None:
        _refuse_infinite(values, title)
        if np.isnan(values).all():
            return "is empty in every row"
        _refuse_points_of_thousands(column, title)
        commas = isinstance(column, list) and has_decimal_commas(column)
        return why_an_id(name, values) or NumberColumn.fit(name, values, commas)
    assert isinstance(column, list)
    try:
        (row, share), counts = odd_cell(column), text_counts(column)
    except TypeError:
        return "has lists or objects in its cells"
    if share >= MOSTLY_NUMBERS:
        raise DataError(
            f"row {row} of {title} is {column[row]!r:.80}, not a number, but {share:.0%} of "
            "the column are.\n  Correct the cell or leave it empty; or leave the column out."
        )
    reason = why_no_category(counts, MOST_VALUES)
    if (reason or len(counts) > MOST_VALUES) and reason != DATED and is_prose(counts):
        return as_text()
    if reason and reason != DATED and share:
        return f"{reason}; {share:.0%} are numbers, but {column[row]!r:.80} is none"
    return reason or CategoryColumn.fit(name, column)


def stored_code(entry: dict[str, Any]) -> ColumnCode:
    """A column as `to_dict` of the encoder gave it; a ValueError, TypeError or KeyError where it lies."""
    made = COLUMN_CODES[entry.pop("kind")][0](**entry)
    if not isinstance(made.name, str) or not isinstance(made.flag, bool):
        raise ValueError(f"{made.name!r:.80} is no column")
    if not made.is_sound():
        raise ValueError(f"the column {made.name!r:.80} has values that cannot be")
    return made


def _refuse_points_of_thousands(cells: Any, title: str) -> None:
    """Texts such as 1.234 where all others are whole and below 1000: some decimals would end in 0."""
    texts = {v.strip() for v in cells if isinstance(v, str) and v.strip().lower() not in NO_VALUE}
    pointed, number = [v for v in texts if "." in v], re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})*|0")
    if 20 <= len(pointed) < len(texts) and all(map(number.fullmatch, texts)):
        raise DataError(
            f"{title} has {min(pointed)!r} and whole numbers below 1000: is its point one of thousands?\n"
            "  Write such numbers without it, or all with the same decimals; or leave the column out."
        )


def _refuse_infinite(values: np.ndarray, title: str) -> None:
    """Raise on the first number that is infinite in single precision, with its row."""
    most = np.finfo(np.float32).max
    for i, *_ in first_where((values > most) | (values < -most)):  # np.abs would copy all vectors
        raise DataError(
            f"row {i} of {title} is infinite, or above 3.4e38, where single precision ends.\n"
            "  Correct the cell, or leave it empty."
        )


FORMAT = 1


@dataclass(frozen=True)
class TableEncoder:
    """How the columns of a table become features. Learned by `fit`, stored as JSON, never as code."""

    codes: tuple[ColumnCode, ...]
    left_out: dict[str, str]
    """Columns that are no features, and why not."""

    @classmethod
    def fit(
        cls,
        columns: Any,
        wanted: Collection[str] = (),
        without: Collection[str] = (),
        texts: Collection[str] = (),
        sentences: str | None = None,
    ) -> TableEncoder:
        """Learn medians and values from training rows: a dictionary of columns, a `Table` or a data frame.

        Cells are numbers, texts, booleans or lists of numbers; missing ones None, NaN or empty. By default
        all columns are used that have a name and can be. One that is `wanted` and cannot be used is an error,
        others are `left_out`; those `without` are not looked at. `texts` are columns of free text; others are
        found out by their many words. `sentences` is what `use_sentences` gave: the sentence model that reads
        free text, in place of TF-IDF and SVD.
        """
        table, where = as_columns(columns), _where(columns)
        for name in (*wanted, *without, *texts):
            if name not in table:
                raise DataError(f'there is no column "{name}"{where}; there are {short(table, 20)}.')
        # a column without a name is the row number that data frames write in front of a table
        chosen = list(dict.fromkeys(wanted)) or [name for name in table if name and name not in without]
        chosen += [name for name in texts if name not in chosen]
        codes: list[ColumnCode] = []
        left_out: dict[str, str] = {}
        for name in chosen:
            title = f'column "{name}"{where}'
            made = learned_code(name, title, as_column(table[name]), name in texts, sentences)
            if not isinstance(made, str):
                codes.append(made)
            elif wanted or name in texts:
                raise DataError(f"{title} {made}: it cannot be a feature.")
            else:
                left_out[name] = made
        if not codes:
            reasons = "".join(f'\n  "{name}" {why}' for name, why in list(left_out.items())[:5])
            raise DataError(f"there is no feature column left{where}.{reasons}")
        if sentences is not None and not any(code.kind == "sentence" for code in codes):
            raise DataError(f"there is no column of free text{where} for --embed; name one with --text.")
        return cls(tuple(codes), left_out)

    @property
    def column_names(self) -> list[str]:
        """The columns of the table that `transform` reads."""
        return [code.name for code in self.codes]

    @property
    def feature_names(self) -> list[str]:
        """One name per column of what `transform` gives."""
        return [name for code in self.codes for name in code.names]

    def transform(self, columns: Any) -> np.ndarray:
        """(n, d) float32: the features of rows, which need the columns of the training table by name."""
        table, where = as_columns(columns), _where(columns)
        absent = [name for name in self.column_names if name not in table]
        if absent:
            others = f" and {len(absent) - 1} more ({short(absent[1:], 20)})" if len(absent) > 1 else ""
            raise DataError(
                f'there is no column "{absent[0]}"{others}{where}, a feature the model was trained on.\n'
                f"  There are {short(table, 20)}."
            )
        at, made = 0, np.empty((0, 0), dtype=np.float32)
        for code in self.codes:  # one after the other: the parts are in double precision
            title = f'column "{code.name}"{where}'
            part = code.encode(as_column(table[code.name]), title)
            if not at:
                made = np.empty((len(part), len(self.feature_names)), dtype=np.float32)
            if len(part) != len(made):
                raise DataError(f"{title} has {len(part)} rows, others {len(made)}.")
            made[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        return made

    def describe(self) -> str:
        """One line: how many columns of which kind."""
        counts = Counter(code.kind for code in self.codes)
        parts = [f"{counts[kind]} {words}" for kind, (_, words) in COLUMN_CODES.items() if counts[kind]]
        absent = sum(code.flag for code in self.codes)
        more = f", {absent} with missing values" if absent else ""
        columns = "column" if len(self.codes) == 1 else "columns"
        return f"{' and '.join(parts)} {columns}{more}: {counted(len(self.feature_names), 'feature')}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        codes = [{"kind": code.kind, **asdict(code)} for code in self.codes]
        return {"format": FORMAT, "columns": codes, "left_out": dict(self.left_out)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """What `to_dict` gave, checked: a file that lies is refused."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise DataError(f"a stored table encoder has format {FORMAT}; this is none.")
        try:
            codes = tuple(stored_code(dict(entry)) for entry in values["columns"])
            left_out = {str(name): str(why) for name, why in dict(values.get("left_out", {})).items()}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"a stored table encoder cannot be read: {error}") from None
        if not codes or len({code.name for code in codes}) != len(codes):
            raise DataError("a stored table encoder has no columns, or one of them twice.")
        return cls(codes, left_out)


def _where(columns: Any) -> str:
    path = getattr(columns, "path", None)
    return f" in {path}" if isinstance(path, str | Path) else ""
