"""Contrastive learning: embeddings, the loss, and what a row is compared with.

One formula with weights, the pool of batch, keys and queue it often runs on, and a prototype per class.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from oneof.methods.base import Task
from oneof.nets import Net, evaluation_mode

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


def feature_size(task: Task) -> int:
    """Length of the vectors that the net's features have."""
    with torch.no_grad(), evaluation_mode(task.net):
        return task.net.features(task.example).shape[1]


class Projection(nn.Module):
    """Two layers d–d–ReLU–`size`, and division by the length."""

    def __init__(self, task: Task, size: int) -> None:
        super().__init__()
        width = feature_size(task)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size))
        self.layers.to(task.device, task.dtype)

    def forward(self, features: Tensor) -> Tensor:
        return normalize(self.layers(features), dim=-1)


def both_heads(net: Net, projection: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and embedding from one pass through the features."""
    features = net.features(x)
    return net.head(features), projection(features)


class Queue(nn.Module):
    """The last `size` entries; the oldest are overwritten first.

    Parameters
    ----------
    size : int
        How many entries there is room for.
    **fields : Tensor
        By name, what one entry holds: only shape, type and device are looked at.

    Attributes
    ----------
    filled : Tensor
        Which slots hold an entry. The others must not be used: they are 0, not data.
    """

    filled: Tensor
    position: Tensor

    def __init__(self, size: int, **fields: Tensor) -> None:
        super().__init__()
        device = next(iter(fields.values())).device
        self.size, self.fields = size, tuple(fields)
        for name, entry in fields.items():
            self.register_buffer(name, entry.new_zeros(size, *entry.shape))
        self.register_buffer("filled", torch.zeros(size, dtype=torch.bool, device=device))
        self.register_buffer("position", torch.zeros((), dtype=torch.long, device=device))

    def __getitem__(self, name: str) -> Tensor:
        return self._buffers[name]  # type: ignore[return-value]

    @torch.no_grad()
    def push(self, **entries: Tensor) -> None:
        """Add entries (a batch of each field), in their order."""
        count = len(entries[self.fields[0]])
        kept = min(count, self.size)  # of more entries than there is room for, the last ones stay
        slots = (self.position + torch.arange(count - kept, count, device=self.position.device)) % self.size
        for name in self.fields:
            self[name].index_copy_(0, slots, entries[name].detach()[count - kept :].to(self[name].dtype))
        self.filled.index_fill_(0, slots, True)
        self.position.add_(count).remainder_(self.size)


class Prototypes(nn.Module):
    """Unit vectors (classes, size); a class without a member so far has the vector 0."""

    vectors: Tensor

    def __init__(self, n_classes: int, size: int, like: Tensor) -> None:
        super().__init__()
        self.register_buffer("vectors", like.new_zeros(n_classes, size))

    def scores(self, embeddings: Tensor) -> Tensor:
        """Inner products (rows, classes)."""
        return embeddings @ self.vectors.T

    @torch.no_grad()
    def update(self, embeddings: Tensor, labels: Tensor, momentum: float) -> None:
        """M_c ← momentum · M_c + (1 − momentum) · q for each row q of class c, in order; then unit length.

        The sequence has a closed form: for the ordered members q_1 … q_r of a class
        M_c ← momentum^r M_c + (1 − momentum) Σ_j momentum^(r−j) q_j.
        """
        member = one_hot(labels, len(self.vectors))
        count = member.sum(dim=0)
        later = count - member.cumsum(dim=0)  # members of the class that follow a row
        # a number times integers would be float32, whatever the embeddings are
        share = member * ((1 - momentum) * torch.full_like(embeddings[:, :1], momentum) ** later)
        kept = torch.full_like(self.vectors[:, :1], momentum) ** count[:, None]
        self.vectors.copy_(normalize(kept * self.vectors + share.T @ embeddings.detach(), dim=1))
