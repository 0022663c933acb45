"""The meta-learner g: what every branch's opinion is worth for a row."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oneof.methods.base import State, StepInfo, Task
from oneof.methods.optimisers import make_optimiser
from oneof.methods.parallel import averaged


def add_meta_learner(state: State, task: Task, n_inputs: int, hidden: int, lr: float, decay: float) -> None:
    """g, moved by an Adam of its own: linear, or with one hidden layer.

    The last layer starts at zero: at first all candidates' branches weigh the same.
    """
    last = nn.Linear(hidden or n_inputs, task.n_classes)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    g = nn.Sequential(nn.Linear(n_inputs, hidden), nn.ReLU(), last) if hidden else last
    state.meta = g.to(task.dtype)
    state.optimisers["meta"] = make_optimiser("adam", state.meta.parameters(), lr, decay)
    state.notes |= {"meta_lr": lr, "lr": task.lr or 1.0}


def descend(state: State, output: Tensor, slope: Tensor, step: StepInfo) -> None:
    """One step of g down a loss whose derivative with respect to an output of g is known.

    Its rate falls as the classifier's does. A classifier that hardly moves does not answer: at full pace g
    would run into one corner (w one-hot).
    """
    parameters = list(state.meta.parameters())
    for parameter, gradient in zip(parameters, averaged(torch.autograd.grad(output, parameters, slope))):
        parameter.grad = gradient
    for group in state.optimisers["meta"].param_groups:
        group["lr"] = state.notes["meta_lr"] * (step.lr / state.notes["lr"])
    state.optimisers["meta"].step()
