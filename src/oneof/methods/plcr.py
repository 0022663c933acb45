"""PLCR: consistency regularisation for partial labels (also called CR-DPLL).

Wu, Wang, Zhang, "Revisiting Consistency Regularization for Deep Partial Label Learning", ICML 2022.

Labels outside the set are certainly wrong: a supervised loss pushes them down on the weak view. On the
candidates, all views must agree with one distribution w, the minimiser of Σ_a KL(w ‖ p^a): the
normalised geometric mean of the views' predictions, from the row's previous visit. With views a = 0, 1, 2

    L_sup = −Σ_{k ∉ S} log(1 − p⁰_k),    L_con = Σ_a KL(w ‖ p^a),    L = L_sup + λ(e) L_con,
    λ(e) = λ min(e / T, 1), epochs e counted from 0: the first epoch trains on L_sup alone,
    w_k ← (Π_a p^a_k)^{1/3} / Σ_{j ∈ S} (Π_a p^a_j)^{1/3} for k ∈ S, from the same forward, before the step.

Adapted on tables: there is one view, the row itself. The consistency term keeps its factor 3, and the
update is PRODEN's, so that PLCR is PRODEN with a ramp plus the loss on non-candidates.

Deviations: T is a share of the training, so that λ arrives whatever its length (the authors have 100 of
200 epochs; some ports overwrite λ by its first value, which is 0). With ramp 0 it is there from the first
step: no epoch of L_sup alone makes w sure of a candidate before anything holds it back. log(1 − p) is
exact in log space, where the authors add 10⁻⁷ to its argument, which takes the gradient away from labels
that are surely wrong and yet believed. No search range is published: the ranges here are ours.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import Batch, State, StepInfo, hyper, register
from oneof.methods.losses import mean_cross_entropy, negative_loss
from oneof.methods.parts.schedules import fade_in
from oneof.methods.proden import Proden
from oneof.methods.targets import candidate_softmax


@register(
    "plcr", year=2022, venue="ICML", forwards=1, backwards=1, note="adapted on tables; three views on images"
)
@dataclass(frozen=True)
class Plcr(Proden):
    """All views agree on one distribution over the candidates; all other labels are pushed down."""

    weight: float = hyper(1.0, choices=(0.5, 1.0, 2.0), text="λ, the final weight of the consistency term")
    ramp: float = hyper(0.5, choices=(0.25, 0.5, 1.0), text="share of the epochs in which λ grows; 0: none")

    views = ("weak", "strong", "strong2")
    capturable = True
    shardable = True

    # the table of targets, and that it starts uniform, is PRODEN's

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return self.weight_at(step)  # a recorded step would keep the first epoch's, which is 0

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target = state.rows.take(batch.index, "target")
        logits = [state.net(view) for view in batch.views]
        state.rows.put(batch.index, target=shared_target([z.detach() for z in logits], batch.candidates))
        # a sum over the views asked for, whether or not they are distinct
        consistency = len(self.views) * consistency_loss(logits, target)
        return negative_loss(logits[0], batch.candidates) + self.weight_at(step) * consistency

    def weight_at(self, step: StepInfo) -> float:
        """λ(e): linear from 0 in the first epoch."""
        return self.weight * fade_in(step, self.ramp)


def consistency_loss(logits: list[Tensor], target: Tensor) -> Tensor:
    """KL(target ‖ softmax), averaged over the views."""
    return mean_cross_entropy(logits, target) - torch.special.entr(target).sum(dim=-1)


def shared_target(logits: list[Tensor], mask: Tensor) -> Tensor:
    """The candidates' normalised geometric mean over the views' predictions."""
    # a mean of log-probabilities is a mean of logits up to a constant per row, which cancels
    return candidate_softmax(torch.stack(logits).mean(dim=0), mask)
