"""RPLG+: branch weights that start at 1 − mu_j, and a meta-learner that is told which branch is misled.

Not a published method: oneof's change of RPLG (`rplg.py`). Branch j works without label j, so it is misled
exactly when j is the true label, which the classifier believes with probability mu_j. Hence

    w_j = softmax over S of ( g_j(z) + log(1 − mu_j) ),                                             (P1)

and g learns the correction directly. For a clean pair (x, y) and the candidate set S of a random training
row that has y in it, the branch of the true label should get no weight:

    minimise −log( (1 − omega_y) / (|S| − 1) ),   omega = softmax over S of g(z(x)).                (P2)

A few clean rows must not overrule everything else: (P2) is joined by c / n times the mean square of g, for n
clean rows and c labels, and labels that no clean row has are left out of S. No virtual step is taken. Without
clean rows g is 0 and branches learn from themselves alone: that is RPLG-NM with the prior (`ablations.py`).
Numbers in comments are the equations of RPLG's paper; "Why the prior?" in the documentation has the argument
and the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import Batch, CandidateRows, CleanBatch, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.rplg.meta_learner import add_meta_learner, descend
from oneof.methods.rplg.reduction import Reduction, trust
from oneof.methods.targets import candidate_softmax, grouped_softmax
from oneof.nets import evaluation_mode


@register("rplg+", year=2026, venue="oneof", forwards=1, backwards=1)
@dataclass(frozen=True)
class RplgPlus(Reduction):
    """RPLG with branch weights 1 − mu_j, corrected by clean rows if there are any."""

    meta_lr: float = hyper(3e-3, low=1e-4, high=1e-2, log=True, text="learning rate of the meta-learner")
    meta_decay: float = hyper(1e-3, low=1e-5, high=1e-2, log=True, text="weight decay of the meta-learner")
    meta_hidden: int = hyper(0, text="hidden units of the meta-learner; 0 is linear")
    clean_batch: int = hyper(64, text="clean rows the meta-learner sees in a step")
    shrink: float = hyper(1.0, text="how strongly g is pulled to 0 when clean rows are few")

    capturable = True
    shardable = True

    def clean_rows(self, batch_size: int) -> int:
        return self.clean_batch

    def setup(self, task: Task) -> State:
        state = super().setup(task)
        counts = task.clean_counts
        if counts is not None:
            n_features = state.notes["n_features"]
            add_meta_learner(state, task, n_features, self.meta_hidden, self.meta_lr, self.meta_decay)
            few = self.shrink * task.n_classes / max(1, int(counts.sum()))
            state.notes |= {"holders": Holders(task.candidates), "known": counts > 0, "shrink": few}
        return state

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        features = state.net.features(batch.views[0])
        logits = state.net.head(features)
        z = features.detach()
        mu, q_before = state.rows.take(batch.index, "mu", "q")
        # A branch learns from its own opinion and, where clean rows speak through g, from the target of the
        # last visit without its label. Without them q knows no more than f: a branch would only repeat it.
        corrected = hasattr(state, "meta")
        u = self.branch_step(state, batch, z, also=q_before if corrected else None)
        weights = trust(mu)
        if corrected:
            if batch.clean is not None:
                self.correct(state, batch.clean, step)
            with torch.no_grad():
                weights = weights + u.weigh(state.meta, z)
        w = candidate_softmax(weights, batch.candidates)  # (P1)
        q = self.target(state, batch, logits, mu, w, u)
        return mean_cross_entropy([logits, *(state.net(view) for view in batch.views[1:])], q)

    def correct(self, state: State, clean: CleanBatch, step: StepInfo) -> None:
        """One step of g on clean rows, each with a candidate set that its label really comes in."""
        with torch.no_grad(), evaluation_mode(state.net):
            z = state.net.features(clean.x)
        truth = clean.mask.to(torch.uint8).argmax(dim=1)
        labelled = clean.mask.sum(dim=1, keepdim=True) == 1  # a held-out set names no label: it says nothing
        # of a label without any clean row nothing can be learned, only that it was never right
        sets = state.notes["holders"].sets(truth, clean.draw) & labelled & state.notes["known"]
        g = state.meta(z)
        descend(state, g, slope(g.detach(), truth, sets, state.notes["shrink"]), step)


def slope(g: Tensor, truth: Tensor, sets: Tensor, shrink: float) -> Tensor:
    """The derivative by g, (B, c), of (P2) and of `shrink` times the mean square of g within the sets.

    Both are means over rows; −log(1 − omega_y) has the derivative omega − (omega without y, renormalised).
    A row whose set is no more than its label says nothing of branches.
    """
    others = sets.scatter(1, truth[:, None], False)
    several = others.any(dim=1, keepdim=True)
    misled = (grouped_softmax(g, sets) - grouped_softmax(g, others)) * several
    held = g * sets / sets.sum(dim=1, keepdim=True).clamp(min=1)
    return misled.add_(held, alpha=2 * shrink).div_(len(g))


class Holders:
    """For every label the training rows with that label among several candidates."""

    def __init__(self, candidates: CandidateRows) -> None:
        self.candidates = candidates
        self.rows, self.counts = candidates.by_label()
        self.last = (self.counts - 1).clamp(min=0)
        self.first = (self.counts.cumsum(0) - self.counts).clamp(max=max(0, len(self.rows) - 1))
        self.all_held = bool((self.counts > 0).all())

    def sets(self, truth: Tensor, draw: Tensor) -> Tensor:
        """The candidate set of a random holder of each label; the label alone where nobody holds it.

        `draw` has a uniform number for each.
        """
        if self.all_held:
            return self.borrowed(truth, draw)
        shape = len(truth), self.candidates.n_classes
        alone = torch.zeros(shape, dtype=torch.bool, device=truth.device).scatter_(1, truth[:, None], True)
        if not len(self.rows):
            return alone
        return torch.where((self.counts[truth] > 0)[:, None], self.borrowed(truth, draw), alone)

    def borrowed(self, truth: Tensor, draw: Tensor) -> Tensor:
        """That of any row where nobody holds a label."""
        place = torch.minimum((draw * self.counts[truth]).long(), self.last[truth]) + self.first[truth]
        return self.candidates.take(self.rows[place])
