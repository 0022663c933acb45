"""How good is a classifier, with and without true labels; prediction sets; risk against coverage.

Every scorer takes `(estimator, X, y)`, higher is better, and y is a candidate mask (n, c), a
`Candidates`, label sets, or 1-D true labels. Names of classes are matched where y has them. What they
can tell:

- `accuracy` needs true labels. Given a mask it looks at the rows with one candidate only.
- `covering_rate` asks whether the prediction is a candidate. A model that learned the habits of the
  annotators scores high too, so that it is a weak criterion for large sets.
- `approximated_accuracy` asks how sure the model is of its choice among the candidates. It also
  likes models that are sure and wrong. Read the two together.

Prediction sets are split-conformal: rows with known labels that the model has not learned from say how
wrong it can be. Every such row gets the score of its true class, and a class is in the set of a new row
when its score is no worse than all but a share of these. Where calibration rows and new rows come from the
same source, the set holds the true label with at least the coverage asked for, on average over all rows and
whatever the model is like (Vovk et al. 2005; Angelopoulos and Bates, arXiv 2107.07511). It promises nothing
for a single class or a single row. Two scores, small for a class that fits well:

- `probability`: 1 − p (Sadinle et al., JASA 2019). The smallest sets on average; easy rows get one
  label, hard ones may get few as well.
- `adaptive`: the probability of all classes at least as probable (Romano et al., NeurIPS 2020), without
  its random part. Larger sets that grow where the model is unsure.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom
from sklearn.utils.validation import _check_sample_weight

from oneof.classifier.inputs import as_numpy, mask_of_labels, mask_over

SCORES = ("probability", "adaptive")
GRID = np.linspace(0, 1, 101)
"""Thresholds tried by `RiskCoverage.threshold_for(..., sure=)`. They are fixed before any row is seen."""


def accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of right predictions; for a mask among the rows with one candidate (NaN without any).

    A label that the estimator has never seen counts as missed.
    """
    mask, labels = mask_over(y, estimator.classes_)
    counted = np.ones(len(mask), dtype=bool) if labels else mask.sum(axis=1) == 1
    if not counted.any():
        return float("nan")
    return _mean(_at_prediction(mask, estimator.predict_proba(X)), sample_weight, counted)


def covering_rate(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of predictions that are among the candidates of their row."""
    mask, _ = mask_over(y, estimator.classes_)
    return _mean(_at_prediction(mask, estimator.predict_proba(X)), sample_weight)


def approximated_accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """1 − Σ_{k ≠ prediction} p_k Y_k / Σ_k p_k Y_k, averaged over the rows (PLENCH, ICLR 2025).

    The expected accuracy if the model's probabilities, restricted to the candidates, were right. A
    prediction outside the candidates counts 0.
    """
    mask, _ = mask_over(y, estimator.classes_)
    return _mean(label_free(estimator.predict_proba(X), mask)[1], sample_weight)


def label_free(p: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per row: whether the prediction is a candidate, and its share of the candidates' probability."""
    inside = _checked(mask, p) * p
    mass = inside.sum(axis=1)
    share = np.divide(_at_prediction(inside, p), mass, out=np.zeros_like(mass), where=mass > 0)
    return _at_prediction(mask, p), share


def _at_prediction(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The value of every row at its most probable class."""
    return _checked(values, p)[np.arange(len(p)), p.argmax(axis=1)]


def _checked(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    if len(values) != len(p):
        raise ValueError(f"X has {len(p)} rows, but y has {len(values)}.")
    return values


def _mean(values: np.ndarray, weight: Any, counted: np.ndarray | None = None) -> float:
    weight = None if weight is None else _check_sample_weight(weight, values, dtype=np.float64)
    if counted is not None:
        values, weight = values[counted], None if weight is None else weight[counted]
    return float(np.average(values, weights=weight))


# ---- prediction sets --------------------------------------------------------------------------


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
    """Scores of the true classes of rows that are new to the model, rising, for every kind of score."""
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


# ---- when to say nothing ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """What rejecting rows below a confidence costs and buys; one entry per distinct confidence.

    Parameters
    ----------
    thresholds : array (t,)
        Confidences, falling. Rows at least as confident are answered.
    coverage : array (t,)
        Share of the rows that are answered then.
    risk : array (t,)
        Share of wrong answers among them.
    aurc : float
        Area under risk over coverage: the mean, over all rows, of the risk among the rows at least as
        confident. 0 is perfect; a model whose confidence says nothing has its plain error rate.
    confidences : array (n,)
        Confidence of every row.
    wrong : bool array (n,)
        Which rows would be answered wrongly.
    """

    thresholds: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    aurc: float
    confidences: np.ndarray
    wrong: np.ndarray

    def threshold_for(self, risk: float, sure: float | None = None) -> float:
        """The lowest confidence at which the answers are wrong no more often than `risk`.

        Infinite where no threshold will do: every row is rejected then.

        Parameters
        ----------
        risk : float
            Share of wrong answers that is accepted.
        sure : float, optional
            Without it the share is that seen in these rows, and new rows will exceed it half of the time.
            With 0.95 the threshold comes from a grid of 101 and new rows of the same source keep the risk
            with that probability (exact binomial bounds, divided by the size of the grid).
        """
        if not 0 <= risk < 1:
            raise ValueError(f"risk is {risk!r}; give a share of wrong answers, such as 0.05.")
        if sure is None:
            fine = np.flatnonzero(self.risk <= risk)
            return float(self.thresholds[fine[-1]]) if len(fine) else float("inf")
        if not 0 < sure < 1:
            raise ValueError(f"sure is {sure!r}; give a probability such as 0.95.")
        answered = self.confidences[None] >= GRID[:, None]
        errors = (answered & self.wrong).sum(axis=1)
        # how often so few errors would be seen if the risk were the one that is just not accepted
        chance = binom.cdf(errors, answered.sum(axis=1), risk)
        fine = np.flatnonzero(chance <= (1 - sure) / len(GRID))
        return float(GRID[fine[0]]) if len(fine) else float("inf")


def risk_coverage(probabilities: Any, labels: Any, classes: Any = None) -> RiskCoverage:
    """Risk and coverage for every confidence at which answers could be cut off.

    Parameters
    ----------
    probabilities : array (n, c)
        Class probabilities of rows that the model has not learned from.
    labels : array (n,)
        True labels: columns of `probabilities`, or names where `classes` are given. A label that is none
        of the classes counts as missed.
    classes : array (c,), optional
        Names of the columns, such as `model.classes_`.

    Examples
    --------
    >>> curve = risk_coverage([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]], [0, 0, 1])
    >>> curve.coverage.round(2).tolist(), curve.risk.round(2).tolist()
    ([0.33, 0.67, 1.0], [0.0, 0.0, 0.33])
    >>> curve.threshold_for(risk=0.1)
    0.7
    """
    p = np.asarray(as_numpy(probabilities), dtype=np.float64)
    if p.ndim != 2 or not p.size or not np.isfinite(p).all():
        raise ValueError(f"probabilities have shape {p.shape}; give finite numbers for rows and classes.")
    names = np.arange(p.shape[1]) if classes is None else np.asarray(classes)
    mask = mask_of_labels(np.asarray(as_numpy(labels)), names)
    if len(mask) != len(p):
        raise ValueError(f"there are {len(p)} rows of probabilities, but {len(mask)} labels.")
    confidences, wrong = p.max(axis=1), ~_at_prediction(mask, p)
    order = np.argsort(-confidences, kind="stable")
    falling = confidences[order]
    # equal confidences are answered together or not at all: only the last row of each counts
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    answered = last + 1
    risk = wrong[order].cumsum()[last] / answered
    aurc = float((risk * np.diff(answered, prepend=0)).sum() / len(p))
    return RiskCoverage(falling[last], answered / len(p), risk, aurc, confidences, wrong)
