"""`Candidates`: what it promises about any input it accepts."""

import copy
import pickle
import warnings
from enum import StrEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oneof.candidates import UNKNOWN, CandidateError, Candidates, NoInformationWarning
from oneof.candidates.annotations import Annotations, Answers


@st.composite
def masks(draw, max_rows=12, max_classes=6):
    """Boolean masks without empty rows."""
    n, c = draw(st.integers(0, max_rows)), draw(st.integers(2, max_classes))
    mask = draw(arrays(bool, (n, c)))
    keep = draw(arrays(np.int64, n, elements=st.integers(0, c - 1)))
    mask[np.arange(n), keep] = True
    return mask


def quiet(*args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        return Candidates.from_mask(*args, **more)


@given(masks())
def test_sizes_sets_and_mask_agree(mask):
    c = quiet(mask)
    assert len(c) == len(mask)
    assert c.n_classes == mask.shape[1]
    assert c.sizes.tolist() == [len(row) for row in c.sets()]
    assert c.sizes.tolist() == mask.sum(axis=1).tolist()
    assert (c.sizes >= 1).all()
    assert c.singletons.tolist() == (mask.sum(axis=1) == 1).tolist()
    assert str(len(mask)) in c.describe()
    assert repr(c).startswith("Candidates(")


@given(masks())
def test_from_sets_undoes_sets(mask):
    c = quiet(mask, classes=[f"k{j}" for j in range(mask.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        again = Candidates.from_sets(c.sets(), classes=c.classes)
    assert again == c
    assert again.hash == c.hash
    assert hash(again) == hash(c)


@given(masks(), st.sampled_from([bool, np.uint8, np.int64, np.float32]))
def test_any_kind_of_zeros_and_ones_is_the_same(mask, dtype):
    assert quiet(mask.astype(dtype)) == quiet(mask)


@given(masks(), st.data())
def test_take_keeps_rows_classes_and_truth_together(mask, data):
    truth = np.array(
        [data.draw(st.sampled_from([*np.flatnonzero(row), UNKNOWN])) for row in mask], dtype=np.int64
    )
    c = quiet(mask, truth=truth, provenance={"rule": "test"})
    rows = data.draw(st.lists(st.integers(0, max(0, len(mask) - 1)), max_size=8)) if len(mask) else []
    part = c.take(np.array(rows, dtype=np.int64))
    np.testing.assert_array_equal(part.mask, mask[rows])
    np.testing.assert_array_equal(part.truth, truth[rows])
    assert part.classes == c.classes
    assert part.provenance == c.provenance


@given(masks())
def test_it_is_frozen_and_independent_of_what_it_was_made_from(mask):
    given_mask = mask.copy()
    c = quiet(given_mask)
    before = c.hash
    given_mask[:] = True
    assert c.hash == before
    with pytest.raises(ValueError, match="read-only"):
        c.mask[...] = True
    with pytest.raises(AttributeError):
        c.classes = ()


@given(masks(max_rows=6, max_classes=4), masks(max_rows=6, max_classes=4))
def test_equal_hash_means_equal_sets(a, b):
    one, two = quiet(a), quiet(b)
    assert (one.hash == two.hash) == (one == two)


@given(masks(), st.data())
def test_an_empty_row_is_never_accepted(mask, data):
    if not len(mask):
        return
    i = data.draw(st.integers(0, len(mask) - 1))
    mask[i] = False
    with pytest.raises(CandidateError, match=rf"row {i} has no candidate label"):
        quiet(mask)


@given(masks(), st.data())
def test_a_truth_outside_its_set_is_accepted_only_when_announced(mask, data):
    outside = np.argwhere(~mask)
    if not len(outside):
        return
    i, k = outside[data.draw(st.integers(0, len(outside) - 1))]
    truth = np.full(len(mask), UNKNOWN)
    truth[i] = k
    with pytest.raises(CandidateError, match=rf"row {i}: the true label"):
        quiet(mask, truth=truth)
    assert quiet(mask, truth=truth, truth_may_be_outside=True).truth[i] == k


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9))
def test_from_labels_makes_singletons(labels):
    c = Candidates.from_labels(labels)
    assert c.singletons.all()
    assert [c.classes[k] for k in c.truth] == labels
    assert c.source == "labels"
    assert Candidates.from_labels(labels, source="gold.csv").source == "gold.csv"


def test_full_rows_are_told_once():
    with pytest.warns(NoInformationWarning, match="1 of 2 rows"):
        c = Candidates.from_mask([[1, 1], [0, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c.take([0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Candidates.from_mask([[0.5, 1]]), "neither 0 nor 1"),
        (lambda: Candidates.from_mask([[np.nan, 1]]), "is NaN"),
        (lambda: Candidates.from_mask([[1, 0], [1]], classes="ab"), "ragged"),
        (lambda: Candidates.from_mask([1, 0]), "shape"),
        (lambda: Candidates.from_mask([["a", "b"]]), "from_sets"),
        (lambda: Candidates.from_mask([[1, 0]], classes=["a"]), "1 class names"),
        (lambda: Candidates.from_mask([[1, 0]], classes=["a", "a"]), "stands twice"),
        (lambda: Candidates.from_mask([[1, 0]], classes=["a", None]), "has no name"),
        (lambda: Candidates.from_mask([[1, 0]], truth=[5]), "true label 5"),
        (lambda: Candidates.from_mask([[1, 0]], truth=[0, 1]), "one class index per row"),
        (lambda: Candidates.from_mask([[1, 0]], truth=[0.5]), "class indices"),
        (lambda: Candidates.from_sets([["a"], "ab"]), "row 1 is not a collection"),
        (lambda: Candidates.from_sets([["a"], ["z"]], classes=["a"]), "unknown class"),
        (lambda: Candidates.from_sets([["a", None]]), "missing label"),
        (lambda: Candidates.from_sets([["a"], [["b", "c"]]]), "row 1 has a label that is a collection"),
        (lambda: Candidates.from_sets([]), "no class at all"),
        (lambda: Candidates.from_labels([["a"]]), "one value per row"),
    ],
)
def test_errors_say_what_is_wrong(make, words):
    with pytest.raises(CandidateError, match=words):
        make()


@pytest.mark.parametrize(
    "sets", [[[0], [False]], [[True, 2], ["a", 1]], [[1, True]], [[np.bool_(True)], [np.float32(1)]]]
)
def test_true_and_one_are_not_silently_one_class(sets):
    with pytest.raises(CandidateError, match="they would be one class"):
        Candidates.from_sets(sets)


@pytest.mark.parametrize(
    "sets",
    [
        [["1", 1], ["2"]],
        [[3, 1], ["3", "a"]],
        [["1.5"], [1.5]],
        [["True"], [True]],
        [[1.0], ["1"]],  # integers with gaps become such numbers
        [["2"], ["a", np.float32(2)]],
    ],
)
def test_a_number_and_its_text_are_not_silently_two_classes(sets):
    with pytest.raises(CandidateError, match="they would be two classes"):
        Candidates.from_sets(sets)


def test_named_classes_may_have_a_number_and_its_text():
    assert Candidates.from_sets([["1", 1], [1]], classes=["1", 1]).mask.tolist() == [
        [True, True],
        [False, True],
    ]
    assert Candidates.from_sets([["a", 1], [1, 2]]).n_classes == 3


def test_texts_of_any_kind_are_one_class():
    class Kind(StrEnum):
        BIRD = "bird"

    assert Candidates.from_sets([["bird", "bat"], [Kind.BIRD], [np.str_("bat")]]).n_classes == 2


def test_whole_numbers_of_any_kind_are_one_class():
    c = Candidates.from_sets(
        [[1, 2], [np.int64(1)], [1.0], [np.float32(2)], np.array([2, 1], dtype=np.uint8)]
    )
    assert c.classes == (1, 2)
    assert Candidates.from_sets([[True], [np.bool_(False)]]).classes == (False, True)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_copy_is_frozen_too(copied):
    answers = Answers(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), ("ann",))
    facts = {"truth": [0, 1], "evidence": [2.0, 1.0, 3.0], "answers": answers}
    c = Candidates.from_sets([["a", "b"], ["b"]], ["a", "b", "c"], **facts)
    made = copied(c)
    assert made == c
    assert made.answers == answers
    of_sets = made.positions, made.starts, made.sizes, made.truth, made.evidence, made.mask
    for values in (*of_sets, made.answers.row, made.answers.worker, made.answers.label):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
    with pytest.raises(AttributeError, match="frozen"):
        made.truth = None


def test_repeated_labels_and_mixed_types():
    c = Candidates.from_sets([["a", "a", 1], [1], [2.5]])
    assert c.sizes.tolist() == [2, 1, 1]
    assert set(c.classes) == {"a", 1, 2.5}


def test_no_rows_one_row_or_a_slice_can_be_taken():
    c = Candidates.from_sets([["a", "b"], ["b"], ["c"]])
    assert c.take([]).shape == c[[]].shape == (0, 3)
    assert c.take(2) == c[2] == c[2:] == c.take([False, False, True])
    assert Annotations(c, ("x", "y", "z")).take([]).candidates == c.take([])


def test_equal_candidates_have_equal_hashes():
    plain = Candidates.from_mask([[1, 0], [0, 1]])
    for names in ([False, True], [0.0, 1.0]):  # equal to 0 and 1 in Python, and other names in every file
        other = Candidates.from_mask([[1, 0], [0, 1]], names)
        assert other != plain
        assert other.hash != plain.hash


def test_answers_are_about_rows_and_classes_that_are_there():
    c = Candidates.from_sets([["a", "b"], ["b"]])
    for row, label in ((2, 0), (0, 2)):
        with pytest.raises(CandidateError, match=f"about row {row} and one names class {label}, but there"):
            c.replace(answers=Answers([row], [0], [label], ("ann",)))


def test_annotations_know_the_answers_of_their_candidates():
    answers = Answers([0, 1], [0, 0], [0, 1], ("ann",))
    c = Candidates.from_sets([["a", "b"], ["b"]], answers=answers)
    assert Annotations(c).answers is answers
    assert Annotations(c) == Annotations(c.replace(answers=None), answers=answers)


def test_a_gap_among_labels_is_no_class():
    for gap in (None, float("nan"), np.float32("nan"), np.datetime64("NaT")):
        with pytest.raises(CandidateError, match="row 1 has a missing label"):
            Candidates.from_labels(["a", gap])


def test_evidence_of_positions_in_any_order():
    flat = Candidates.from_positions([1, 0, 1], [0, 2, 3], "ab", evidence=[3, 1, 2])
    table = Candidates.from_positions([1, 0, 1], [0, 2, 3], "ab", evidence=[[1, 3], [0, 2]])
    assert flat.evidence.tolist() == [1, 3, 2]
    assert flat == table
    with pytest.raises(CandidateError, match="one number per candidate"):
        Candidates.from_positions([1, 0, 1], [0, 2, 3], "ab", evidence=[1])


def test_unsigned_numbers_are_numbers():
    with pytest.raises(CandidateError, match="the starts of candidates are"):
        Candidates.from_positions([0, 0, 0], np.array([0, 2, 1, 3], dtype=np.uint64), "ab")
    answers = Answers(np.array([1, 0], dtype=np.uint8), [0, 0], [1, 0], ("ann",))
    assert [answers.of(row) for row in (0, 1)] == [{"ann": [0]}, {"ann": [1]}]
