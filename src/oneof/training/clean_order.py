"""Which clean rows a step takes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from oneof.training.distributed import Shards


class CleanOrder:
    """Draws clean rows, with a generator of its own: all methods see the training rows in the same order.

    Parameters
    ----------
    n_rows : int
        Number of clean rows; 0: there are none.
    shards : Shards
        All processes draw the same and each takes an equal part; a random remainder is left out.
    seed : int
    """

    def __init__(self, n_rows: int, shards: Shards, seed: int) -> None:
        self.n_rows, self.shards, self.seed = n_rows, shards, seed
        self.generator = torch.Generator().manual_seed(seed)

    def draws(self, size: int, device: torch.device) -> Iterator[Tensor]:
        """Numbers of the rows of one step after the other: none, all if they are few, else a random part."""
        n, equal = self.n_rows, self._equal(size)
        fixed = self.shards.part(torch.arange(equal)).to(device)
        while True:
            if equal == n or not equal:
                yield fixed
                continue
            if size >= n:
                rows = torch.randperm(n, generator=self.generator)[:equal]
            else:
                rows = torch.randint(n, (equal,), generator=self.generator)
            yield self.shards.part(rows).to(device, non_blocking=True)

    def lots(self, size: int, step: int, device: torch.device) -> Tensor:
        """A uniform number for each clean row of a step; by the step alone, so that there is no state."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        numbers = torch.rand(self._equal(size), generator=generator)
        return self.shards.part(numbers).to(device, non_blocking=True)

    def _equal(self, size: int) -> int:
        """How many rows a step takes in all processes together."""
        size, shards = min(self.n_rows, size), self.shards.count
        if size and size < shards:
            raise ValueError(f"{size} clean rows in a step cannot be divided among {shards} shards.")
        return size - size % shards
