"""Losses as pure functions: logits and a mask or target in, one value per row out, in log space."""

from __future__ import annotations

from torch import Tensor


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """−Σ_k target_k · log softmax(logits)_k, for targets that are distributions."""
    return -(target * logits.log_softmax(dim=-1)).sum(dim=-1)


def mean_cross_entropy(logits: list[Tensor], target: Tensor) -> Tensor:
    """Cross-entropy against one target, averaged over the views."""
    if len(logits) == 1:
        return cross_entropy(logits[0], target)
    return sum(cross_entropy(z, target) for z in logits) / len(logits)  # type: ignore[return-value]


def set_loss(logits: Tensor, mask: Tensor) -> Tensor:
    """−log Σ_{k ∈ S} softmax(logits)_k: how improbable the model finds its candidate set.

    For a set of one label this is the ordinary cross-entropy.
    """
    return -logits.log_softmax(dim=-1).masked_fill(~mask, float("-inf")).logsumexp(dim=-1)
