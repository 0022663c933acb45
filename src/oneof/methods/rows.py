"""What is kept of every training row: its candidate set, and the tables of a method.

Most tables are zero outside the candidates. Where rows × classes is large they are kept by candidate: K
places for each row, in the order of its labels, and the few sets larger than K apart as whole rows, so that
one row with all labels does not make the table of all rows as wide. A batch is always handed out dense,
(B, c), and put back from there: a method sees no difference, and on a CPU not one bit differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oneof.candidates.compact import BLOCK, CompactSets

DENSE = 2**24
"""Up to so many entries (rows × classes) sets and tables are dense, and a batch is one gather."""


class CandidateRows:
    """The candidate sets of the training rows on the training device.

    Parameters
    ----------
    sets : CompactSets
        As they are kept on the host; see `Candidates.compact`.
    device : torch.device
        Where batches are wanted.
    """

    def __init__(self, sets: CompactSets, device: torch.device | str = "cpu") -> None:
        self.sets, self.device = sets, torch.device(device)
        self.n_rows, self.n_classes = sets.shape
        self.largest = int(sets.sizes.max(initial=0))
        places = places_per_row(sets.sizes, sets.n_classes)
        self.layout = None if places is None else Layout(sets, places).to(self.device)
        self.mask = torch.from_numpy(sets.dense()).to(self.device) if self.layout is None else None

    @classmethod
    def of_mask(cls, mask: Tensor) -> CandidateRows:
        """From a boolean (n, c) tensor, on its device."""
        return cls(CompactSets.of_mask(mask.cpu().numpy()), mask.device)

    @classmethod
    def of_labels(cls, labels: Tensor, n_classes: int) -> CandidateRows:
        """One label per row."""
        return cls(CompactSets.of_sizes(labels.cpu(), np.ones(len(labels)), n_classes), labels.device)

    def __len__(self) -> int:
        return self.n_rows

    def take(self, index: Tensor) -> Tensor:
        """Boolean (B, c): the sets of some rows."""
        if self.mask is not None:
            return self.mask.index_select(0, index)
        assert self.layout is not None
        return self.layout.masks(index)

    def dense(self) -> Tensor:
        """Boolean (n, c): all of them, where that many entries can be afforded."""
        return (
            self.mask if self.mask is not None else self.take(torch.arange(self.n_rows, device=self.device))
        )

    def by_label(self, several: bool = False) -> tuple[Tensor, Tensor]:
        """The rows that hold label 0, label 1, ..., and how many hold each; only `several`: no singletons."""
        kept = np.flatnonzero(self.sets.sizes > 1) if several else np.arange(self.n_rows)
        some = self.sets.take(kept)
        rows = kept[some.rows][np.argsort(some.positions, kind="stable")]
        counts = np.bincount(some.positions, minlength=self.n_classes)
        return torch.from_numpy(rows).to(self.device), torch.from_numpy(counts).to(self.device)


def places_per_row(sizes: np.ndarray, n_classes: int) -> int | None:
    """K, the places a row has in a table: as many as cost least, larger sets being whole rows of their own.

    None where dense tables are small, or less than twice as large.
    """
    n = len(sizes)
    if n * n_classes <= DENSE:
        return None
    larger = n - np.cumsum(np.bincount(sizes, minlength=n_classes + 1))  # rows with more than K labels
    cost = n * np.arange(1, n_classes + 1) + larger[1:] * n_classes
    best = int(cost.argmin())
    return None if cost[best] > n * n_classes / 2 else best + 1


class Layout(nn.Module):
    """Where the labels of a row stand in tables of K places.

    Made from the sets, so that no checkpoint holds it.
    `labels` (n, K) has different labels in a row, its candidates first; beyond their number others, where
    tables are zero. Of rows that are kept apart no place counts.
    """

    labels: Tensor
    taken: Tensor
    apart: Tensor
    apart_rows: Tensor
    apart_masks: Tensor

    def __init__(self, sets: CompactSets, places: int) -> None:
        super().__init__()
        self.n_rows, self.n_classes, self.places = len(sets), sets.n_classes, places
        apart = np.flatnonzero(sets.sizes > places)
        self.n_apart = len(apart)
        number = np.full(self.n_rows, self.n_apart)
        number[apart] = np.arange(self.n_apart)
        nothing = np.zeros((1, self.n_classes), dtype=bool)  # stands for all rows that are not apart
        kept = np.where(number < self.n_apart, 0, sets.sizes)
        for name, values in (
            ("labels", padded_labels(sets, places)),
            ("taken", kept.astype(np.int32)),
            ("apart", number.astype(np.int32)),
            ("apart_rows", apart),
            ("apart_masks", np.concatenate([sets.dense(apart), nothing])),
        ):
            self.register_buffer(name, torch.from_numpy(values), persistent=False)

    def there(self, index: Tensor | None = None) -> Tensor:
        """Boolean (B, K): which places hold a candidate."""
        taken = self.taken if index is None else self.taken.index_select(0, index)
        return torch.arange(self.places, device=taken.device) < taken[:, None]

    def masks(self, index: Tensor) -> Tensor:
        """Boolean (B, c)."""
        return self._spread(index, self.there(index), self.apart_masks)

    def spread(self, index: Tensor, table: Tensor, apart: Tensor | None) -> Tensor:
        """Some rows of a table, dense."""
        return self._spread(index, table.index_select(0, index), apart)

    def _spread(self, index: Tensor, inside: Tensor, apart: Tensor | None) -> Tensor:
        labels = self.labels.index_select(0, index).long()
        dense = inside.new_zeros(len(index), self.n_classes).scatter_(1, labels, inside)
        if not self.n_apart or apart is None:
            return dense
        number = self.apart.index_select(0, index)
        return torch.where((number < self.n_apart)[:, None], apart.index_select(0, number), dense)

    def collect(self, index: Tensor, dense: Tensor) -> Tensor:
        """The values (B, c) of some rows by place, (B, K)."""
        labels = self.labels.index_select(0, index).long()
        return dense.gather(1, labels).masked_fill_(~self.there(index), 0)

    def put(self, index: Tensor, dense: Tensor, table: Tensor, apart: Tensor | None) -> None:
        """Store the values (B, c) of some rows."""
        table.index_copy_(0, index, self.collect(index, dense))
        if apart is not None:
            number = self.apart.index_select(0, index).long()
            # all rows that are not apart write the same zeros to the last one
            apart.index_copy_(0, number, dense.masked_fill((number == self.n_apart)[:, None], 0))

    def blocks(self) -> Iterator[Tensor]:
        """Row numbers, so many at a time that they can be dense."""
        return torch.arange(self.n_rows, device=self.labels.device).split(max(1, BLOCK // self.n_classes))


def padded_labels(sets: CompactSets, places: int) -> np.ndarray:
    """(n, K): the candidates of a row, then other labels, each once; rows with more than K have any."""
    made = np.empty((len(sets), places), dtype=np.int32)
    column = np.arange(places)
    for rows in np.array_split(np.arange(len(sets)), max(1, len(sets) * places * places // BLOCK)):
        sizes = np.where(sets.sizes[rows] > places, 0, sets.sizes[rows])
        there = column < sizes[:, None]
        labels = np.full((len(rows), places), sets.n_classes + places)  # beyond all others
        labels[there] = sets.positions[sets.places(rows[sizes > 0])]
        # label number j that is no candidate is j plus the candidates before it: those with a_i − i ≤ j
        before = (labels - column)[:, None, :] <= column[:, None]
        other = column + before.sum(axis=2)
        made[rows] = np.where(
            there, labels, np.take_along_axis(other, np.maximum(column - sizes[:, None], 0), 1)
        )
    return made


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
        layout = self.layouts.get(name)
        if layout is None:
            return self._buffers[name]  # type: ignore[return-value]
        return torch.cat([self.take(index, name) for index in layout.blocks()])

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


def _apart(name: str) -> str:
    """Of the table with the rows of a table that are kept apart."""
    return f"{name}_apart"
