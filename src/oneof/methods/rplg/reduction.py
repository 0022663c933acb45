"""What RPLG and RPLG+ have in common: branches, row tables, and what is told of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper
from oneof.methods.rplg.branches import Opinions, Rates, branch_numbers, make_branches
from oneof.methods.targets import candidate_softmax

FLOOR = 1e-4
"""Of 1 − mu: no branch is ever ruled out."""


def trust(mu: Tensor) -> Tensor:
    """log(1 − mu_j): branch j is misled exactly when j is the true label."""
    return (1 - mu).clamp(min=FLOOR).log()


@dataclass(frozen=True)
class Reduction(Method):
    """Branches that each work without one label, and their mix as a row's second opinion."""

    alpha: float = hyper(0.5, low=0.1, high=0.9, text="share of the classifier's own opinion in the target")
    branch_lr: float = hyper(5e-2, low=1e-2, high=2e-1, log=True, text="learning rate of the branches (SGD)")
    branch_momentum: float = hyper(0.9, text="momentum of the branches")
    branch_decay: float = hyper(1e-4, text="weight decay of the branches")

    watched = ("mu", "v", "q")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha!r}; give a share from 0 to 1.")

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return state.notes["all_visited"]

    def setup(self, task: Task) -> State:
        with torch.no_grad():
            n_features = task.net.features(task.example).shape[1]
        branches = make_branches(task.n_classes, n_features, task.batch_size, task.candidates.largest)
        state = State(task.net, branches=branches.to(task.dtype))
        state.notes |= {"all_visited": False, "n_features": n_features}
        for name in ("mu", "v", "q", "q_before", "w"):
            state.rows.add(name, task.uniform, support=task.candidates)
        state.rows.add("visited", torch.zeros(task.n_rows, dtype=torch.bool, device=task.device))
        return state

    def row_numbers(self, n_classes: int) -> int:
        return 5 * n_classes + 1

    def extra_numbers(self, n_classes: int, n_features: int, batch_size: int) -> int:
        return branch_numbers(n_classes, n_features, batch_size)

    def branch_step(self, state: State, batch: Batch, z: Tensor, also: Tensor | None = None) -> Opinions:
        """U for this step (10), then one step of every branch (16) towards its row of U, and `also`."""
        visited = None if state.notes["all_visited"] else state.rows.take(batch.index, "visited")
        u = state.branches.opinions(z, batch.candidates, visited)
        rates = Rates(self.branch_lr, self.branch_momentum, self.branch_decay)
        state.branches.learn(z, u, rates, also)
        return u

    def target(
        self, state: State, batch: Batch, logits: Tensor, mu: Tensor, w: Tensor, u: Opinions
    ) -> Tensor:
        """q (7), stored with all that it comes from; mu of the next visit is this pass's opinion (8)."""
        v = batch.weighed(u.mix(w))  # (9), times the evidence where there is some
        q = self.alpha * mu + (1 - self.alpha) * v  # (7)
        own = batch.weighed(candidate_softmax(logits.detach(), batch.candidates))
        state.rows.put(batch.index, mu=own, v=v, q=q, w=w)
        if not state.notes["all_visited"]:
            state.rows.put(batch.index, visited=torch.ones_like(batch.index, dtype=torch.bool))
        return q

    def report(self, state: State, truth: Tensor | None) -> dict[str, Tensor]:
        facts = super().report(state, truth)
        rows = state.rows
        facts["q_change"] = rows.each(lambda q, before: (q - before).abs().sum(dim=1), "q", "q_before").mean()
        label = rows.best("w") if truth is None else truth.clamp(min=0)
        size, entropy, on_label = rows.each(_weights, "w", label).unbind(dim=1)
        several = size > 1  # a single candidate leaves nothing to weigh
        if bool(several.any()):
            facts["w_entropy"] = entropy[several].mean()
            if truth is not None:
                facts["w_on_truth"] = on_label[several & (truth >= 0)].mean()
        return facts

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> None:
        state.rows.copy("q_before", "q")
        state.notes["all_visited"] = bool(state.rows["visited"].all())  # saves work, changes no number


def _weights(w: Tensor, label: Tensor) -> Tensor:
    """(B, 3): how many branches have a say in each row, the entropy of their weights, and one of these."""
    return torch.stack(
        [(w > 0).sum(dim=1), -torch.xlogy(w, w).sum(dim=1), w.gather(1, label[:, None])[:, 0]], dim=1
    )
