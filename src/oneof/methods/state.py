"""What a method keeps during one fit: networks, scalars, and tensors with one entry per training row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from oneof.nets import Net


class RowState(nn.Module):
    """Tensors indexed by training row: stored targets, pruned candidates, neighbours.

    They are buffers, so that whatever moves, saves or loads the state of a method does the same
    with its rows. Nothing per row may live anywhere else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.row_dims: dict[str, int] = {}

    def add(self, name: str, value: Tensor, row_dim: int = 0) -> None:
        """Declare a table; `row_dim` says which of its dimensions counts the rows."""
        if name in self.row_dims:
            raise ValueError(f"the row table {name!r} exists already")
        self.register_buffer(name, value.clone())
        self.row_dims[name] = row_dim

    def __contains__(self, name: str) -> bool:
        return name in self.row_dims

    def __getitem__(self, name: str) -> Tensor:
        """The whole table."""
        return self._buffers[name]  # type: ignore[return-value]

    def take(self, index: Tensor, *names: str) -> Any:
        """The entries of some rows: one tensor for one name, a tuple for several."""
        taken = tuple(self[name].index_select(self.row_dims[name], index) for name in names)
        return taken[0] if len(taken) == 1 else taken

    @torch.no_grad()
    def put(self, index: Tensor, **values: Tensor) -> None:
        """Store new entries for some rows."""
        for name, value in values.items():
            table = self[name]
            table.index_copy_(self.row_dims[name], index, value.detach().to(table.dtype))


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
