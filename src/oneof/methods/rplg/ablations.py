"""RPLG or RPLG+ with one part changed: what the authors ablate, the prior that leads to RPLG+, a second
strong view, and a look-ahead that remembers clean rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from oneof.methods.base import Batch, State, Task, hyper, register
from oneof.methods.rplg.branches import Opinions
from oneof.methods.rplg.meta_gradient import (
    LookAhead,
    along_head,
    head_direction,
    virtual_step,
)
from oneof.methods.rplg.plus import RplgPlus
from oneof.methods.rplg.reduction import trust
from oneof.methods.rplg.rplg import Rplg, RplgNm


@register("rplg-no-rollback", year=2025, venue="NeurIPS", forwards=3, backwards=2)
@dataclass(frozen=True)
class RplgNoRollback(Rplg):
    """RPLG without rollback: the real step starts where the virtual one ended (the authors' rebuttal).

    It passes each batch twice, and batch normalisation records both passes.
    """

    def before_real_step(
        self, state: State, batch: Batch, z: Tensor, u: Opinions, ahead: LookAhead
    ) -> tuple[Opinions, Tensor]:
        moved = virtual_step(ahead)
        with torch.no_grad():
            for name, parameter in state.net.named_parameters():
                if name in moved:
                    parameter.copy_(moved[name])
        return u, state.net(ahead.x)


@register("rplg-new-u", year=2025, venue="NeurIPS", forwards=2, backwards=1)
@dataclass(frozen=True)
class RplgNewU(Rplg):
    """RPLG that recomputes the branches' opinions after the meta step (the authors' rebuttal)."""

    def before_real_step(
        self, state: State, batch: Batch, z: Tensor, u: Opinions, ahead: LookAhead
    ) -> tuple[Opinions, Tensor]:
        return state.branches.opinions(z, batch.candidates), ahead.logits


class TrustingFirst:
    """Weights that start at 1 − mu_j, the chance that branch j is not misled."""

    def weight_logits(self, state: State, z: Tensor, mu: Tensor) -> Tensor:
        return super().weight_logits(state, z, mu) + trust(mu)  # type: ignore[misc]


@register("rplg-prior", year=2026, venue="oneof", forwards=2, backwards=1)
@dataclass(frozen=True)
class RplgPrior(TrustingFirst, Rplg):
    """RPLG whose weights start at 1 − mu_j, the chance that branch j is not misled (not in the paper)."""


@register("rplg-nm-prior", year=2026, venue="oneof", forwards=1, backwards=1)
@dataclass(frozen=True)
class RplgNmPrior(TrustingFirst, RplgNm):
    """RPLG-NM with weights 1 − mu_j instead of uniform ones (not in the paper)."""


THREE_VIEWS = ("weak", "strong", "strong2")


@register("rplg-3-views", year=2025, venue="NeurIPS", forwards=2, backwards=1, note="three views on images")
@dataclass(frozen=True)
class RplgThreeViews(Rplg):
    """RPLG with one weak and two strong views of an image, as PLCR has them."""

    views = THREE_VIEWS


@register("rplg+-3-views", year=2026, venue="oneof", forwards=1, backwards=1, note="three views on images")
@dataclass(frozen=True)
class RplgPlusThreeViews(RplgPlus):
    """RPLG+ with one weak and two strong views of an image."""

    views = THREE_VIEWS


@register("rplg-averaged", year=2026, venue="oneof", forwards=2, backwards=1)
@dataclass(frozen=True)
class RplgAveraged(Rplg):
    """RPLG whose look-ahead goes by the clean rows of many steps: few of a label say little at a time.

    u, the slope of the clean loss by the last layer, is a moving average over steps (not in the paper).
    """

    memory: float = hyper(0.95, low=0.8, high=0.99, text="share of the earlier steps in the average")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.meta_gradient != "head":
            raise ValueError(
                f"meta_gradient is {self.meta_gradient!r}; rplg-averaged keeps the slope of the last layer "
                "alone: leave it at 'head'."
            )

    def setup(self, task: Task) -> State:
        state = super().setup(task)
        layer = cast(nn.Linear, task.net.head)  # RPLG has seen that it is one
        state.register_buffer("u_weight", torch.zeros_like(layer.weight))
        state.register_buffer("u_bias", layer.weight.new_zeros(task.n_classes))
        return state

    def ahead_slope(self, state: State, ahead: LookAhead) -> Tensor:
        for average, now in zip((state.u_weight, state.u_bias), head_direction(ahead)):
            average.lerp_(now, 1 - self.memory)
        return along_head(ahead, state.u_weight, state.u_bias)
