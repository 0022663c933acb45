"""POP: progressive purification of candidate sets.

Xu, Liu, Lv, Qiao, Geng, "Progressive Purification for Instance-Dependent Partial Label Learning",
ICML 2023.

Self-training as in PRODEN on a set that shrinks. Y_i, the labels still alive, starts as S_i; the target
C_i of a row's next visit is the softmax of its first view within Y_i. At the end of the epochs
t ≥ warm-up with t mod W = 0, P_i is the mean of C_i over the last W epochs, and

    Y_i loses, for good, every label with P_ij / max_k P_ik < θ;
    C_i ← P_i restricted to Y_i;
    θ ← θ (1 + growth) if θ < 0.4 and fewer than 10⁻⁴ n c labels were removed.

With the default growth of 10⁻³ at most once in W epochs θ hardly moves: 500 epochs take it to 1.1 · 10⁻³.

Deviations: the weak view takes the place of the plain one, which the authors use on CIFAR, so that all
methods see the same views. The last W epochs are kept as a sum that starts anew every W epochs, not as W
tables: removals are W epochs apart, so the mean is the same. (Where the warm-up is shorter than W, the
mean is over the epochs there are.) The warm-up counts epochs, however few there are: a shorter training is
PRODEN. The labels alive are a table of their own; the authors recover them from C > 0, so that a weight
which underflows is lost without a decision.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from oneof.methods.base import Batch, Method, RowState, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.targets import candidate_softmax, restrict

THETA_LIMIT = 0.4  # θ grows no further
STALLED = 1e-4  # share of all n · c entries below which a removal counts as stalled


@register("pop", year=2023, venue="ICML", forwards=1, backwards=1, note="three views on images")
@dataclass(frozen=True)
class Pop(Method):
    """Self-training that permanently removes candidates the model no longer believes."""

    theta: float = hyper(
        1e-3, low=10**-4.5, high=10**-2.5, log=True, text="remove a label below this share of the row's best"
    )
    growth: float = hyper(
        1e-3, low=10**-4.5, high=10**-2.5, log=True, text="how fast theta grows once few labels are removed"
    )
    warm_up: int = hyper(20, choices=(10, 15, 20), text="epochs before the first removal")
    window: int = hyper(5, low=3, high=7, text="epochs between removals, and how many are averaged for one")

    views = ("weak", "strong", "strong2")
    capturable = True
    shardable = True

    def setup(self, task: Task) -> State:
        state = State(task.net, theta=torch.tensor(self.theta, dtype=task.dtype))
        sets = task.candidates
        state.rows.add("target", task.uniform, support=sets)
        state.rows.add("alive", torch.clone, support=sets)
        state.rows.add("recent", partial(torch.zeros_like, dtype=task.dtype), support=sets)
        return state

    def row_numbers(self, n_classes: int) -> int:
        return 2 * n_classes + -(-n_classes // 4)  # `alive` has bytes

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target, alive = state.rows.take(batch.index, "target", "alive")
        logits = [state.net(view) for view in batch.views]
        # the target of the next visit; removed labels stay out because `alive` keeps them out
        state.rows.put(batch.index, target=candidate_softmax(logits[0].detach(), alive))
        return mean_cross_entropy(logits, target)

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> None:
        rows = state.rows
        if step.epoch < 0:  # nothing has been learned yet
            return
        rows.change(lambda recent, target: {"recent": recent + target}, "recent", "target")
        if step.epoch % self.window:
            return
        if step.epoch >= self.warm_up:
            before = n_alive(rows)
            rows.change(partial(purified, theta=state.theta), "recent", "alive")
            few = before - n_alive(rows) < STALLED * math.prod(rows.shape("alive"))
            # not a bool: a number times one would be single precision
            grows = (few & (state.theta < THETA_LIMIT)).to(state.theta.dtype)
            state.theta *= 1 + self.growth * grows
        rows.change(lambda recent: {"recent": torch.zeros_like(recent)}, "recent")


def n_alive(rows: RowState) -> Tensor:
    return rows.each(lambda alive: alive.sum(dim=1), "alive").sum()


def purified(recent: Tensor, alive: Tensor, theta: Tensor) -> dict[str, Tensor]:
    """The labels that stay, and the targets within them."""
    kept = purify(recent, alive, theta)
    return {"alive": kept, "target": restrict(recent, kept)}


def purify(recent: Tensor, alive: Tensor, theta: Tensor) -> Tensor:
    """Labels that stay: alive so far, and with at least `theta` of the row's largest confidence.

    The largest itself always stays. Any positive multiple of the mean serves as `recent`.
    """
    return alive & (recent >= theta * recent.amax(dim=-1, keepdim=True))
