"""Distributions over candidate sets: the targets that methods start from and refine."""

from __future__ import annotations

from torch import Tensor


def uniform(mask: Tensor, like: Tensor | None = None) -> Tensor:
    """1/|S| on the candidates, 0 elsewhere. A row without candidates is all zero."""
    weights = mask.to(like.dtype) if like is not None else mask.float()
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)


def candidate_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the candidates only: exactly 0 elsewhere, never 0/0 (the work is in log space)."""
    return logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def restrict(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Renormalise each row to the labels in its mask; rows that lost all mass become uniform."""
    kept = probabilities * mask
    mass = kept.sum(dim=-1, keepdim=True)
    return (kept / mass.clamp(min=1e-38)).where(mass > 0, uniform(mask, like=probabilities))
