"""What a method keeps during one fit: networks, scalars, and tensors with one entry per training row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from oneof.methods.rows import RowState
from oneof.nets import Net

__all__ = ["RowState", "State"]


class State(nn.Module):
    """Everything a method keeps for one fit that the loop must move, save and bring back.

    Parameters
    ----------
    net : Net
        The classifier.
    **parts
        Further modules, tensors (kept as buffers) and numbers (kept as 0-d buffers).

    Attributes
    ----------
    rows : RowState
        Per-row tables.
    optimisers : dict of Optimizer
        Optimisers the method steps itself. Their parameters are left out of the main optimiser.
    notes : dict
        Constants that `setup` finds out; not saved, since `setup` finds them out again.
    """

    def __init__(self, net: Net, **parts: Any) -> None:
        super().__init__()
        self.net = net
        self.rows = RowState()
        self.optimisers: dict[str, Optimizer] = {}
        self.notes: dict[str, Any] = {}
        for name, part in parts.items():
            if isinstance(part, nn.Module):
                setattr(self, name, part)
            else:
                self.register_buffer(name, torch.as_tensor(part).clone())

    if TYPE_CHECKING:  # parts have the names and types their method gives them

        def __getattr__(self, name: str) -> Any: ...

    def own_parameters(self) -> set[Tensor]:
        """Parameters that the method's own optimisers move."""
        return {
            parameter
            for optimiser in self.optimisers.values()
            for group in optimiser.param_groups
            for parameter in group["params"]
        }
