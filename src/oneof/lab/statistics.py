"""Comparing methods on paired splits, and over many data sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, t

LEVEL = 0.05
TEST_OVER_TRAIN = 0.1 / 0.8
"""Of an 80/10/10 split, for the corrected test."""


@dataclass(frozen=True)
class Comparison:
    """The reference against another method on the splits they share."""

    difference: float
    """Mean of reference minus other."""
    error: float
    """Standard error of that mean over the splits."""
    n: int
    p: float
    """Paired t-test, two-sided."""
    p_corrected: float
    """Nadeau and Bengio's correction: random splits share rows, so plain errors are too small."""
    p_wilcoxon: float

    @property
    def mark(self) -> str:
        """• the reference is significantly better, ◦ significantly worse, else nothing."""
        if self.n < 3 or not self.p < LEVEL:
            return ""
        return "•" if self.difference > 0 else "◦"


def compare(reference: Mapping[int, float], other: Mapping[int, float]) -> Comparison | None:
    """Paired tests on the common splits; None where there are fewer than two."""
    shared = sorted(reference.keys() & other.keys())
    if len(shared) < 2:
        return None
    d = np.array([reference[s] - other[s] for s in shared])
    n, mean, variance = len(d), float(d.mean()), float(d.var(ddof=1))
    return Comparison(
        difference=mean,
        error=math.sqrt(variance / n),
        n=n,
        p=_p_value(mean, variance / n, n),
        p_corrected=_p_value(mean, variance * (1 / n + TEST_OVER_TRAIN), n),
        p_wilcoxon=exact_wilcoxon(d),
    )


def half_interval(std: float, n: int) -> float:
    """Half of the 95 % interval of a mean of n values; 0 of one value, which says nothing of the spread."""
    return float(t.ppf(1 - LEVEL / 2, n - 1)) * std / math.sqrt(n) if n > 1 else 0.0


def _p_value(mean: float, squared_error: float, n: int) -> float:
    if squared_error <= 1e-18:  # all differences are the same
        return 1.0 if abs(mean) < 1e-9 else 0.0
    return float(2 * t.sf(abs(mean) / math.sqrt(squared_error), n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted for being several: the smallest times their number, the next times one less, and so on."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted.tolist()


def exact_wilcoxon(differences: np.ndarray) -> float:
    """Signed ranks, two-sided: over all signs of the differences that are not 0; ties share their ranks."""
    d = np.round(differences, 9)
    d = d[d != 0]
    twice = np.rint(2 * rankdata(np.abs(d))).astype(int)  # ranks are whole or half numbers
    share = np.ones(1)  # of the signs, by the sum of the ranks that get a plus
    for rank in twice:
        share = np.convolve(share, [0.5, *np.zeros(rank - 1), 0.5])
    mine = twice[d > 0].sum()
    return float(min(1.0, 2 * share[: mine + 1].sum(), 2 * share[mine:].sum()))


def ranks(scores: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """Mean rank of each column over the rows (splits or data sets); 1 is best, ties share."""
    return rankdata(-np.asarray(scores, dtype=float), axis=1).mean(axis=0)


@dataclass(frozen=True)
class CriticalDifference:
    """Friedman's test over data sets and Nemenyi's critical difference of mean ranks (Demšar 2006)."""

    ranks: dict[str, float]
    p_friedman: float
    difference: float
    n_sets: int


def critical_difference(scores: Mapping[str, Mapping[str, float]]) -> CriticalDifference | None:
    """From method → data set → score; None with fewer than three methods or two common data sets."""
    names = list(scores)
    shared = sorted(set.intersection(*(set(s) for s in scores.values()))) if scores else []
    if len(names) < 3 or len(shared) < 2:
        return None
    table = np.array([[scores[name][data] for name in names] for data in shared])
    k, n = len(names), len(shared)
    q = float(studentized_range.ppf(1 - LEVEL, k, np.inf)) / math.sqrt(2)
    return CriticalDifference(
        ranks=dict(zip(names, map(float, ranks(table)))),
        p_friedman=float(friedmanchisquare(*table.T).pvalue) if np.ptp(table, axis=1).any() else 1.0,
        difference=q * math.sqrt(k * (k + 1) / (6 * n)),
        n_sets=n,
    )
