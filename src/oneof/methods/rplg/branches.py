"""The auxiliary model of RPLG: one branch per label, each working without that label.

All c branches are one tensor. Their logits for a batch are one matrix product, and their update is
the closed-form gradient of the cross-entropy: no autograd graph is built for them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.targets import uniform


class Branches(nn.Module):
    """Linear heads phi(z; Omega_j), j = 1..c, where branch j has no label j.

    Weights start at zero: every branch begins undecided, and the first opinions come from the data.

    Parameters
    ----------
    n_classes, n_features : int
        Number of labels c and size of z.
    """

    def __init__(self, n_classes: int, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_classes, n_classes, n_features))  # branch, label, feature
        self.bias = nn.Parameter(torch.zeros(n_classes, n_classes))
        self.register_buffer("own_label", torch.eye(n_classes, dtype=torch.bool), persistent=False)
        self.own_label: Tensor

    @torch.no_grad()
    def logits(self, z: Tensor) -> Tensor:
        """(B, branch, label), −inf where a branch meets its own label: it is not among its outputs."""
        c = len(self.own_label)
        flat = torch.nn.functional.linear(z, self.weight.view(c * c, -1), self.bias.view(-1))
        return flat.view(-1, c, c).masked_fill_(self.own_label, float("-inf"))

    def reduced_sets(self, candidates: Tensor) -> Tensor:
        """S \\ {j} for every branch j, as (B, branch, label); empty where S = {j}."""
        return candidates.unsqueeze(1) & ~self.own_label

    @torch.no_grad()
    def move(self, logits: Tensor, target: Tensor, z: Tensor, row_weight: Tensor) -> None:
        """Set the gradient of the branches' cross-entropy (R9), mean over rows, sum over branches.

        `row_weight` (B, branch) is 0 where a branch must skip a row.
        """
        error = logits.softmax(dim=-1).sub_(target).mul_(row_weight.unsqueeze(-1)).div_(len(z))
        self.weight.grad = (error.flatten(1).T @ z).view_as(self.weight)
        self.bias.grad = error.sum(dim=0)


def opinions(logits: Tensor, reduced: Tensor, singletons: Tensor) -> Tensor:
    """U (R7): row j is branch j's distribution restricted to S \\ {j}.

    Where S = {j} there is nothing left to have an opinion about; that row is filled with the one
    label itself, so that v = w U is the one-hot target of a labelled row.
    """
    masked = logits.masked_fill(~reduced, float("-inf"))
    return _labelled_rows(masked.softmax(dim=-1), reduced, singletons)


def first_opinions(reduced: Tensor, singletons: Tensor, like: Tensor) -> Tensor:
    """U at a row's first visit: uniform over S \\ {j}."""
    return _labelled_rows(uniform(reduced, like=like), reduced, singletons)


def _labelled_rows(u: Tensor, reduced: Tensor, singletons: Tensor) -> Tensor:
    nothing_left = ~reduced.any(dim=-1, keepdim=True)
    return torch.where(nothing_left, singletons.unsqueeze(1).to(u.dtype), u)
