"""The auxiliary model: one branch per label, each working without that label.

Two forms share one interface. `opinions` gives U (10) for a batch, `learn` moves the branches (16). The
form is a matter of cost alone: `make_branches` takes whole branches up to a stated cost of a step, and above
it those of `low_rank.py`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from oneof.methods.parallel import average_
from oneof.methods.targets import grouped_softmax, uniform

WHOLE_CLASSES = 200
"""Up to so many labels branches are always whole: every data set of the paper but one."""
WHOLE_COST = 2**25
"""Above, they are whole while a step touches at most so many numbers: (batch + features) · c²."""
RANK = 16
"""Of the branches' corrections in the low-rank form."""
MOST = 32
"""So many candidates of a row have branches of their own in the low-rank form."""


class Rates(NamedTuple):
    """Of the branches' SGD."""

    lr: float
    momentum: float
    decay: float


class Opinions(Protocol):
    """U: what every branch thinks of a batch."""

    def mix(self, w: Tensor) -> Tensor:
        """v = w U (9)."""
        ...

    def slopes(self, slope: Tensor) -> Tensor:
        """The chain rule through v = w U: from a derivative with respect to v to one with respect to w."""
        ...

    def weigh(self, g: nn.Module, z: Tensor) -> Tensor:
        """g(z), (B, c): what the meta-learner says of the candidates' branches; the rest means nothing."""
        ...


def are_whole(n_classes: int, n_features: int, batch_size: int) -> bool:
    """Whether a step with whole branches is cheap enough."""
    return n_classes <= WHOLE_CLASSES or (batch_size + n_features) * n_classes**2 <= WHOLE_COST


def make_branches(n_classes: int, n_features: int, batch_size: int, largest_set: int) -> nn.Module:
    """Whole branches where they are cheap enough, else those of low rank."""
    from oneof.methods.rplg.low_rank import LowRankBranches

    if are_whole(n_classes, n_features, batch_size):
        return WholeBranches(n_classes, n_features)
    return LowRankBranches(n_classes, n_features, RANK, largest_set, MOST)


def branch_numbers(n_classes: int, n_features: int, batch_size: int) -> int:
    """Numbers that branches take: weight, velocity and gradient, and a batch of logits, U and errors."""
    if are_whole(n_classes, n_features, batch_size):
        return 3 * n_classes**2 * (n_features + 1 + batch_size)
    return 3 * (n_classes * (n_features + 1 + 2 * RANK) + n_features * RANK) + 3 * batch_size * n_classes


class WholeOpinions:
    """U as (B, branch, label), and what the branches learn from it."""

    def __init__(self, logits: Tensor, reduced: Tensor, candidates: Tensor, visited: Tensor | None) -> None:
        self.logits, self.reduced = logits, reduced
        # the label of every singleton set, whose own branch has nothing left and skips the row
        self.alone = candidates & (candidates.sum(dim=-1, keepdim=True) == 1)
        u = grouped_softmax(logits, reduced)  # (10)
        if visited is not None:  # a row's first opinions are uniform
            u = torch.where(visited[:, None, None], u, uniform(reduced, like=u))
        # row j of U is zero so far where S = {j}: with its label there, v is the label
        u.diagonal(dim1=-2, dim2=-1).add_(self.alone)
        self.u = u

    def mix(self, w: Tensor) -> Tensor:
        return torch.bmm(w.unsqueeze(1), self.u).squeeze(1)

    def slopes(self, slope: Tensor) -> Tensor:
        return torch.bmm(self.u, slope.unsqueeze(2)).squeeze(2)

    def weigh(self, g: nn.Module, z: Tensor) -> Tensor:
        return g(z)


class WholeBranches(nn.Module):
    """Linear heads phi(z; Omega_j), j = 1..c, where branch j has no label j.

    All are one tensor: their logits are one matrix product and their update is the closed-form gradient of
    the cross-entropy, without an autograd graph. Weights start at zero: the first opinions come from the
    data.

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

    def opinions(self, z: Tensor, candidates: Tensor, visited: Tensor | None = None) -> WholeOpinions:
        """U (10): row j is branch j's distribution restricted to S \\ {j}.

        `visited` marks the rows that were seen before; None: all were.
        """
        return WholeOpinions(self.logits(z), candidates.unsqueeze(1) & self.outputs, candidates, visited)

    @torch.no_grad()
    def learn(self, z: Tensor, opinions: WholeOpinions, rates: Rates, also: Tensor | None = None) -> None:
        """One step of SGD (16) on the cross-entropy (11), mean over rows, sum over branches.

        The target of branch j is its row of U or, with `also` (B, c), halfway from there to that
        distribution within S \\ {j}. A singleton's own branch has nothing left to learn and skips the row.
        """
        target = opinions.u if also is None else halfway(opinions.u, also.unsqueeze(1), opinions.reduced)
        taught = (~opinions.alone).to(z.dtype) / len(z)
        error = self.probabilities(opinions.logits).sub_(target).mul_(taught.unsqueeze(-1))
        gradients = ((error.flatten(1).T @ z).view_as(self.weight), error.sum(dim=0))
        average_(gradients)
        sgd_(self.weight, self.weight_velocity, gradients[0], rates)
        sgd_(self.bias, self.bias_velocity, gradients[1], rates)


def halfway(u: Tensor, other: Tensor, allowed: Tensor) -> Tensor:
    """½ u + ½ of another distribution, renormalised on the allowed labels."""
    other = (other + 1e-6) * allowed  # where it has nothing left there, it is uniform
    return torch.addcdiv(u, other, other.sum(dim=-1, keepdim=True).clamp(min=1e-6)).mul_(0.5)


def sgd_(parameter: Tensor, velocity: Tensor, gradient: Tensor, rates: Rates) -> None:
    """SGD with momentum and weight decay, written out: it is a few operations on two tensors."""
    velocity.mul_(rates.momentum).add_(gradient.add_(parameter, alpha=rates.decay))
    parameter.sub_(velocity, alpha=rates.lr)
