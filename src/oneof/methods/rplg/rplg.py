"""RPLG: reduction-based pseudo-label generation.

Qiao, Xu, Hu, Geng, "Reduction-based Pseudo-label Generation for Instance-dependent Partial Label
Learning", NeurIPS 2025 (arXiv 2410.20797). R-numbers in comments are those of docs/rplg.md, which
lists the paper's equations in their order.

Decisions where the paper leaves a choice: w is a softmax over the candidates; mu comes from
PRODEN's table, U from the branches as they stand at the beginning of the step; z are the detached
features before the last layer; a singleton set is a labelled row (v = mu = q = its label, its own
branch skips it); the virtual step is plain gradient descent at the current learning rate; clean
rows pass the net in evaluation mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.rplg.branches import Branches, first_opinions, only_labels, opinions
from oneof.methods.rplg.many_classes import CandidateBranches, CandidateOpinions, takes_full_form
from oneof.methods.rplg.meta_gradient import (
    META_GRADIENTS,
    LookAhead,
    default_generator_state,
    linear_head,
    stay_at_virtual_step,
)
from oneof.methods.rplg.meta_learner import meta_learner
from oneof.methods.targets import candidate_softmax, uniform
from oneof.optimisers import make_optimiser
from oneof.parallel import average_, averaged


@register("rplg", year=2025, venue="NeurIPS", forwards=2, backwards=1)
@dataclass(frozen=True)
class Rplg(Method):
    """Second opinions from models that each work without one label, weighed by a meta-learner."""

    alpha: float = hyper(0.5, low=0.1, high=0.9, text="share of the classifier's own opinion in the target")
    weights: Literal["learned", "uniform"] = hyper(
        "learned", choices=("learned", "uniform"), text="weights of the branches; uniform is RPLG-NM"
    )
    meta_gradient: Literal["exact", "difference", "head", "unrolled"] = hyper(
        "head", choices=("exact", "difference", "head"), text="how the look-ahead is differentiated"
    )
    meta_lr: float = hyper(1e-3, low=1e-4, high=1e-2, log=True, text="learning rate of the meta-learner")
    meta_decay: float = hyper(1e-4, low=1e-5, high=1e-2, log=True, text="weight decay of the meta-learner")
    meta_hidden: int = hyper(0, choices=(0, 64, 128), text="hidden units of the meta-learner; 0 is linear")
    meta_input: Literal["features", "input"] = hyper(
        "features", choices=("features", "input"), text="what the meta-learner sees"
    )
    meta_every: int = hyper(1, low=1, high=4, text="steps between two updates of the meta-learner")
    clean_batch: int | None = hyper(None, text="clean rows per look-ahead; None: as many as training rows")
    clean_mode: Literal["eval", "train"] = hyper(
        "eval", choices=("eval", "train"), text="BatchNorm statistics for the clean rows"
    )
    branch_lr: float = hyper(5e-2, low=1e-2, high=2e-1, log=True, text="learning rate of the branches (SGD)")
    branch_momentum: float = hyper(0.9, low=0.0, high=0.9, text="momentum of the branches")
    branch_decay: float = hyper(1e-4, low=1e-5, high=1e-2, log=True, text="weight decay of the branches")
    branch_rows: Literal["all", "likely"] = hyper(
        "all", choices=("all", "likely"), text="likely: branch j weighs a row by 1 − mu_j (not in the paper)"
    )
    mu: Literal["table", "current"] = hyper(
        "table",
        choices=("table", "current"),
        text="own opinion of the previous visit, or of this pass",
    )
    u: Literal["current", "table"] = hyper(
        "current", choices=("current", "table"), text="branch opinions of this step, or the previous visit"
    )
    prior: Literal["none", "mu"] = hyper(
        "none",
        choices=("none", "mu"),
        text="mu: trust a branch more, the less likely its label (not in the paper)",
    )
    rollback: bool = hyper(True, text="undo the virtual step before the real one (ablation: False)")
    recompute_u: bool = hyper(False, text="ask the branches again after the meta step (ablation)")
    difference_step: float = hyper(1e-2, text="c_0 of the central difference")
    branches: Literal["auto", "full", "candidates"] = hyper(
        "auto",
        absent="auto",
        text="whole branches, or of small rank and for candidates only; auto: by the number of classes",
    )
    branch_rank: int = hyper(16, absent=16, text="rank of the branches' corrections, for many classes")
    meta_scale: Literal["unit", "rate"] = hyper(
        "unit",
        absent="rate",
        text="unit: the look-ahead's slope without the learning rate as a factor; rate: with it",
    )
    meta_schedule: Literal["follow", "constant"] = hyper(
        "follow",
        absent="constant",
        text="follow: the meta-learner's learning rate falls as the classifier's does",
    )
    clean_draw: Literal["random", "balanced"] = hyper(
        "random",
        absent="random",
        text="balanced: the clean rows of a step have the labels in proportion, which makes it less noisy",
    )
    branch_schedule: Literal["follow", "constant"] = hyper(
        "constant",
        absent="constant",
        text="follow: the branches' learning rate falls as the classifier's does",
    )

    watched = ("mu", "v", "q")
    capturable = True
    shardable = True

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return state.notes["all_visited"], step.step % self.meta_every == 0

    def captures(self, state: State) -> bool:
        # a look-ahead sets torch's generator back to repeat a pass with dropout, which no recording allows
        return not (state.notes["draws"] and hasattr(state, "meta"))

    def clean_rows(self, batch_size: int) -> int:
        return 0 if self.weights == "uniform" else (self.clean_batch or batch_size)

    def balances_clean(self) -> bool:
        return self.clean_draw == "balanced"

    # ---- what one fit needs -------------------------------------------------------------------

    def setup(self, task: Task) -> State:
        c, flat = task.n_classes, uniform(task.candidates, dtype=task.dtype)
        with torch.no_grad():
            z = task.net.features(task.example)
        state = State(task.net, branches=self.make_branches(task, z.shape[1]).to(task.dtype))
        state.notes |= {"draws": draws_at_random(task.net), "all_visited": False, "lr": task.lr or 1.0}
        if self.learns_weights(task):
            inputs = z if self.meta_input == "features" else task.example.flatten(1)
            state.meta = meta_learner(inputs.shape[1], c, self.meta_hidden).to(task.dtype)
            state.optimisers["meta"] = make_optimiser(
                "adam", state.meta.parameters(), self.meta_lr, self.meta_decay
            )
        for name in ("mu", "v", "q", "q_before", "w"):
            state.rows.add(name, flat)
        state.rows.add("visited", torch.zeros_like(task.candidates[:, 0]))
        if isinstance(state.branches, CandidateBranches) and (self.u == "table" or self.recompute_u):
            wanted = "u='table'" if self.u == "table" else "recompute_u=True"
            raise ValueError(f"{wanted} needs branches='full': it asks every branch for its opinion of a row")
        if self.u == "table":
            reduced = state.branches.reduced_sets(task.candidates)
            state.rows.add("u", first_opinions(reduced, task.candidates, like=flat))
        return state

    def make_branches(self, task: Task, n_features: int) -> nn.Module:
        full = self.branches == "full" or (
            self.branches == "auto" and takes_full_form(task.n_classes, n_features)
        )
        if full:
            return Branches(task.n_classes, n_features)
        largest = int(task.candidates.sum(dim=1).max())
        return CandidateBranches(task.n_classes, n_features, self.branch_rank, largest)

    def learns_weights(self, task: Task) -> bool:
        if self.weights == "uniform":
            return False
        if self.meta_gradient == "head":
            linear_head(task.net)
        if not task.has_clean:
            warnings.warn(
                "there are no clean rows to learn the branch weights from; they stay uniform (RPLG-NM)",
                stacklevel=2,
            )
        return task.has_clean

    # ---- one step, in the order of Algorithm 1 ------------------------------------------------

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        x, candidates = batch.views[0], batch.candidates
        looks_ahead = hasattr(state, "meta") and batch.clean is not None
        draws = default_generator_state(x.device) if looks_ahead and state.notes["draws"] else None
        features = state.net.features(x)
        logits = state.net.head(features)
        z = features.detach()
        mu = state.rows.take(batch.index, "mu")
        visited = None if state.notes["all_visited"] else state.rows.take(batch.index, "visited")
        own = candidate_softmax(logits.detach(), candidates)  # R5
        if self.mu == "current":
            mu = own if visited is None else torch.where(visited[:, None], own, mu)

        u = self.branch_step(state, batch, z, mu, visited, step)
        w = self.branch_weights(state, batch, z, mu)
        if looks_ahead:
            assert batch.clean is not None
            v = mix(w.detach(), u)
            ahead = LookAhead(
                net=state.net,
                x=x,
                features=features,
                logits=logits,
                target=v,
                lr=step.lr,
                clean_x=batch.clean.x,
                clean_mask=batch.clean.mask,
                clean_mode=self.clean_mode,
                step_size=self.difference_step,
                generator_state=draws,
                # Adam hides the factor, its weight decay does not: with it, a learning rate that falls to
                # zero takes the meta-learner back to uniform weights
                unit=self.meta_scale == "unit",
            )
            if step.step % self.meta_every == 0:
                self.set_meta_lr(state, step)
                self.meta_step(state, ahead, w, u)
            if self.recompute_u:
                u = opinions(state.branches.logits(z), state.branches.reduced_sets(candidates), candidates)
            with torch.no_grad():
                w = self.branch_weights(state, batch, z, mu)  # R16: new Gamma, same U
            if not self.rollback:
                logits = stay_at_virtual_step(ahead)

        w = w.detach()
        v = mix(w, u)  # R6
        q = self.alpha * mu + (1 - self.alpha) * v  # R4
        state.rows.put(batch.index, mu=own, v=v, q=q, w=w)
        if visited is not None:
            state.rows.put(batch.index, visited=torch.ones_like(visited))
        return mean_cross_entropy([logits, *(state.net(view) for view in batch.views[1:])], q)  # R17

    def branch_step(
        self, state: State, batch: Batch, z: Tensor, mu: Tensor, visited: Tensor | None, step: StepInfo
    ) -> Tensor | CandidateOpinions:
        """U for this step (R7), then one step of every branch towards its row of U (R13)."""
        branches, candidates = state.branches, batch.candidates
        lr = scheduled(self.branch_lr, self.branch_schedule, state, step)
        if isinstance(branches, CandidateBranches):
            likely = 1 - mu if self.branch_rows == "likely" else None
            rates = (lr, self.branch_momentum, self.branch_decay)
            return branches.step(z, candidates, visited, likely, rates)
        reduced = branches.reduced_sets(candidates)
        logits = branches.logits(z)
        now = opinions(logits, reduced, candidates)
        if self.u == "table":
            u = state.rows.take(batch.index, "u")
            state.rows.put(batch.index, u=now)
        elif visited is None:
            u = now
        else:
            u = torch.where(visited[:, None, None], now, first_opinions(reduced, candidates, like=now))
        row_weight = (~only_labels(candidates)).to(z.dtype)
        if self.branch_rows == "likely":
            row_weight = row_weight * (1 - mu)
        slopes = branches.gradient(logits, u, z, row_weight)
        average_(slopes)
        branches.move(slopes, lr, self.branch_momentum, self.branch_decay)
        return u

    def branch_weights(self, state: State, batch: Batch, z: Tensor, mu: Tensor) -> Tensor:
        """w (R8): a softmax over the candidates, or uniform."""
        logits = torch.zeros_like(mu)
        if hasattr(state, "meta"):
            logits = state.meta(z if self.meta_input == "features" else batch.views[0].flatten(1))
        if self.prior == "mu":
            logits = logits + (1 - mu).clamp(min=1e-4).log()
        return candidate_softmax(logits, batch.candidates)

    def set_meta_lr(self, state: State, step: StepInfo) -> None:
        """A classifier that hardly moves does not answer: the look-ahead keeps asking for more of the same,
        and a meta-learner that went on at full pace would run into one corner (w one-hot)."""
        if self.meta_schedule == "follow":
            for group in state.optimisers["meta"].param_groups:
                group["lr"] = scheduled(self.meta_lr, self.meta_schedule, state, step)

    def meta_step(self, state: State, ahead: LookAhead, w: Tensor, u: Tensor | CandidateOpinions) -> None:
        """Gamma moves down the look-ahead loss (R15): a constant matrix times w, into the meta-learner."""
        slope_w = through_mix(META_GRADIENTS[self.meta_gradient](ahead), u)
        parameters = list(state.meta.parameters())
        gradients = averaged(torch.autograd.grad((w * slope_w).sum(), parameters))
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        state.optimisers["meta"].step()

    # ---- after the epoch ----------------------------------------------------------------------

    def report(self, state: State, truth: Tensor | None) -> dict[str, Tensor]:
        facts = super().report(state, truth)
        rows = state.rows
        facts["q_change"] = (rows["q"] - rows["q_before"]).abs().sum(dim=1).mean()
        w = rows["w"]
        several = (w > 0).sum(dim=1) > 1  # a single candidate leaves nothing to weigh
        if bool(several.any()):
            facts["w_entropy"] = -torch.xlogy(w, w).sum(dim=1)[several].mean()
            if truth is not None:
                known = several & (truth >= 0)
                facts["w_on_truth"] = w[known].gather(1, truth[known, None]).mean()
        return facts

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> None:
        state.rows["q_before"].copy_(state.rows["q"])
        state.notes["all_visited"] = bool(state.rows["visited"].all())  # saves work, changes no number


@register("rplg-nm", year=2025, venue="NeurIPS", forwards=1, backwards=1)
@dataclass(frozen=True)
class RplgNm(Rplg):
    """RPLG without its meta-learner: all candidate branches weigh the same (the paper's ablation)."""

    weights: Literal["learned", "uniform"] = hyper("uniform", choices=("uniform",), text="fixed here")
    meta_scale: Literal["unit", "rate"] = hyper("rate", absent="rate", text="of no effect here")
    meta_schedule: Literal["follow", "constant"] = hyper(
        "constant", absent="constant", text="of no effect here"
    )


def scheduled(lr: float, schedule: str, state: State, step: StepInfo) -> float | Tensor:
    """A learning rate beside the classifier's: constant, or falling as that one does."""
    return lr * (step.lr / state.notes["lr"]) if schedule == "follow" else lr


def mix(w: Tensor, u: Tensor | CandidateOpinions) -> Tensor:
    """v = w U (R6)."""
    if isinstance(u, CandidateOpinions):
        return u.mix(w)
    return torch.bmm(w.unsqueeze(1), u).squeeze(1)


def through_mix(slope: Tensor, u: Tensor | CandidateOpinions) -> Tensor:
    """The chain rule through v = w U: from a derivative with respect to v to one with respect to w."""
    if isinstance(u, CandidateOpinions):
        return u.slopes(slope)
    return torch.bmm(u, slope.unsqueeze(2)).squeeze(2)


def draws_at_random(net: nn.Module) -> bool:
    """Whether a forward pass in training mode uses torch's default generator (dropout)."""
    return any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in net.modules())
