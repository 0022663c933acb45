"""When to say nothing: the risk of a classifier that only answers where it is confident enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from oneof.classifier.inputs import label_columns, plain

GRID = np.linspace(0, 1, 101)
"""Thresholds tried by `threshold_for(..., sure=)`. They are fixed before any row is seen."""


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
    p = np.asarray(plain(probabilities), dtype=np.float64)
    if p.ndim != 2 or not p.size or not np.isfinite(p).all():
        raise ValueError(f"probabilities have shape {p.shape}; give finite numbers for rows and classes.")
    names = np.arange(p.shape[1]) if classes is None else np.asarray(classes)
    columns = label_columns(np.asarray(plain(labels)), names, "labels", strict=False)
    if len(columns) != len(p):
        raise ValueError(f"there are {len(p)} rows of probabilities, but {len(columns)} labels.")
    confidences, wrong = p.max(axis=1), p.argmax(axis=1) != columns
    order = np.argsort(-confidences, kind="stable")
    falling = confidences[order]
    # equal confidences are answered together or not at all: only the last row of each counts
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    answered = last + 1
    risk = wrong[order].cumsum()[last] / answered
    aurc = float((risk * np.diff(answered, prepend=0)).sum() / len(p))
    return RiskCoverage(falling[last], answered / len(p), risk, aurc, confidences, wrong)
