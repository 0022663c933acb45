"""Branches for many labels: factorised, and asked only where they have a say.

Whole branches hold c² · d numbers: 8 GB for c = 1000 and d = 2048, and as much again for momentum and
gradient. Here branch j is a common layer plus a correction of small rank,

    logits_j(z) = W z + b + A_j (C z),        W: c × d, C: r × d, A_j: c × r,

and a row only meets the branches of its own candidates, in opinions (K labels instead of c, K the largest
set) and in training.

Deviations from the paper: the low rank, and that branch j does not learn from rows without j among their
candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.parallel import average_
from oneof.methods.rplg.branches import Rates, halfway, sgd_
from oneof.methods.targets import grouped_softmax, uniform


class CandidateOpinions:
    """U restricted to the candidates of each row.

    Parameters
    ----------
    labels : int (B, K)
        The candidates of every row; beyond its own number other labels, where `there` is false.
    there : bool (B, K)
    logits : (B, K, c)
        Of the candidates' branches.
    short, corrections : (B, r), (B, K, c, r)
        C z and the A_j that gave the logits.
    visited : bool (B,), optional
        The rows that were seen before; None: all were.
    """

    def __init__(
        self,
        labels: Tensor,
        there: Tensor,
        logits: Tensor,
        short: Tensor,
        corrections: Tensor,
        visited: Tensor | None,
    ) -> None:
        self.labels, self.there, self.logits = labels, there, logits
        self.short, self.corrections = short, corrections
        places = torch.arange(labels.shape[1], device=labels.device)
        self.reduced = there.unsqueeze(1) & there.unsqueeze(2) & (places[:, None] != places)  # S \ {j}
        u = grouped_softmax(logits.gather(2, self.by_branch), self.reduced)
        if visited is not None:  # a row's first opinions are uniform
            u = torch.where(visited[:, None, None], u, uniform(self.reduced, like=u))
        self.u = u
        """(B, K, K): what the branch of candidate k thinks of candidate l."""
        self.alone = there & (there.sum(dim=1, keepdim=True) == 1)

    @property
    def by_branch(self) -> Tensor:
        """The labels once more for every branch of the row, (B, K, K)."""
        return self.labels.unsqueeze(1).expand(-1, self.labels.shape[1], -1)

    def inside(self, values: Tensor) -> Tensor:
        """(B, K) of (B, c): the entries of the candidates, 0 beyond their number."""
        return values.gather(1, self.labels) * self.there

    def mix(self, w: Tensor) -> Tensor:
        weights = self.inside(w)
        mixed = torch.bmm(weights.unsqueeze(1), self.u).squeeze(1)
        return self._spread(mixed + weights * self.alone)  # a labelled row's own label

    def slopes(self, slope: Tensor) -> Tensor:
        inside = self.inside(slope)
        return self._spread(torch.bmm(self.u, inside.unsqueeze(2)).squeeze(2) + inside * self.alone)

    def _spread(self, inside: Tensor) -> Tensor:
        whole = inside.new_zeros(len(inside), self.logits.shape[2])
        return whole.scatter_add_(1, self.labels, inside * self.there)


class LowRankBranches(nn.Module):
    """One branch per label, as a common layer and a correction of small rank.

    Parameters
    ----------
    n_classes, n_features, rank : int
        c, d and r.
    largest_set : int
        K, the size of the largest candidate set.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    code: nn.Parameter
    correction: nn.Parameter

    def __init__(self, n_classes: int, n_features: int, rank: int, largest_set: int) -> None:
        super().__init__()
        self.largest_set = largest_set
        code = torch.randn(rank, n_features) / n_features**0.5
        # as in the whole form everything that is learned starts at zero, except the code: it would never move
        for name, start in (
            ("weight", torch.zeros(n_classes, n_features)),
            ("bias", torch.zeros(n_classes)),
            ("code", code),
            ("correction", torch.zeros(n_classes, n_classes, rank)),
        ):
            setattr(self, name, nn.Parameter(start, requires_grad=False))
            self.register_buffer(f"{name}_velocity", torch.zeros_like(start))

    @torch.no_grad()
    def opinions(self, z: Tensor, candidates: Tensor, visited: Tensor | None = None) -> CandidateOpinions:
        """U (10), of the candidates' branches."""
        labels, there = listed(candidates, self.largest_set)
        short = z @ self.code.T
        corrections = self.correction[labels]
        logits = (z @ self.weight.T + self.bias).unsqueeze(1)
        logits = logits + torch.einsum("bkcr,br->bkc", corrections, short)
        return CandidateOpinions(labels, there, logits, short, corrections, visited)

    @torch.no_grad()
    def learn(self, z: Tensor, opinions: CandidateOpinions, rates: Rates, also: Tensor | None = None) -> None:
        """One step of SGD (16) on the cross-entropy (11); targets as in the whole form."""
        o = opinions
        target = o.u if also is None else halfway(o.u, o.inside(also).unsqueeze(1), o.reduced)
        taught = (o.there & ~o.alone).to(z.dtype) / len(z)
        known = torch.ones_like(o.logits, dtype=torch.bool).scatter_(2, o.labels.unsqueeze(2), False)
        error = grouped_softmax(o.logits, known)
        error.scatter_add_(2, o.by_branch, -target * o.reduced)
        error.mul_(taught.unsqueeze(-1))
        common = error.sum(dim=1)
        per_pair = error.unsqueeze(-1) * o.short[:, None, None, :]
        correction = torch.zeros_like(self.correction)
        gradients = {
            "weight": common.T @ z,
            "bias": common.sum(dim=0),
            "code": torch.einsum("bkc,bkcr->br", error, o.corrections).T @ z,
            "correction": correction.index_add_(0, o.labels.flatten(), per_pair.flatten(0, 1)),
        }
        average_(list(gradients.values()))
        for name, gradient in gradients.items():
            sgd_(getattr(self, name), getattr(self, f"{name}_velocity"), gradient, rates)


def listed(candidates: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """The labels of every set in a row of `largest` places, and which places are taken."""
    # a stable order: candidates first, by number
    there, labels = candidates.to(torch.uint8).sort(dim=1, descending=True, stable=True)
    return labels[:, :largest], there[:, :largest].bool()
