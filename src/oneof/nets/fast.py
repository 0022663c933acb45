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

from oneof.nets.base import Net, evaluation_mode, having


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
    out : torch.dtype
        Type of the features that come out; inputs may be of another one (bytes).

    In a state dict its weights have the names that they have without it, so that checkpoints do not depend
    on how fast a training ran.
    """

    def __init__(
        self,
        inner: nn.Module,
        precision: torch.dtype | None,
        channels_last: bool,
        out: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.inner, self.precision, self.channels_last, self.out = inner, precision, channels_last, out
        self._register_state_dict_hook(_names_without_wrapper)
        self.register_load_state_dict_pre_hook(_names_with_wrapper)
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
        return features.to(self.out)

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


def _names_without_wrapper(_: nn.Module, state: dict[str, Any], prefix: str, __: Any) -> None:
    _rename(state, f"{prefix}inner.", prefix)


def _names_with_wrapper(_: nn.Module, state: dict[str, Any], prefix: str, *__: Any) -> None:
    _rename(state, prefix, f"{prefix}inner.")


def _rename(state: dict[str, Any], old: str, new: str) -> None:
    """All at once: features may have a part called `inner` themselves."""
    names = [name for name in state if name.startswith(old)]
    state.update({new + name.removeprefix(old): state.pop(name) for name in names})


def can_be_wrapped(net: Net) -> bool:
    """Features may be a method of a net of one's own."""
    return isinstance(net.features, nn.Module)


@torch.no_grad()
def takes_channels_last(net: Net, x: Tensor) -> bool:
    """Whether the features of images can be had in this memory order, in which a `view` may fail."""
    if not can_be_wrapped(net):
        return False
    try:
        with evaluation_mode(net):
            net.features(x.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        return False
    return True


def with_fast_features(net: Net, precision: torch.dtype | None, channels_last: bool) -> Net:
    """The same net, its features wrapped."""
    if not can_be_wrapped(net):
        raise TypeError(
            f"{type(net).__name__}: reduced precision needs a net whose `features` is a module.\n"
            "  Give the net as a pair (features, head), or train with precision='float32'."
        )
    if channels_last:
        net.features.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    out = next((p.dtype for p in net.parameters()), torch.get_default_dtype())
    net.features = FastFeatures(net.features, precision, channels_last, out)
    return net


def in_reduced_precision(module: nn.Module) -> bool:
    return any(isinstance(part, FastFeatures) and part.precision is not None for part in module.modules())


def compile_features(module: nn.Module, rows: int) -> None:
    """Compile all wrapped features inside a module."""
    for part in module.modules():
        if isinstance(part, FastFeatures):
            part.compile_for(rows)


def without_fast_features(module: nn.Module) -> None:
    """Unwrap all features inside a module: afterwards its nets are what they were before."""
    for part in list(module.modules()):
        features = getattr(part, "features", None)
        if isinstance(features, FastFeatures):
            # a model that is loaded has its weights in this order too, so that it predicts the same digits
            part.features = features.inner.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


@contextmanager
def uncompiled(module: nn.Module) -> Iterator[None]:
    """Inside, features run as they are written: for what the compiler does not know (dual numbers)."""
    with having([part for part in module.modules() if isinstance(part, FastFeatures)], "compiled_rows", 0):
        yield
