"""Feature scaling, fitted on training rows only.

The choice belongs to the record of a run: on Lost, whose columns are principal components of very
unequal variance, `standard` blows up the noise columns and costs 5 to 10 points against `global`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneof.candidates.cells import first_where
from oneof.candidates.compact import frozen
from oneof.tables.errors import DataError

SCALINGS = {
    "none": "leave the features as they are",
    "global": "subtract each column's mean, divide everything by one standard deviation",
    "standard": "subtract each column's mean, divide by the column's standard deviation",
    "minmax": "map each column's range in the training rows to 0..1",
    "pixels": "images: subtract each channel's mean, divide by the channel's standard deviation",
}


@dataclass(frozen=True, eq=False)
class Scaling:
    """`(x - shift) / scale`, column by column, by one of the `SCALINGS`.

    A column that is constant in the training rows has scale 1: it is 0 there and finite everywhere.

    Examples
    --------
    >>> Scaling.fit([[0.0, 7.0], [2.0, 7.0]], "standard").apply([[0.0, 7.0], [4.0, 7.0]]).tolist()
    [[-1.0, 0.0], [3.0, 0.0]]
    """

    kind: str
    shift: np.ndarray
    scale: np.ndarray

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        for name in ("shift", "scale"):
            values = np.array(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or not np.isfinite(values).all():
                raise DataError(
                    f"the {name} of a scaling is one finite number per column, not {values!s:.60}."
                )
            object.__setattr__(self, name, frozen(values))
        if self.shift.shape != self.scale.shape or not (self.scale > 0).all():
            raise DataError("a scaling needs one shift and one positive scale per column.")

    @classmethod
    def fit(cls, x: Any, kind: str) -> Scaling:
        """Learn shift and scale from training rows, an (n, d) array, or images (n, channels, h, w)."""
        if kind == "pixels":
            images = np.asarray(x)
            return cls.fit_blocks((images[i : i + 1000] for i in range(0, len(images), 1000)), kind)
        return cls.fit_blocks([x], kind)

    @classmethod
    def fit_blocks(cls, blocks: Iterable[Any], kind: str) -> Scaling:
        """The same of rows that come in parts, in one pass."""
        _check_kind(kind)
        n, mean, square = 0, np.zeros(()), np.zeros(())
        low, high = np.full((), np.inf), np.full((), -np.inf)
        for block in blocks:
            values = _checked(_by_channel(block) if kind == "pixels" else block, None)
            for i, k in first_where(~np.isfinite(values)):
                raise DataError(
                    f"x[{n + i}, {k}] = {values[i, k]}: scaling needs finite values; drop or fill them first."
                )
            if not len(values):
                mean = mean + np.zeros(values.shape[1])
                continue
            own = values.mean(axis=0)
            away, share = own - mean, len(values) / (n + len(values))
            square = square + ((values - own) ** 2).sum(axis=0) + away**2 * n * share
            mean, n = mean + away * share, n + len(values)
            low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
        if kind == "none" or not n:
            return cls(kind, np.zeros_like(mean), np.ones_like(mean))
        if kind == "minmax":
            return cls(kind, low, _safe(high - low, np.abs(low)))
        spread = np.sqrt(square / n)
        if kind == "global":
            one = np.sqrt((spread**2).mean()) if len(mean) else 1.0
            return cls(kind, mean, _safe(np.full(len(mean), one), np.abs(mean).max(initial=0.0)))
        return cls(kind, mean, _safe(spread, np.abs(mean)))

    def apply(self, x: Any) -> np.ndarray:
        """The scaled rows as float32."""
        if self.kind == "pixels":
            shift, scale = (v.astype(np.float32)[:, None, None] for v in (self.shift, self.scale))
            return (np.asarray(x, dtype=np.float32) - shift) / scale
        return ((_checked(x, len(self.shift)) - self.shift) / self.scale).astype(np.float32)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` gives the same scaling back, bit for bit."""
        return {"kind": self.kind, "shift": self.shift.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scaling:
        missing = {"kind", "shift", "scale"} - set(values)
        if missing:
            raise DataError(f"a stored scaling has no {sorted(missing)[0]!r}; it holds {sorted(values)}.")
        return cls(values["kind"], values["shift"], values["scale"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaling) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.kind, self.shift.tobytes(), self.scale.tobytes()))


def _by_channel(images: Any) -> np.ndarray:
    """The pixels of images (n, channels, height, width) as rows, their channels as columns."""
    images = np.asarray(images)
    if images.ndim != 4:
        raise DataError(f"images have shape {images.shape}; give (n, channels, height, width).")
    return images.transpose(0, 2, 3, 1).reshape(-1, images.shape[1])


def _safe(scale: np.ndarray, size: np.ndarray | float) -> np.ndarray:
    """Replace by 1 what is zero up to rounding: a constant column can show a spread of 1e-16 of its value."""
    return np.where(scale > 1e-12 * np.maximum(size, np.finfo(np.float64).tiny), scale, 1.0)


def _check_kind(kind: str) -> None:
    if kind not in SCALINGS:
        raise DataError(f"unknown scaling {kind!r}: choose one of {', '.join(SCALINGS)}.")


def _checked(x: Any, d: int | None) -> np.ndarray:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 2:
        raise DataError(f"features have shape {values.shape}; scaling needs rows and columns, shape (n, d).")
    if d is not None and values.shape[1] != d:
        raise DataError(f"features have {values.shape[1]} columns, but the scaling was fitted on {d}.")
    return values
