"""One direction per class, a moving average of the embeddings that were taken for that class."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot


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
