"""A recorded step keeps every number that is not in a tensor: within a stage none may change."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from oneof.methods import list_methods, make_method
from oneof.methods.base import CleanBatch, Method, StepInfo
from oneof.methods.plcr import Plcr
from tests.methods.steps import B, C, D, SmallTask, step_at, values

CAPTURABLE = [info.name for info in list_methods() if info.cls.capturable]
EPOCHS = 10


def after_one_step(method: Method, step: StepInfo):
    """The stage, and all that a first step makes: its loss, its gradients, the state."""
    torch.manual_seed(0)
    task = SmallTask(features=nn.Linear(D, D, dtype=torch.float64))
    task.truth = task.candidates.dense().int().argmax(dim=1)
    task.clean_counts = torch.ones(C, dtype=torch.long)
    state = method.begin(task)
    batch = task.batch(method, range(B), noise=0.5)
    batch.clean = CleanBatch(task.x[:C] + 1, torch.eye(C, dtype=torch.bool), torch.linspace(0, 0.9, C))
    loss = method.loss(state, batch, step).mean()
    loss.backward()
    method.after_step(state, batch, step)
    numbers = [loss, *state.state_dict().values(), *(p.grad for p in state.net.parameters())]
    return method.stage(state, step), [values(number) for number in numbers if number is not None]


def assert_stages_name_what_changes(method: Method):
    seen = {}
    for epoch in range(EPOCHS):
        stage, made = after_one_step(method, step_at(epoch, 4 * epoch, EPOCHS))
        for number, earlier in zip(made, seen.setdefault(stage, made), strict=True):
            assert (number == earlier).all()


@pytest.mark.parametrize("name", CAPTURABLE)
def test_steps_of_one_stage_are_the_same_whatever_the_epoch(name):
    assert_stages_name_what_changes(make_method(name))


def test_a_ramp_that_no_stage_names_is_noticed():
    @dataclass(frozen=True)
    class NamelessRamp(Plcr):
        def stage(self, state, step):
            return None

    with pytest.raises(AssertionError):
        assert_stages_name_what_changes(NamelessRamp())
