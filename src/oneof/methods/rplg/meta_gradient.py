"""How the look-ahead loss depends on the pseudo-labels: four ways to one matrix.

RPLG moves the classifier a virtual step against targets v (17) and asks how the loss on clean rows at
the new place depends on v (18). The inner loss (13) is linear in v, so that with
u = ∇ L_outer at the moved parameters Theta~

    d L_outer / d v_ik  =  (lr / B) · D_u log f_k(x_i; Theta),

a directional derivative along u at the *old* parameters: no second-order graph is needed. The four
functions below have one signature and return this B × c matrix without its factor lr: Adam hides it, but
not its weight decay, which would take the meta-learner back to uniform weights as the learning rate falls.

- `exact`: one forward-mode pass (Jacobian-vector product);
- `difference`: a central difference of two forward passes;
- `head`: closed form, where only the last layer moves; for a linear classifier this is exact;
- `unrolled`: back-propagation through the virtual step; the slow reference.

Where several processes train together, B is the number of rows in this one, and the virtual step and u are
averages over all of them. The meta-learner's gradient, a sum over rows of (lr / B) times something, is then
averaged as well, which makes it that of one process with all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call

from oneof.methods.losses import cross_entropy, set_loss
from oneof.methods.parallel import averaged
from oneof.methods.targets import candidate_softmax
from oneof.nets import Net, evaluation_mode
from oneof.nets.base import frozen_statistics
from oneof.nets.fast import in_reduced_precision, uncompiled

DIFFERENCE, ROUNDED_DIFFERENCE = 1e-2, 1e-1
"""Of the central difference: the step is this over ‖u‖. Where features are rounded to bf16 it is the second,
with which it is as near the exact slope as a forward-mode pass; a shorter one is lost in rounding."""


@dataclass
class LookAhead:
    """One virtual step: what it starts from, and the clean rows that judge it.

    `features` and `logits` are those of the shared forward pass of `x` in training mode, with its
    graph. `generator_state` is torch's default generator before that pass, where the net draws
    from it (dropout), else None: further passes over `x` then see the same draws.
    """

    net: Net
    x: Tensor
    features: Tensor
    logits: Tensor
    target: Tensor
    lr: float | Tensor
    clean_x: Tensor
    clean_mask: Tensor
    generator_state: Tensor | None = None


MetaGradient = Callable[[LookAhead], Tensor]


def exact(step: LookAhead) -> Tensor:
    """Forward-mode derivative of the training log-probabilities along u."""
    direction = outer_gradient(step)
    with torch.no_grad(), forward_ad.dual_level(), training_pass(step), uncompiled(step.net):
        moving = {
            name: forward_ad.make_dual(p.detach(), direction[name]) for name, p in trainable(step.net).items()
        }
        log_f = functional_call(step.net, moving, (step.x,)).log_softmax(dim=-1)
        tangent = forward_ad.unpack_dual(log_f).tangent
    return tangent / len(step.x)


@torch.no_grad()
def difference(step: LookAhead) -> Tensor:
    """Central difference of the training log-probabilities along u: two forward passes."""
    direction = list(outer_gradient(step).values())
    parameters = trainable(step.net)
    size = torch.stack(torch._foreach_norm(direction)).norm()
    length = ROUNDED_DIFFERENCE if in_reduced_precision(step.net) else DIFFERENCE
    h = length / size.clamp(min=1e-30)
    torch._foreach_mul_(direction, h)
    ends = []
    for move in (torch._foreach_add, torch._foreach_sub):  # all parameters at once: they are many and small
        moved = dict(zip(parameters, move([p.detach() for p in parameters.values()], direction)))
        with training_pass(step):
            ends.append(functional_call(step.net, moved, (step.x,)).log_softmax(dim=-1))
    return (ends[0] - ends[1]) * (1 / (2 * len(step.x)) / h)


@torch.no_grad()
def head(step: LookAhead) -> Tensor:
    """Closed form where only the last layer moves: no autograd at all."""
    return along_head(step, *head_direction(step))


@torch.no_grad()
def head_direction(step: LookAhead) -> tuple[Tensor, Tensor]:
    """u of the last layer's weight and bias, where only this layer took the virtual step."""
    layer = cast(nn.Linear, step.net.head)  # `setup` has seen that it is one
    h, p = step.features.detach(), step.logits.detach().softmax(dim=-1)
    rate = step.lr / len(h)
    with evaluation_mode(step.net):
        h_clean = step.net.features(step.clean_x)
    # the virtual step of weight and bias
    error = p - step.target
    to_weight, to_bias = averaged([error.T @ h, error.sum(dim=0)])
    weight = layer.weight - rate * to_weight
    bias = None if layer.bias is None else layer.bias - rate * to_bias
    # the gradient of the outer loss at the moved layer
    logits = nn.functional.linear(h_clean, weight, bias)
    residual = logits.softmax(dim=-1).sub_(candidate_softmax(logits, step.clean_mask)).div_(len(h_clean))
    u_weight, u_bias = averaged([residual.T @ h_clean, residual.sum(dim=0)])
    return u_weight, u_bias


@torch.no_grad()
def along_head(step: LookAhead, u_weight: Tensor, u_bias: Tensor) -> Tensor:
    """Directional derivative of the training logits along u of the last layer, then of their log-softmax."""
    h, p = step.features.detach(), step.logits.detach().softmax(dim=-1)
    slope = nn.functional.linear(h, u_weight, None if step.net.head.bias is None else u_bias)
    return 1 / len(h) * (slope - (p * slope).sum(dim=-1, keepdim=True))


def unrolled(step: LookAhead) -> Tensor:
    """Double backward through the virtual step, as most published code does it."""
    parameters = trainable(step.net)
    target = step.target.detach().requires_grad_()
    inner = cross_entropy(step.logits, target).mean()
    slopes = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
    # the step goes by the mean of all processes, its derivative by the targets that are here
    shared = [slope + (mean - slope).detach() for slope, mean in zip(slopes, averaged(slopes))]
    moved = [p - step.lr * slope for p, slope in zip(parameters.values(), shared)]
    loss = outer_loss(step, dict(zip(parameters, moved)))
    u = averaged(torch.autograd.grad(loss, moved, retain_graph=True))
    (gradient,) = torch.autograd.grad(moved, target, u, retain_graph=True)
    return gradient / step.lr


META_GRADIENTS: dict[str, MetaGradient] = {
    "exact": exact,
    "difference": difference,
    "head": head,
    "unrolled": unrolled,
}


# ---- pieces -----------------------------------------------------------------------------------


def virtual_step(step: LookAhead) -> dict[str, Tensor]:
    """Theta~ (17): one plain gradient step against the targets; the graph stays for the real step."""
    parameters = trainable(step.net)
    with torch.enable_grad():
        inner = cross_entropy(step.logits, step.target).mean()
    slopes = averaged(torch.autograd.grad(inner, list(parameters.values()), retain_graph=True))
    moved = torch._foreach_mul(slopes, -step.lr)
    torch._foreach_add_(moved, [p.detach() for p in parameters.values()])
    return dict(zip(parameters, moved))


def outer_gradient(step: LookAhead) -> dict[str, Tensor]:
    """u: gradient of the clean loss at Theta~, by parameter name."""
    moved = {name: p.requires_grad_() for name, p in virtual_step(step).items()}
    with torch.enable_grad():
        loss = outer_loss(step, moved)
    return dict(zip(moved, averaged(torch.autograd.grad(loss, list(moved.values())))))


def outer_loss(step: LookAhead, parameters: dict[str, Tensor]) -> Tensor:
    """Mean loss on the clean rows (14) at the given parameters; running statistics are not touched."""
    with evaluation_mode(step.net):
        logits = functional_call(step.net, parameters, (step.clean_x,))
    return set_loss(logits, step.clean_mask).mean()


def trainable(net: nn.Module) -> dict[str, Tensor]:
    return {name: p for name, p in net.named_parameters() if p.requires_grad}


def check_linear_head(net: Net) -> None:
    kind = type(net.head)
    if not issubclass(kind, nn.Linear):
        raise TypeError(
            f"the meta-gradient 'head' needs a net whose head is an nn.Linear, not {kind.__name__}.\n"
            "  Use meta_gradient='difference', or give the net as a pair (features, nn.Linear)."
        )


@contextmanager
def training_pass(step: LookAhead) -> Iterator[None]:
    """One more pass of the training rows: same random draws, and no trace in the running statistics."""
    with frozen_statistics(step.net), same_draws(step):
        yield


@contextmanager
def same_draws(step: LookAhead) -> Iterator[None]:
    """Replay the random draws of the shared forward pass."""
    if step.generator_state is None:
        yield
        return
    cuda = step.x.device.type == "cuda"
    with torch.random.fork_rng(devices=[step.x.device] if cuda else []):
        if cuda:
            torch.cuda.set_rng_state(step.generator_state, step.x.device)
        else:
            torch.set_rng_state(step.generator_state)
        yield


def default_generator_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
