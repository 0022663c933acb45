"""LWS: the leveraged weighted loss with the sigmoid as surrogate.

Wen, Cui, Hang, Liu, Wang, Lin, "Leveraged Weighted Loss for Partial Label Learning", ICML 2021.

One-versus-rest losses on all labels: candidates are pushed up, the others down, and the leverage β
trades the two groups off. With σ the logistic function

    L = Σ_{k ∈ S} w_k σ(−z_k) + β Σ_{k ∉ S} w_k σ(z_k).

The surrogate is the sigmoid itself, which is bounded, not its logarithm. The weights start at 1/c for
every label; after every step a forward pass on the same batch sets them to the softmax of the logits,
normalised within each of the two groups.

Deviations: both normalisations are made in log space and without the 1e-8 that public code adds to
every term of the sums; a logit of exactly 0 has a gradient; the forward pass after the step leaves the
statistics of batch normalisation alone (see RC). With several views the loss is their mean and the
weights come from the first (the paper trains on one, without augmentation). Where candidates come with
evidence their first weights are this, with the sum 1; those of other labels are 1/c all the same.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_of
from oneof.methods.targets import grouped_softmax, restrict
from oneof.nets.base import peek


@register("lws", year=2021, venue="ICML", forwards=2, backwards=1)
@dataclass(frozen=True)
class Lws(Method):
    """Bounded one-versus-rest losses; a leverage balances candidates against all other labels."""

    capturable = True
    shardable = True

    leverage: float = hyper(1.0, choices=(1.0, 2.0), text="β, the weight of the labels outside the set")

    def setup(self, task: Task) -> State:
        state = State(task.net)
        mask = task.candidates.dense()  # labels outside the set have weights too: no table by candidate
        first = torch.full(mask.shape, 1 / task.n_classes, dtype=task.dtype, device=task.device)
        state.rows.add("target", torch.where(mask, first, -first))
        return state

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        weights = state.rows.take(batch.index, "target").abs()
        losses = [
            leveraged_loss(state.net(view), batch.candidates, weights, self.leverage) for view in batch.views
        ]
        return mean_of(losses)

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        logits = peek(state.net, batch.views[0])
        state.rows.put(batch.index, target=signed_softmax(logits, batch.candidates))

    def pseudo_labels(self, state: State, task: Task, index: Tensor) -> Tensor:
        # before a row's first visit its candidates have the mass |S|/c
        return restrict(state.rows.take(index, "target").clamp(min=0), task.candidates.take(index))


def leveraged_loss(logits: Tensor, mask: Tensor, weights: Tensor, leverage: float) -> Tensor:
    """Σ_{k ∈ S} w_k σ(−z_k) + β Σ_{k ∉ S} w_k σ(z_k)."""
    wrong = torch.sigmoid(torch.where(mask, -logits, logits))
    if leverage != 1:
        weights = torch.where(mask, weights, leverage * weights)
    return (weights * wrong).sum(dim=-1)


def signed_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax within the candidates, and minus that within the other labels.

    So weights are stored: negative outside the set, and a row's largest entry is a candidate.
    """
    return grouped_softmax(logits, mask) - grouped_softmax(logits, ~mask)
