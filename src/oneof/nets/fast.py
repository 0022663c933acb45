"""Features at full speed: reduced precision, the memory order convolutions prefer, compiled.

Only the features are computed this way. They come out in the precision the rest works in, so that heads,
losses and whatever a method computes from features and logits are the same code and the same precision
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from oneof.nets.base import Net


class FastFeatures(nn.Module):
    """The features of a net in another precision and memory order.

    Parameters
    ----------
    inner : nn.Module
        The features.
    precision : torch.dtype or None
        Autocast convolutions and products to this type; None: leave them.
    channels_last : bool
        Give images to the net in this memory order.
    """

    def __init__(self, inner: nn.Module, precision: torch.dtype | None, channels_last: bool) -> None:
        super().__init__()
        self.inner, self.precision, self.channels_last = inner, precision, channels_last
        self.compiled_rows = 0
        """Batches of up to so many rows go through the compiled features; 0: none do."""

    def forward(self, x: Tensor) -> Tensor:
        return self._compiled(x) if len(x) <= self.compiled_rows else self._computed(x)

    def _computed(self, x: Tensor) -> Tensor:
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        # no cache: weights that were cast inside a captured step must not be used outside of it
        with torch.autocast(
            x.device.type, dtype=self.precision, enabled=self.precision is not None, cache_enabled=False
        ):
            features = self.inner(x)
        return features.to(x.dtype)

    def compile_for(self, rows: int, **options: Any) -> None:
        """Compile the features for batches of up to so many rows, which should have few sizes."""
        from torch._dynamo import config as dynamo_config
        from torch._functorch import config as functorch_config

        # a look-ahead goes back through the same pass twice: what the pass saved must not be given away
        functorch_config.donated_buffer = False
        # every net and mode is a recompilation of the same lines
        dynamo_config.recompile_limit = max(dynamo_config.recompile_limit, 256)
        self._compiled = torch.compile(self._computed, dynamic=False, **options)
        self.compiled_rows = rows


def with_fast_features(net: Net, precision: torch.dtype | None, channels_last: bool) -> Net:
    """The same net, its features wrapped."""
    if not isinstance(net.features, nn.Module):
        raise TypeError(
            f"{type(net).__name__}: reduced precision needs a net whose `features` is a module.\n"
            "  Give the net as a pair (features, head), or train with precision='float32'."
        )
    if channels_last:
        net.features.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.features = FastFeatures(net.features, precision, channels_last)
    return net


def compile_features(module: nn.Module, rows: int) -> None:
    """Compile all wrapped features inside a module."""
    for part in module.modules():
        if isinstance(part, FastFeatures):
            part.compile_for(rows)


def without_fast_features(module: nn.Module) -> None:
    """Unwrap all features inside a module: afterwards its nets are what they were before."""
    for part in list(module.modules()):
        if isinstance(part, Net) and isinstance(part.features, FastFeatures):
            part.features = part.features.inner


@contextmanager
def uncompiled(module: nn.Module) -> Iterator[None]:
    """Inside, features run as they are written: for what the compiler does not know (dual numbers)."""
    parts = [part for part in module.modules() if isinstance(part, FastFeatures) and part.compiled_rows]
    rows = [part.compiled_rows for part in parts]
    for part in parts:
        part.compiled_rows = 0
    try:
        yield
    finally:
        for part, number in zip(parts, rows):
            part.compiled_rows = number
