"""How one column becomes features: numbers, vectors, categories, free text. Learned from training rows,
plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oneof.candidates.cells import cell_text
from oneof.tables.columns import (
    DATED,
    DATES,
    MOSTLY_NUMBERS,
    first_present,
    holds_vectors,
    numbers,
    odd_cell,
    text_counts,
    vectors,
    why_an_id,
    why_no_category,
)
from oneof.tables.errors import DataError
from oneof.tables.free_text import SentenceColumn, TextColumn, is_prose, vector_names

MOST_VALUES = 50


@dataclass(frozen=True)
class NumberColumn:
    """A number per row; a missing one becomes the median of the training rows."""

    name: str
    fill: float
    flag: bool
    """Whether a column of 0 and 1 says which were missing: only where some were in training."""
    offset: float = 0.0
    """Subtracted where float32 could not tell the values apart otherwise, such as time stamps."""

    kind: ClassVar[str] = "number"

    @classmethod
    def fit(cls, name: str, values: np.ndarray) -> NumberColumn:
        absent = np.isnan(values)
        present = values[~absent]
        fill = float(np.median(present)) if len(present) else 0.0
        far = len(present) and np.abs(present).max() > 1e5 * np.ptp(present) > 0
        return cls(name, fill, bool(absent.any()), fill if far else 0.0)

    @property
    def names(self) -> list[str]:
        return [self.name, f"{self.name}=(missing)"] if self.flag else [self.name]

    def encode(self, column: Any, where: str) -> np.ndarray:
        values = numbers(column)
        if values is None:
            i, _ = odd_cell(column) if isinstance(column, list) else (0, 0.0)
            raise DataError(
                f'row {max(i, 0)} of column "{self.name}"{where} is {column[max(i, 0)]!r:.80}, not a number; '
                "the model was trained on numbers there."
            )
        _refuse_infinite(self.name, values, where)
        return _filled(values[:, None] - self.offset, self.fill - self.offset, self.flag)


@dataclass(frozen=True)
class VectorColumn:
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
    def names(self) -> list[str]:
        return vector_names(self.name, len(self.fill), self.flag)

    def encode(self, column: Any, where: str) -> np.ndarray:
        values = vectors(column, width=len(self.fill))
        if values is None or values.shape[1] != len(self.fill):
            found = "" if values is None else f" of {values.shape[1]}"
            raise DataError(
                f'column "{self.name}"{where} does not hold lists{found} numbers as in training, where every '
                f"row had {len(self.fill)}."
            )
        _refuse_infinite(self.name, values, where)
        return _filled(values, self.fill, self.flag)


@dataclass(frozen=True)
class CategoryColumn:
    """A text per row: one column of 0 and 1 for every value seen in training.

    With more than `MOST_VALUES` values the rarer ones share a column, and values that were never seen
    join them. Where no value was rare there is no such column: it would have been 0 in every training
    row and its weights never learned. An unseen value is then none of the known ones.
    """

    name: str
    values: list[str]
    other: bool
    flag: bool

    kind: ClassVar[str] = "category"

    @classmethod
    def fit(cls, name: str, column: list[Any]) -> CategoryColumn:
        counts = text_counts(column)
        frequent = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_VALUES]
        absent = counts.total() < len(column)
        return cls(name, sorted(frequent), len(counts) > MOST_VALUES, absent)

    @property
    def names(self) -> list[str]:
        more = ["(other)"] * self.other + ["(missing)"] * self.flag
        return [f"{self.name}={value}" for value in [*self.values, *more]]

    def encode(self, column: Any, where: str) -> np.ndarray:
        width = len(self.names)
        place: dict[str | None, int] = {value: k for k, value in enumerate(self.values)}
        unseen = len(self.values) if self.other else width
        place[None] = width - 1 if self.flag else unseen
        cells = column.tolist() if isinstance(column, np.ndarray) else column
        try:
            codes = {value: place.get(cell_text(value), unseen) for value in set(cells)}
        except TypeError:
            raise DataError(
                f'column "{self.name}"{where} holds lists; the model was trained on single values there.'
            ) from None
        hot = np.fromiter(map(codes.__getitem__, cells), dtype=np.int64, count=len(cells))
        made = np.zeros((len(cells), width + 1), dtype=np.float32)  # the last column takes what is none
        made[np.arange(len(cells)), hot] = 1.0
        return made[:, :width]


ColumnCode = NumberColumn | VectorColumn | CategoryColumn | TextColumn | SentenceColumn
KINDS: dict[str, type[ColumnCode]] = {
    c.kind: c for c in (NumberColumn, VectorColumn, CategoryColumn, TextColumn, SentenceColumn)
}


def learned_code(
    name: str, column: np.ndarray | list[Any], where: str, prose: bool = False, sentences: str | None = None
) -> ColumnCode | str:
    """How to encode a column, or why it cannot be a feature.

    `prose`: it is free text, whatever it looks like; `sentences`: the digest of the model to read texts by.
    """
    if prose:
        return _text_code(name, column, sentences)
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "mM":
            return DATED
        example = column[0] if len(column) else None
    else:
        example = first_present(column)
    if example is None:
        return "is empty in every row"
    if isinstance(example, DATES):
        return DATED
    if holds_vectors(example):
        many = vectors(column)
        if many is None:
            return "has lists of different lengths, or with something else than numbers"
        _refuse_infinite(name, many, where)
        return VectorColumn.fit(name, many)
    values = numbers(column)
    if values is not None:
        _refuse_infinite(name, values, where)
        if np.isnan(values).all():
            return "is empty in every row"
        return why_an_id(name, values) or NumberColumn.fit(name, values)
    assert isinstance(column, list)
    try:
        row, share = odd_cell(column)
    except TypeError:
        return "has lists in some rows and single values in others"
    if share >= MOSTLY_NUMBERS:
        raise DataError(
            f'row {row} of column "{name}"{where} is {column[row]!r:.80}, not a number, but {share:.0%} of '
            "the column are.\n  Correct the cell or leave it empty; or leave the column out."
        )
    counts = text_counts(column)
    reason = why_no_category(counts, MOST_VALUES)
    if (reason or len(counts) > MOST_VALUES) and reason != DATED and is_prose(counts):
        return _text_code(name, column, sentences)
    return reason or CategoryColumn.fit(name, column)


def _text_code(name: str, column: np.ndarray | list[Any], sentences: str | None) -> ColumnCode | str:
    return TextColumn.fit(name, column) if sentences is None else SentenceColumn.fit(name, column, sentences)


def stored_code(entry: dict[str, Any]) -> ColumnCode:
    """A column as `to_dict` of the encoder gave it; a ValueError, TypeError or KeyError where it lies."""
    made = KINDS[entry.pop("kind")](**entry)
    if not isinstance(made.name, str) or not isinstance(made.flag, bool):
        raise ValueError(f"{made.name!r:.80} is no column")
    if isinstance(made, CategoryColumn):
        good = isinstance(made.other, bool) and all(isinstance(v, str) for v in made.values)
        good = good and len(set(made.values)) == len(made.values) <= MOST_VALUES
    elif isinstance(made, TextColumn | SentenceColumn):
        good = made.is_sound()
    elif isinstance(made, VectorColumn):
        good = len(made.fill) > 0 and bool(np.isfinite(np.array(made.fill, dtype=np.float64)).all())
    else:
        good = bool(np.isfinite([float(made.fill), float(made.offset)]).all())
    if not good:
        raise ValueError(f"the column {made.name!r:.80} has values that cannot be")
    return made


def _filled(values: np.ndarray, fill: float | list[float], flag: bool) -> np.ndarray:
    """(n, d) without gaps, and where it is wanted a last column that says which rows had nothing at all."""
    gaps = np.isnan(values)
    made = np.where(gaps, fill, values)
    return np.column_stack([made, gaps.all(axis=1)]) if flag else made


def _refuse_infinite(name: str, values: np.ndarray, where: str) -> None:
    """Raise on the first infinite number, with its row."""
    wrong = np.argwhere(np.isinf(values))
    if len(wrong):
        i = int(wrong[0][0])
        raise DataError(
            f'row {i} of column "{name}"{where} is infinite; a feature is a finite number.\n'
            "  Correct the cell, or leave it empty."
        )
