"""Who learns from what: rows for training, trusted labels to learn from, and some kept aside to check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from oneof.app.fit.clean import CleanLabels, clean_inputs
from oneof.app.fit.training_data import TrainingData
from oneof.tables.encoding import TableEncoder


@dataclass
class Division:
    """The rows `fit` gets, and the clean rows that it does not learn from."""

    rows: np.ndarray
    """Training rows handed to `fit`."""
    aside: np.ndarray
    """Places in `clean.columns` of labels that nothing is learned from."""
    clean: CleanLabels | None
    learns: bool
    """Whether the method learns from clean rows at all."""

    @property
    def encoder_rows(self) -> np.ndarray:
        """Rows that decide how a table is encoded: none that are kept aside."""
        if self.clean is None or self.clean.further is not None:
            return self.rows
        return np.setdiff1d(self.rows, self.aside)

    def trusted(self, n_rows: int) -> np.ndarray:
        """Boolean (n,): training rows whose label was given."""
        made = np.zeros(n_rows, dtype=bool)
        if self.clean is not None and self.clean.further is None:
            made[self.clean.rows] = True
        return made

    def left_out(self) -> dict[int, int]:
        """Training rows that `fit` never sees, with the column of their label."""
        if self.clean is None or self.clean.further is not None or not self.learns:
            return {}
        return dict(zip(self.aside.tolist(), self.clean.columns[self.aside].tolist()))

    def clean_argument(self, names: np.ndarray, further: np.ndarray | None) -> Any:
        """What `fit(clean=...)` gets."""
        clean = self.clean
        if clean is None:
            return None
        if clean.further is None:
            labels = np.full(len(clean.columns), None, dtype=object)
            labels[clean.rows] = names[clean.columns[clean.rows]]
            return labels[self.rows]
        assert further is not None
        learned = np.setdiff1d(clean.rows, self.aside) if self.learns else clean.rows
        return further[learned], names[clean.columns[learned]]

    def sentence(self) -> str:
        """What became of the trusted labels."""
        if self.clean is None:
            return "No trusted labels were given."
        n, aside = len(self.clean), len(self.aside)
        if not self.learns:
            return f"{n} trusted labels were given; the method does not learn from them, so all are checked."
        if aside:
            return f"{n} trusted labels were given: {n - aside} were learned from, {aside} kept aside."
        return (
            f"{n} trusted labels were given and all were learned from: too few to keep some aside, or none "
            "were to be."
        )


def divide(data: TrainingData, clean: CleanLabels | None, learns: bool, share: float, seed: int) -> Division:
    """Keep a part of the trusted labels aside, all of them where the method does not learn from any."""
    rows = np.arange(len(data))
    if clean is None:
        return Division(rows, np.zeros(0, dtype=np.int64), None, learns)
    if not learns:
        return Division(rows, clean.rows, clean, learns)
    aside = clean.kept_aside(share, seed)
    if clean.further is None:
        rows = np.setdiff1d(rows, aside)
    return Division(rows, aside, clean, learns)


def further_inputs(division: Division, encoder: TableEncoder | None) -> np.ndarray | None:
    """Features of clean rows that are no training rows."""
    clean = division.clean
    return None if clean is None or clean.further is None else clean_inputs(clean, encoder)
