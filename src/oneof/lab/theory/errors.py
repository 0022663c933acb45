"""Models that are the truth plus an error of at most a given size, label by label."""

from __future__ import annotations

import numpy as np


def random_error(truth: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """Independent uniform errors in [−size, size].

    The rows need not be distributions any more; the theorems use nothing but the size of the error.
    """
    return truth + rng.uniform(-size, size, truth.shape)


def worst_error(truth: np.ndarray, size: float) -> np.ndarray:
    """The error that hurts the best label most: probability moves from column 0 to column 1.

    Rows stay distributions: no more is moved than there is (then nothing is left of the best label,
    and more could not hurt it further).
    """
    moved = np.minimum(size, truth[:, 0])
    model = truth.copy()
    model[:, 0] -= moved
    model[:, 1] += moved
    return model


def best_label_wins(model: np.ndarray) -> np.ndarray:
    """Whether the argmax is column 0; a tie is no win."""
    return model[:, 0] > model[:, 1:].max(axis=1)
