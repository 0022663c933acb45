import numpy as np
import pytest
from scipy import stats

from oneof.lab.statistics import compare, critical_difference, exact_wilcoxon, half_interval, holm, ranks


def by_split(values):
    return dict(enumerate(values))


def test_the_paired_test_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(80, 2, 10), rng.normal(78, 2, 10)
    found = compare(by_split(a), by_split(b))
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue)
    assert found.difference == pytest.approx((a - b).mean())
    assert found.p_corrected > found.p


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_exact_signed_ranks_are_scipys(n):
    """With ties and zeros, too, for which scipy asks a permutation test that takes a third of a second."""
    rng = np.random.default_rng(n)
    for d in (rng.integers(1, 4, size=n) * rng.choice([-1.0, 1.0], size=n), rng.normal(size=n)):
        for more in ((), (0.0, 0.0)):
            values = np.array([*d, *more])
            assert exact_wilcoxon(values) == pytest.approx(stats.wilcoxon(values).pvalue, rel=1e-9)
    assert exact_wilcoxon(np.zeros(n)) == 1.0


def test_the_corrected_test_by_hand():
    d = np.array([1.0, 2.0, 3.0, 2.0])
    found = compare(by_split(d), by_split(np.zeros(4)))
    t = d.mean() / np.sqrt(d.var(ddof=1) * (1 / 4 + 1 / 8))
    assert found.p_corrected == pytest.approx(2 * stats.t.sf(t, 3))


def test_marks():
    base = np.array([80.0, 81.0, 79.5, 80.2, 80.7])
    far = base - np.array([3.0, 3.1, 2.9, 3.2, 3.0])
    assert compare(by_split(base), by_split(far)).mark == "•"
    assert compare(by_split(far), by_split(base)).mark == "◦"
    assert compare(by_split(base), by_split(base)).mark == ""
    assert compare(by_split(base[:2]), by_split(far[:2])).mark == ""  # two splits prove nothing


def test_only_common_splits_are_compared():
    found = compare({0: 1.0, 1: 2.0, 2: 3.0}, {1: 1.0, 2: 1.0, 5: 9.0})
    assert found.n == 2
    assert found.difference == 1.5
    assert compare({0: 1.0}, {0: 2.0}) is None
    assert compare({0: 1.0, 1: 1.0}, {2: 2.0}) is None


def test_equal_results_are_not_different():
    found = compare({0: 1.0, 1: 2.0, 2: 0.5}, {0: 1.0, 1: 2.0, 2: 0.5})
    assert (found.p, found.p_corrected, found.p_wilcoxon) == (1.0, 1.0, 1.0)


def test_ranks_share_ties_and_the_highest_is_first():
    assert ranks([[3.0, 1.0, 2.0]]).tolist() == [1, 3, 2]
    assert ranks([[3.0, 3.0, 2.0], [1.0, 2.0, 3.0]]).tolist() == [2.25, 1.75, 2.0]


def test_the_critical_difference_is_demsars():
    """Four classifiers on 14 data sets: q = 2.569, CD = 1.25 (Demšar 2006, section 3.2.2)."""
    rng = np.random.default_rng(1)
    scores = {f"m{k}": {f"d{i}": rng.random() for i in range(14)} for k in range(4)}
    found = critical_difference(scores)
    assert found.difference == pytest.approx(1.25, abs=0.005)
    assert sum(found.ranks.values()) == pytest.approx(10.0)
    table = np.array([list(scores[m].values()) for m in scores])
    assert found.p_friedman == pytest.approx(stats.friedmanchisquare(*table).pvalue)
    assert critical_difference({"a": {"d": 1.0}, "b": {"d": 2.0}}) is None


def test_methods_that_are_level_everywhere_do_not_differ():
    found = critical_difference({name: {"d": 1.0, "e": 0.5} for name in "abc"})
    assert found.p_friedman == 1.0
    assert set(found.ranks.values()) == {2.0}


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_the_interval_of_a_mean_is_that_of_students_t():
    values = np.array([88.2, 87.9, 88.8, 88.1])
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert half_interval(values.std(ddof=1), len(values)) == pytest.approx((high - low) / 2)
    assert half_interval(0.0, 1) == 0
