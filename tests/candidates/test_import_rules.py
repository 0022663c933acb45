import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.candidates import CandidateError
from oneof.candidates.annotations import Answers
from oneof.candidates.evidence import estimate_true_labels
from oneof.tables.importers import dawid_skene, majority, make_rule, not_named, share, union, vaguest
from tests.candidates import answers_by_hand as by_hand


@st.composite
def some_answers(draw, most=25):
    """Answers (distinct triples), rows and classes; rows may have none, people may name several."""
    n_rows, n_workers, n_classes = draw(st.tuples(*[st.integers(1, 5)] * 3))
    triple = st.tuples(*[st.integers(0, n - 1) for n in (n_rows, n_workers, n_classes)])
    found = sorted(draw(st.sets(triple, min_size=1, max_size=most)))
    row, worker, label = np.array(found).T
    return Answers(row, worker, label, tuple(f"w{k}" for k in range(n_workers))), n_rows, n_classes


def sets_of(mask):
    return [set(np.flatnonzero(row).tolist()) for row in mask]


@given(some_answers(), st.sampled_from(["union", "vaguest", "majority"]))
def test_rules_match_their_slow_twins(given_answers, name):
    answers, n, c = given_answers
    mask = make_rule(name)(answers, (n, c))[0].dense()
    expected = [getattr(by_hand, name)(people, c) for people in by_hand.by_row(answers, n)]
    assert sets_of(mask) == expected
    votes = np.array([by_hand.votes(people, c) for people in by_hand.by_row(answers, n)])
    assert np.array_equal(make_rule(name)(answers, (n, c)).evidence, votes[mask])


@given(some_answers(), st.sampled_from([0.1, 0.2, 0.25, 1 / 3, 0.5, 0.6, 1.0]))
def test_share_matches_its_slow_twin(given_answers, at_least):
    answers, n, c = given_answers
    sets, notes, _ = share(at_least)(answers, (n, c))
    people = by_hand.by_row(answers, n)
    assert sets_of(sets.dense()) == [by_hand.share(p, c, at_least) if p else set() for p in people]
    below = [p for p in people if p and max(by_hand.votes(p, c)) / len(p) < at_least - 1e-9]
    assert bool(notes) == bool(below)


def test_where_no_label_has_its_share_only_the_most_frequent_is_kept():
    row, worker, label = np.array([[0, 0, 0], [0, 1, 0], [0, 2, 1], [0, 3, 2]]).T
    answers = Answers(row, worker, label, ("a", "b", "c", "d"))
    sets, notes, _ = share(0.6)(answers, (1, 3))
    assert sets_of(sets.dense()) == [{0}]
    assert len(notes) == 1


@given(some_answers())
def test_not_named_is_the_complement_of_the_union(given_answers):
    answers, n, c = given_answers
    assert np.array_equal(not_named(answers, (n, c))[0].dense(), ~union(answers, (n, c))[0].dense())


@given(some_answers())
def test_majority_lies_in_every_share_and_share_in_the_union(given_answers):
    answers, n, c = given_answers
    wide, narrow = (rule(answers, (n, c))[0].dense() for rule in (union, majority))
    for at_least in (0.2, 0.5, 1.0):
        mask = share(at_least)(answers, (n, c))[0].dense()
        assert (narrow <= mask).all()
        assert (mask <= wide).all()


# ---- Dawid and Skene --------------------------------------------------------------------------


@settings(max_examples=40)
@given(some_answers(), st.integers(1, 4), st.sampled_from([0.01, 0.5]))
def test_dawid_skene_matches_its_slow_twin(given_answers, iterations, smoothing):
    answers, n, c = given_answers
    found = estimate_true_labels(
        answers, n, c, smoothing=smoothing, tolerance=-1.0, max_iterations=iterations
    )
    expected = by_hand.dawid_skene(answers, n, c, iterations, smoothing)
    np.testing.assert_allclose(found.posterior, expected, atol=1e-9)


@settings(max_examples=40)
@given(some_answers())
def test_dawid_skene_gives_distributions(given_answers):
    answers, n, c = given_answers
    found = estimate_true_labels(answers, n, c)
    assert np.isfinite(found.posterior).all()
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1)
    assert ((found.reliability >= 0) & (found.reliability <= 1)).all()


def crowd(n=300, c=4, seed=0):
    """Three good people, one who always says 0, one who swaps 1 and 2."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(c, size=n)
    said = [np.where(rng.random(n) < 0.8, truth, rng.integers(c, size=n)) for _ in range(3)]
    said += [np.zeros(n, dtype=int), np.array([0, 2, 1, 3])[truth]]
    row, worker = np.tile(np.arange(n), 5), np.repeat(np.arange(5), n)
    return Answers(row, worker, np.concatenate(said), tuple("abcde")), truth


def test_dawid_skene_beats_majority_where_people_differ():
    answers, truth = crowd()
    found = estimate_true_labels(answers, 300, 4)
    voted = answers.counts(300, 4).argmax(axis=1)
    assert found.converged
    assert (found.posterior.argmax(axis=1) == truth).mean() > (voted == truth).mean() + 0.05
    assert found.reliability[3] < found.reliability[0]
    assert (np.diff(found.log_likelihood) > -1e-6 * abs(found.log_likelihood[-1])).all()


def test_dawid_skene_with_one_person_repeats_them():
    answers = Answers(np.arange(6), np.zeros(6, dtype=int), np.array([0, 1, 2, 0, 1, 2]), ("only",))
    assert estimate_true_labels(answers, 6, 3).posterior.argmax(axis=1).tolist() == [0, 1, 2, 0, 1, 2]


def test_dawid_skene_does_not_depend_on_the_order_of_the_answers():
    answers, _ = crowd(60)
    order = np.random.default_rng(1).permutation(len(answers))
    shuffled = Answers(answers.row[order], answers.worker[order], answers.label[order], answers.workers)
    a, b = (estimate_true_labels(x, 60, 4).posterior for x in (answers, shuffled))
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_dawid_skene_keeps_k_labels_and_the_probable_ones():
    answers, _ = crowd()
    sets, notes, evidence = dawid_skene(2)(answers, (300, 4))
    assert (sets.sizes == 2).all()
    assert "annotators are right" in notes[0]
    found = estimate_true_labels(answers, 300, 4)
    likely = found.posterior / found.prior
    likely /= likely.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(evidence, likely[sets.dense()], atol=1e-12)
    sure = dawid_skene(2, at_least=0.05)(answers, (300, 4)).sets
    assert 1 <= sure.sizes.mean() < 2
    assert (sure.dense() <= sets.dense()).all()


def test_dawid_skene_needs_names():
    unnamed = Answers(np.arange(2), np.zeros(2, dtype=int), np.arange(2), ("answer 1",), named=False)
    with pytest.raises(CandidateError, match="do not say who"):
        estimate_true_labels(unnamed, 2, 2)


def test_dawid_skene_manages_many_answers():
    rng = np.random.default_rng(0)
    m, n, people, c = 200_000, 40_000, 1000, 10
    truth = rng.integers(c, size=n)
    row, worker = rng.integers(n, size=m), rng.integers(people, size=m)
    label = np.where(rng.random(m) < 0.7, truth[row], rng.integers(c, size=m))
    found = estimate_true_labels(Answers(row, worker, label, tuple(map(str, range(people)))), n, c)
    assert (found.posterior.argmax(axis=1) == truth).mean() > 0.9


# ---- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("onion", {}, "no rule 'onion'"),
        ("union", {"keep": 2}, "has no settings"),
        ("share", {}, "needs at-least"),
        ("share", {"at_least": 0.0}, "above 0"),
        ("share", {"at_least": 1.5}, "at most 1"),
        ("dawid-skene", {"keep": 0}, "at least one"),
        ("dawid-skene", {"at_least": 1.0}, "below 1"),
    ],
)
def test_wrong_rules_are_refused(name, options, message):
    with pytest.raises(CandidateError, match=message):
        make_rule(name, **options)


def test_too_many_labels_to_keep():
    answers = Answers(np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.zeros(1, dtype=int), ("a",))
    with pytest.raises(CandidateError, match="only 2 classes"):
        dawid_skene(3)(answers, (1, 2))


def test_vaguest_prefers_the_better_supported_of_equal_sets():
    # row 0: ann {0, 1}, bob {1, 2}, cyd {2}: bob's two labels have more votes
    answers = Answers(
        np.zeros(5, dtype=int), np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2]), ("ann", "bob", "cyd")
    )
    assert sets_of(vaguest(answers, (1, 3))[0].dense()) == [{1, 2}]
