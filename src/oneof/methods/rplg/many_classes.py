"""The branches of RPLG for many labels: factorised, and asked only where they have a say.

With c labels and d features the branches of `branches.py` hold c² · d numbers: 8 GB for c = 1000 and
d = 2048, and as much again for momentum and gradient. Here branch j is a common layer plus a correction of
small rank,

    logits_j(z) = W z + b + A_j (C z),        W: c × d, C: r × d, A_j: c × r,

and a row only meets the branches of its own candidates, in opinions (K labels instead of c, K the largest
set) and in training.

Deviations from the paper: the low rank, and that branch j does not learn from rows without j among their
candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.rplg.branches import descend
from oneof.methods.targets import grouped_softmax
from oneof.parallel import average_

FULL_LIMIT = 2**27
"""Up to so many numbers c² · d the full form is taken by default: half a gigabyte, three times."""


class CandidateOpinions:
    """U restricted to the candidates of each row.

    Parameters
    ----------
    labels : int (B, K)
        The candidates of every row; beyond its own number other labels, where `there` is false.
    there : bool (B, K)
    values : (B, K, K)
        Entry (k, l): what the branch of candidate k thinks of candidate l.
    n_classes : int
    """

    def __init__(self, labels: Tensor, there: Tensor, values: Tensor, n_classes: int) -> None:
        self.labels, self.there, self.values, self.n_classes = labels, there, values, n_classes

    def mix(self, w: Tensor) -> Tensor:
        """v = w U (R6), (B, c)."""
        weights = w.gather(1, self.labels) * self.there
        return self._spread(torch.bmm(weights.unsqueeze(1), self.values).squeeze(1))

    def slopes(self, slope: Tensor) -> Tensor:
        """Derivative with respect to w of something with derivative `slope` with respect to v."""
        inside = slope.gather(1, self.labels) * self.there
        return self._spread(torch.bmm(self.values, inside.unsqueeze(2)).squeeze(2))

    def _spread(self, inside: Tensor) -> Tensor:
        whole = inside.new_zeros(len(inside), self.n_classes)
        return whole.scatter_add_(1, self.labels, inside * self.there)


class CandidateBranches(nn.Module):
    """One branch per label, as a common layer and a correction of small rank.

    Parameters
    ----------
    n_classes, n_features, rank : int
        c, d and r.
    largest : int
        K, the size of the largest candidate set.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    code: nn.Parameter
    correction: nn.Parameter

    def __init__(self, n_classes: int, n_features: int, rank: int, largest: int) -> None:
        super().__init__()
        self.n_classes, self.largest = n_classes, largest
        code = torch.randn(rank, n_features) / n_features**0.5
        # as in the full form everything that is learned starts at zero, except the code: it would never move
        for name, start in (
            ("weight", torch.zeros(n_classes, n_features)),
            ("bias", torch.zeros(n_classes)),
            ("code", code),
            ("correction", torch.zeros(n_classes, n_classes, rank)),
        ):
            setattr(self, name, nn.Parameter(start, requires_grad=False))
            self.register_buffer(f"{name}_velocity", torch.zeros_like(start))

    @torch.no_grad()
    def step(
        self,
        z: Tensor,
        candidates: Tensor,
        visited: Tensor | None,
        row_weight: Tensor | None,
        rates: tuple[float | Tensor, float, float],
    ) -> CandidateOpinions:
        """Opinions before, then one step of SGD (R13) with learning rate, momentum and weight decay."""
        labels, there = listed(candidates, self.largest)
        own = torch.arange(self.largest, device=z.device)
        short = z @ self.code.T
        corrections = self.correction[labels]  # (B, K, c, r)
        logits = (z @ self.weight.T + self.bias).unsqueeze(1)
        logits = logits + torch.einsum("bkcr,br->bkc", corrections, short)

        others = there.unsqueeze(1) & there.unsqueeze(2) & (own[:, None] != own)  # S \ {j}, by branch
        inside = logits.gather(2, labels.unsqueeze(1).expand(-1, self.largest, -1))
        u = grouped_softmax(inside, others)
        if visited is not None:
            flat = others.to(u.dtype)
            flat = flat / flat.sum(dim=-1, keepdim=True).clamp(min=1)
            u = torch.where(visited[:, None, None], u, flat)
        single = there.sum(dim=1, keepdim=True) == 1
        values = u + torch.diag_embed((single & there).to(u.dtype))  # a labelled row's own label

        weight = (there & ~single).to(z.dtype) / len(z)
        if row_weight is not None:
            weight = weight * row_weight.gather(1, labels)
        allowed = torch.ones_like(logits, dtype=torch.bool).scatter_(2, labels.unsqueeze(2), False)
        error = grouped_softmax(logits, allowed)
        error.scatter_add_(2, labels.unsqueeze(1).expand_as(u), -u * others)
        error.mul_(weight.unsqueeze(-1))
        self._move(error, z, short, labels, corrections, rates)
        return CandidateOpinions(labels, there, values, self.n_classes)

    def _move(
        self,
        error: Tensor,
        z: Tensor,
        short: Tensor,
        labels: Tensor,
        corrections: Tensor,
        rates: tuple[float | Tensor, float, float],
    ) -> None:
        """The closed-form gradient of the branches' cross-entropy (R9), and a step along it."""
        lr, momentum, decay = rates
        common = error.sum(dim=1)
        per_pair = error.unsqueeze(-1) * short[:, None, None, :]
        correction = torch.zeros_like(self.correction).index_add_(0, labels.flatten(), per_pair.flatten(0, 1))
        gradients = {
            "weight": common.T @ z,
            "bias": common.sum(dim=0),
            "code": torch.einsum("bkc,bkcr->br", error, corrections).T @ z,
            "correction": correction,
        }
        average_(list(gradients.values()))
        for name, gradient in gradients.items():
            parameter, velocity = getattr(self, name), getattr(self, f"{name}_velocity")
            velocity.mul_(momentum).add_(gradient.add_(parameter, alpha=decay))
            descend(parameter, velocity, lr)


def listed(candidates: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """The labels of every set in a row of `largest` places, and which places are taken."""
    # a stable order: candidates first, by number
    there, labels = candidates.to(torch.uint8).sort(dim=1, descending=True, stable=True)
    return labels[:, :largest], there[:, :largest].bool()


def takes_full_form(n_classes: int, n_features: int) -> bool:
    """Whether the branches are few and small enough to be kept whole."""
    return n_classes**2 * n_features <= FULL_LIMIT
