"""Crowd: learns from who said what, and from how reliable each annotator turns out to be.

Not a published method: oneof's join of PRODEN's self-training with Dawid and Skene's model of annotators. The
union of the answers need not hold the truth, so all labels are possible (only the candidates where the source
promises that the truth is among them, or where nobody answered). The target of a row is

    q_y ∝ p(y | x) · ( Π over its answers of p(annotator says l | truth y) )^exponent,

with p(y | x) from the last visit. After each epoch the confusions of the annotators are estimated again, from
the targets as they are then. The first targets are those of Dawid and Skene, without p(y | x). People err
together on hard rows, hence the exponent; it was fixed on generated crowds (`benchmarks/generated_crowds.py`).
Without answers this is PRODEN.
"""

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor

from oneof.candidates.dawid_skene import SaidTable
from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.targets import EXPONENT

FIRST_STEPS = 20
"""Of Dawid and Skene's EM, before there is a classifier."""


@register("crowd", year=2026, venue="oneof", forwards=1, backwards=1)
@dataclass(frozen=True)
class Crowd(Method):
    """PRODEN with all labels possible and the answers of the crowd, weighed by who gave them, as evidence."""

    exponent: float = hyper(
        EXPONENT, low=0.125, high=1.0, log=True, text="how much answers count; 1: all of it"
    )

    def setup(self, task: Task) -> State:
        state = State(task.net)
        possible = task.candidates.dense()
        if task.answers is None:
            spoken = torch.zeros(possible.shape)
        else:
            table = SaidTable(task.answers, task.n_rows, task.n_classes)
            answered = torch.from_numpy(table.answered).to(task.device)[:, None]
            possible = possible | (answered & task.truth_may_be_outside)
            state.notes["said"] = table
            spoken = torch.from_numpy(first_likelihood(table))
        state.notes["possible"] = possible
        support = self.support(state, spoken).to(task.dtype)
        state.rows.add("support", support)
        state.rows.add("target", support.softmax(dim=1))
        return state

    def begin(self, task: Task) -> State:
        return (
            self.setup(task) if task.answers is not None else super().begin(task)
        )  # answers are all there is

    def support(self, state: State, log_likelihood: Tensor) -> Tensor:
        possible = state.notes["possible"]
        return (self.exponent * log_likelihood.to(possible.device)).masked_fill(~possible, -torch.inf)

    def row_numbers(self, n_classes: int) -> int:
        return 2 * n_classes

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target, support = state.rows.take(batch.index, "target", "support")
        logits = [state.net(view) for view in batch.views]
        state.rows.put(batch.index, target=(logits[0].detach() + support).softmax(dim=1))
        return mean_cross_entropy(logits, target)

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> None:
        if "said" in state.notes and step.epoch >= 0:
            spoken = state.notes["said"].log_likelihood(state.rows["target"].double().cpu().numpy())
            every = torch.arange(task.n_rows, device=task.device)
            state.rows.put(every, support=self.support(state, torch.from_numpy(spoken)))


def first_likelihood(table: SaidTable) -> np.ndarray:
    """(n, c): log p(answers | truth) by Dawid and Skene's EM, from the shares of the votes."""
    label = np.zeros((len(table.label), table.n_classes))
    label[np.arange(len(label)), table.label] = 1
    votes = table.votes @ label + 1e-9
    beliefs = votes / votes.sum(axis=1, keepdims=True)
    for _ in range(FIRST_STEPS):
        spoken = table.log_likelihood(beliefs)
        beliefs = softmax(spoken + np.log(beliefs[table.answered].mean(axis=0) + 1e-9), axis=1)
    return spoken
