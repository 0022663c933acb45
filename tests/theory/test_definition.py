"""Definition 1, the region J and the gaps, against slow twins that work on labels, not on ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from oneof.lab.theory import disturbing
from oneof.lab.theory.posteriors import POSTERIORS, GaussianClasses, RandomLogits, blocks, draw_labels


def in_region_by_hand(eta, excluded, tau):
    """x ∈ J(Ybar), one label at a time, straight from the paper's words."""
    bayes = int(np.argmax(eta))
    if bayes in excluded:
        return False
    for j in excluded:
        if eta[bayes] - eta[j] > tau:
            return False  # not disturbing
        for k in range(len(eta)):
            if k != bayes and k not in excluded and not eta[k] < eta[j]:
                return False
    return True


def reduced_by_hand(eta, excluded):
    """eta' (R2), one label at a time."""
    rest = 1 - sum(eta[k] for k in excluded)
    return [0.0 if j in excluded else eta[j] / rest for j in range(len(eta))]


def bound_by_hand(eta, excluded, epsilon):
    bayes = int(np.argmax(eta))
    a = max(excluded, key=lambda j: eta[j])
    b = max((j for j in range(len(eta)) if j != bayes and j not in excluded), key=lambda j: eta[j])
    rest = 1 - sum(eta[j] for j in excluded)
    return (eta[bayes] - eta[b]) * (eta[bayes] - eta[a]) / (4 * epsilon * rest)


@given(st.integers(0, 10_000), st.integers(3, 7), st.sampled_from([0.02, 0.1, 0.3]), st.data())
@settings(max_examples=60)
def test_gaps_and_region_match_the_slow_twin(seed, c, epsilon, data):
    m = data.draw(st.integers(1, c - 2))
    eta = RandomLogits(c, 0.7).draw(np.random.default_rng(seed), 8).eta
    order = disturbing.ranked(eta)
    gap = disturbing.gaps(order.eta, m)
    inside = disturbing.disturbed(gap, disturbing.widest_tau(epsilon))
    reduced = disturbing.reduced_posterior(order.eta, m)
    for i, row in enumerate(eta):
        excluded = set(order.labels[i, 1 : m + 1].tolist())
        assert inside[i] == in_region_by_hand(row, excluded, 2 * epsilon)
        by_hand = reduced_by_hand(row, excluded)
        np.testing.assert_allclose(reduced[i], sorted(by_hand, reverse=True)[: c - m])
        best, second = sorted(by_hand)[-1], sorted(by_hand)[-2]
        assert gap.reduced[i] == pytest.approx(best - second)
        assert disturbing.error_bounds(gap, epsilon)[i] == pytest.approx(
            bound_by_hand(row, excluded, epsilon)
        )
        # no other set of m labels puts this instance into its region
        other = set(range(c)) - excluded - {int(order.labels[i, 0])}
        assert not in_region_by_hand(row, set(sorted(other)[:m]), 2 * epsilon) or len(other) < m


def test_ties_with_a_label_that_stays_are_outside_j():
    order = disturbing.ranked(np.array([[0.4, 0.3, 0.3, 0.0], [0.4, 0.35, 0.25, 0.0]]))
    assert disturbing.disturbed(disturbing.gaps(order.eta), 0.2).tolist() == [False, True]


def test_on_j_the_bound_is_at_most_half_the_reduced_gap():
    """Why Theorem 1's right side is always 1, and Theorem 2 holds trivially under the same condition."""
    for epsilon in (0.05, 0.2):
        gap = disturbing.gaps(disturbing.ranked(RandomLogits().draw(np.random.default_rng(3), 5000).eta).eta)
        inside = gap.take(disturbing.disturbed(gap, disturbing.widest_tau(epsilon)))
        assert (disturbing.error_bounds(inside, epsilon) <= inside.reduced / 2 + 1e-12).all()


def test_at_least_one_rival_must_stay():
    with pytest.raises(ValueError, match="between 1 and 2"):
        disturbing.gaps(np.full((2, 4), 0.25), excluded=3)


@given(st.integers(0, 10_000), st.floats(0.0, 0.6))
@settings(max_examples=50)
def test_errors_keep_their_size(seed, size):
    rng = np.random.default_rng(seed)
    truth = disturbing.ranked(RandomLogits(5).draw(rng, 20).eta).eta
    worst = disturbing.worst_error(truth, size)
    assert np.abs(worst - truth).max() <= size + 1e-12
    np.testing.assert_allclose(worst.sum(axis=1), 1.0)
    assert worst.min() >= 0.0
    assert np.abs(disturbing.random_error(truth, size, rng) - truth).max() <= size + 1e-12
    # nobody within the same bound makes the best label lose where the worst error lets it win
    assert not (
        disturbing.best_label_wins(worst)
        & ~disturbing.best_label_wins(disturbing.random_error(truth, size, rng))
    ).any()


def test_a_tie_is_no_win():
    assert disturbing.best_label_wins(np.array([[0.5, 0.5], [0.6, 0.4]])).tolist() == [False, True]


def test_gaussian_posterior_is_bayes_rule():
    classes = GaussianClasses(n_classes=4, n_features=3, spread=0.8, seed=5)
    x, eta = classes.draw(np.random.default_rng(0), 50)
    density = np.exp(-((x[:, None, :] - classes.means[None]) ** 2).sum(axis=2) / 2)
    np.testing.assert_allclose(eta, density / density.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", POSTERIORS)
def test_labels_follow_the_posterior(name):
    rng = np.random.default_rng(1)
    x, eta = POSTERIORS[name].draw(rng, 40_000)
    assert x.shape == (40_000, POSTERIORS[name].n_features)
    np.testing.assert_allclose(eta.sum(axis=1), 1.0)
    labels = draw_labels(rng, eta)
    hits = np.eye(eta.shape[1])[labels] - eta
    assert np.abs(hits.mean(axis=0)).max() < 5 * 0.5 / np.sqrt(len(eta))
    assert np.mean(labels == eta.argmax(axis=1)) == pytest.approx(eta.max(axis=1).mean(), abs=0.0125)


def test_blocks_repeat_and_do_not_depend_on_their_size():
    whole = softmax(np.random.default_rng(4).normal(0, 1.5, (1000, 6)), axis=1)
    for size in (1000, 300, 7):
        drawn = np.concatenate(list(blocks(RandomLogits(), 1000, seed=4, size=size)))
        np.testing.assert_array_equal(drawn, whole)
