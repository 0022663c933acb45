"""Optimisers: one way to make them, for the loop and for methods that move parts of their own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer


def make_optimiser(
    kind: str, groups: Any, lr: float, weight_decay: float = 0.0, momentum: float = 0.9
) -> Optimizer:
    """SGD or Adam(W) over parameters or parameter groups, all moved by one fused kernel."""
    groups = list(groups)
    first = groups[0]["params"][0] if isinstance(groups[0], dict) else groups[0]
    fused = first.device.type in ("cpu", "cuda")
    if kind == "sgd":
        return SGD(groups, lr=lr, momentum=momentum, weight_decay=weight_decay, fused=fused)
    cls = {"adam": Adam, "adamw": AdamW}[kind]
    return cls(groups, lr=lr, weight_decay=weight_decay, fused=fused)


def like_parameters(optimiser: Optimizer) -> None:
    """Put what an optimiser remembers of a parameter into that parameter's memory order.

    A checkpoint has tensors in the ordinary order. Fused kernels walk over parameter and memory side by
    side: in different orders they refuse (GPU), or join numbers that do not belong together (CPU).
    """
    for parameter, memory in optimiser.state.items():
        for name, value in memory.items():
            same_shape = isinstance(value, Tensor) and value.shape == parameter.shape
            if same_shape and value.stride() != parameter.stride():
                memory[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)
