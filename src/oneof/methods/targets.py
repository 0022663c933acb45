"""Distributions over candidate sets: the targets that methods start from and refine."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform(mask: Tensor, like: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Tensor:
    """1/|S| on the candidates, 0 elsewhere. A row without candidates is all zero."""
    weights = mask.to(like.dtype if like is not None else dtype)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)


WIDE = 16
"""Labels from which torch's softmax works on several at a time; on a CPU it takes fewer one by one."""


def candidate_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the candidates only: exactly 0 elsewhere, never 0/0 (the work is in log space)."""
    narrow = logits.shape[-1] < WIDE and logits.is_cpu
    if narrow and not (logits.requires_grad and torch.is_grad_enabled()):
        return grouped_softmax(logits, mask)
    return logits.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def grouped_softmax(logits: Tensor, allowed: Tensor) -> Tensor:
    """Softmax of many groups, each over its allowed labels; a group without any is all zero.

    Short groups are taken in plain elementwise steps, which give the same numbers several times faster
    than torch's own softmax.
    """
    if logits.shape[-1] >= WIDE:
        lowest = torch.finfo(logits.dtype).min  # not −inf: groups without any label stay finite
        return logits.masked_fill(~allowed, lowest).softmax(dim=-1).mul_(allowed)
    top = logits.masked_fill(~allowed, float("-inf")).amax(dim=-1, keepdim=True)
    e = (logits - top).clamp_(max=0).exp_().mul_(allowed)  # the clamp only touches what the mask removes
    return e.div_(e.sum(dim=-1, keepdim=True).clamp_(min=torch.finfo(e.dtype).tiny))


def restrict(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Renormalise each row to the labels in its mask; rows that lost all mass become uniform."""
    kept = probabilities * mask
    mass = kept.sum(dim=-1, keepdim=True)
    lost = mass < torch.finfo(mass.dtype).tiny  # below this, dividing by the mass is no longer exact
    return torch.where(lost, uniform(mask, like=probabilities), kept / mass.masked_fill(lost, 1))


EXPONENT = 0.25
"""Of evidence: answers about a hard row err together, and count less than if each came by itself. Fixed on
generated crowds (`benchmarks/generated_crowds.py`)."""


def weighed(target: Tensor, mask: Tensor, log_evidence: Tensor | None) -> Tensor:
    """target · evidence, renormalised on the candidates; without evidence the target itself.

    `log_evidence` is the logarithm of the tempered evidence, evidence^`EXPONENT`.
    """
    if log_evidence is None:
        return target
    return candidate_softmax(target.clamp(min=torch.finfo(target.dtype).tiny).log() + log_evidence, mask)


def best_candidate(scores: Tensor, mask: Tensor) -> Tensor:
    """The label with the largest score among the candidates; the first of equals."""
    return scores.masked_fill(~mask, float("-inf")).argmax(dim=-1)
