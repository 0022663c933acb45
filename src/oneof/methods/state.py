"""What a method keeps during one fit: networks, scalars, and tensors with one entry per training row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from oneof.methods.rows import CandidateRows, Layout
from oneof.nets import Net


class RowState(nn.Module):
    """Tensors indexed by training row: stored targets, pruned candidates, neighbours.

    They are buffers, so that whatever moves, saves or loads the state of a method does the same
    with its rows. Nothing per row may live anywhere else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.row_dims: dict[str, int] = {}
        self.layouts: dict[str, Layout] = {}

    def add(
        self,
        name: str,
        value: Tensor | Callable[[Tensor], Tensor],
        row_dim: int = 0,
        support: CandidateRows | None = None,
    ) -> None:
        """Declare a table.

        Parameters
        ----------
        value : Tensor or function
            Its first values. With a `support` also a function that makes them from boolean masks, row by row,
            without asking which label is which: `uniform`.
        row_dim : int
            Which of its dimensions counts the rows.
        support : CandidateRows, optional
            The table is (n, c) and zero outside these sets: `task.candidates`.
        """
        if name in self.row_dims:
            raise ValueError(f"the row table {name!r} exists already")
        self.row_dims[name] = row_dim
        layout = None if support is None else support.layout
        if layout is None:
            if not isinstance(value, Tensor):
                assert support is not None, f"the first values of {name!r} need sets"
                assert support.mask is not None
                value = value(support.mask)
            self.register_buffer(name, value.clone())
            return
        self.layouts[name] = layout
        first = value[:0] if isinstance(value, Tensor) else value(layout.apart_masks[:0])
        tables = {name: first.new_zeros(layout.n_rows, layout.places)}
        if layout.n_apart:
            tables[_apart(name)] = first.new_zeros(layout.n_apart + 1, layout.n_classes)
        for stored, table in tables.items():
            self.register_buffer(stored, table)
        if isinstance(value, Tensor):
            for index in layout.blocks():
                self.put(index, **{name: value.index_select(0, index)})
            return
        for table, mask in zip(tables.values(), (layout.there(), layout.apart_masks)):
            table.copy_(value(mask).masked_fill(~mask, 0))

    def __contains__(self, name: str) -> bool:
        return name in self.row_dims

    def __getitem__(self, name: str) -> Tensor:
        """The whole table, dense; a copy where it is kept by candidate."""
        layout, table = self.layouts.get(name), self._buffers[name]
        assert table is not None
        if layout is None:
            return table
        whole = table.new_empty(layout.n_rows, layout.n_classes)
        for index in layout.blocks():
            whole[index[0] : index[-1] + 1] = self._take(index, name)
        return whole

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the whole table, dense."""
        layout, table = self.layouts.get(name), self._buffers[name]
        assert table is not None
        return tuple(table.shape) if layout is None else (layout.n_rows, layout.n_classes)

    def take(self, index: Tensor, *names: str) -> Any:
        """The entries of some rows: one tensor for one name, a tuple for several."""
        taken = tuple(self._take(index, name) for name in names)
        return taken[0] if len(taken) == 1 else taken

    def _take(self, index: Tensor, name: str) -> Tensor:
        layout, table = self.layouts.get(name), self._buffers[name]
        assert table is not None
        if layout is None:
            return table.index_select(self.row_dims[name], index)
        return layout.spread(index, table, self._buffers.get(_apart(name)))

    @torch.no_grad()
    def put(self, index: Tensor, **values: Tensor) -> None:
        """Store new entries for some rows."""
        for name, value in values.items():
            layout, table = self.layouts.get(name), self._buffers[name]
            assert table is not None
            value = value.detach().to(table.dtype)
            if layout is None:
                table.index_copy_(self.row_dims[name], index, value)
            else:
                layout.put(index, value, table, self._buffers.get(_apart(name)))

    # ---- all rows at once ---------------------------------------------------------------------

    def each(self, function: Callable[..., Tensor], *columns: str | Tensor) -> Tensor:
        """`function` of tables (by name) and other values per row, one result per row.

        Large tables are handed to it in dense parts, one after the other.
        """
        parts = self._parts([column for column in columns if isinstance(column, str)])
        if parts is None:
            return function(*(self[column] if isinstance(column, str) else column for column in columns))
        return torch.cat([function(*(self._part(index, column) for column in columns)) for index in parts])

    def best(self, name: str) -> Tensor:
        """The label with the largest entry of each row, the first of equals; no entry is negative."""
        layout, table = self.layouts.get(name), self._buffers[name]
        assert table is not None
        if layout is None:
            return table.argmax(dim=1)
        top, place = table.max(dim=1)
        label = layout.labels.gather(1, place[:, None]).squeeze(1).long().masked_fill_(top == 0, 0)
        if layout.n_apart:
            apart = self._buffers[_apart(name)]
            assert apart is not None
            label[layout.apart_rows] = apart[:-1].argmax(dim=1)
        return label

    def _part(self, index: Tensor, column: str | Tensor) -> Tensor:
        return self._take(index, column) if isinstance(column, str) else column.index_select(0, index)

    @torch.no_grad()
    def change(self, function: Callable[..., dict[str, Tensor]], *names: str) -> None:
        """New entries for all rows: by name, what `function` makes of these tables."""
        for index in self._parts(names) or [torch.arange(len(self[names[0]]), device=self[names[0]].device)]:
            self.put(index, **function(*(self._take(index, name) for name in names)))

    @torch.no_grad()
    def copy(self, name: str, source: str) -> None:
        """Make one table the same as another, which is kept in the same way."""
        for to, of in ((name, source), (_apart(name), _apart(source))):
            if to in self._buffers:
                self._buffers[to].copy_(self._buffers[of])  # type: ignore[union-attr, arg-type]

    def _parts(self, names: Sequence[str]) -> list[Tensor] | None:
        """Numbers of rows for one part after the other; None where all tables are dense."""
        layouts = [self.layouts[name] for name in names if name in self.layouts]
        return list(layouts[0].blocks()) if layouts else None

    def stored(self) -> Iterator[tuple[Tensor, int, Tensor | None]]:
        """What is kept: tensors, which dimension counts rows, and which rows they are where not all.

        The last entry of a table of some rows belongs to none.
        """
        for name, row_dim in self.row_dims.items():
            yield self._buffers[name], row_dim, None  # type: ignore[misc]
            if _apart(name) in self._buffers:
                yield self._buffers[_apart(name)], 0, self.layouts[name].apart_rows  # type: ignore[misc]

    # ---- what modules do ----------------------------------------------------------------------

    def _apply(self, fn: Any, recurse: bool = True) -> RowState:
        for layout in {id(layout): layout for layout in self.layouts.values()}.values():
            layout._apply(fn, recurse)
        return super()._apply(fn, recurse)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *more: Any) -> None:
        """Checkpoints of earlier versions hold dense tables."""
        for name, layout in self.layouts.items():
            given = state_dict.get(prefix + name)
            if given is None or given.shape != (layout.n_rows, layout.n_classes):
                continue
            given = given.to(layout.labels.device)
            parts = [layout.collect(index, given.index_select(0, index)) for index in layout.blocks()]
            state_dict[prefix + name] = torch.cat(parts)
            if layout.n_apart:
                rows = given.index_select(0, layout.apart_rows)
                state_dict[prefix + _apart(name)] = torch.cat([rows, torch.zeros_like(rows[:1])])
        super()._load_from_state_dict(state_dict, prefix, *more)


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


def _apart(name: str) -> str:
    """Of the table with the rows of a table that are kept apart."""
    return f"{name}_apart"
