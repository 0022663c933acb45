import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.cavl import Cavl, activation_choice
from tests.methods.by_hand import DTYPES, RowByRow, assert_linear_fit_equals
from tests.methods.harness import MethodTester
from tests.methods.test_baselines import problems


class TestCavl(MethodTester):
    method = Cavl()


def choice_by_hand(z, mask):
    best, choice = None, None
    for k in range(len(z)):
        if not mask[k]:
            continue
        value = z[k] * abs(1 - z[k])
        if best is None or value > best:
            best, choice = value, k
    return [float(k == choice) for k in range(len(z))]


class CavlRow(RowByRow):
    def update(self, i, before, after, mask):
        return choice_by_hand(after, mask)


def test_training_equals_the_hand_computation():
    assert_linear_fit_equals(Cavl(), CavlRow())


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.booleans())
def test_choice_matches_its_slow_twin(problem, dtype, negative):
    z, mask = problem
    logits = torch.tensor(-np.abs(z) if negative else z, dtype=dtype)
    chosen = activation_choice(logits, torch.tensor(mask)).numpy()
    # the twin works in the same precision: ties must fall alike
    assert (chosen == [choice_by_hand(row, keep) for row, keep in zip(logits.numpy(), mask)]).all()
    assert (chosen[~mask] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_picks_a_candidate_when_all_candidates_are_negative(dtype):
    logits = torch.tensor([[-3.0, -1.0, 5.0], [-1e4, -2e4, 1e4], [-1e30, -2e30, 1.0]], dtype=dtype)
    mask = torch.tensor([[True, True, False]]).expand(3, 3)
    assert activation_choice(logits, mask).argmax(dim=1).tolist() == [1, 0, 0]


def test_the_value_is_not_the_logit():
    """z · |1 − z| falls from ½ to 1: a logit of 0.5 beats one of 0.9."""
    assert activation_choice(torch.tensor([[0.9, 0.5]]), torch.ones(1, 2).bool()).argmax() == 1
