"""Forward passes that leave no trace in a net."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oneof.nets.base import having


@contextmanager
def frozen_statistics(*modules: nn.Module) -> Iterator[None]:
    """Batch normalisation inside works with the batch's statistics, as in training, but records none.

    Parts in evaluation mode stay in it. Setting the momentum to 0 would not do: the count of batches
    would still grow, and 0 · ∞ would spoil the running statistics.
    """
    recording = [
        part
        for module in modules
        for part in module.modules()
        if isinstance(part, _BatchNorm) and part.training and part.track_running_stats
    ]
    with having(recording, "track_running_stats", False):
        yield


@torch.no_grad()
def peek(net: nn.Module, x: Tensor) -> Tensor:
    """Logits in the mode the net is in, without a gradient and without a trace in its statistics."""
    with frozen_statistics(net):
        return net(x)
