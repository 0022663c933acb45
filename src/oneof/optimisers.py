"""Optimisers: one way to make them, for the loop and for methods that move parts of their own."""

from __future__ import annotations

from typing import Any

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
