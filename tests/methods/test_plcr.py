import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.base import Batch, State, StepInfo
from oneof.methods.losses import log_complement, negative_loss
from oneof.methods.plcr import Plcr, consistency_loss, shared_target
from tests.methods.by_hand import (
    DTYPES,
    MASKS,
    TOLERANCE,
    RowByRow,
    assert_linear_fit_equals,
    sample_logits,
    softmax_within,
)
from tests.methods.harness import MethodTester
from tests.methods.test_baselines import log_softmax_by_hand, problems, softmax_by_hand


class TestPlcr(MethodTester):
    method = Plcr()


def log_complement_by_hand(z, k):
    """log(1 − p_k) as the log of the sum of the others."""
    logs = [v for j, v in enumerate(log_softmax_by_hand(z)) if j != k]
    top = max(logs)
    return top + np.log(sum(np.exp(v - top) for v in logs))


def negative_by_hand(z, mask):
    return -sum(log_complement_by_hand(z, k) for k in range(len(z)) if not mask[k])


def divergence_by_hand(z, target):
    logs = log_softmax_by_hand(z)
    return sum(t * (np.log(t) - v) for t, v in zip(target, logs) if t > 0)


def shared_by_hand(views, mask):
    means = [sum(log_softmax_by_hand(z)[k] for z in views) / len(views) for k in range(len(mask))]
    return softmax_within(means, mask)


def step_at(epoch, epochs=10):
    return StepInfo(epoch, 0, epochs, 1, 0.0, torch.Generator())


class PlcrRow(RowByRow):
    """One view: its divergence counts three times."""

    def gradient(self, z, row, mask, epoch):
        p = softmax_by_hand(z)
        weight = min(epoch / 2, 1.0)  # half of four epochs
        slope = [3 * weight * (v - t) for v, t in zip(p, row)]
        for k in range(len(z)):
            if not mask[k]:  # ∂(−log(1 − p_k))/∂z_j = p_k (δ_jk − p_j) / (1 − p_k)
                for j in range(len(z)):
                    slope[j] += p[k] * (float(j == k) - p[j]) / (1 - p[k])
        return slope

    def update(self, i, before, after, mask):
        return softmax_within(before, mask)


def test_training_equals_the_hand_computation():
    assert_linear_fit_equals(Plcr(), PlcrRow(), lr=0.1)


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.integers(1, 3))
def test_losses_and_target_match_their_slow_twins(problem, dtype, n_views):
    z, mask = problem
    views = [torch.tensor(np.roll(z, shift, axis=1), dtype=dtype) for shift in range(n_views)]
    masks = torch.tensor(mask)
    target = shared_target(views, masks)
    negative, consistency = negative_loss(views[0], masks), consistency_loss(views, target)
    slow = [view.double().numpy() for view in views]
    for i in range(len(z)):
        expected = shared_by_hand([view[i] for view in slow], mask[i])
        if dtype == torch.float64 or np.abs(z).max() < 1e3:
            assert np.allclose(target[i], expected, **TOLERANCE[dtype])
        assert np.allclose(negative[i], negative_by_hand(slow[0][i], mask[i]), **TOLERANCE[dtype])
        kl = np.mean([divergence_by_hand(view[i], target[i].double().numpy()) for view in slow])
        assert np.allclose(consistency[i], kl, **TOLERANCE[dtype])
    assert np.isclose(target.sum(dim=1), 1, atol=1e-5).all()
    assert (target.numpy()[~mask] == 0).all()


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.integers(1, 3), st.integers(0, 9))
def test_whole_loss_matches_its_slow_twin(problem, dtype, n_views, epoch):
    z, mask = problem
    views = tuple(torch.tensor(np.roll(z, shift, axis=1), dtype=dtype) for shift in range(n_views))
    state = State(torch.nn.Identity())
    stored = shared_target([views[-1]], torch.tensor(mask))
    state.rows.add("target", stored)
    method = Plcr(weight=2.0, ramp=0.5)
    batch = Batch(torch.arange(len(z)), views, torch.tensor(mask), Plcr.views[:n_views])
    loss = method.loss(state, batch, step_at(epoch))
    slow = [view.double().numpy() for view in views]
    for i in range(len(z)):
        # three divergences, whether there are three views or one that stands for all
        kl = sum(divergence_by_hand(view[i], stored[i].double().numpy()) for view in slow) * 3 / n_views
        expected = negative_by_hand(slow[0][i], mask[i]) + 2.0 * min(epoch / 5, 1) * kl
        assert np.allclose(loss[i], expected, rtol=1e-4, atol=TOLERANCE[dtype]["atol"] * 10)
    assert torch.equal(state.rows["target"], shared_target(list(views), torch.tensor(mask)))


def test_target_is_the_minimiser_of_the_summed_divergence():
    views = [sample_logits(seed=seed).detach() for seed in range(3)]
    target = shared_target(views, MASKS)
    best = consistency_loss(views, target)
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        other = torch.rand(5, 4, dtype=torch.float64, generator=generator) * MASKS + 1e-3 * MASKS
        assert (consistency_loss(views, other / other.sum(dim=1, keepdim=True)) >= best - 1e-12).all()


def test_gradients_of_the_losses():
    target = shared_target([sample_logits(seed=1).detach()], MASKS)
    assert torch.autograd.gradcheck(lambda z: negative_loss(z, MASKS), sample_logits())
    assert torch.autograd.gradcheck(lambda z: consistency_loss([z], target), sample_logits())


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_finite_for_extreme_logits_and_one_class(dtype):
    z = sample_logits(1e4).detach().to(dtype).requires_grad_()
    (negative_loss(z, MASKS) + consistency_loss([z], shared_target([z.detach()], MASKS))).sum().backward()
    assert torch.isfinite(z.grad).all()
    one = torch.zeros(2, 1, dtype=dtype, requires_grad=True)
    loss = negative_loss(one, torch.ones(2, 1).bool())
    loss.sum().backward()
    assert loss.tolist() == [0, 0]
    assert one.grad.tolist() == [[0], [0]]


def test_a_believed_non_candidate_keeps_its_gradient():
    """Where p is 1 up to rounding, the loss is still exact and still pushes down."""
    z = torch.tensor([[60.0, 0.0]], requires_grad=True)
    loss = negative_loss(z, torch.tensor([[False, True]]))
    loss.sum().backward()
    assert float(loss.detach()) == pytest.approx(60)
    assert z.grad[0].tolist() == pytest.approx([1, -1])
    assert log_complement(z.detach())[0].tolist() == pytest.approx([-60, 0])


def test_the_weight_ramps_and_stays():
    method = Plcr(weight=3.0, ramp=0.5)
    weights = [method.weight_at(step_at(epoch, epochs=8)) for epoch in range(8)]
    assert weights == pytest.approx([0, 0.75, 1.5, 2.25, 3, 3, 3, 3])
    # the authors' setting: 100 of 200 epochs
    paper = Plcr()
    assert [paper.weight_at(step_at(e, 200)) for e in (0, 50, 100, 199)] == pytest.approx([0, 0.5, 1, 1])
    assert [Plcr(weight=3.0, ramp=0.0).weight_at(step_at(e, 200)) for e in (0, 1)] == [3, 3]
