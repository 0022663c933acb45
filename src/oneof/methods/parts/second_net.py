"""A second network of the same shape: with a start of its own, or one that follows the first slowly."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from oneof.methods.base import StepInfo

M = TypeVar("M", bound=nn.Module)


def independent_copy(module: M) -> M:
    """The same architecture, initialised anew from torch's default generator.

    Every part that has `reset_parameters`, as all layers of torch have, is reset by it: by torch's own rule,
    whichever one the net began with (convolutional nets here begin with Kaiming's). A parameter that belongs
    to none of them starts as a copy, and so does a part that is frozen: nothing would train it again.
    """
    made = copy.deepcopy(module)
    for part in made.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset) and all(parameter.requires_grad for parameter in part.parameters()):
            reset()
    return made


def follower(module: M) -> M:
    """A copy that no optimiser moves."""
    return copy.deepcopy(module).requires_grad_(False)


def within_epochs(momentum: float, epochs: float, step: StepInfo) -> float:
    """The momentum, lowered where its memory of 1/(1 − momentum) steps would be longer than so many epochs.

    Papers count in steps of large data sets. With a few steps per epoch the same number would make
    the follower a memory of most of the training.
    """
    return min(momentum, 1 - 1 / max(1.0, epochs * step.steps_per_epoch))


@torch.no_grad()
def follow(average: nn.Module, module: nn.Module, momentum: float) -> None:
    """average ← momentum · average + (1 − momentum) · module, for the parameters.

    Statistics of batch normalisation are not copied: the follower's own forward passes, in training
    mode, fill its own buffers and leave those of the module alone.
    """
    update = get_ema_multi_avg_fn(momentum)
    update(tuple(average.parameters()), tuple(module.parameters()), 0)
