"""`CompactSets`: candidate sets by position, row after row: memory grows with the candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array, csr_matrix

DENSE = 2**24
"""A table (rows × classes) of at most so many entries is kept as an array."""
BLOCK = 2**22
"""Entries (rows × classes) of the dense blocks in which work is done that needs whole rows."""
DENSE_SHARE = 16
"""Pairs of classes are counted by a matrix product where more than one in so many entries is not 0."""


class FrozenArrays:
    """A copy or what was pickled is read-only again: of an array that is, numpy copies the numbers only."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({k: frozen(v) if isinstance(v, np.ndarray) else v for k, v in state.items()})


@dataclass(frozen=True, eq=False)
class CompactSets(FrozenArrays):
    """For every row the columns of its candidates, ascending; a row may be empty."""

    positions: np.ndarray
    """int32 (m,): the columns of row 0, of row 1, ..."""
    starts: np.ndarray
    """int64 (n + 1,): row i has `positions[starts[i] : starts[i + 1]]`."""
    n_classes: int

    # ---- ways in: each gives ascending positions ----------------------------------------------

    @classmethod
    def of_sizes(cls, positions: Any, sizes: Any, n_classes: int) -> CompactSets:
        """From the number of candidates of each row."""
        starts = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=starts[1:])
        return cls(np.asarray(positions, dtype=np.int32), starts, int(n_classes))

    @classmethod
    def of_mask(cls, mask: np.ndarray) -> CompactSets:
        """From a boolean (n, c) array."""
        return cls.of_masks([mask], mask.shape[1])

    @classmethod
    def of_masks(cls, masks: Iterable[np.ndarray], n_classes: int) -> CompactSets:
        """From boolean blocks of rows, one after the other."""
        positions, sizes = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
        for mask in masks:
            flat = np.flatnonzero(mask)
            np.remainder(flat, n_classes, out=flat)
            positions.append(flat.astype(np.int32))
            sizes.append(np.count_nonzero(mask, axis=1))
        return cls.of_sizes(np.concatenate(positions), np.concatenate(sizes), n_classes)

    @classmethod
    def of_bits(cls, bits: np.ndarray, n_classes: int) -> CompactSets:
        """From the packed bits of a mask, (n, bytes)."""
        if bits.ndim != 2 or bits.shape[1] != -(-n_classes // 8):
            raise ValueError(f"a mask of {bits.shape} bytes for {n_classes} classes")
        blocks = row_blocks(len(bits), n_classes)
        return cls.of_masks((np.unpackbits(bits[b], axis=1, count=n_classes) for b in blocks), n_classes)

    @classmethod
    def of_pairs(cls, row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> CompactSets:
        """From (row, column) pairs in any order; a pair that stands twice counts once."""
        keys = each_once(row.astype(np.int64) * shape[1] + column)
        rows, columns = np.divmod(keys, shape[1])
        return cls.of_sizes(columns, np.bincount(rows, minlength=shape[0]), shape[1])

    # ---- facts --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_classes

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of candidates of each row."""
        return frozen(np.diff(self.starts))

    @property
    def rows(self) -> np.ndarray:
        """The row of every position."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def holds(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Whether column `columns[i]` is a candidate of row `rows[i]`."""
        keys, columns = self.rows * self.n_classes + self.positions, np.asarray(columns)
        wanted = np.asarray(rows) * self.n_classes + columns
        place = np.searchsorted(keys, wanted)  # ascending, since rows and their positions are
        found = np.append(keys, -1)[place] == wanted
        return found & (columns >= 0) & (columns < self.n_classes)

    def together(self) -> csr_matrix:
        """(K, K): in how many rows two classes are candidates together; the diagonal counts each class."""
        from scipy.sparse import csr_matrix  # where it is needed: candidates are imported by every command

        k = self.n_classes
        if float(np.square(self.sizes, dtype=np.float64).sum()) < len(self) * k * k / DENSE_SHARE:
            ones = np.ones(len(self.positions), dtype=np.int64)
            mask = csr_matrix((ones, self.positions, self.starts), shape=self.shape)
            counts = (mask.T @ mask).tocsr()
        else:
            table = np.zeros((k, k), dtype=np.int64)
            for rows in self.blocks():
                block = self.dense(rows).astype(np.float32)  # float so that the product runs in BLAS
                table += np.rint(block.T @ block).astype(np.int64)
            counts = csr_matrix(table)
        counts.sort_indices()
        return counts

    # ---- other sets ---------------------------------------------------------------------------

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Where the candidates of some rows stand in `positions`, in the order of the rows."""
        if len(rows) > len(self) and (self.sizes == 1).all():  # millions of a few: the rest would take memory
            return self.starts[:-1][rows]
        sizes = self.sizes[rows]
        ends = np.cumsum(sizes)
        shift = self.starts[:-1][rows] - (ends - sizes)
        return np.repeat(shift, sizes) + np.arange(int(sizes.sum()))

    def take(self, rows: np.ndarray) -> CompactSets:
        """Some rows, by number, in that order."""
        return CompactSets.of_sizes(self.positions[self.places(rows)], self.sizes[rows], self.n_classes)

    def kinds(self) -> np.ndarray:
        """(n,): a number for every row; rows with the same set have the same one."""
        seen: dict[bytes, int] = {}
        bounds = zip(self.starts[:-1].tolist(), self.starts[1:].tolist())
        sets = (self.positions[start:end].tobytes() for start, end in bounds)
        return np.array([seen.setdefault(each, len(seen)) for each in sets], dtype=np.int64)

    def complement(self) -> CompactSets:
        """In every row the columns that were not there."""
        return CompactSets.of_masks((~self.dense(rows) for rows in self.blocks()), self.n_classes)

    def with_full(self, full: np.ndarray) -> CompactSets:
        """The same with all columns in the rows marked in the boolean array `full`."""
        if not full.any():
            return self
        masks = (self.dense(rows) | full[rows, None] for rows in self.blocks())
        return CompactSets.of_masks(masks, self.n_classes)

    # ---- dense --------------------------------------------------------------------------------

    def blocks(self) -> Iterator[np.ndarray]:
        """Row numbers, so many at a time that a dense block stays small."""
        return row_blocks(len(self), self.n_classes)

    def dense(self, rows: np.ndarray | None = None, values: np.ndarray | None = None) -> np.ndarray:
        """Rows (default all) as an array (rows, c): booleans, or the candidates' values and 0 elsewhere."""
        some = self if rows is None else self.take(rows)
        made = np.zeros(some.shape, dtype=bool if values is None else values.dtype)
        if values is None:
            made[some.rows, some.positions] = True
        else:
            made[some.rows, some.positions] = values if rows is None else values[self.places(rows)]
        return made

    def freeze(self) -> CompactSets:
        """Make the arrays read-only."""
        frozen(self.positions), frozen(self.starts)
        return self


def row_blocks(n_rows: int, n_classes: int) -> Iterator[np.ndarray]:
    """Row numbers, so many at a time that a dense block stays small."""
    step = max(1, BLOCK // max(1, n_classes))
    for start in range(0, n_rows, step):
        yield np.arange(start, min(start + step, n_rows))


def row_numbers(rows: Any, n_rows: int) -> np.ndarray:
    """The numbers of some of `n_rows` rows, given by one or several of them, a boolean mask or a slice."""
    if not isinstance(rows, slice):
        rows = np.atleast_1d(rows)
        rows = rows if rows.size else rows.astype(int)  # of an empty list numpy makes floats
    return np.arange(n_rows)[rows]


def each_once(keys: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 on, ascending, each once; they are sorted where they stand.

    numpy's `unique` keeps a table of them all.
    """
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]


def frozen(values: np.ndarray) -> np.ndarray:
    """The array, read-only from now on."""
    values.setflags(write=False)
    return values


def pairs_of(together: csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes a < b that are candidates of a common row, and in how many rows; by a, then b."""
    table = together.tocoo()
    above = table.row < table.col
    return table.row[above], table.col[above], table.data[above]


# ---- what is believed of rows -----------------------------------------------------------------

Beliefs: TypeAlias = "np.ndarray | csr_array"
"""(n, c): an array, or above `DENSE` entries the candidates of a row and its 16 most probable other labels:
what is missing are small probabilities of labels that nobody named."""
OTHERS = 16


def beliefs(said: Callable[[slice], np.ndarray], sets: CompactSets, dtype: Any = np.float32) -> Beliefs:
    """(n, c): what a function says of successive rows, (B, c)."""
    from scipy.sparse import csr_array

    (n, c), parts = sets.shape, []
    if not is_large(sets.shape):
        return np.asarray(said(slice(0, n)), dtype=dtype)
    for rows in sets.blocks():
        p = np.asarray(said(slice(rows[0], rows[-1] + 1)), dtype=dtype)
        kept, most = sets.dense(rows), min(OTHERS, c)
        others = np.argpartition(np.where(kept, 0, p), -most, axis=1)[:, -most:]
        np.put_along_axis(kept, others, True, axis=1)
        kept &= p != 0
        found = CompactSets.of_mask(kept)
        parts.append((p[kept], found.positions, found.sizes))
    values, columns, sizes = (np.concatenate(arrays) for arrays in zip(*parts))
    return csr_array((values, columns, np.r_[0, np.cumsum(sizes)]), shape=(n, c))


def is_large(shape: tuple[int, int]) -> bool:
    """Whether a table of this shape is kept sparse."""
    return math.prod(shape) > DENSE


def dense_rows(table: Beliefs, rows: Any) -> np.ndarray:
    """Some rows as an array."""
    part = table[rows]
    return part.toarray() if hasattr(part, "toarray") else np.asarray(part)


def best(table: Beliefs) -> tuple[np.ndarray, np.ndarray]:
    """(n,) each: the label with the largest entry of every row, the first of equals, and that entry."""
    label, value = np.zeros(table.shape[0], dtype=np.int64), np.zeros(table.shape[0], dtype=table.dtype)
    for rows in row_blocks(*table.shape):
        part = dense_rows(table, rows)
        label[rows] = part.argmax(axis=1)
        value[rows] = part.max(axis=1)
    return label, value


def restricted(probabilities: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Each row renormalised to the labels of its mask; rows without any mass there become uniform."""
    inside = probabilities * mask
    mass = inside.sum(axis=1, keepdims=True)
    flat = mask / mask.sum(axis=1, keepdims=True)
    return np.where(mass > 0, inside / np.where(mass > 0, mass, 1), flat)
