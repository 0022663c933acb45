"""Branches for many labels: memory grows with c, and a step costs about as much as one more head.

Whole branches hold c² · d numbers: 8 GB for c = 1000 and d = 2048, and as much again for momentum and
gradient. Here branch j has a common layer and, between the candidates of a row, a correction of small rank,

    logits_jk(z) = W_k z + b_k + [k in S] · e_k · (t_j * C z),        W: c × d, C: r × d, e_k and t_j: r,

so that all labels outside S weigh the same in every branch of a row: they are summed once, as if they were
one label ("pooled"). No tensor has more than (B, c) or (B, K, K) entries.

Deviations from the paper: the low rank; that the correction is for candidates alone; that branch j does not
learn from rows without j among their candidates; and of a set with more than K labels only the K most
probable ones (by the common layer) have branches of their own: to these the others are one more pooled
label, and the branches of the others are all the common layer, without correction.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.parallel import average_
from oneof.methods.rplg.branches import Rates, halfway, sgd_
from oneof.methods.targets import grouped_softmax


class CandidateOpinions:
    """U restricted to the candidates of each row; P is K, or K + 1 where labels beyond K are pooled.

    Parameters
    ----------
    branches : LowRankBranches
    z : (B, d)
    candidates : bool (B, c)
    visited : bool (B,), optional
        The rows that were seen before; None: all were.
    """

    def __init__(
        self, branches: LowRankBranches, z: Tensor, candidates: Tensor, visited: Tensor | None
    ) -> None:
        self.common = z @ branches.weight.T + branches.bias
        masked = self.common.masked_fill(~candidates, -torch.inf)
        self.labels = masked.topk(branches.places, dim=1).indices
        """(B, K): candidates; beyond their number other labels, where `there` is false."""
        self.there = candidates.gather(1, self.labels)
        self.short, self.of_branch = z @ branches.code.T, branches.of_branch[self.labels]
        self.of_label = branches.of_label[self.labels]
        self.scaled = self.of_branch * self.short.unsqueeze(1)
        self.corrections = self.scaled @ self.of_label.mT
        self.alone = self.there & (candidates.sum(dim=1, keepdim=True) == 1)
        own = torch.eye(branches.places, dtype=torch.bool, device=z.device)
        self.reduced = self.there.unsqueeze(1) & self.there.unsqueeze(2) & ~own  # S \ {j}
        self.own = candidates  # those with branches of their own
        self.others: Tensor | None = None
        common, corrections = self.common, self.corrections
        if visited is not None:  # a row's first opinions are uniform
            common, corrections = common * visited.unsqueeze(1), corrections * visited[:, None, None]
        logits, self.allowed = common.gather(1, self.labels).unsqueeze(1) + corrections, self.reduced
        if branches.capped:
            self.own = torch.zeros_like(candidates).scatter_(1, self.labels, self.there)
            self.others = candidates & ~self.own
            self.within, weight = pooled(common, self.others)
            logits, self.allowed = self._with_others(logits, common, weight)
        self.u = grouped_softmax(logits, self.allowed)
        """(B, P, P): what the branch of candidate k thinks of candidate l."""

    def _with_others(self, logits: Tensor, common: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """One more label for all others, and one more branch for theirs: the common layer."""
        some = torch.cat([self.there, self.others.any(dim=1, keepdim=True)], dim=1)  # type: ignore[union-attr]
        last = torch.cat([common.gather(1, self.labels), weight], dim=1).unsqueeze(1)
        logits = torch.cat([logits, weight.unsqueeze(1).expand(-1, logits.shape[1], -1)], dim=2)
        allowed = torch.cat([self.reduced, (self.there & some[:, -1:]).unsqueeze(2)], dim=2)
        return torch.cat([logits, last], dim=1), torch.cat([allowed, some.unsqueeze(1)], dim=1)

    def inside(self, values: Tensor, pool: Tensor | None = None) -> Tensor:
        """(B, P) of (B, c): the entries of the candidates, 0 beyond their number; others `pool`ed."""
        inside = values.gather(1, self.labels) * self.there
        if self.others is None:
            return inside
        pool = self.others if pool is None else pool
        return torch.cat([inside, (values * pool).sum(dim=1, keepdim=True)], dim=1)

    def spread(self, inside: Tensor, pool: Tensor | None = None) -> Tensor:
        """(B, c) of (B, P); what belongs to the others is multiplied by `pool` (B, c)."""
        k = self.labels.shape[1]
        spread = torch.zeros_like(self.common).scatter_add_(1, self.labels, inside[:, :k] * self.there)
        return spread if pool is None else spread.addcmul_(inside[:, k:], pool)

    def mix(self, w: Tensor) -> Tensor:
        weights = self.inside(w)
        mixed = torch.bmm(weights.unsqueeze(1), self.u).squeeze(1)
        mixed[:, : self.labels.shape[1]] += w.gather(1, self.labels) * self.alone  # a labelled row
        return self.spread(mixed, None if self.others is None else self.within)

    def slopes(self, slope: Tensor) -> Tensor:
        inside = self.inside(slope, None if self.others is None else self.within)
        slopes = torch.bmm(self.u, inside.unsqueeze(2)).squeeze(2)
        slopes[:, : self.labels.shape[1]] += slope.gather(1, self.labels) * self.alone
        return self.spread(slopes, None if self.others is None else self.others.to(slope.dtype))

    def weigh(self, g: nn.Module, z: Tensor) -> Tensor:
        if self.others is not None:
            return g(z)
        *hidden, last = g if isinstance(g, nn.Sequential) else (g,)
        assert isinstance(last, nn.Linear)  # of this layer only the candidates' rows are needed
        for layer in hidden:
            z = layer(z)
        inside = torch.bmm(last.weight[self.labels], z.unsqueeze(2)).squeeze(2) + last.bias[self.labels]
        return self.spread(inside)


class LowRankBranches(nn.Module):
    """One branch per label, as a common layer and a correction of small rank.

    Parameters
    ----------
    n_classes, n_features, rank : int
        c, d and r.
    largest_set : int
        The size of the largest candidate set.
    cap : int
        K is at most this.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    code: nn.Parameter
    of_branch: nn.Parameter
    of_label: nn.Parameter

    def __init__(self, n_classes: int, n_features: int, rank: int, largest_set: int, cap: int) -> None:
        super().__init__()
        self.places, self.capped = min(largest_set, cap), largest_set > cap
        # As in the whole form opinions start at zero. Of a product's factors one must not, or none moves;
        # it is small, because fast corrections only make every branch sure of what it thought first.
        for name, start in (
            ("weight", torch.zeros(n_classes, n_features)),
            ("bias", torch.zeros(n_classes)),
            ("code", torch.randn(rank, n_features) / n_features**0.5),
            ("of_branch", torch.randn(n_classes, rank) / max(1, rank)),
            ("of_label", torch.zeros(n_classes, rank)),
        ):
            setattr(self, name, nn.Parameter(start, requires_grad=False))
            self.register_buffer(f"{name}_velocity", torch.zeros_like(start))

    @torch.no_grad()
    def opinions(self, z: Tensor, candidates: Tensor, visited: Tensor | None = None) -> CandidateOpinions:
        """U (10), of the candidates' branches."""
        return CandidateOpinions(self, z, candidates, visited)

    @torch.no_grad()
    def learn(self, z: Tensor, opinions: CandidateOpinions, rates: Rates, also: Tensor | None = None) -> None:
        """One step of SGD (16) on the cross-entropy (11); targets as in the whole form."""
        o, k = opinions, self.places
        target = o.u[:, :k]  # the common layer of the others has branches enough that teach it
        if also is not None:
            target = halfway(target, o.inside(also).unsqueeze(1), o.allowed[:, :k])
        taught = ((o.there & ~o.alone).to(z.dtype) / len(z)).unsqueeze(2)
        outside, weight = pooled(o.common, ~o.own)
        logits = o.common.gather(1, o.labels).unsqueeze(1) + o.corrections
        logits = torch.cat([logits, weight.unsqueeze(1).expand(-1, k, -1)], dim=2)
        some = (~o.own).any(dim=1)[:, None, None].expand(-1, k, -1)
        p = grouped_softmax(logits, torch.cat([o.reduced, some], dim=2)).mul_(taught)
        target = target * taught
        pairs = p[:, :, :k] - target[:, :, :k]
        common = outside.mul_(p[:, :, k].sum(dim=1, keepdim=True))
        common.scatter_add_(1, o.labels, pairs.sum(dim=1))
        if o.others is not None:
            common.addcmul_(o.within, target[:, :, k].sum(dim=1, keepdim=True), value=-1)
        to_scaled = pairs @ o.of_label
        gradients = {
            "weight": common.T @ z,
            "bias": common.sum(dim=0),
            "code": (to_scaled * o.of_branch).sum(dim=1).T @ z,
            "of_branch": self._by_label(o.labels, to_scaled * o.short.unsqueeze(1)),
            "of_label": self._by_label(o.labels, pairs.mT @ o.scaled),
        }
        average_(list(gradients.values()))
        for name, gradient in gradients.items():
            sgd_(getattr(self, name), getattr(self, f"{name}_velocity"), gradient, rates)

    def _by_label(self, labels: Tensor, values: Tensor) -> Tensor:
        """(c, r): the sum of values (B, K, r) of each label."""
        return torch.zeros_like(self.of_label).index_add_(0, labels.flatten(), values.flatten(0, 1))


def pooled(logits: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Labels of a mask as one: the distribution within, and the logit of their sum; 0 without any."""
    inside = logits.masked_fill(~mask, -torch.inf)
    top = inside.amax(dim=1, keepdim=True).nan_to_num_(neginf=0)
    e = inside.sub_(top).exp_()
    total = e.sum(dim=1, keepdim=True).clamp_(min=torch.finfo(e.dtype).tiny)
    return e.div_(total), total.log_().add_(top)
