"""Distributions over candidate sets: the targets that methods start from and refine."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform(mask: Tensor, like: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """1/|S| on the candidates, 0 elsewhere. A row without candidates is all zero."""
    weights = mask.to(like.dtype if like is not None else dtype)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)


def candidate_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the candidates only: exactly 0 elsewhere, never 0/0 (the work is in log space)."""
    return logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def restrict(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Renormalise each row to the labels in its mask; rows that lost all mass become uniform."""
    kept = probabilities * mask
    mass = kept.sum(dim=-1, keepdim=True)
    lost = mass < torch.finfo(mass.dtype).tiny  # below this, dividing by the mass is no longer exact
    return torch.where(lost, uniform(mask, like=probabilities), kept / mass.masked_fill(lost, 1))


def best_candidate(scores: Tensor, mask: Tensor) -> Tensor:
    """The label with the largest score among the candidates; the first of equals."""
    return scores.masked_fill(~mask, float("-inf")).argmax(dim=-1)
