"""The main optimiser and its learning rate, which follows the recipe's schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from oneof.methods.base import State, StepInfo
from oneof.methods.optimisers import like_parameters, make_optimiser
from oneof.training.recipe import Recipe


def _one_cycle(done: float, recipe: Recipe) -> float:
    rise, start, end = 0.3, 1 / 25, 1 / 25e4
    if done < rise:
        return start + (1 - start) * 0.5 * (1 - math.cos(math.pi * done / rise))
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))


SCHEDULES: dict[str, Callable[[float, Recipe], float]] = {
    "constant": lambda done, recipe: 1.0,
    "cosine": lambda done, recipe: 0.5 * (1 + math.cos(math.pi * done)),
    "one-cycle": _one_cycle,
    "multi-step": lambda done, recipe: 0.1 ** sum(done >= milestone for milestone in recipe.milestones),
}
"""Pure functions of how far training has come, in [0, 1): there is nothing to checkpoint."""


class MainOptimiser:
    """Moves all that no method moves itself.

    Where steps are recorded and replayed, learning rates are tensors that the recording reads.
    """

    def __init__(
        self, recipe: Recipe, groups: list[dict[str, Any]], state: State, step: StepInfo, recorded: bool
    ) -> None:
        self.recipe, self.state, self.step, self.recorded = recipe, state, step, recorded
        self.optimiser: Optimizer = make_optimiser(
            recipe.optimiser, groups, recipe.lr, recipe.weight_decay, recipe.momentum
        )
        self.base_lrs = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters: list[Tensor] = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.as_recorded()

    def as_recorded(self) -> None:
        """Learning rates and step counters where a recording needs them."""
        for each in (self.optimiser, *self.state.optimisers.values()):
            for group in each.param_groups:
                if "capturable" in group:  # Adam: its step counter must live on the GPU
                    group["capturable"] = self.recorded
        if self.recorded:
            device = self.step.generator.device
            self.step.lr = torch.tensor(float(self.step.lr), device=device)
            for group in self.optimiser.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=device)

    def set_lr(self, done: float) -> None:
        """The learning rates after a part of the training."""
        factor = SCHEDULES[self.recipe.schedule](done, self.recipe)
        self.step.lr = _moved(self.step.lr, self.recipe.lr * factor)
        for group, base in zip(self.optimiser.param_groups, self.base_lrs):
            group["lr"] = _moved(group["lr"], base * factor)

    def load_state_dict(self, saved: dict[str, Any], own: dict[str, Any]) -> None:
        """Of this optimiser and of the method's own; they may come from steps that were not recorded."""
        self.optimiser.load_state_dict(saved)
        for name, optimiser in self.state.optimisers.items():
            optimiser.load_state_dict(own[name])
        self.as_recorded()
        for optimiser in (self.optimiser, *self.state.optimisers.values()):
            like_parameters(optimiser)


def _moved(lr: float | Tensor, value: float) -> float | Tensor:
    """The new value, in the place of the old one where a recording reads it."""
    return lr.fill_(value) if isinstance(lr, Tensor) else value
