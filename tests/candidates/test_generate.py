"""Statistical tests of every generator. Seeds are fixed, so nothing here is left to chance."""

import itertools
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, chisquare

from oneof.candidates import CandidateError, NoInformationWarning
from oneof.candidates.describe import top_wrong_label_share
from oneof.candidates.generate import (
    class_sets,
    flip_sets,
    instance_sets,
    similarity_flips,
    uniform_sets,
    wrong_label_q,
)

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

SMALLEST = 1e-3  # p-values below this reject; fixed seeds make the outcome the same every time


def set_counts(mask):
    """How often each set occurs; a set is the number its bits spell."""
    return np.bincount(mask @ (1 << np.arange(mask.shape[1])), minlength=1 << mask.shape[1])


def law(xi, truth, no_singletons, no_full):
    """Probability of every set by enumeration: the slow twin of the generators."""
    k = len(xi)
    chances = np.zeros(1 << k)
    for bits in itertools.product([0, 1], repeat=k):
        if not bits[truth] or (no_singletons and sum(bits) == 1) or (no_full and sum(bits) == k):
            continue
        others = [j for j in range(k) if j != truth]
        chances[sum(b << j for j, b in enumerate(bits))] = math.prod(
            xi[j] if bits[j] else 1 - xi[j] for j in others
        )
    return chances / chances.sum()


def follows(mask, chances):
    counts = set_counts(mask)
    assert counts[chances == 0].sum() == 0  # impossible sets never occur
    possible = chances > 0
    expected = chances[possible] * len(mask)
    assert expected.min() > 5, "too few rows for a chi-square test"
    if possible.sum() > 1:
        assert chisquare(counts[possible], expected).pvalue > SMALLEST


BOUNDS = list(itertools.product([False, True], repeat=2))


# ---- uniform --------------------------------------------------------------------------------------


@pytest.mark.parametrize("no_singletons", [False, True])
def test_uniform_sets_are_all_equally_likely(no_singletons):
    y = np.full(20_000, 2)
    c = uniform_sets(y, 5, seed=1, forbid_singletons=no_singletons)
    follows(c.mask, law([0.5] * 5, 2, no_singletons, True))


def test_uniform_sizes_follow_the_paper_and_not_the_biased_code():
    k, n = 10, 60_000
    sizes = uniform_sets(np.arange(n) % k, k, seed=0).sizes
    expected = np.array([math.comb(k - 1, s - 1) / (2 ** (k - 1) - 1) for s in range(1, k)])
    counts = np.bincount(sizes, minlength=k)[1:k]
    assert chisquare(counts, expected * n).pvalue > SMALLEST
    biased = np.array([math.comb(k, s) / (2**k - 2) for s in range(1, k)])
    assert chisquare(counts, biased * n).pvalue < 1e-9
    assert sizes.max() < k  # never the full set
    mean, deviation = (np.arange(1, k) * expected).sum(), 1.5
    assert abs(sizes.mean() - mean) < 4 * deviation / math.sqrt(n)
    assert round(mean, 2) == 5.49


def test_uniform_with_full_sets_on_request():
    c = uniform_sets(np.zeros(4000, dtype=int), 3, seed=0, forbid_full_sets=False)
    follows(c.mask, law([0.5] * 3, 0, False, False))


# ---- flips ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("no_singletons", "no_full"), BOUNDS)
@pytest.mark.parametrize("rate", [0.15, 0.7])
def test_flips_follow_their_law(rate, no_singletons, no_full):
    y = np.full(30_000, 1)
    c = flip_sets(y, 4, rate, seed=3, forbid_singletons=no_singletons, forbid_full_sets=no_full)
    follows(c.mask, law([rate] * 4, 1, no_singletons, no_full))


def test_every_flip_has_the_rate():
    n, k, rate = 40_000, 6, 0.3
    y = np.arange(n) % k
    c = flip_sets(y, k, rate, seed=0)
    for truth, j in itertools.product(range(k), range(k)):
        if j != truth:
            hits = int(c.mask[y == truth, j].sum())
            assert binomtest(hits, int((y == truth).sum()), rate).pvalue > SMALLEST / (k * k)
    assert c.provenance["expected_mean_size"] == pytest.approx(1 + rate * (k - 1))


@pytest.mark.parametrize(("rate", "size"), [(0.0, 1), (1.0, 5)])
def test_flips_at_the_ends(rate, size):
    assert set(flip_sets([0, 1, 2], 5, rate, seed=0).sizes) == {size}


# ---- class-conditional ----------------------------------------------------------------------------


@pytest.mark.parametrize(("no_singletons", "no_full"), BOUNDS)
def test_class_sets_follow_their_matrix(no_singletons, no_full):
    matrix = np.array(
        [[0.0, 0.2, 0.5, 0.8], [0.3, 1.0, 0.3, 0.3], [0.9, 0.1, 0.5, 0.4], [0.2, 0.3, 0.6, 7.0]]
    )
    y = np.repeat(np.arange(4), 15_000)  # the diagonal is not used, whatever it holds
    c = class_sets(y, matrix, seed=5, forbid_singletons=no_singletons, forbid_full_sets=no_full)
    for truth in range(4):
        follows(c.mask[y == truth], law(matrix[truth], truth, no_singletons, no_full))


def test_pairs_are_a_special_matrix():
    k, q = 5, 0.4
    matrix = np.zeros((k, k))
    matrix[np.arange(k), (np.arange(k) + 1) % k] = q
    y = np.repeat(np.arange(k), 2000)
    c = class_sets(y, matrix, seed=0)
    assert c.sizes.max() == 2
    assert binomtest(int((c.sizes == 2).sum()), len(y), q).pvalue > SMALLEST
    assert c.mask[np.arange(len(y)), (y + 1) % k].sum() == (c.sizes == 2).sum()


def test_similarity_becomes_flips():
    similarity = np.array([[9.0, 3.0, 1.0], [1.0, 9.0, 1.0], [0.0, 5.0, 9.0]])
    flips = similarity_flips(similarity, rate=0.3)
    np.testing.assert_allclose(flips, [[0, 0.675, 0.225], [0.45, 0, 0.45], [0, 0.9, 0]])
    assert similarity_flips(similarity, rate=5.0).max() == 1.0


# ---- instance-dependent ---------------------------------------------------------------------------


def some_logits(n, k, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(n, k)), rng.integers(k, size=n)


@pytest.mark.parametrize(("no_singletons", "no_full"), BOUNDS)
def test_instance_sets_follow_their_law(no_singletons, no_full):
    z, rate, n = np.array([1.0, 0.2, 2.0, -0.5]), 0.2, 30_000
    y = np.full(n, 2)
    c = instance_sets(
        y,
        rate,
        7,
        log_probabilities=np.tile(z, (n, 1)),
        forbid_singletons=no_singletons,
        forbid_full_sets=no_full,
    )
    s = np.exp(z)
    s[2] = 0
    s = s / s.max()
    xi = np.minimum(rate * s / s.mean(), 1)  # steps 1 to 4 of the rule as the papers' codes write it
    follows(c.mask, law(xi, 2, no_singletons, no_full))


def test_every_label_of_every_row_has_its_probability():
    n, k, rate, draws = 30, 6, 0.25, 1500
    z, y = some_logits(n, k)
    q = wrong_label_q(z, y)
    xi = np.minimum(1, rate * k * q)
    hits = sum(instance_sets(y, rate, seed, q=q).mask.astype(int) for seed in range(draws))
    wrong = np.arange(k) != y[:, None]
    tail = SMALLEST / (2 * wrong.sum())
    assert (hits[wrong] >= binom.ppf(tail, draws, xi[wrong])).all()
    assert (hits[wrong] <= binom.ppf(1 - tail, draws, xi[wrong])).all()
    assert (hits[~wrong] == draws).all()


def test_q_and_log_probabilities_give_the_same_sets():
    z, y = some_logits(500, 8)
    assert instance_sets(y, 0.3, 4, log_probabilities=z) == instance_sets(y, 0.3, 4, q=wrong_label_q(z, y))


def test_a_network_that_is_sure_still_has_its_doubts():
    z = np.array([[0.0, -1000.0, -1001.0], [2000.0, 0.0, -5000.0]])  # a softmax of these underflows
    q = wrong_label_q(z, [0, 0])
    np.testing.assert_allclose(q[0], [0, 1 / (1 + math.exp(-1)), 1 / (1 + math.e)], rtol=1e-12)
    np.testing.assert_allclose(q[1], [0, 1, 0])
    sets = instance_sets([0, 0], 0.4, 0, log_probabilities=z)
    assert sets.mask[:, 1].tolist() == [False, True] or sets.mask[1, 1]


def test_a_wrong_label_with_enough_mass_is_always_in():
    z, y = some_logits(3000, 10, spread=4.0)
    q = wrong_label_q(z, y)
    c = instance_sets(y, 0.4, 0, q=q)
    assert c.mask[q >= 0.25].all()
    assert top_wrong_label_share(c, q) > 0.9
    assert c.provenance["expected_mean_size"] == pytest.approx(c.sizes.mean(), abs=0.1)


# ---- what all of them promise ---------------------------------------------------------------------


@st.composite
def tasks(draw):
    k = draw(st.integers(2, 7))
    y = np.array(draw(st.lists(st.integers(0, k - 1), max_size=15)), dtype=np.int64)
    return y, k, draw(st.integers(0, 10**6))


def generators(y, k, seed, **bounds):
    z = np.random.default_rng(seed).normal(size=(len(y), k))
    yield lambda: uniform_sets(y, k, seed, **{"forbid_full_sets": True, **bounds})
    yield lambda: flip_sets(y, k, 0.4, seed, **bounds)
    yield lambda: class_sets(y, np.full((k, k), 0.3), seed, **bounds)
    yield lambda: instance_sets(y, 1.1 / k, seed, log_probabilities=z, **bounds)


@settings(max_examples=50)
@given(tasks())
def test_the_truth_is_in_and_the_seed_decides(task):
    y, k, seed = task
    for make in generators(y, k, seed):
        c = make()
        assert c.mask[np.arange(len(y)), y].all()
        assert c.truth.tolist() == y.tolist()
        assert make() == c
        assert c.provenance["seed"] == seed
        assert c.provenance["hash"] == c.hash
        assert c.provenance["rule"] in ("uniform", "flips", "class", "instance")


@settings(max_examples=50)
@given(tasks(), st.sampled_from(BOUNDS))
def test_forbidden_sizes_do_not_occur(task, bounds):
    y, k, seed = task
    no_singletons, no_full = bounds
    k = max(k, 3)
    for make in generators(y, k, seed, forbid_singletons=no_singletons, forbid_full_sets=no_full):
        sizes = make().sizes
        assert not no_singletons or (sizes > 1).all()
        assert not no_full or (sizes < k).all()


def test_a_tiny_rate_without_singletons_gives_pairs_by_their_odds():
    matrix = np.array([[0.0, 3e-18, 1e-18], [1e-18] * 3, [1e-18] * 3])
    y = np.zeros(8000, dtype=int)
    c = class_sets(y, matrix, seed=0, forbid_singletons=True)
    assert set(c.sizes) == {2}
    assert binomtest(int(c.mask[:, 1].sum()), len(y), 0.75).pvalue > SMALLEST


def test_global_random_state_is_left_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for make in generators(np.array([0, 1]), 3, 0):
        make()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_full_sets_are_told():
    with pytest.warns(NoInformationWarning):
        flip_sets([0], 3, 1.0, seed=0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: flip_sets([0], 3, 0.0, 0, forbid_singletons=True), "row 0 .* cannot have no singletons"),
        (lambda: flip_sets([0], 3, 1.0, 0, forbid_full_sets=True), "cannot have no full sets"),
        (lambda: uniform_sets([0], 2, 0, forbid_singletons=True), "no singletons and no full sets"),
        (
            lambda: flip_sets([0], 2, 0.5674502939878824, 0, forbid_singletons=True, forbid_full_sets=True),
            "cannot have no singletons and no full sets",
        ),
        (lambda: flip_sets([0], 3, 1.5, 0), "rate = 1.5"),
        (lambda: flip_sets([3], 3, 0.5, 0), "true label 3, but the classes are 0 to 2"),
        (lambda: flip_sets([-1], 3, 0.5, 0), "true label -1"),
        (lambda: flip_sets([0.5], 3, 0.5, 0), "float64"),
        (lambda: flip_sets([0], 1, 0.5, 0), "at least two classes"),
        (lambda: flip_sets([0], 3, 0.5, -1), "seed = -1"),
        (lambda: flip_sets([0], 3, 0.5, None), "seed = None"),
        (lambda: class_sets([0], [[0, 2], [0, 0]], 0), r"matrix\[0, 1\] = 2.0"),
        (lambda: class_sets([0], [[0, 1]], 0), "give a square one"),
        (lambda: similarity_flips([[0, 0], [1, 0]], 0.4), r"similarity\[0\] is 0"),
        (lambda: similarity_flips([[0, -1], [1, 0]], 0.4), r"similarity\[0, 1\] = -1.0"),
        (lambda: instance_sets([0], 0.4, 0), "either q or log_probabilities"),
        (lambda: instance_sets([0], 0.0, 0, q=[[0, 1.0]]), "rate = 0.0"),
        (lambda: instance_sets([0], 0.4, 0, q=[[0, 0.5]]), "sums to 0.5"),
        (lambda: instance_sets([0], 0.4, 0, q=[[0, np.nan]]), r"q\[0, 1\] = nan"),
        (lambda: instance_sets([0, 1], 0.4, 0, q=[[0, 1.0]]), "2 true labels but 1 rows"),
        (lambda: wrong_label_q([[0.0, -np.inf]], [0]), "no finite log-probability"),
        (lambda: wrong_label_q([[0.0, np.nan]], [0]), "NaN"),
    ],
)
def test_errors(make, words):
    with pytest.raises(CandidateError, match=words):
        make()


# ---- the stored matrices --------------------------------------------------------------------------


@pytest.mark.skipif(
    not os.environ.get("ONEOF_DATA"), reason="set ONEOF_DATA to a folder with cifar10 and candidates"
)
@pytest.mark.parametrize("seed", range(5))
def test_the_stored_cifar10_sets_come_out_of_their_q(seed):
    from oneof.datasets import load
    from oneof.datasets.ready_made import ready_made_q, ready_made_sets
    from oneof.datasets.registry import entry

    if entry("cifar10").present() is None:
        pytest.skip("cifar10 is not in the data folder")
    data = load("cifar10")
    stored = ready_made_q("cifar10", 50_000, 10)
    if stored is None:
        pytest.skip("candidates/ is not in the data folder")
    ready = ready_made_sets("cifar10", 0.4, seed, data.y_train, data.classes)
    if ready is None:
        pytest.skip("the sets of this seed are not in the data folder")
    drawn = instance_sets(data.y_train, 0.4, seed, q=stored.q, classes=data.classes)
    assert drawn == ready
    assert 3.21 <= drawn.sizes.mean() <= 3.22
