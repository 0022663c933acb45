"""Prediction sets hold the true label as often as they promise, and no more classes than that takes."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oneof.classifier.scoring import (
    SCORES,
    calibration_scores,
    checked_scores,
    class_scores,
    rows_needed,
    score_limit,
    sets_within,
)


def scores_by_hand(p, score):
    """Slow twin: one row, one class at a time."""
    made = np.zeros_like(p)
    for i, row in enumerate(p):
        for k, value in enumerate(row):
            if score == "probability":
                made[i, k] = 1 - value
            else:
                made[i, k] = value + sum(v for j, v in enumerate(row) if v > value or (v == value and j < k))
    return made.round(12)


def set_by_hand(row, calibration, coverage, score):
    """A class is in the set unless too few calibration rows are as bad: the p-value form of the same rule."""
    m = len(calibration)
    kept = []
    for value in scores_by_hand(row[None], score)[0]:
        at_least_as_bad = sum(c >= value for c in calibration)
        kept.append((at_least_as_bad + 1) / (m + 1) > 1 - coverage + 1e-12)
    return kept


probabilities = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=st.floats(0.01, 1)
).map(lambda values: values / values.sum(axis=1, keepdims=True))


@given(probabilities, st.sampled_from(SCORES))
def test_scores_match_the_slow_twin(p, score):
    np.testing.assert_allclose(class_scores(p, score), scores_by_hand(p, score), atol=1e-12)


@given(st.integers(1, 40), st.floats(0.05, 0.95), st.sampled_from(SCORES), st.integers(0, 10**6))
def test_sets_match_the_slow_twin(m, coverage, score, seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), size=m + 5)
    calibration = calibration_scores(p[:m], rng.integers(4, size=m))[score]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        limit = score_limit(calibration, coverage)
    found = sets_within(p[m:], limit, score, allow_empty=True)
    for row, made in zip(p[m:], found):
        assert made.tolist() == set_by_hand(row, calibration, coverage, score)


@pytest.mark.parametrize("coverage", [0.7, 0.9])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("quality", ["good", "bad"])
def test_coverage_over_repeated_splits(score, coverage, quality):
    """Over many random splits the truth is covered as promised, for a good and for a misleading model."""
    rng = np.random.default_rng(3)
    repeats, m, n, c = 400, 99, 50, 5
    covered = 0
    for _ in range(repeats):
        p = rng.dirichlet(np.full(c, 0.5), size=m + n)
        truth = np.array([rng.choice(c, p=row) for row in p])
        if quality == "bad":
            p = np.roll(p, 1, axis=1) * 0.7 + 0.3 / c
        limit = score_limit(calibration_scores(p[:m], truth[:m])[score], coverage)
        sets = sets_within(p[m:], limit, score, allow_empty=True)
        covered += sets[np.arange(n), truth[m:]].sum()
    # exactly (m + 1) · coverage is whole here, so the expected share is `coverage` itself; rows that share
    # calibration rows are not independent, hence the variance of a beta distribution on top
    spread = math.sqrt(coverage * (1 - coverage) * (1 / (repeats * n) + 1 / (repeats * (m + 2))))
    share = covered / (repeats * n)
    assert share > coverage - 4 * spread
    # ties make sets larger than they need be: the least probable class always has the adaptive score 1
    assert share < coverage + 4 * spread or (score, quality) == ("adaptive", "bad")


def test_never_empty_unless_asked_for():
    p = np.array([[0.3, 0.4, 0.3], [0.95, 0.03, 0.02]])
    assert sets_within(p, 0.1, allow_empty=True).tolist() == [[False] * 3, [True, False, False]]
    assert sets_within(p, 0.1).tolist() == [[False, True, False], [True, False, False]]
    only = np.array([[True, False, True]])
    assert sets_within(p, 0.1, allowed=only).tolist() == [[True, False, False], [True, False, False]]
    assert not sets_within(p, math.inf, allowed=only)[:, 1].any()


@given(st.floats(0.01, 0.99))
def test_rows_needed_is_the_smallest_number_that_leaves_anything_out(coverage):
    m = rows_needed(coverage)
    assert score_limit(np.linspace(0, 1, m), coverage) <= 1
    if m > 1:
        with pytest.warns(UserWarning, match=f"Calibrate on at least {m} rows"):
            assert score_limit(np.linspace(0, 1, m - 1), coverage) == math.inf


@pytest.mark.parametrize(("coverage", "rows"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.5, 1), (0.07, 1)])
def test_rows_needed_of_round_numbers(coverage, rows):
    assert rows_needed(coverage) == rows


def test_the_quantile_is_the_one_of_the_theory():
    scores = np.arange(1, 100) / 100
    for coverage in (0.07, 0.1, 0.29, 0.57, 0.9, 0.99):  # (m + 1) · coverage is whole, but not for floats
        assert score_limit(scores, coverage) == pytest.approx(coverage)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, "0.9", None, float("nan")])
def test_coverage_that_cannot_be_meant(coverage):
    with pytest.raises(ValueError, match="share between 0 and 1"):
        score_limit(np.zeros(10), coverage)


def test_what_cannot_be_meant():
    with pytest.raises(ValueError, match="score is 'aps'"):
        class_scores(np.ones((1, 2)), "aps")
    for wrong in ({}, {"probability": [1.0]}, {"probability": [1.0], "adaptive": [1.0, 2.0]}):
        with pytest.raises(ValueError, match="calibration scores"):
            checked_scores(wrong)
    assert checked_scores({"probability": [2.0, 1.0], "adaptive": [0, 1]})["probability"].tolist() == [1, 2]
