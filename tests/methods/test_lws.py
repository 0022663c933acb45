import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.base import Batch, State
from oneof.methods.lws import Lws, leveraged_loss, signed_softmax
from tests.methods.by_hand import (
    DTYPES,
    MASKS,
    TOLERANCE,
    RowByRow,
    assert_linear_fit_equals,
    sample_logits,
    softmax_within,
)
from tests.methods.harness import MethodTester, fit
from tests.methods.test_baselines import problems


class TestLws(MethodTester):
    method = Lws()


def sigmoid_by_hand(v):
    return 1 / (1 + np.exp(-v)) if v >= 0 else np.exp(v) / (1 + np.exp(v))


def loss_by_hand(z, mask, weights, leverage):
    total = 0.0
    for k in range(len(z)):
        if mask[k]:
            total += weights[k] * sigmoid_by_hand(-z[k])
        else:
            total += leverage * weights[k] * sigmoid_by_hand(z[k])
    return total


def weights_by_hand(z, mask):
    inside, outside = softmax_within(z, mask), [0.0] * len(z)
    if not all(mask):
        outside = softmax_within(z, [not k for k in mask])
    return [a if k else b for a, b, k in zip(inside, outside, mask)]


class LwsRow(RowByRow):
    """The table holds weights with a minus sign outside the set."""

    def __init__(self, leverage):
        self.leverage = leverage

    def start(self, mask):
        return [1 / len(mask) if k else -1 / len(mask) for k in mask]

    def gradient(self, z, row, mask, epoch):
        slope = [sigmoid_by_hand(v) * sigmoid_by_hand(-v) for v in z]
        return [-abs(w) * s if k else self.leverage * abs(w) * s for w, s, k in zip(row, slope, mask)]

    def update(self, i, before, after, mask):
        return [w if k else -w for w, k in zip(weights_by_hand(after, mask), mask)]


@pytest.mark.parametrize("leverage", [1.0, 2.0])
def test_training_equals_the_hand_computation(leverage):
    assert_linear_fit_equals(Lws(leverage=leverage), LwsRow(leverage))


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.sampled_from([0.0, 1.0, 2.0]))
def test_loss_and_weights_match_their_slow_twins(problem, dtype, leverage):
    z, mask = problem
    logits, masks = torch.tensor(z, dtype=dtype), torch.tensor(mask)
    weights = signed_softmax(logits, masks).abs()
    loss = leveraged_loss(logits, masks, weights, leverage)
    z = logits.double().numpy()
    expected = np.array([weights_by_hand(row, keep) for row, keep in zip(z, mask)])
    assert np.allclose(weights, expected, **TOLERANCE[dtype])
    for i in range(len(z)):
        assert np.allclose(loss[i], loss_by_hand(z[i], mask[i], expected[i], leverage), **TOLERANCE[dtype])
    assert torch.isfinite(loss).all()


def test_gradient_of_the_loss():
    z = sample_logits()
    weights = signed_softmax(z.detach(), MASKS).abs()
    assert torch.autograd.gradcheck(lambda z: leveraged_loss(z, MASKS, weights, 2.0), z)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_finite_for_extreme_logits(dtype):
    z = sample_logits(1e4).detach().to(dtype).requires_grad_()
    leveraged_loss(z, MASKS, signed_softmax(z.detach(), MASKS).abs(), 1.0).sum().backward()
    assert torch.isfinite(z.grad).all()


def test_a_logit_of_zero_has_a_gradient():
    z = torch.zeros(1, 2, requires_grad=True)
    leveraged_loss(z, torch.tensor([[True, False]]), torch.ones(1, 2), 1.0).sum().backward()
    assert z.grad.tolist() == [[-0.25, 0.25]]


def test_weights_of_each_group_sum_to_one_after_a_visit():
    state = State(torch.nn.Identity())
    state.rows.add("target", torch.zeros(5, 4, dtype=torch.float64))
    Lws().after_step(state, Batch(torch.arange(5), (sample_logits().detach(),), MASKS), None)
    table = state.rows["target"]
    ones = torch.ones(5, dtype=torch.float64)
    assert torch.allclose(table.clamp(min=0).sum(dim=1), ones)
    assert torch.allclose(-table.clamp(max=0).sum(dim=1), ones * ~MASKS.all(dim=1))


def test_rows_without_a_visit_have_uniform_pseudo_labels():
    trained = fit(Lws(), recipe={"epochs": 1, "batch_size": 100})
    unseen = (trained.state.rows["target"].abs() == 0.25).all(dim=1).numpy()
    assert unseen.sum() >= 20
    q = trained.pseudo_labels[unseen]
    assert np.allclose(q, (q > 0) / (q > 0).sum(axis=1, keepdims=True))
