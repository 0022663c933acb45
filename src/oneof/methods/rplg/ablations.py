"""Published RPLG with one part changed: what the authors ablate, and the prior that leads to RPLG+."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import Batch, State, register
from oneof.methods.rplg.branches import Opinions
from oneof.methods.rplg.meta_gradient import LookAhead, virtual_step
from oneof.methods.rplg.reduction import trust
from oneof.methods.rplg.rplg import Rplg, RplgNm


@register("rplg-no-rollback", year=2025, venue="NeurIPS", forwards=3, backwards=2)
@dataclass(frozen=True)
class RplgNoRollback(Rplg):
    """RPLG without rollback: the real step starts where the virtual one ended (the authors' rebuttal)."""

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
