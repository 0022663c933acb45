"""Crowd: learns from who said what, and from how reliable each annotator turns out to be.

Not a published method: oneof's join of PRODEN's self-training with Dawid and Skene's model of annotators. The
union of the answers need not hold the truth, so all labels are possible (only the candidates where the source
promises that the truth is among them, or where nobody answered). The target of a row is

    q_y ∝ p(y | x) · ( Π over its answers of p(annotator says l | truth y) )^exponent,

with p(y | x) and the confusions as they were at its last visit. After each epoch the confusions are
estimated again, from the targets as they are then. The first targets are those of Dawid and Skene, without
p(y | x). People err together on hard rows, hence the exponent (fixed on generated crowds).
Without answers this is PRODEN.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oneof.candidates.evidence import SaidTable, settle
from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.targets import EXPONENT


@register("crowd", year=2026, venue="oneof", forwards=1, backwards=1)
@dataclass(frozen=True)
class Crowd(Method):
    """PRODEN with every label possible and crowd answers, weighted by who gave them, as evidence."""

    exponent: float = hyper(EXPONENT, low=0.125, high=1.0, log=True, text="how much the answers count")

    def setup(self, task: Task) -> State:
        state = State(task.net)
        possible = task.candidates.dense()
        if task.answers is None:
            evidence = task.candidates.evidence(torch.arange(task.n_rows, device=task.device))
            support = torch.zeros_like(possible, dtype=task.dtype) if evidence is None else evidence
        else:
            table = state.notes["said"] = SaidTable.of_answers(task.answers, task.n_rows, task.n_classes)
            answered = torch.from_numpy(table.answered).to(task.device)[:, None]
            possible = possible | (answered & task.truth_may_be_outside)
            first = settle(table).posterior  # Dawid and Skene
            support = self.tempered(table.log_likelihood(first), task)
        state.notes["possible"] = possible
        support = support.masked_fill(~possible, -torch.inf)
        state.rows.add("support", support)
        state.rows.add("target", support.softmax(dim=1))
        return state

    def begin(self, task: Task) -> State:
        return self.setup(task)  # all evidence is in the support

    def tempered(self, log_likelihood: np.ndarray, task: Task) -> Tensor:
        return torch.from_numpy(self.exponent * log_likelihood).to(task.device, task.dtype)

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
            support = self.tempered(spoken, task).masked_fill(~state.notes["possible"], -torch.inf)
            state.rows.put(torch.arange(task.n_rows, device=task.device), support=support)
