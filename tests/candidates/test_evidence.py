"""Votes and scores stay with the candidates, and say how much more probable one is than another."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from oneof import Candidates
from oneof.candidates.evidence import FLOOR, SMOOTHING, SaidTable, label_likelihoods, log_likelihoods, settle
from oneof.tables.candidate_files import load_annotations, save_annotations
from oneof.tables.importers import (
    dawid_skene,
    from_answers,
    from_complementary,
    from_counts,
    from_records,
    from_scores,
    majority,
)

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_votes_are_no_longer_an_equal_set(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("polars")
    made = from_counts([[28, 12, 1], [0, 5, 0], [1, 1, 0]], ["ant", "bee", "cow"])
    assert made.candidates.evidence.tolist() == [28, 12, 1, 5, 1, 1]
    save_annotations(made, tmp_path / f"a{ending}")
    again = load_annotations(tmp_path / f"a{ending}")
    assert again == made
    assert again.candidates.hash == made.candidates.hash
    assert again.candidates.answers.of(1) == made.answers.of(1)
    part = made.candidates.take([2, 0])
    assert part.evidence.tolist() == [1, 1, 28, 12, 1]
    assert len(part.answers) == 43
    best, second, third = log_likelihoods(made.candidates)[:3]
    assert best == 0 > second > third
    assert second < math.log(1e-6)  # 28 : 12 is certain


def test_what_tells_nothing_apart_is_no_evidence():
    assert from_records([["a", "b"], ["b"]]).candidates.evidence is None
    assert from_answers([0, 0, 1], None, ["a", "b", "b"]).candidates.evidence is None
    assert from_complementary(["a", "b"], ["a", "b", "c"]).candidates.evidence is None
    assert from_answers([0, 0, 0], "xyz", "aab", rule=majority).candidates.evidence is None


def test_rows_nobody_answered_have_equal_evidence():
    made = from_answers([0, 0, 0], "xyz", "aab", n_rows=2, classes="abc", missing="all").candidates
    assert made.evidence_of([0, 1]).tolist() == [[2, 1, 0], [1, 1, 1]]
    named = {"rule": dawid_skene(2), "n_rows": 2, "classes": "abc", "missing": "all"}
    likely = from_answers([0, 0, 0], "xyz", "aab", **named).candidates.evidence_of([0, 1])
    assert likely[0, 0] > likely[0, 1]
    assert likely[1].tolist() == [1, 1, 1]


def test_scores_stay_as_parts_of_one():
    scores = np.array([[6.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    made = from_scores(scores, top_k=2).candidates
    np.testing.assert_allclose(made.evidence_of([0, 1]), [[0.6, 0.3, 0], [1, 1, 0]])
    np.testing.assert_allclose(log_likelihoods(made), [0, math.log(0.5), 0, 0])
    logits = from_scores([[2.0, -1.0]], top_k=2).candidates
    np.testing.assert_allclose(log_likelihoods(logits), [0, -3])
    ranks = from_scores(1 / np.array([[1, 2, 4]]), top_k=3).candidates
    np.testing.assert_allclose(np.exp(log_likelihoods(ranks)), [1, 1 / 2, 1 / 4])


def test_no_evidence_rules_a_candidate_out():
    made = Candidates.from_mask([[1, 1], [1, 1]], evidence=[0.5, 0.0, 0.0, 0.0])
    assert log_likelihoods(made).tolist() == [0, FLOOR, 0, 0]
    assert log_likelihoods(Candidates.from_mask([[1, 1]])) is None


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), min_size=1, max_size=6))
def test_votes_are_answers_of_one_crowd(rows):
    """The slow twin: Dawid and Skene by hand, all answers of one person who gives each on its own row."""
    votes = np.array(rows)
    made = Candidates.from_mask(votes > 0, evidence=votes, truth_may_be_outside=True)
    beliefs = votes / votes.sum(axis=1, keepdims=True)
    spoken = np.zeros(votes.shape)
    for _ in range(vote_steps(made)):
        prior, said = beliefs.sum(axis=0) + SMOOTHING, 1 + 3 * np.eye(3)  # said[label, truth]
        for row, belief in zip(votes, beliefs):
            said += np.outer(row, belief)
        for i, row in enumerate(votes):
            spoken[i] = [sum(row * np.log(said[:, t] / said[:, t].sum())) for t in range(3)]
            joint = np.exp(spoken[i] - spoken[i].max()) * prior
            beliefs[i] = joint / joint.sum()
    for i, mask in enumerate(made.mask):
        spoken[i] -= spoken[i][mask].max()
    np.testing.assert_allclose(log_likelihoods(made), np.maximum(spoken[made.mask], FLOOR), atol=1e-8)


def vote_steps(candidates):
    votes = csr_matrix(candidates.evidence_of(np.arange(len(candidates))))
    found = settle(SaidTable(votes, np.zeros(3, dtype=int), np.arange(3), 3), added=1 + 3 * np.eye(3))
    return len(found.log_likelihood)


def test_a_vote_is_worth_what_people_are_worth():
    rng = np.random.default_rng(0)
    for accuracy in (0.5, 0.7, 0.9):
        shares = np.full((5, 5), (1 - accuracy) / 4) + np.eye(5) * (accuracy - (1 - accuracy) / 4)
        votes = np.array([rng.multinomial(8, shares[k]) for k in rng.integers(5, size=3000)])
        made = from_counts(votes).candidates
        behind = made.evidence - np.maximum.reduceat(made.evidence, made.starts[:-1])[made.compact.rows]
        one = (behind == -1) & (log_likelihoods(made) > FLOOR)
        expected = -math.log(accuracy * 4 / (1 - accuracy))
        assert log_likelihoods(made)[one].mean() == pytest.approx(expected, rel=0.15)


def test_labels_that_nobody_named_are_as_likely_as_the_answers_make_them():
    votes = np.array([[9, 1, 0], [0, 9, 1], [1, 0, 9], [5, 0, 0]])
    open_sets = Candidates.from_mask(votes > 0, evidence=votes[votes > 0], truth_may_be_outside=True)
    every = label_likelihoods(open_sets)
    assert np.isfinite(every).all()
    inside = (
        every[open_sets.mask]
        - np.maximum.reduceat(every[open_sets.mask], open_sets.starts[:-1])[open_sets.compact.rows]
    )
    np.testing.assert_allclose(inside, log_likelihoods(open_sets), atol=1e-9)
    assert every[3].argmax() == 0
    closed = label_likelihoods(open_sets.replace(truth_may_be_outside=False))
    assert (closed == -np.inf).tolist() == (~open_sets.mask).tolist()


def test_scores_say_nothing_about_labels_outside_the_set():
    made = Candidates.from_mask([[1, 1, 0]], evidence=[0.8, 0.2], truth_may_be_outside=True)
    np.testing.assert_allclose(label_likelihoods(made), [[0, math.log(0.25), math.log(0.25)]])
    assert label_likelihoods(Candidates.from_mask([[1, 1, 0]])) is None


def test_who_answered_counts_where_it_is_known():
    """Three people who are right mostly, and four who say anything."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)[:, None]
    said = np.where(rng.random((300, 7)) < [0.9, 0.9, 0.9, 0, 0, 0, 0], truth, rng.integers(3, size=(300, 7)))
    rows, people = np.repeat(np.arange(300), 7), np.tile(list("abcdefg"), 300)
    made = from_answers(rows, people, said.ravel()).candidates
    right = (label_likelihoods(made).argmax(axis=1) == truth[:, 0]).mean()
    by_votes = (label_likelihoods(made.replace(answers=None)).argmax(axis=1) == truth[:, 0]).mean()
    assert right > 0.95 > by_votes


def test_no_rows_have_no_likelihoods():
    none = Candidates.from_sets([["a", "b"]], evidence=[2, 1]).take([])
    assert log_likelihoods(none).shape == (0,)


def test_answers_of_which_none_is_about_these_rows_say_nothing():
    made = from_answers([0, 0], ["ann", "bob"], ["x", "y"], n_rows=3, missing="all").candidates
    np.testing.assert_array_equal(label_likelihoods(made.take([1, 2])), np.zeros((2, 2)))
