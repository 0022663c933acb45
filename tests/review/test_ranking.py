"""The review list: its score against a slow twin, its order, its sentences."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.app.review import ReviewData, rank_rows
from oneof.app.review.ranking import ReviewList, number_range, rounded
from oneof.candidates import Candidates
from oneof.candidates.annotations import Answers
from tests.review.made import CLASSES, review_data


def score_by_hand(data, i):
    """The formula of the module's docstring, one row, one label at a time."""
    candidates = [k for k in range(data.candidates.n_classes) if data.candidates.mask[i, k]]
    p = [float(v) for v in data.probabilities[i]]
    p = [v / sum(p) for v in p]
    held = sum(p[k] for k in candidates)
    shares = sorted((p[k] / held for k in candidates), reverse=True)
    close = 1 - (shares[0] - shares[1]) if len(candidates) > 1 else 0.0
    votes = dict.fromkeys(range(len(p)), 0.0)
    said = data.answers.of(i) if data.answers is not None else {}
    for labels in said.values():
        for k in labels:
            votes[k] += 1 / len(labels)
    most = sorted(votes.values(), reverse=True)
    split = 1 - (most[0] - most[1]) / len(said) if len(said) > 1 else 0.0
    disagreement = max(p) - p[int(data.transduction[i].argmax())] if data.transduction is not None else 0.0
    calm = (1 - 0.6 * close) * (1 - 0.9 * (1 - held)) * (1 - 0.4 * split) * (1 - 0.7 * disagreement)
    return 1 - calm


@given(st.integers(0, 10_000), st.integers(1, 30))
@settings(max_examples=40)
def test_scores_match_the_slow_twin(seed, n):
    data = review_data(n, seed)
    ranked = rank_rows(data)
    assert sorted(doubt.row for doubt in ranked) == list(range(n))
    for doubt in ranked:
        assert doubt.score == pytest.approx(score_by_hand(data, doubt.row), abs=2e-4)
        assert 0 <= doubt.score <= 1
    assert all(a.score >= b.score for a, b in pairwise(ranked))


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_a_row_is_doubtful_exactly_when_there_is_a_reason(seed):
    data = review_data(20, seed)
    listed = ReviewList(data)
    assert [bool(listed.reasons(i)) for i in range(20)] == listed.doubtful.tolist()


def rows(mask, p, q=None, answers=None, trusted=None):
    return ReviewData(
        Candidates(np.array(mask, bool), CLASSES), np.array(p), q, answers=answers, trusted=trusted
    )


def test_reasons_say_what_is_wrong_in_words():
    data = rows(
        [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]],
        [[0.5, 0.5, 0, 0], [0.1, 0.05, 0.85, 0], [1, 0, 0, 0], [0.9, 0.1, 0, 0]],
        np.array([[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1.0, 0, 0, 0]]),
        Answers(np.array([3, 3]), np.array([0, 1]), np.array([0, 1]), ("ann", "bob")),
    )
    said = {doubt.row: doubt.reasons for doubt in rank_rows(data)}
    assert said[0] == ("Among the candidates “ant” and “bee” are close: 50% to 50%.",)
    assert said[1][0] == "The model puts 85% outside the candidates, most on “cow”."
    assert "Trained as “bee”, but predicted as “cow”." in said[1]
    assert said[2] == ()
    assert said[3] == ("Annotators are split: 1 for “ant”, 1 for “bee”.",)


def test_an_annotator_who_names_two_labels_is_not_split():
    answers = Answers(np.zeros(3, int), np.array([0, 0, 0]), np.array([0, 1, 2]), ("ann",))
    data = rows([[1, 1, 1, 0]], [[1, 0, 0, 0]], answers=answers)
    assert rank_rows(data)[0].reasons == ()


def test_rows_with_a_trusted_label_come_last():
    data = review_data(10, trusted=np.arange(10) < 5)
    assert {doubt.row for doubt in rank_rows(data)[5:]} == set(range(5))
    assert rank_rows(data)[-1].reasons == ("It has a trusted label already.",)
    known = Candidates(np.eye(4, dtype=bool)[[0, 1]], CLASSES, truth=np.array([0, -1]))
    assert [d.row for d in rank_rows(ReviewData(known, np.full((2, 4), 0.25)))] == [1, 0]


def test_limit_gives_the_beginning_of_the_list():
    data = review_data(30)
    assert rank_rows(data, limit=4) == rank_rows(data)[:4]
    assert rank_rows(data, limit=0) == []


def test_beliefs_without_any_mass_count_as_uniform():
    data = rows([[1, 1, 0, 0]], np.zeros((1, 4)))
    assert np.isfinite(rank_rows(data)[0].score)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123456789, "0.1235"),
        ("0.123456789", "0.1235"),  # a cell of a CSV file
        (-12.3456, "-12.35"),
        (123456.789, "123457"),
        (0.000012345, "1.234e-05"),
        (3.0, "3"),
        (0.0, "0"),
        ("007", "007"),
        ("3.0", "3.0"),
        (20240115, "20240115"),
        (True, "True"),
        ("nan", "nan"),
        (float("inf"), "inf"),
        (None, ""),
        ("barn", "barn"),
    ],
)
def test_numbers_are_rounded_and_everything_else_is_left_as_it_is(value, shown):
    assert rounded(value) == shown


def test_a_column_of_numbers_has_a_range():
    assert number_range(["1.23456", "-3", "", None]) == "-3 to 1.235"
    assert number_range([0.5, 12.3456, None]) == "0.5 to 12.35"
    assert number_range(["1", "barn"]) == number_range([None, ""]) == number_range([]) == ""
