"""RPLG: reduction-based pseudo-label generation, as published.

Qiao, Xu, Hu, Geng, "Reduction-based Pseudo-label Generation for Instance-dependent Partial Label
Learning", NeurIPS 2025 (arXiv 2410.20797). Numbers in comments are the equations of that paper;
the page RPLG of the documentation lists them in their order.

Decisions where the paper leaves a choice: w is a softmax over the candidates; mu comes from PRODEN's
table, U from the branches as they stand at the beginning of the step; z are the detached features before
the last layer; a singleton set is a labelled row (v = mu = q = its label, its own branch skips it); the
virtual step is plain gradient descent at the current learning rate; clean rows pass the net in evaluation
mode; evidence, where there is some, multiplies mu and v of the target, but not v of the look-ahead; the
look-ahead's slope is taken without the learning rate as a factor, which Adam would hide but its weight decay
would not, and the meta-learner slows down as the classifier does.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from oneof.methods.base import Batch, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.rplg.branches import Opinions
from oneof.methods.rplg.meta_gradient import (
    META_GRADIENTS,
    LookAhead,
    check_linear_head,
    default_generator_state,
)
from oneof.methods.rplg.meta_learner import add_meta_learner, descend
from oneof.methods.rplg.reduction import Reduction
from oneof.methods.targets import candidate_softmax
from oneof.nets.base import may_draw_forward


@register("rplg-nm", year=2025, venue="NeurIPS", forwards=1, backwards=1)
@dataclass(frozen=True)
class RplgNm(Reduction):
    """RPLG without its meta-learner: all candidate branches have equal weight (the paper's ablation)."""

    capturable = True
    shardable = True
    dropped: ClassVar[dict[str, tuple[Any, ...] | None]] = {
        "weights": ("uniform",), "branch_rows": ("all",), "mu": ("table",), "u": ("current",),
        "prior": ("none",), "branches": ("auto",), "branch_rank": (16,), "branch_schedule": ("constant",),
        # of no effect without a meta-learner
        "meta_gradient": None, "meta_lr": None, "meta_decay": None, "meta_hidden": None, "meta_input": None,
        "meta_every": None, "clean_batch": None, "clean_mode": None, "rollback": None, "recompute_u": None,
        "difference_step": None, "meta_scale": None, "meta_schedule": None, "clean_draw": None,
    }  # fmt: skip

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        features = state.net.features(batch.views[0])
        logits = state.net.head(features)
        z = features.detach()
        mu = state.rows.take(batch.index, "mu")  # (8), at the last visit
        u = self.branch_step(state, batch, z)  # (10), (16)
        w = candidate_softmax(self.weight_logits(state, z, mu), batch.candidates)
        q = self.target(state, batch, logits, mu, w, u)  # (7)
        return mean_cross_entropy([logits, *(state.net(view) for view in batch.views[1:])], q)

    def weight_logits(self, state: State, z: Tensor, mu: Tensor) -> Tensor:
        """What w is the softmax of: here nothing tells the branches apart."""
        return torch.zeros_like(mu)


@register("rplg", year=2025, venue="NeurIPS", forwards=2, backwards=1)
@dataclass(frozen=True)
class Rplg(Reduction):
    """Second opinions from branches that each leave out one label, weighted by a meta-learner."""

    meta_gradient: Literal["exact", "difference", "head", "unrolled"] = hyper(
        "head", text="how the look-ahead is differentiated"
    )
    meta_lr: float = hyper(1e-3, low=1e-4, high=1e-2, log=True, text="learning rate of the meta-learner")
    meta_decay: float = hyper(1e-4, low=1e-5, high=1e-2, log=True, text="weight decay of the meta-learner")
    meta_hidden: int = hyper(0, text="hidden units of the meta-learner; 0 is linear")
    clean_batch: int | None = hyper(None, text="clean rows per look-ahead; None: as many as training rows")

    capturable = True
    shardable = True
    dropped: ClassVar[dict[str, tuple[Any, ...] | None]] = {
        "weights": ("learned",), "meta_input": ("features",), "meta_every": (1,), "clean_mode": ("eval",),
        "branch_rows": ("all",), "mu": ("table",), "u": ("current",), "prior": ("none",), "rollback": (True,),
        "recompute_u": (False,), "difference_step": (1e-2,), "branches": ("auto",), "branch_rank": (16,),
        "meta_scale": ("unit",), "meta_schedule": ("follow",), "clean_draw": ("random",),
        "branch_schedule": ("constant",),
    }  # fmt: skip

    def captures(self, state: State) -> bool:
        # to have the same draws (dropout) in another pass, a look-ahead sets torch's generator back, which no
        # recording allows
        return not (state.notes["draws"] and hasattr(state, "meta"))

    def clean_rows(self, batch_size: int) -> int:
        return self.clean_batch or batch_size

    def setup(self, task: Task) -> State:
        if self.meta_gradient == "head":
            check_linear_head(task.net)
        state = super().setup(task)
        passes_again = self.meta_gradient in ("exact", "difference")
        state.notes["draws"] = passes_again and may_draw_forward(task.net)
        if task.has_clean:
            n_features = state.notes["n_features"]
            add_meta_learner(state, task, n_features, self.meta_hidden, self.meta_lr, self.meta_decay)
        else:
            warnings.warn(
                "there are no clean rows to learn the branch weights from; they stay uniform (RPLG-NM)",
                stacklevel=2,
            )
        return state

    # ---- one step, in the order of Algorithm 1 ------------------------------------------------

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        x = batch.views[0]
        looks_ahead = hasattr(state, "meta") and batch.clean is not None
        draws = default_generator_state(x.device) if looks_ahead and state.notes["draws"] else None
        features = state.net.features(x)
        logits = state.net.head(features)
        z = features.detach()
        mu = state.rows.take(batch.index, "mu")  # (8), at the last visit

        u = self.branch_step(state, batch, z)  # (10), (16)
        w = candidate_softmax(self.weight_logits(state, z, mu), batch.candidates)  # (12)
        stepped = logits
        if looks_ahead:
            assert batch.clean is not None
            v = u.mix(w.detach())  # (9)
            ahead = LookAhead(
                state.net, x, features, logits, v, step.lr, batch.clean.x, batch.clean.mask, draws
            )
            # (18): the look-ahead's loss is linear in v, hence a constant matrix times w
            slope = u.slopes(self.ahead_slope(state, ahead))
            descend(state, w, slope, step)
            u, stepped = self.before_real_step(state, batch, z, u, ahead)
            with torch.no_grad():  # new Gamma, same U
                w = candidate_softmax(self.weight_logits(state, z, mu), batch.candidates)
        q = self.target(state, batch, logits, mu, w.detach(), u)  # (7)
        return mean_cross_entropy([stepped, *(state.net(view) for view in batch.views[1:])], q)  # (19)

    def weight_logits(self, state: State, z: Tensor, mu: Tensor) -> Tensor:
        """What w is the softmax of: g(x; Gamma), or nothing where there are no clean rows (RPLG-NM)."""
        return state.meta(z) if hasattr(state, "meta") else torch.zeros_like(mu)

    def ahead_slope(self, state: State, ahead: LookAhead) -> Tensor:
        """How the clean loss after the virtual step depends on v."""
        return META_GRADIENTS[self.meta_gradient](ahead)

    def before_real_step(
        self, state: State, batch: Batch, z: Tensor, u: Opinions, ahead: LookAhead
    ) -> tuple[Opinions, Tensor]:
        """U and logits of the real step: those of the virtual one (ablations have others)."""
        return u, ahead.logits
