"""Trainings run as one program (`benchmarks/one_program.py`) give what they give alone."""

import pytest
import torch
from benchmarks.one_program import Stack
from benchmarks.stacked import EQUAL, METHODS, SMALL, gap, training


@pytest.mark.parametrize("name", METHODS)
def test_weights_tables_and_best_epochs_are_those_of_the_trainings_alone(name):
    assert gap(name, "cpu", double=True, count=2, epochs=5) < EQUAL


def test_the_trainings_are_views_of_the_stack():
    trainings = [training("proden", SMALL, number, "cpu") for number in range(2)]
    before = [t.state.rows["target"].clone() for t in trainings]
    Stack(trainings).run_epoch()
    assert all((t.state.rows["target"] != old).any() for t, old in zip(trainings, before))
    assert not torch.equal(trainings[0].state.net.head.weight, trainings[1].state.net.head.weight)


def test_whole_numbers_must_agree():
    trainings = [training("rplg+", SMALL, number, "cpu") for number in range(2)]
    object.__setattr__(trainings[1].method, "clean_batch", 32)
    with pytest.raises(ValueError, match="clean_batch is not the same"):
        Stack(trainings)
