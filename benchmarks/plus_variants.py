"""Changes of RPLG+ that were tried (`plus_trials.py`): a plugin with one method for each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oneof.methods.base import Batch, CleanBatch, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.optimisers import make_optimiser
from oneof.methods.rplg.branches import Opinions
from oneof.methods.rplg.meta_gradient import META_GRADIENTS, LookAhead
from oneof.methods.rplg.meta_learner import descend
from oneof.methods.rplg.plus import RplgPlus
from oneof.methods.rplg.reduction import trust
from oneof.methods.targets import candidate_softmax
from oneof.nets import evaluation_mode


@register("rplg+bias", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class WithBias(RplgPlus):
    """One number per label added to the logits inside mu, learned from clean rows within borrowed sets."""

    def setup(self, task: Task) -> State:
        state = super().setup(task)
        if hasattr(state, "meta"):
            state.bias = nn.ParameterList([torch.zeros(task.n_classes, dtype=task.dtype)])
            state.optimisers["bias"] = make_optimiser("adam", state.bias.parameters(), self.meta_lr, 0.0)
        return state

    def correct(self, state: State, clean: CleanBatch, step: StepInfo) -> None:
        super().correct(state, clean, step)
        with torch.no_grad(), evaluation_mode(state.net):
            logits = state.net(clean.x)
        truth = clean.mask.to(torch.uint8).argmax(dim=1)
        sets = state.notes["holders"].sets(truth, 1 - clean.draw) & state.notes["known"]
        (bias,) = state.bias
        spoken = (logits + bias).masked_fill(~sets, -torch.inf).log_softmax(dim=1)
        (bias.grad,) = torch.autograd.grad(-spoken.gather(1, truth[:, None]).mean(), [bias])
        for group in state.optimisers["bias"].param_groups:
            group["lr"] = self.meta_lr * (step.lr / state.notes["lr"])
        state.optimisers["bias"].step()

    def target(
        self, state: State, batch: Batch, logits: Tensor, mu: Tensor, w: Tensor, u: Opinions
    ) -> Tensor:
        if hasattr(state, "meta"):
            logits = logits.detach() + state.bias[0].detach()
        return super().target(state, batch, logits, mu, w, u)


@register("rplg+ahead", year=2026, venue="trial", forwards=2, backwards=1)
@dataclass(frozen=True)
class WithLookAhead(RplgPlus):
    """g learns from (P2) and from RPLG's look-ahead, too."""

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        features = state.net.features(batch.views[0])
        logits = state.net.head(features)
        z = features.detach()
        mu, q_before = state.rows.take(batch.index, "mu", "q")
        learns = hasattr(state, "meta") and batch.clean is not None
        u = self.branch_step(state, batch, z, also=q_before if learns else None)
        weights = trust(mu)
        if learns:
            assert batch.clean is not None
            self.correct(state, batch.clean, step)
            w = candidate_softmax(weights + state.meta(z), batch.candidates)
            clean = batch.clean
            ahead = LookAhead(
                state.net, batch.views[0], features, logits, u.mix(w.detach()), step.lr, clean.x, clean.mask
            )
            descend(state, w, u.slopes(META_GRADIENTS["head"](ahead)), step)
            logits = ahead.logits
            with torch.no_grad():
                weights = weights + state.meta(z)
        w = candidate_softmax(weights, batch.candidates)
        q = self.target(state, batch, logits, mu, w.detach(), u)
        return mean_cross_entropy([logits], q)


@dataclass(frozen=True)
class OwnAlpha(RplgPlus):
    """The share of mu in the target is another one for every row, or in every epoch."""

    def share(self, mu: Tensor, progress: float) -> Tensor | float:
        raise NotImplementedError

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        state.notes["progress"] = step.epoch / step.epochs
        return super().loss(state, batch, step)

    def target(
        self, state: State, batch: Batch, logits: Tensor, mu: Tensor, w: Tensor, u: Opinions
    ) -> Tensor:
        super().target(state, batch, logits, mu, w, u)
        share = self.share(mu, state.notes["progress"])
        q = share * mu + (1 - share) * state.rows.take(batch.index, "v")
        state.rows.put(batch.index, q=q)
        return q


@register("rplg+sure", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class Sure(OwnAlpha):
    """The surer mu, the more of it in the target."""

    def share(self, mu: Tensor, progress: float) -> Tensor:
        return mu.max(dim=1, keepdim=True).values


@register("rplg+unsure", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class Unsure(OwnAlpha):
    """The surer mu, the less of it in the target."""

    def share(self, mu: Tensor, progress: float) -> Tensor:
        return 1 - mu.max(dim=1, keepdim=True).values


@register("rplg+later", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class Later(OwnAlpha):
    """Second opinions count more and more: alpha goes from 0.8 to 0.2."""

    start: float = hyper(0.8, text="alpha of the first epoch")

    def share(self, mu: Tensor, progress: float) -> float:
        return self.start + (1 - 2 * self.start) * progress


@register("rplg+earlier", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class Earlier(Later):
    """Second opinions count less and less: alpha goes from 0.2 to 0.8."""

    start: float = hyper(0.2, text="alpha of the first epoch")


@register("rplg+alone", year=2026, venue="trial", forwards=1, backwards=1)
@dataclass(frozen=True)
class Alone(RplgPlus):
    """Branches learn from their own opinion alone."""

    def branch_step(self, state: State, batch: Batch, z: Tensor, also: Tensor | None = None) -> Opinions:
        return super().branch_step(state, batch, z)
