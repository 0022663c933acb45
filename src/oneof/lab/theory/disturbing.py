"""Definition 1: disturbing incorrect labels, the region J, and the gaps the theorems speak of.

Everything is written in rank order: column 0 is the Bayes label eta*(x), column 1 the runner-up, and so
on. On J(Ybar) the excluded labels are more probable than all labels but the Bayes label, so a set Ybar
of m labels is always columns 1..m, a is column 1 and b is column m + 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Ranked(NamedTuple):
    eta: np.ndarray
    """(n, c) probabilities, largest first."""
    labels: np.ndarray
    """(n, c) the labels they belong to: column 0 is eta*(x), column 1 is the runner-up s(x)."""


def ranked(eta: np.ndarray) -> Ranked:
    labels = np.argsort(-eta, axis=1, kind="stable")
    return Ranked(np.take_along_axis(eta, labels, axis=1), labels)


class Gaps(NamedTuple):
    """What the theorems need to know of each instance, for the m most probable wrong labels excluded."""

    to_first: np.ndarray
    """eta* − eta^a: to the most probable excluded label, the margin of the whole problem."""
    to_last: np.ndarray
    """eta* − eta^j for the least probable excluded label j: decides whether all of them disturb."""
    to_rival: np.ndarray
    """eta* − eta^b: to the most probable label that stays."""
    rest: np.ndarray
    """1 − the probability of the excluded labels."""

    @property
    def reduced(self) -> np.ndarray:
        """Gap of eta' between its best and its second label."""
        return self.to_rival / self.rest

    def take(self, rows: np.ndarray) -> Gaps:
        return Gaps(*(column[rows] for column in self))


def gaps(eta: np.ndarray, excluded: int = 1) -> Gaps:
    """The gaps of posteriors in rank order; 32 bytes a row, so that many rows can be kept."""
    c = eta.shape[1]
    if not 1 <= excluded <= c - 2:
        raise ValueError(
            f"excluded is {excluded}; of {c} labels between 1 and {c - 2} can be excluded, since the Bayes "
            "label and one rival must stay."
        )
    to_first, to_last, to_rival = (eta[:, 0] - eta[:, j] for j in (1, excluded, excluded + 1))
    return Gaps(to_first, to_last, to_rival, 1.0 - eta[:, 1 : excluded + 1].sum(axis=1))


def disturbed(gap: Gaps, tau: float) -> np.ndarray:
    """x ∈ J(Ybar): every excluded label is within tau of the Bayes label and above all that stay."""
    return (gap.to_last <= tau) & (gap.to_last < gap.to_rival)


def widest_tau(epsilon: float) -> float:
    """The largest tau that Definition 1 allows for a model whose error is at most epsilon."""
    return min(1.0, 2.0 * epsilon)


def error_bounds(gap: Gaps, epsilon: float) -> np.ndarray:
    """Per instance the expression whose minimum over J bounds epsilon' in Theorems 1 and 2."""
    return gap.to_rival * gap.to_first / (4.0 * epsilon * gap.rest)


def reduced_posterior(eta: np.ndarray, excluded: int = 1) -> np.ndarray:
    """eta' (2) in rank order, without the columns of the excluded labels: they cannot win."""
    kept = np.concatenate([eta[:, :1], eta[:, excluded + 1 :]], axis=1)
    return kept / (1.0 - eta[:, 1 : excluded + 1].sum(axis=1, keepdims=True))


# ---- models that are the truth plus an error of at most a given size, label by label


def random_error(truth: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """Independent uniform errors in [−size, size]; the theorems use nothing else of a model."""
    return truth + rng.uniform(-size, size, truth.shape)


def worst_error(truth: np.ndarray, size: float) -> np.ndarray:
    """The error that hurts the best label most: probability moves from column 0, as far as it has some, to
    column 1. Rows stay distributions."""
    moved = np.minimum(size, truth[:, :1])
    return np.concatenate([truth[:, :1] - moved, truth[:, 1:2] + moved, truth[:, 2:]], axis=1)


def best_label_wins(model: np.ndarray) -> np.ndarray:
    """Whether the argmax is column 0; a tie is no win."""
    return model[:, 0] > model[:, 1:].max(axis=1)
