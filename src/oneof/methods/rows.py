"""The candidate sets of the training rows on the device, and how tables beside them are laid out.

Most tables are zero outside the candidates. Where rows × classes is large they are kept by candidate: K
places for each row, in the order of its labels, and the few sets larger than K apart as whole rows, so that
one row with all labels does not make the table of all rows as wide. A batch is always handed out dense,
(B, c), and put back from there: a method sees no difference, and on a CPU not one bit differs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from oneof.candidates.compact import BLOCK, DENSE, CompactSets


class CandidateRows:
    """The candidate sets of the training rows on the training device.

    Parameters
    ----------
    sets : CompactSets
        As they are kept on the host; see `Candidates.compact`.
    device : torch.device
        Where batches are wanted.
    log_evidence : Tensor (m,), optional
        What speaks for each candidate, as batches see it.
    """

    def __init__(
        self, sets: CompactSets, device: torch.device | str = "cpu", log_evidence: Tensor | None = None
    ) -> None:
        self.sets, self.device = sets, torch.device(device)
        self.n_rows, self.n_classes = sets.shape
        self.largest = int(sets.sizes.max(initial=0))
        places = places_per_row(sets.sizes, sets.n_classes)
        self.layout = None if places is None else Layout(sets, places).to(self.device)
        self.mask = torch.from_numpy(sets.dense()).to(self.device) if self.layout is None else None
        self._evidence: tuple[Tensor, Tensor | None] | None = None
        if log_evidence is not None:
            values = log_evidence.cpu().numpy()
            tables = (
                (sets.dense(values=values), None) if self.layout is None else self.layout.tables(sets, values)
            )
            there, apart = (None if t is None else torch.from_numpy(t).to(self.device) for t in tables)
            assert there is not None
            self._evidence = there, apart

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

    def evidence(self, index: Tensor) -> Tensor | None:
        """(B, c): what speaks for the candidates of some rows, 0 outside; None where nothing does."""
        if self._evidence is None:
            return None
        there, apart = self._evidence
        return (
            there.index_select(0, index) if self.layout is None else self.layout.spread(index, there, apart)
        )

    def dense(self) -> Tensor:
        """Boolean (n, c): all of them, where that many entries can be afforded."""
        return (
            self.mask if self.mask is not None else self.take(torch.arange(self.n_rows, device=self.device))
        )

    def by_label(self) -> tuple[Tensor, Tensor]:
        """The rows with several candidates, label 0 among them, label 1, ..., and how many for each."""
        kept = np.flatnonzero(self.sets.sizes > 1)
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

    def tables(self, sets: CompactSets, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A number per candidate as a table of K places, and whole rows for those that are apart."""
        taken, apart = self.taken.cpu().numpy(), self.apart_rows.cpu().numpy()
        made = np.zeros((self.n_rows, self.places), dtype=values.dtype)
        made[np.arange(self.places) < taken[:, None]] = values[sets.places(np.flatnonzero(taken))]
        nothing = np.zeros((1, self.n_classes), dtype=values.dtype)
        return made, np.concatenate([sets.dense(apart, values), nothing])

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
