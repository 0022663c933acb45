"""IDGP: a decompositional generation process of instance-dependent candidates.

Qiao, Xu, Geng, "Decompositional Generation Process for Instance-Dependent Partial Label Learning", ICLR
2023.

The true label is drawn from p = softmax(f(x)/T₁); each wrong label then enters the set by its own coin q =
sigmoid(g(x)/T₂). f and g are two networks, trained by maximum a posteriori with their own past outputs as
prior: D (starts uniform on S) for f and B (starts as S) for g. With t = argmax D,

    L_f = −Σ_j D_j log p_j
    L_f|g = −Σ_j w_j log p_j,  w_j ∝ (1 − h_j)/h_j on S,  h_t = 1 − q_t and h_j = q_j otherwise
    L_g = −Σ_j [B_j log q_j + (1 − B_j) log(1 − q_j)]
    L_g|f = −Σ_j u_j log(1 − q_j) − Σ_j [S_j log q_j + (1 − S_j) log(1 − q_j)],  u = p normalised on S
    K_f = Σ_j D_j (log D_j − log softmax(f)_j),  K_g = Σ_j B_j (log B_j − log sigmoid(g)_j)
    L = α L_f + β L_f|g + λ δ K_f + θ L_g + γ L_g|f + λ η K_g

with λ = min(e / ramp, 1). w, u, D and B carry no gradient, so each network learns from its own terms.
After the forward D ← p of the first view normalised on S, B ← q on S. For `warm_up` epochs the loss is L_f
+ L_g.

Deviations: the weights w are a softmax over ±g/T₂, since the product of all h that the paper multiplies
them by cancels (and underflows). f and g warm up at the same time, not one after the other: neither reads
the other's table there. Warm-up takes at most a quarter of the training; the ramp is a share of it (the
authors: 100 of 500 epochs), and e counts from the first epoch, not from the end of the warm-up. Losses are
averaged over the views, not summed, so that the learning rate means the same for all methods. One
optimiser with two groups does the work of two. The authors divide the losses of g by the number of classes
on CIFAR-100 only: θ and γ do the same. Default weights and temperatures are PLENCH's (all 1), as those of
the authors' script; their tuned values, powers of ten, differ for each data set (CIFAR-10: α 10, β 1, θ
10⁻³, γ 10⁻², T₁ 1.95, T₂ 5.9, g at a fifth of f's learning rate).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid, one_hot

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import cross_entropy, mean_of
from oneof.methods.parts.schedules import at_most_a_quarter, fade_in
from oneof.methods.parts.second_net import independent_copy
from oneof.methods.targets import candidate_softmax


def _weight(name: str, text: str) -> Any:
    return hyper(1.0, low=1e-3, high=1e2, log=True, text=f"{name}, {text}")


@register("idgp", year=2023, venue="ICLR", forwards=2, backwards=2, note="three views on images")
@dataclass(frozen=True)
class Idgp(Method):
    """Two networks model how sets arise: one the true label, the other the wrong ones added to it."""

    warm_up: int = hyper(10, choices=(5, 10, 15, 20), text="epochs before the networks learn from each other")
    f_temperature: float = hyper(1.0, low=0.5, high=10.0, log=True, text="T₁ of f's softmax")
    g_temperature: float = hyper(1.0, low=0.5, high=10.0, log=True, text="T₂ of g's sigmoid")
    alpha: float = _weight("α", "f against its own past")
    beta: float = _weight("β", "f against what g makes likely")
    theta: float = _weight("θ", "g against its own past")
    gamma: float = _weight("γ", "g against f and the sets")
    delta: float = _weight("δ", "consistency of f, without temperature")
    eta: float = _weight("η", "consistency of g, without temperature")
    ramp: float = hyper(
        0.2, low=0.1, high=0.5, text="share of the epochs over which consistency is phased in"
    )
    g_lr: float = hyper(1.0, low=0.1, high=10.0, log=True, text="learning rate of g relative to that of f")
    g_decay: float | None = hyper(None, low=1e-5, high=1e-3, log=True, text="weight decay of g; None: as f")

    views = ("plain", "strong", "strong2")
    capturable = True
    shardable = True

    def setup(self, task: Task) -> State:
        state = State(task.net, coins=independent_copy(task.net))
        state.notes["lr"] = task.lr
        state.rows.add("target", task.uniform, support=task.candidates)
        state.rows.add("present", lambda mask: mask.to(task.dtype), support=task.candidates)
        return state

    def row_numbers(self, n_classes: int) -> int:
        return 2 * n_classes

    def param_groups(self, state: State) -> list[dict[str, Any]]:
        coins: dict[str, Any] = {
            "params": list(state.coins.parameters()),
            "lr": self.g_lr * state.notes["lr"],
        }
        if self.g_decay is not None:
            coins["weight_decay"] = self.g_decay
        return [{"params": list(state.net.parameters())}, coins]

    def stage(self, state: State, step: StepInfo) -> Hashable:
        warm = step.epoch < at_most_a_quarter(self.warm_up, step.epochs)
        return None if warm else fade_in(step, self.ramp)

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target, present = state.rows.take(batch.index, "target", "present")
        pairs = [(state.net(x), state.coins(x)) for x in batch.views]
        f, g = (z.detach() for z in pairs[0])
        state.rows.put(
            batch.index,
            target=candidate_softmax(f / self.f_temperature, batch.candidates),
            present=(g / self.g_temperature).sigmoid() * batch.candidates,
        )
        losses = [self.view_loss(f, g, target, present, batch.candidates, step) for f, g in pairs]
        return mean_of(losses)

    def view_loss(
        self, f: Tensor, g: Tensor, target: Tensor, present: Tensor, mask: Tensor, step: StepInfo
    ) -> Tensor:
        scaled_f, scaled_g = f / self.f_temperature, g / self.g_temperature
        own_f, own_g = cross_entropy(scaled_f, target), coin_loss(scaled_g, present)
        if step.epoch < at_most_a_quarter(self.warm_up, step.epochs):
            return own_f + own_g
        f_given_g = cross_entropy(scaled_f, other_explanation(scaled_g.detach(), target, mask))
        belief = candidate_softmax(scaled_f.detach(), mask)
        wrong = -(belief * logsigmoid(-scaled_g)).sum(dim=1)  # the true label is no wrong one that joined
        g_given_f = wrong + coin_loss(scaled_g, mask.to(scaled_g.dtype))
        fade = fade_in(step, self.ramp)
        return (
            self.alpha * own_f
            + self.beta * f_given_g
            + fade * self.delta * divergence(target, f.log_softmax(dim=1))
            + self.theta * own_g
            + self.gamma * g_given_f
            + fade * self.eta * divergence(present, logsigmoid(g))
        )


def other_explanation(coin_logits: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """w: how well each candidate as the true label explains that it is in the set and not a wrong one.

    (1 − h)/h is e^{g} for the believed label t, where h = 1 − q, and e^{−g} for the others.
    """
    believed = one_hot(target.argmax(dim=1), target.shape[1]).bool()
    return candidate_softmax(coin_logits.where(believed, -coin_logits), mask)


def coin_loss(coin_logits: Tensor, target: Tensor) -> Tensor:
    """−Σ_j [target_j log q_j + (1 − target_j) log(1 − q_j)]."""
    return binary_cross_entropy_with_logits(coin_logits, target, reduction="none").sum(dim=1)


def divergence(target: Tensor, log_output: Tensor) -> Tensor:
    """Σ_j target_j (log target_j − log output_j)."""
    return -(torch.special.entr(target) + target * log_output).sum(dim=1)
