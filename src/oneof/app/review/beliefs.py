"""What is believed of rows, (n, c): an array, or where that is large the entries that count.

Above 2²⁴ entries a row keeps its candidates and the 16 most probable other labels. What is missing are small
probabilities of labels that nobody named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse

from oneof.candidates.compact import CompactSets, row_blocks

Beliefs: TypeAlias = "np.ndarray | csr_array"
OTHERS = 16
"""Labels of a row that are kept beside its candidates."""


def beliefs(said: Callable[[slice], np.ndarray], sets: CompactSets, dtype: Any = np.float32) -> Beliefs:
    """(n, c): what a function says of successive rows, (B, c)."""
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
    made = CompactSets.of_sizes(columns, sizes, c)
    return csr_array((values, made.positions, made.starts), shape=(n, c))


def is_large(shape: tuple[int, int]) -> bool:
    """Whether a table of this shape is kept sparse."""
    from oneof.methods.rows import DENSE  # needs torch, which a review does not

    return math.prod(shape) > DENSE


def dense_rows(table: Beliefs, rows: Any) -> np.ndarray:
    """Some rows as an array."""
    part = table[rows]
    return part.toarray() if issparse(part) else np.asarray(part)


def best(table: Beliefs) -> tuple[np.ndarray, np.ndarray]:
    """(n,) each: the label with the largest entry of every row, the first of equals, and that entry."""
    label, value = np.zeros(table.shape[0], dtype=np.int64), np.zeros(table.shape[0], dtype=table.dtype)
    for rows in row_blocks(*table.shape):
        part = dense_rows(table, rows)
        label[rows] = part.argmax(axis=1)
        value[rows] = part.max(axis=1)
    return label, value
