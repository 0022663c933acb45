"""Where rows lie, so that a person sees how similar ones were decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oneof.app.review.beliefs import best
from oneof.app.review.folder import ReviewData
from oneof.candidates.compact import row_blocks

DIMENSIONS = 16
ENOUGH = 2000
"""Rows to learn the main directions from."""
THUMBNAIL = 8
"""Images are compared at so many pixels both ways: by colour and layout."""
SHOWN = 3


def places_of(x: Any, scaled: Callable[[np.ndarray], Any]) -> np.ndarray:
    """(n, at most 16) float16: rows along the main directions of what the model sees of them.

    Parameters
    ----------
    x : array (n, ...)
        Features or images, which may lie in a file.
    scaled : function
        Scales features as the model does.
    """

    def flat(rows: np.ndarray) -> np.ndarray:
        part = np.asarray(x[rows])
        if part.ndim != 4:
            return np.asarray(scaled(part), dtype=np.float32).reshape(len(part), -1)
        tall, wide = (np.linspace(0, size, THUMBNAIL, endpoint=False).astype(int) for size in part.shape[2:])
        sums = np.add.reduceat(np.add.reduceat(part.astype(np.float32), tall, axis=2), wide, axis=3)
        return sums.reshape(len(part), -1)

    some = flat(np.unique(np.linspace(0, len(x) - 1, ENOUGH).astype(np.int64)))
    mean = some.mean(axis=0)
    directions = np.linalg.svd(some - mean, full_matrices=False)[2][:DIMENSIONS]
    width = int(np.prod(np.shape(x)[1:]))
    found = np.concatenate([(flat(rows) - mean) @ directions.T for rows in row_blocks(len(x), width)])
    # only distances count: any unit will do, and half precision has room for this one
    return (found / max(float(np.abs(found).max()), 1e-12) * 100).astype(np.float16)


def similar_rows(data: ReviewData, row: int, known: Mapping[int, int]) -> list[tuple[int, int]]:
    """The rows most like this one whose label is known, and that label: decided ones, and trusted ones.

    Parameters
    ----------
    known : mapping of rows to columns
        What was decided in the review.
    """
    if data.places is None:
        return []
    labels = {}
    if data.transduction is not None:
        trusted = np.flatnonzero(np.asarray(data.trusted))
        labels = dict(zip(trusted.tolist(), best(data.transduction[trusted])[0].tolist()))
    labels |= known
    labels.pop(row, None)
    rows = np.array(sorted(labels), dtype=np.int64)
    places = data.places
    apart = ((places[rows].astype(np.float32) - places[row].astype(np.float32)) ** 2).sum(axis=1)
    # any two rows are twice the variance apart, in the mean: similar ones less than half of that
    order = np.argsort(apart, kind="stable")[:SHOWN]
    near = rows[order[apart[order] < data.spread]].tolist()
    return [(other, labels[other]) for other in near]
