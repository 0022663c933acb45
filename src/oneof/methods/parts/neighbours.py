"""Nearest neighbours as ids, in blocks: the n×n matrix of distances never exists."""

from __future__ import annotations

import torch
from torch import Tensor

ENTRIES_AT_ONCE = 2**24


def nearest(x: Tensor, k: int, entries_at_once: int = ENTRIES_AT_ONCE) -> Tensor:
    """Ids (n, k) of the k rows nearest to each row under Euclidean distance, nearest first, never itself."""
    n = len(x)
    x = x.flatten(1) - x.flatten(1).mean(dim=0)  # centred: less is lost in |a|² + |b|² − 2ab
    squares = x.square().sum(dim=1)
    ids = []
    for rows in torch.arange(n, device=x.device).split(max(1, entries_at_once // n)):
        # |a|² is the same for all b, so it does not change the order
        distance = squares - 2 * x[rows] @ x.T
        distance.scatter_(1, rows[:, None], float("inf"))
        ids.append(distance.topk(k, dim=1, largest=False).indices)
    return torch.cat(ids)


def adjacency(index: Tensor, neighbours: Tensor) -> Tensor:
    """The batch's block of the row-normalised graph: 1/(k+1) for a row itself and each of its k neighbours.

    A row whose neighbours are not all in the batch sums to less than 1: it is a block of the whole
    graph, not a graph of the batch.
    """
    linked = (neighbours[:, :, None] == index).any(dim=1) | (index[:, None] == index)
    return linked / (neighbours.shape[1] + 1)
