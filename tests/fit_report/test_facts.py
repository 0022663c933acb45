"""The numbers of the report against slow twins, and intervals against known values."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.app.fit_page import Checked, FitFacts
from oneof.app.fit_page.facts import Share, calibration_error, confused_pairs, reliability
from oneof.app.review import ReviewData
from oneof.candidates import Candidates


def outcome(n=40, c=4, seed=0, checked=True, **more):
    rng = np.random.default_rng(seed)
    mask = rng.random((n, c)) < 0.4
    mask[np.arange(n), rng.integers(c, size=n)] = True
    mask[:, 0] &= mask.sum(axis=1) < c  # no full rows
    p = rng.dirichlet(np.ones(c) * 0.5, n)
    q = p * mask
    q /= q.sum(axis=1, keepdims=True)
    rows = Checked(rng.dirichlet(np.ones(c) * 0.3, 30), rng.integers(c, size=30)) if checked else None
    history = [{"epoch": e, "loss": 1 / (e + 1), "selection": 0.5} for e in range(5)]
    names = more.pop("classes", "abcd"[:c])
    if "wrong" in more:
        more["wrong"] = np.broadcast_to(more["wrong"], n)
    settings = {name: more.pop(name) for name in ("ids", "trusted", "wrong") if name in more}
    data = ReviewData(Candidates.from_mask(mask, names), p, q, **settings)
    return FitFacts("test.csv", data, history, checked=rows, **more)


# ---- intervals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (8, 10, 0.4902, 0.9433), (50, 100, 0.4038, 0.5962)],
)
def test_wilson_against_published_values(k, n, low, high):
    assert Share(k, n).interval == pytest.approx((low, high), abs=1e-4)


@given(st.integers(0, 500), st.integers(0, 500))
def test_wilson_holds_the_share(k, n):
    k = min(k, n)
    low, high = Share(k, n).interval
    assert 0 <= low <= high <= 1
    if n:
        assert low <= k / n <= high
        assert math.isclose(1 - low, Share(n - k, n).high, abs_tol=1e-9)


def test_no_rows_know_nothing():
    assert Share(0, 0).interval == (0.0, 1.0)
    assert math.isnan(Share(0, 0).value)


@given(st.integers(1, 60), st.integers(0, 1000))
def test_reliability_against_a_loop(n, seed):
    rng = np.random.default_rng(seed)
    confidence, right = rng.random(n), rng.random(n) < 0.5
    confidence[0] = 1.0
    bins = reliability(confidence, right)
    error = 0.0
    for b in range(10):
        inside = [i for i in range(n) if min(int(confidence[i] * 10), 9) == b]
        if inside:
            gap = sum(right[i] for i in inside) / len(inside) - sum(confidence[i] for i in inside) / len(
                inside
            )
            error += len(inside) / n * abs(gap)
    assert sum(b.right.n for b in bins) == n
    assert calibration_error(bins) == pytest.approx(error)


# ---- facts ------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(0, 100))
def test_facts_against_loops(n, seed):
    trusted = np.arange(n) % 4 == 1
    facts = outcome(n, seed=seed, trusted=trusted)
    data = facts.data
    mask, p, q = data.candidates.mask, data.probabilities, data.transduction
    rows = [i for i in range(n) if not trusted[i]]
    assert facts.learned == len(rows)
    assert facts.covering == Share(sum(mask[i, p[i].argmax()] for i in rows), len(rows))
    assert facts.outside.k == facts.covering.n - facts.covering.k
    assert facts.changed.k == sum(p[i].argmax() != q[i].argmax() for i in rows)
    several = [i for i in rows if mask[i].sum() > 1]
    assert facts.resolved == Share(sum(q[i].max() >= 0.9 for i in several), len(several))
    assert facts.mean_after == pytest.approx(np.mean([(q[i] > 0.05).sum() for i in rows]))
    assert sum(facts.sizes_before.values()) == sum(facts.sizes_after.values()) == len(rows)
    checked = facts.checked
    right = sum(row.argmax() == k for row, k in zip(checked.probabilities, checked.columns))
    assert facts.accuracy == Share(right, 30)
    assert sum(count for _, _, count in facts.mistakes) <= 30 - right
    assert sum(c.believed for c in facts.classes) == len(rows)
    assert sum(c.found.n for c in facts.classes if c.found) == 30


def test_without_checked_rows_there_is_no_accuracy():
    facts = outcome(checked=False)
    assert facts.accuracy is None
    assert facts.ece is None
    assert facts.bins == []
    empty = Checked(np.zeros((0, 4)), np.zeros(0, dtype=int))
    assert replace(outcome(), checked=empty).accuracy is None


def test_pairs_and_what_became_of_them():
    mask = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    q = np.array([[0.95, 0.05, 0], [0.4, 0.6, 0], [0, 0, 1.0], [0, 0.1, 0.9], [0, 0, 1.0]])
    made = confused_pairs(Candidates.from_mask(mask, "xyz"), q, mask.sum(axis=1) > 1)
    first = made[0]
    assert (first.a, first.b, first.rows) == ("x", "y", 3)
    assert (first.to_a, first.to_b, first.to_other, first.open) == (1, 1, 1, 1)
    assert [(p.a, p.b, p.rows) for p in made[1:]] == [("y", "z", 2), ("x", "z", 1)]
    assert confused_pairs(Candidates.from_mask(mask, "xyz"), q, np.zeros(5, dtype=bool)) == []
