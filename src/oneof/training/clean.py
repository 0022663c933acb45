"""Clean rows: the few labels that can be trusted, their division, and what a step sees of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneof.datasets.splits import hold_out
from oneof.methods.base import CleanBatch
from oneof.training.distributed import Shards
from oneof.training.sources import as_input
from oneof.views import Views


@dataclass(frozen=True)
class CleanRows:
    """Rows with trusted labels."""

    x: Any
    """Array or tensor (m, ...)."""
    mask: np.ndarray
    """(m, c), one label per row. Rows to select by may have candidate sets where no label is known."""
    source: str = "given"
    """Where they come from; recorded and shown."""

    def __post_init__(self) -> None:
        """Raise where rows and labels cannot be told to belong together."""
        mask = self.mask
        if mask.ndim != 2 or mask.dtype != bool or len(mask) != len(self.x):
            has = f"{len(self.x)} clean rows have a mask of type {mask.dtype} and shape {mask.shape}"
            raise ValueError(f"{has}; give a row for each: np.eye(n_classes, dtype=bool)[labels].")

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def labels(self) -> np.ndarray | None:
        """Class index per row, or None where only sets are known."""
        return self.mask.argmax(axis=1) if (self.mask.sum(axis=1) == 1).all() else None

    def take(self, rows: np.ndarray) -> CleanRows:
        return CleanRows(self.x[rows], self.mask[rows], self.source)

    def divide(self, share: float, seed: int) -> tuple[CleanRows, CleanRows]:
        """Rows to learn from, and a `share` to judge by."""
        learned, judged = divide_rows(len(self), share, seed, self.labels)
        return self.take(learned), self.take(judged)


def divide_rows(
    n: int, share: float, seed: int, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The one division of clean rows: numbers of those to learn from and those to judge by, stratified."""
    split = hold_out(n, share, seed, labels=labels)
    return split.train, split.validation


class CleanSource:
    """Clean rows on the training device, as they are stored (bytes), and which of them a step takes.

    They have a generator of their own: all methods see the training rows in the same order. Processes that
    train together draw the same and each takes an equal part; a random remainder is left out.
    """

    def __init__(
        self,
        rows: CleanRows | None,
        shards: Shards,
        views: Views,
        device: torch.device,
        dtype: torch.dtype,
        seed: int,
    ) -> None:
        self.n_rows = 0 if rows is None else len(rows)
        self.shards, self.views, self.device, self.seed = shards, views, device, seed
        self.generator, self.by_step = torch.Generator().manual_seed(seed), torch.Generator()
        self.no_lots = torch.empty(0, device=device)
        self.x: Tensor | None = None
        self.mask: Tensor | None = None
        if rows is not None:
            self.x, self.mask = on_device(rows, device, dtype)

    @property
    def counts(self) -> Tensor | None:
        """How many rows name each label; rows that are sets name none."""
        return None if self.mask is None or not self.n_rows else self.mask[self.mask.sum(1) == 1].sum(dim=0)

    def draws(self, size: int) -> Iterator[Tensor]:
        """Numbers of the rows of one step after the other: none, all if they are few, else a random part."""
        n, equal = self.n_rows, self.rows_of_step(size)
        fixed = self.shards.part(torch.arange(equal)).to(self.device)
        while True:
            if equal == n or not equal:
                yield fixed
                continue
            if size >= n:
                rows = torch.randperm(n, generator=self.generator)[:equal]
            else:
                rows = torch.randint(n, (equal,), generator=self.generator)
            yield self.shards.part(rows).to(self.device, non_blocking=True)

    def lots(self, size: int, step: int) -> Tensor:
        """A uniform number for each clean row of a step; by the step alone, so that there is no state."""
        count = self.rows_of_step(size)
        if not count:
            return self.no_lots
        numbers = torch.rand(count, generator=self.by_step.manual_seed(self.seed * 1_000_003 + step))
        return self.shards.part(numbers).to(self.device, non_blocking=True)

    def rows_of_step(self, size: int) -> int:
        """How many rows a step takes in all processes together."""
        size, shards = min(self.n_rows, size), self.shards.count
        if size and size < shards:
            raise ValueError(f"{size} clean rows in a step cannot be divided among {shards} shards.")
        return size - size % shards

    def batch(self, rows: Tensor, lots: Tensor | None = None) -> CleanBatch | None:
        """Some rows as evaluation sees them, for the method; None where there are none."""
        taken = self._taken(rows)
        return taken and CleanBatch(self.views.plain(taken[0]), taken[1], lots)

    def strong_batch(self, rows: Tensor, generator: torch.Generator) -> CleanBatch | None:
        """Some rows through the strong view, for the loss: rows that never change are soon known by heart."""
        taken = self._taken(rows)
        return taken and CleanBatch(self.views.train(taken[0], ("strong",), generator)[0], taken[1])

    def _taken(self, rows: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.x is None or self.mask is None or not len(rows):
            return None
        if len(rows) == len(self.x):
            return self.x, self.mask
        return self.x.index_select(0, rows), self.mask.index_select(0, rows)


def on_device(rows: CleanRows, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Inputs and masks."""
    return as_input(rows.x, dtype).to(device), torch.as_tensor(rows.mask.copy()).to(device)
