"""Which clean rows a step takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from oneof.training.distributed import Shards


class CleanOrder:
    """Draws clean rows, with a generator of its own: all methods see the training rows in the same order.

    Parameters
    ----------
    mask : bool array (m, c), or None
        The labels of the clean rows; None where there are none.
    shards : Shards
        All processes draw the same and each takes an equal part; a random remainder is left out.
    seed : int
    """

    def __init__(self, mask: np.ndarray | None, shards: Shards, seed: int) -> None:
        self.shards = shards
        self.generator = torch.Generator().manual_seed(seed)
        self.by_label = sorted_by_label(torch.zeros(0, 1) if mask is None else torch.as_tensor(mask.copy()))

    def draws(self, size: int, device: torch.device, balanced: bool = False) -> Iterator[Tensor]:
        """Numbers of the rows of one step after the other: none, all if they are few, else a random part."""
        n, shards = len(self.by_label), self.shards.count
        size = min(n, size)
        equal = size - size % shards
        if size and not equal:
            raise ValueError(f"{size} clean rows in a step cannot be divided among {shards} shards.")
        fixed = self.shards.part(torch.arange(equal)).to(device)
        while True:
            if equal == n or not size:
                yield fixed
                continue
            if size == n:
                rows = torch.randperm(n, generator=self.generator)[:equal]
            elif balanced:
                rows = balanced_draw(self.by_label, equal, self.generator)
                if shards > 1:  # no process should see the first labels only
                    rows = rows[torch.randperm(equal, generator=self.generator)]
            else:
                rows = torch.randint(n, (equal,), generator=self.generator)
            yield self.shards.part(rows).to(device, non_blocking=True)


def sorted_by_label(mask: Tensor) -> Tensor:
    """Numbers of the rows in the order of their labels (of sets: of their first label), on the CPU."""
    return mask.to(torch.uint8).argmax(dim=1).argsort(stable=True).cpu()


def balanced_draw(by_label: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """One row from each of `size` equal slices of the rows sorted by label.

    Every row is as likely as any other, and the number of rows of a label differs from its share by less
    than two. With labels at random most of the noise of a look-ahead is that of their counts.
    """
    n = len(by_label)
    within = torch.rand(size, generator=generator, dtype=torch.float64)
    places = ((torch.arange(size) + within) * (n / size)).long()
    return by_label[places.clamp(max=n - 1)]
