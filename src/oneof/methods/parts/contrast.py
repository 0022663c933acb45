"""Contrastive losses: one formula with weights, and the pool of batch, keys and queue it often runs on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BASE_TEMPERATURE = 0.07
"""ABLE and DIRK scale their loss by τ over this, so that its gradient does not grow as τ falls."""


def contrast(anchors: Tensor, pool: Tensor, weight: Tensor, allowed: Tensor, temperature: float) -> Tensor:
    """−Σ_b weight_ab · log( e^{a·b/τ} / Σ_{b' allowed for a} e^{a·b'/τ} ), one value per anchor.

    Parameters
    ----------
    anchors : (A, d), pool : (P, d)
        Embeddings.
    weight : (A, P)
        How much b is a positive of a; read only where `allowed`.
    allowed : (A, P) bool
        What an anchor is compared with; at least one entry per anchor.
    """
    scores = (anchors @ pool.T / temperature).masked_fill(~allowed, float("-inf"))
    log_share = scores.log_softmax(dim=1).masked_fill(~allowed, 0)  # 0 · −∞ is no number
    return -(weight * log_share).sum(dim=1)


@dataclass
class Pool:
    """What an anchor of the batch is compared with: the batch itself, its keys, a queue of old keys.

    `vectors` has the three blocks in this order, so that entry i of the batch is pool entry i.
    """

    vectors: Tensor
    others: Tensor
    """(B, P) bool: all entries but the anchor itself and empty slots of the queue."""
    own_key: Tensor
    """(B, P) bool: the key made from the anchor's own row."""
    own_key_and_queue: Tensor
    """(B, P) bool: what instance discrimination compares with."""

    @classmethod
    def of(cls, embeddings: Tensor, keys: Tensor, queued: Tensor, filled: Tensor) -> Pool:
        """The pool of a batch. The queue is copied, so that it may change before the backward pass."""
        same = torch.eye(len(embeddings), dtype=torch.bool, device=embeddings.device)
        nothing = torch.zeros_like(same)
        old = filled.expand(len(embeddings), -1)
        return cls(
            torch.cat([embeddings, keys, queued]),
            torch.cat([~same, ~nothing, old], dim=1),
            torch.cat([nothing, same, torch.zeros_like(old)], dim=1),
            torch.cat([nothing, same, old], dim=1),
        )

    @staticmethod
    def facts(batch: Tensor, queued: Tensor) -> Tensor:
        """What is known of each pool entry: a row's own facts hold for its embedding and its key."""
        return torch.cat([batch, batch, queued])

    def instance_loss(self, embeddings: Tensor, temperature: float) -> Tensor:
        """The contrastive loss without labels (MoCo): own key against the queue."""
        positive = self.own_key.to(embeddings.dtype)
        return contrast(embeddings, self.vectors, positive, self.own_key_and_queue, temperature)
