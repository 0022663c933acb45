"""The auxiliary model of RPLG: one branch per label, each working without that label.

All c branches are one tensor. Their logits for a batch are one matrix product, and their update is
the closed-form gradient of the cross-entropy: no autograd graph is built for them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.targets import grouped_softmax, uniform


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
        all_labels = torch.ones(n_classes, n_classes, dtype=torch.bool)
        shape = (n_classes, n_classes, n_features)  # branch, label, feature
        self.weight = nn.Parameter(torch.zeros(shape), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(shape[:2]), requires_grad=False)
        self.register_buffer("outputs", all_labels ^ torch.eye(n_classes, dtype=torch.bool), persistent=False)
        self.register_buffer("weight_velocity", torch.zeros_like(self.weight))
        self.register_buffer("bias_velocity", torch.zeros_like(self.bias))
        self.weight_velocity: Tensor
        self.bias_velocity: Tensor
        self.outputs: Tensor
        """(branch, label): branch j knows every label but j."""

    @torch.no_grad()
    def logits(self, z: Tensor) -> Tensor:
        """(B, branch, label); the entry of the label a branch lacks means nothing."""
        c = len(self.outputs)
        flat = torch.nn.functional.linear(z, self.weight.view(c * c, -1), self.bias.view(-1))
        return flat.view(-1, c, c)

    def probabilities(self, logits: Tensor) -> Tensor:
        """phi: every branch's distribution over its own label space, exactly 0 at the label it lacks."""
        return grouped_softmax(logits, self.outputs)

    def reduced_sets(self, candidates: Tensor) -> Tensor:
        """S \\ {j} for every branch j, as (B, branch, label); empty where S = {j}."""
        return candidates.unsqueeze(1) & self.outputs

    @torch.no_grad()
    def gradient(
        self, logits: Tensor, target: Tensor, z: Tensor, row_weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Of the branches' cross-entropy (R9), mean over rows, sum over branches: for weight and bias.

        `row_weight` (B, branch) is 0 where a branch must skip a row.
        """
        error = self.probabilities(logits).sub_(target).mul_((row_weight / len(z)).unsqueeze(-1))
        return (error.flatten(1).T @ z).view_as(self.weight), error.sum(dim=0)

    @torch.no_grad()
    def move(
        self, gradients: tuple[Tensor, Tensor], lr: float | Tensor, momentum: float, weight_decay: float
    ) -> None:
        """One step of SGD (R13). Written out, since it is a few operations on two tensors."""
        parts = ((self.weight, self.weight_velocity), (self.bias, self.bias_velocity))
        for (parameter, velocity), gradient in zip(parts, gradients):
            velocity.mul_(momentum).add_(gradient.add_(parameter, alpha=weight_decay))
            descend(parameter, velocity, lr)


def descend(parameter: Tensor, velocity: Tensor, lr: float | Tensor) -> None:
    """`parameter` moves by `lr` times `velocity`; a recorded step reads its learning rate from a tensor."""
    if isinstance(lr, Tensor):
        parameter.sub_(velocity * lr)
    else:
        parameter.sub_(velocity, alpha=lr)


def opinions(logits: Tensor, reduced: Tensor, candidates: Tensor) -> Tensor:
    """U (R7): row j is branch j's distribution restricted to S \\ {j}.

    Where S = {j} there is nothing left to have an opinion about; that row is filled with the one
    label itself, so that v = w U is the one-hot target of a labelled row.
    """
    return _labelled_rows(grouped_softmax(logits, reduced), candidates)


def first_opinions(reduced: Tensor, candidates: Tensor, like: Tensor) -> Tensor:
    """U at a row's first visit: uniform over S \\ {j}."""
    return _labelled_rows(uniform(reduced, like=like), candidates)


def _labelled_rows(u: Tensor, candidates: Tensor) -> Tensor:
    """Row j of U is zero so far where S = {j}: put the one label there."""
    u.diagonal(dim1=-2, dim2=-1).add_(only_labels(candidates))
    return u


def only_labels(candidates: Tensor) -> Tensor:
    """The label of every singleton set: where its own branch has nothing left and skips the row."""
    return candidates & (candidates.sum(dim=-1, keepdim=True) == 1)
