"""Accuracy with its uncertainty, and whether probabilities mean what they say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Z = 1.959964  # 95 %


@dataclass(frozen=True)
class Share:
    """k of n, with Wilson's 95 % interval."""

    k: int
    n: int

    @property
    def value(self) -> float:
        return self.k / self.n if self.n else math.nan

    @property
    def low(self) -> float:
        return wilson(self.k, self.n)[0]

    @property
    def high(self) -> float:
        return wilson(self.k, self.n)[1]

    def __str__(self) -> str:
        return f"{self.value:.1%} (95 % interval {self.low:.1%} to {self.high:.1%}, {self.n} rows)"


def wilson(k: int, n: int) -> tuple[float, float]:
    """Wilson's score interval for a share, 95 %: honest for few rows and for shares near 0 and 1."""
    if not n:
        return 0.0, 1.0
    share, z2 = k / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return (0.0 if k == 0 else max(0.0, middle - half)), (1.0 if k == n else min(1.0, middle + half))


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence lies in the same tenth."""

    confidence: float
    right: Share


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> list[Bin]:
    """Rows in bins of equal width by their confidence; empty bins are left out."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    made = []
    for b in range(bins):
        inside = place == b
        if inside.any():
            share = Share(int(right[inside].sum()), int(inside.sum()))
            made.append(Bin(float(confidence[inside].mean()), share))
    return made


def calibration_error(bins: list[Bin]) -> float:
    """Expected calibration error: the mean distance of confidence and accuracy, weighted by rows."""
    n = sum(b.right.n for b in bins)
    return sum(b.right.n * abs(b.confidence - b.right.value) for b in bins) / max(1, n)
