import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.base import Batch, State
from oneof.methods.cc import Cc
from oneof.methods.losses import set_loss
from oneof.methods.targets import candidate_softmax
from tests.methods.by_hand import DTYPES, MASKS, TOLERANCE, sample_logits
from tests.methods.harness import MethodTester
from tests.methods.test_baselines import log_softmax_by_hand, problems


class TestCc(MethodTester):
    method = Cc()


def cc_by_hand(views, mask):
    """−log Σ_{k ∈ S} p_k for one row, averaged over its views."""
    total = 0.0
    for z in views:
        logs = [v for v, k in zip(log_softmax_by_hand(z), mask) if k]
        top = max(logs)
        total -= top + np.log(sum(np.exp(v - top) for v in logs))
    return total / len(views)


@settings(max_examples=50)
@given(problems(), st.integers(1, 3), st.sampled_from(DTYPES))
def test_loss_matches_its_slow_twin(problem, n_views, dtype):
    z, mask = problem
    views = [torch.tensor(np.roll(z, shift, axis=1), dtype=dtype) for shift in range(n_views)]
    batch = Batch(torch.arange(len(z)), tuple(views), torch.tensor(mask))
    loss = Cc().loss(State(torch.nn.Identity()), batch, None)
    expected = [cc_by_hand([v[i].double().numpy() for v in views], mask[i]) for i in range(len(z))]
    # single precision holds logits of 1e4 to about 1e-3
    scale = max(1.0, np.abs(z).max())
    assert np.allclose(loss, expected, rtol=1e-4, atol=TOLERANCE[dtype]["atol"] * max(1.0, scale / 100))
    assert torch.isfinite(loss).all()


def test_gradient_is_that_of_rc_with_current_weights():
    """∂L/∂z = p − r with r the softmax within the set: CC is RC without memory."""
    z = sample_logits()
    set_loss(z, MASKS).sum().backward()
    assert torch.allclose(z.grad, z.softmax(-1) - candidate_softmax(z, MASKS))


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_finite_and_full_sets_have_none(size, dtype):
    z = sample_logits(size).detach().to(dtype).requires_grad_()
    set_loss(z, MASKS).sum().backward()
    assert torch.isfinite(z.grad).all()
    assert torch.allclose(z.grad[1], torch.zeros(4, dtype=dtype), atol=1e-7)
