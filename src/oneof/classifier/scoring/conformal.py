"""Prediction sets with a chosen coverage: split-conformal prediction.

Rows with known labels that the model has not learned from say how wrong it can be: every such row gets
the score of its true class, and a class is in the set of a new row when its score is no worse than all
but a share of these. Where calibration rows and new rows come from the same source, the set holds the
true label with at least the coverage asked for, on average over all rows and whatever the model is like
(Vovk et al. 2005; Angelopoulos and Bates, arXiv 2107.07511). It promises nothing for a single class or
a single row.

Two scores, small for a class that fits well:

- `probability`: 1 − p (Sadinle et al., JASA 2019). The smallest sets on average; easy rows get one
  label, hard ones may get few as well.
- `adaptive`: the probability of all classes at least as probable (Romano et al., NeurIPS 2020), without
  its random part. Larger sets that grow where the model is unsure.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

SCORES = ("probability", "adaptive")


def class_scores(probabilities: np.ndarray, score: str = "probability") -> np.ndarray:
    """(n, c): the score of every class of every row."""
    if score not in SCORES:
        raise ValueError(f"score is {score!r}; it must be one of {', '.join(map(repr, SCORES))}.")
    p = np.asarray(probabilities, dtype=np.float64)
    if score == "probability":
        return (1 - p).round(12)
    order = np.argsort(-p, axis=1, kind="stable")
    made = np.empty_like(p)
    np.put_along_axis(made, order, np.take_along_axis(p, order, axis=1).cumsum(axis=1), axis=1)
    # the last class of every row has the score 1: rounding errors must not tell such ties apart
    return made.round(12)


def calibration_scores(probabilities: np.ndarray, columns: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of the true classes of calibration rows, in rising order, for every kind of score.

    Parameters
    ----------
    probabilities : array (m, c)
        What the model says about rows it has not learned from.
    columns : int array (m,)
        Column of the true class of every row.
    """
    rows = np.arange(len(columns))
    return {name: np.sort(class_scores(probabilities, name)[rows, columns]) for name in SCORES}


def rows_needed(coverage: float) -> int:
    """The smallest number of calibration rows with which a set can leave anything out."""
    _check(coverage)
    return math.ceil(round(coverage / (1 - coverage), 9))


def score_limit(scores: np.ndarray, coverage: float) -> float:
    """The worst score a class may have to be in a set: the ⌈(m + 1) · coverage⌉-th smallest of m.

    Infinite, with a warning, where the rows are too few for the coverage: the sets hold all classes then.
    """
    _check(coverage)
    m = len(scores)
    rank = math.ceil(round((m + 1) * coverage, 9))  # rounded: 100 · 0.07 is 7.000000000000001 for a computer
    if rank > m:
        warnings.warn(
            f"{m} calibration rows are too few for a coverage of {coverage:g}: every set holds all classes.\n"
            f"  Calibrate on at least {rows_needed(coverage)} rows, or ask for less.",
            stacklevel=3,
        )
        return math.inf
    return float(np.sort(scores)[rank - 1])


def sets_within(
    probabilities: np.ndarray,
    limit: float,
    score: str = "probability",
    allowed: np.ndarray | None = None,
    allow_empty: bool = False,
) -> np.ndarray:
    """(n, c) mask of the classes whose score is at most `limit`.

    A mask of `allowed` classes cuts the sets and keeps their coverage where it keeps the true label. Sets
    that would be empty get the most probable (allowed) class unless `allow_empty` says otherwise.
    """
    p = np.asarray(probabilities)
    sets = class_scores(p, score) <= limit
    if allowed is not None:
        sets &= allowed
        p = np.where(allowed, p, -1.0)
    if not allow_empty:
        empty = np.flatnonzero(~sets.any(axis=1))
        sets[empty, p[empty].argmax(axis=1)] = True
    return sets


def checked_scores(scores: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Calibration scores from outside, or an error that says what they lack."""
    made = {name: np.sort(np.asarray(scores[name], dtype=np.float64)) for name in SCORES if name in scores}
    shapes = {values.shape for values in made.values()}
    if set(scores) != set(SCORES) or len(shapes) != 1 or len(shapes.pop()) != 1:
        raise ValueError(f"calibration scores are one vector for each of {', '.join(SCORES)}, equally long.")
    if not all(np.isfinite(values).all() for values in made.values()):
        raise ValueError("calibration scores must be finite numbers.")
    return made


def _check(coverage: float) -> None:
    if not (isinstance(coverage, int | float | np.number) and 0 < coverage < 1):
        raise ValueError(f"coverage is {coverage!r}; give a share between 0 and 1, such as 0.9.")
