"""RPLG with one part changed: whole steps against twins with the same change, and the prior by value."""

import numpy as np
import pytest
import torch

from oneof.methods import make_method
from oneof.methods.base import CandidateRows
from oneof.methods.rplg import (
    RplgAveraged,
    RplgNewU,
    RplgNm,
    RplgNmPrior,
    RplgNoRollback,
    RplgPlusThreeViews,
    RplgPrior,
    RplgThreeViews,
)
from oneof.methods.rplg.reduction import trust
from tests.methods.harness import MethodTester
from tests.methods.rplg_by_hand import RplgByHand, meta_scores, softmax_over
from tests.methods.steps import SmallTask, step_at
from tests.methods.test_rplg_step import N, Steps, assert_same_step


class TestRplgNoRollback(MethodTester):
    method = RplgNoRollback()


class TestRplgNewU(MethodTester):
    method = RplgNewU()


class TestRplgPrior(MethodTester):
    method = RplgPrior()


class TestRplgNmPrior(MethodTester):
    method = RplgNmPrior()


class TestRplgAveraged(MethodTester):
    method = RplgAveraged()


class TestRplgThreeViews(MethodTester):
    method = RplgThreeViews()


class TestRplgPlusThreeViews(MethodTester):
    method = RplgPlusThreeViews()


# ---- twins ------------------------------------------------------------------------------------


class NoRollback(RplgByHand):
    """The real step starts where the virtual one ended."""

    def real_head(self, z, v, lr):
        return self.virtual_head(z, v, lr)


class NewU(RplgByHand):
    """After the meta step the branches, which have moved, are asked again, at a first visit as well."""

    def real_opinions(self, index, z, u):
        before, self.visited = self.visited, np.ones_like(self.visited)
        again = [self.opinions(i, z_i) for i, z_i in zip(index, z)]
        self.visited = before
        return again


class Prior(RplgByHand):
    """w is the softmax of g + log(1 − mu), no branch less than 1e-4."""

    def branch_weights(self, i, z):
        prior = np.log(np.maximum(1 - self.mu[i], 1e-4))
        return softmax_over(meta_scores(self.gamma, z) + prior, self.sets[i])


class Averaged(RplgByHand):
    """The slope of the clean loss is 5 % of this step's and 95 % of what it was, which was 0 at first."""

    averages = (0.0, 0.0)

    def clean_slope(self, *step):
        now = super().clean_slope(*step)
        self.averages = tuple(0.95 * before + 0.05 * part for before, part in zip(self.averages, now))
        return self.averages


TWINS = {RplgNoRollback: NoRollback, RplgNewU: NewU, RplgPrior: Prior, RplgAveraged: Averaged}


@pytest.mark.parametrize("method", TWINS)
@pytest.mark.parametrize("noise", [(0.0,), (0.0, 0.3)], ids=["one view", "two views"])
def test_steps_in_a_row_are_those_of_the_twin(method, noise):
    steps = Steps(method=method, twin=TWINS[method])
    for rows in ([0, 3, 5, 7], range(N), [7, 1, 2, 8, 5], range(N)):
        assert_same_step(steps, rows=rows, noise=noise)


@pytest.mark.parametrize("method", TWINS)
def test_the_change_shows_in_the_numbers(method):
    steps = Steps(method=method)  # with the twin of RPLG itself
    for _ in range(3):
        steps.step()
    with pytest.raises(AssertionError):
        steps.assert_same()


def test_an_average_of_more_than_the_head_is_refused():
    with pytest.raises(
        ValueError, match="meta_gradient is 'exact'; rplg-averaged keeps the slope of the last"
    ):
        make_method("rplg-averaged", {"meta_gradient": "exact"})


# ---- the prior --------------------------------------------------------------------------------


def test_the_weights_of_rplg_nm_prior_are_one_minus_mu():
    task = SmallTask()
    method = RplgNmPrior()
    state = method.setup(task)
    for number in range(4):
        mu = state.rows["mu"].numpy().copy()
        method.loss(state, task.batch(method, range(12)), step_at(step=number))
        for w, m, mask in zip(state.rows["w"].numpy(), mu, task.candidates.dense().numpy()):
            expected = np.where(mask, np.maximum(1 - m, 1e-4), 0.0)
            np.testing.assert_allclose(w, expected / expected.sum(), rtol=0, atol=1e-12)
        with torch.no_grad():
            state.net.head.weight.mul_(2)  # for another mu at the next visit


def test_a_pair_keeps_its_opinion_where_uniform_weights_lose_it():
    """On {a, b} branch a can only say b: v_b is w_a. Uniform weights make it ½, the prior mu_b."""
    task = SmallTask()
    task.candidates = CandidateRows.of_mask((torch.arange(4) < 2).expand(12, 4))
    for method, keeps in ((RplgNmPrior(), True), (RplgNm(), False)):
        state = method.setup(task)
        state.rows["mu"].copy_(torch.tensor([0.8, 0.2, 0.0, 0.0]))
        method.loss(state, task.batch(method, range(12)), step_at())
        expected = torch.tensor([0.8, 0.2, 0.0, 0.0] if keeps else [0.5, 0.5, 0.0, 0.0])
        torch.testing.assert_close(state.rows["v"], expected.double().expand(12, -1), atol=1e-7, rtol=0)


def test_no_branch_is_ruled_out():
    mu = torch.tensor([[1.0, 0.0], [0.99995, 0.00005], [0.4, 0.6]], dtype=torch.float64)
    expected = [[1e-4, 1.0], [1e-4, 0.99995], [0.6, 0.4]]
    np.testing.assert_allclose(trust(mu).exp(), expected, rtol=1e-9)
