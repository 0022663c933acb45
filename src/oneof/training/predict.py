"""What a trained network says about rows: the one batched pass in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from oneof.methods.base import Method, State
from oneof.nets import evaluation_mode
from oneof.training.sources import StoredRows
from oneof.views import Views

EVALUATION_BATCH = 4096
ROWS_IN_CACHE = 1024
"""Rows of a table per pass on a CPU: more of them leave its cache and take longer."""


@torch.no_grad()
def in_batches(
    function: Callable[[Tensor], Tensor],
    x: Any,
    *,
    views: Views,
    modules: Iterable[nn.Module],
    device: torch.device | str,
    size: int = EVALUATION_BATCH,
) -> Tensor:
    """What `function` gives for rows as they are stored: in batches, through their plain view, on the device.

    x is an array, a tensor or `StoredRows` of scaled rows or images as bytes, on any device or in a file.
    The `modules` that `function` asks are in evaluation mode meanwhile.
    """
    with evaluation_mode(*modules):
        parts = x.split(size) if isinstance(x, StoredRows) else torch.as_tensor(x).split(size)
        return torch.cat([function(views.plain(part.to(device))) for part in parts])


def predict(method: Method, state: State, x: Any, views: Views, device: torch.device) -> Tensor:
    """Logits of a method's state for rows as they are stored."""
    return in_batches(lambda part: method.logits(state, part), x, views=views, modules=[state], device=device)
