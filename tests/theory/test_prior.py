"""The prior's statements on known posteriors, label by label."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oneof.lab.theory.posteriors import POSTERIORS
from oneof.lab.theory.prior import (
    check_prior,
    disturbed_by,
    error_bound,
    exact_opinions,
    mixed,
    prior_weights,
)
from oneof.methods.rplg.reduction import trust


def v_by_hand(eta, mu):
    """(a), one label at a time."""
    m = len(eta) - 1
    return [
        eta[k] / m * sum((1 - mu[j]) / (1 - eta[j]) for j in range(len(eta)) if j != k)
        for k in range(len(eta))
    ]


@given(st.integers(2, 7), st.integers(0, 2**32 - 1))
def test_mixing_exact_opinions_is_the_closed_form(size, seed):
    rng = np.random.default_rng(seed)
    eta, mu = rng.dirichlet(np.ones(size), 2)
    found = mixed(exact_opinions(eta[None]), prior_weights(mu[None]))[0]
    np.testing.assert_allclose(found, v_by_hand(eta, mu), atol=1e-9)


def test_the_weights_are_those_of_the_method():
    mu = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    np.testing.assert_allclose(
        trust(torch.as_tensor(mu)).softmax(dim=1).numpy(), prior_weights(mu), atol=1e-12
    )


@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.floats(0.001, 0.5))
def test_errors_of_opinions_add_up_to_no_more_than_the_bound(size, seed, epsilon):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.ones(size), 50)
    mu, u = disturbed_by(eta, epsilon, rng), disturbed_by(exact_opinions(eta), epsilon / 2, rng)
    assert np.abs(mu - eta).max() <= epsilon + 1e-12
    away = np.abs(mixed(u, prior_weights(mu)) - eta)
    bound = error_bound(eta, epsilon, epsilon / 2)
    assert (away <= bound + 1e-12).all()
    assert (bound <= 1.5 * epsilon * (1 + 1e-9)).all()  # 1 - eta loses digits near 1


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("size", [2, 3, 6])
def test_with_the_prior_the_truth_is_a_fixed_point_and_without_it_is_not(name, size):
    found = check_prior(POSTERIORS[name], size, 2000)
    assert found.fixed_point < 1e-12
    assert found.largest_ratio <= 1
    assert found.uniform > 0.02
    assert found.uniform_margin < (1e-9 if size == 2 else 0.9)
    assert all(with_prior < uniform for with_prior, uniform in found.mean_error.values())
