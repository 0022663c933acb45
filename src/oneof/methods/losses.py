"""Losses as pure functions: logits and a mask or target in, one value per row out, in log space."""

from __future__ import annotations

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """−Σ_k target_k · log softmax(logits)_k, for targets that are distributions."""
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)


def mean_cross_entropy(logits: list[Tensor], target: Tensor) -> Tensor:
    """Cross-entropy against one target, averaged over the views."""
    return mean_of([cross_entropy(z, target) for z in logits])


def mean_of(losses: list[Tensor]) -> Tensor:
    """The mean of the losses of several views; of one view, as on tables, its loss."""
    return losses[0] if len(losses) == 1 else sum(losses) / len(losses)  # type: ignore[return-value]


def set_loss(logits: Tensor, mask: Tensor) -> Tensor:
    """−log Σ_{k ∈ S} softmax(logits)_k: how improbable the model finds its candidate set.

    For a set of one label this is the ordinary cross-entropy.
    """
    return -logits.log_softmax(dim=-1).masked_fill(~mask, float("-inf")).logsumexp(dim=-1)


def negative_loss(logits: Tensor, mask: Tensor) -> Tensor:
    """−Σ_{k ∉ S} log(1 − softmax(logits)_k)."""
    return -log_complement(logits).masked_fill(mask, 0).sum(dim=-1)


def log_complement(logits: Tensor) -> Tensor:
    """log(1 − softmax(logits)), exact also where a probability is 1 up to rounding."""
    log_p = logits.log_softmax(dim=-1)
    top = log_p.argmax(dim=-1, keepdim=True)
    # only the largest probability can exceed ½; for it the others are summed in log space
    others = log_p.scatter(-1, top, torch.finfo(log_p.dtype).min).logsumexp(dim=-1, keepdim=True)
    small = log_p.exp().scatter(-1, top, 0)
    return torch.log1p(-small).scatter(-1, top, others)
