"""Clean rows: the few labels that can be trusted, and what to do when there are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.datasets.splits import hold_out


@dataclass(frozen=True)
class CleanRows:
    """Rows with trusted labels.

    Parameters
    ----------
    x : array or tensor (m, ...)
    mask : bool array (m, c)
        One label per row; where only candidate sets could be held out, the sets.
    source : str
        `given`, `singletons` or `held-out sets`; recorded and shown.
    """

    x: Any
    mask: np.ndarray
    source: str = "given"

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def labels(self) -> np.ndarray | None:
        """Class index per row, or None where only sets are known."""
        return self.mask.argmax(axis=1) if (self.mask.sum(axis=1) == 1).all() else None

    def take(self, rows: np.ndarray) -> CleanRows:
        return CleanRows(self.x[rows], self.mask[rows], self.source)

    def divide(self, share: float, seed: int) -> tuple[CleanRows, CleanRows]:
        """Two parts: one to learn from, and a `share` to select by (stratified)."""
        split = hold_out(len(self), share, seed, labels=self.labels)
        return self.take(split.train), self.take(split.validation)


def find_clean_rows(candidates: Candidates, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows that leave training to serve as clean rows when the user gave none.

    With at least max(30, 2c) singletons: half of them, at most a tenth of all rows, stratified (the
    other half stays: labelled rows are worth training on). Otherwise a tenth of all rows, whose
    candidate sets serve in place of labels. Rows that the classifier memorises teach the
    meta-learner nothing, so clean rows never stay in training.

    Returns
    -------
    kept, held : int arrays
        Rows that stay in training, and the clean ones.
    source : str
        `singletons`, `held-out sets`, or `none` where there are too few rows to hold any out.
    """
    n, c = candidates.mask.shape
    alone = np.flatnonzero(candidates.singletons)
    if len(alone) >= max(30, 2 * c):
        size = min(len(alone) // 2, round(0.1 * n))
        labels = candidates.mask[alone].argmax(axis=1)
        held = alone[hold_out(len(alone), size / len(alone), seed, labels=labels).validation]
        source = "singletons"
    elif n >= 10:
        held = hold_out(n, 0.1, seed).validation
        source = "held-out sets"
    else:
        return np.arange(n), np.zeros(0, dtype=np.int64), "none"
    return np.setdiff1d(np.arange(n), held), held, source
