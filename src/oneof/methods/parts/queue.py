"""A first-in, first-out memory of past entries, as buffers that move and are saved with the state."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Queue(nn.Module):
    """The last `size` entries; the oldest are overwritten first.

    Parameters
    ----------
    size : int
        How many entries there is room for.
    **fields : Tensor
        By name, what one entry holds: only shape, type and device are looked at.

    Attributes
    ----------
    filled : Tensor
        Which slots hold an entry. The others must not be used: they are 0, not data.
    """

    filled: Tensor
    position: Tensor

    def __init__(self, size: int, **fields: Tensor) -> None:
        super().__init__()
        device = next(iter(fields.values())).device
        self.size, self.fields = size, tuple(fields)
        for name, entry in fields.items():
            self.register_buffer(name, entry.new_zeros(size, *entry.shape))
        self.register_buffer("filled", torch.zeros(size, dtype=torch.bool, device=device))
        self.register_buffer("position", torch.zeros((), dtype=torch.long, device=device))

    def __getitem__(self, name: str) -> Tensor:
        return self._buffers[name]  # type: ignore[return-value]

    @torch.no_grad()
    def push(self, **entries: Tensor) -> None:
        """Add entries (a batch of each field), in their order."""
        count = len(entries[self.fields[0]])
        kept = min(count, self.size)  # of more entries than there is room for, the last ones stay
        slots = (self.position + torch.arange(count - kept, count, device=self.position.device)) % self.size
        for name in self.fields:
            self[name].index_copy_(0, slots, entries[name].detach()[count - kept :].to(self[name].dtype))
        self.filled.index_fill_(0, slots, True)
        self.position.add_(count).remainder_(self.size)
