"""Every way to say what a row may be means the same, and what cannot be meant is refused by name."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning

from oneof import CandidateError, Candidates
from oneof.candidates.sets import NoInformationWarning
from oneof.classifier.inputs import (
    as_candidates,
    class_array,
    holds_sets,
    known,
    label_columns,
    mask_over,
)
from oneof.classifier.rows import is_pair

NAMES = ["ant", "bee", "cow"]
MASK = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=bool)
SETS = [["ant", "bee"], ["bee"], ["ant", "cow"], ["bee", "cow"]]


def problem(n=90, seed=0):
    """Three well separated classes in four features, about half of the rows with a wrong candidate."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = (3 * np.eye(3, 4)[y] + 0.5 * rng.standard_normal((n, 4))).astype(np.float32)
    mask = np.eye(3, dtype=bool)[y]
    mask[np.arange(n), (y + rng.integers(0, 3, n)) % 3] |= rng.random(n) < 0.7
    return x, y, mask


# ---- y ----------------------------------------------------------------------------------------

UNNAMED = {
    "bool": MASK,
    "int": MASK.astype(int),
    "uint8": MASK.astype(np.uint8),
    "float": MASK.astype(float),
    "fortran": np.asfortranarray(MASK),
    "lists": MASK.astype(int).tolist(),
    "lists of bool": MASK.tolist(),
    "tuple of tuples": tuple(map(tuple, MASK.tolist())),
    "object": MASK.astype(object),
    "tensor": torch.from_numpy(MASK),
    "tensor with gradient": torch.from_numpy(MASK.astype(np.float32)).requires_grad_(),
    "bfloat16": torch.from_numpy(MASK).to(torch.bfloat16),
    "sparse": csr_array(MASK.astype(int)),
    "sets of numbers": [{0, 1}, {1}, {0, 2}, {1, 2}],
}
PANDAS = pd.DataFrame(MASK, columns=NAMES)
POLARS = pl.DataFrame({name: MASK[:, k] for k, name in enumerate(NAMES)})
NAMED = {
    "pandas": PANDAS,
    "pandas int": PANDAS.astype(int),
    "pandas nullable": PANDAS.convert_dtypes(),
    "pandas with other index": PANDAS.set_axis([7, 3, 5, 1], axis=0),
    "polars": POLARS,
    "polars int": POLARS.cast(pl.Int8),
    "candidates": Candidates.from_mask(MASK, NAMES),
    "list of sets": SETS,
    "list of frozensets": list(map(frozenset, SETS)),
    "tuple of tuples": tuple(map(tuple, SETS)),
    "list of arrays": list(map(np.array, SETS)),
    "series of lists": pd.Series(SETS),
    "polars series of lists": pl.Series(SETS),
    "object array of lists": pd.Series(SETS).to_numpy(),
    "labels alone beside lists": [["ant", "bee"], "bee", ("ant", "cow"), "bee|cow"],
    "series of labels and lists": pd.Series([SETS[0], "bee", *SETS[2:]]),
}


@pytest.mark.parametrize("y", UNNAMED.values(), ids=UNNAMED)
def test_masks_of_every_kind(y):
    found = as_candidates(y)
    assert found.classes == (0, 1, 2)
    np.testing.assert_array_equal(found.mask, MASK)
    assert holds_sets(y)


@pytest.mark.parametrize("y", NAMED.values(), ids=NAMED)
def test_names_of_classes_are_kept(y):
    found = as_candidates(y)
    assert found.classes == tuple(NAMES)
    np.testing.assert_array_equal(found.mask, MASK)
    assert holds_sets(y)


@pytest.mark.parametrize(
    "y",
    [
        [2, 0, 1, 0],
        np.array([2, 0, 1, 0]),
        torch.tensor([2, 0, 1, 0]),
        pd.Series([2, 0, 1, 0]),
        pl.Series([2, 0, 1, 0]),
        np.array([2.0, 0.0, 1.0, 0.0]),
    ],
    ids=["list", "array", "tensor", "pandas", "polars", "float"],
)
def test_labels_are_singletons(y):
    found = as_candidates(y)
    assert found.classes == (0, 1, 2)
    assert found.mask.argmax(axis=1).tolist() == found.truth.tolist() == [2, 0, 1, 0]
    assert not holds_sets(y)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pd.Categorical])
def test_text_labels(kind):
    assert as_candidates(kind(["b", "a", "b"])).classes == ("a", "b")


def test_a_column_vector_is_labels_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert as_candidates(np.array([[1], [0]])).sizes.tolist() == [1, 1]


def missing_entry(frame):
    frame = frame.convert_dtypes()
    frame.iloc[2, 1] = pd.NA
    return frame


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (None, ["None"]),
        (missing_entry(PANDAS), ["row 2", "y[2, 1]", "NaN"]),
        (POLARS.with_columns(pl.lit(None).alias("bee")), ["row 0", "y[0, 1]", "NaN"]),
        (np.where(MASK, 1.0, np.nan), ["row 0", "NaN"]),
        ([[1, 0], [0, float("nan")]], ["row 1", "NaN"]),
        (MASK * 0.4, ["row 0", "0.4"]),
        ([["a"], [], ["b"]], ["row 1", "no candidate"]),
        ([["a"], ["b", None]], ["row 1", "missing label", "None"]),
        ([["a"], None, "b"], ["row 1", "no candidate"]),
        (pd.Series([["a"], np.nan, ["b"]]), ["row 1", "no candidate"]),
        ([["a"], {"b": 1}], ["inhomogeneous"]),
        (np.zeros((2, 3)), ["row 0", "no candidate", "2 rows"]),
        (np.zeros((2, 0)), ["shape (2, 0)"]),
        (np.zeros((2, 2, 2)), ["shape (2, 2, 2)"]),
        (["a", None], ["row 1", "None"]),
        (["a", float("nan"), "b"], ["row 1", "nan"]),
        (["a|b", float("nan"), "b"], ["row 1", "nan"]),
        (pd.Series(["a", None]), ["row 1"]),
        ([1.0, float("nan")], ["row 1", "nan"]),
        (pd.Series([1, pd.NA], dtype="object"), ["row 1", "<NA>"]),
        ([0.5, 1.5], ["continuous"]),
        (pd.DataFrame(MASK[:, :2], columns=["a", "a"]), ["'a'", "twice"]),
        (pd.DataFrame([["ant", "bee"]]), ["from_sets"]),
    ],
)
def test_what_cannot_be_meant_is_named(y, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        as_candidates(y)
    for word in words:
        assert word in str(caught.value)


@given(arrays(bool, st.tuples(st.integers(1, 6), st.integers(2, 5))).filter(lambda m: m.any(axis=1).all()))
def test_a_mask_and_its_sets_mean_the_same(mask):
    names = [f"class {k}" for k in range(mask.shape[1])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        sets = Candidates.from_mask(mask, names).sets()
        from_sets = as_candidates(sets)
        from_frame = as_candidates(pd.DataFrame(mask, columns=names))
    assert from_sets.sets() == from_frame.sets() == sets
    np.testing.assert_array_equal(mask_over(sets, class_array(names))[0], mask)


# ---- a mask over the classes of a model -------------------------------------------------------


@pytest.mark.parametrize("y", [*UNNAMED.values(), *NAMED.values()])
def test_scores_see_every_kind_of_y_alike(y):
    classes = class_array(as_candidates(y).classes)
    mask, labels = mask_over(y, classes)
    assert not labels
    np.testing.assert_array_equal(mask, MASK)


def test_columns_are_matched_by_name():
    classes = np.array(["bee", "dog", "ant"])
    expected = [[1, 0, 1], [1, 0, 0], [0, 0, 1], [1, 0, 0]]  # nobody knows the cow
    for y in (PANDAS, POLARS, SETS, Candidates.from_mask(MASK, NAMES)):
        np.testing.assert_array_equal(mask_over(y, classes)[0], np.array(expected, dtype=bool))


def test_named_columns_meet_a_model_without_names():
    np.testing.assert_array_equal(mask_over(PANDAS, np.arange(3))[0], MASK)
    swapped = pd.DataFrame(MASK, columns=[1, 0, 2])  # these are names: the numbers of its classes
    np.testing.assert_array_equal(mask_over(swapped, np.arange(3))[0], MASK[:, [1, 0, 2]])
    with pytest.raises(CandidateError, match="none of which"):
        mask_over(Candidates.from_mask(MASK, NAMES), np.arange(3))


def test_labels_nobody_has_seen_have_no_class():
    mask, labels = mask_over(np.array(["bee", "elk"]), np.array(NAMES))
    assert labels
    assert mask.tolist() == [[False, True, False], [False, False, False]]
    with pytest.raises(ValueError, match=r"no label is one of .*'bee'"):
        mask_over(np.array(["bee", "elk"]), np.array([0, 1]))
    with pytest.raises(CandidateError, match="y has 3 columns, but the model knows 2"):
        mask_over(MASK, np.array([0, 1]))


# ---- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ((0, 1), "i"),
        (("a", "b"), "U"),
        ((True, False), "b"),
        ((1, 2.5), "f"),
        ((1, "a"), "O"),
        ((2**70, 1), "O"),
        (("a", "b\0"), "O"),
    ],
)
def test_class_names_stay_what_they_are(names, kind):
    made = class_array(names)
    assert made.dtype.kind == kind
    assert made.shape == (2,)
    assert tuple(made.tolist()) == names


def test_tuples_can_be_class_names():
    assert class_array([("a", 1), ("b", 2)]).tolist() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 2]), [True, True]),
        (np.array([1.0, np.nan]), [True, False]),
        (np.array(["a", None, np.nan, pd.NA, pd.NaT, "", "<NA>"], dtype=object), [1, 0, 0, 0, 0, 0, 1]),
    ],
)
def test_known_labels(values, expected):
    assert known(values).tolist() == [bool(v) for v in expected]


def test_numbers_match_their_text():
    for labels in ([2, 1], [2.0, 1.0], ["2", "1"], ["2.0", " 1.0"]):
        for classes in ([1, 2], ["1", "2"], [1.0, 2.0]):
            found = label_columns(np.array(labels, dtype=object), class_array(classes), "clean")
            assert found.tolist() == [1, 0]
    # but zip codes do not lose their zeros
    with pytest.raises(ValueError, match=r"clean\[0\] = '01' is not one of the classes \['1'\]"):
        label_columns(np.array(["01"]), np.array(["1"]), "clean")


def test_a_pair_is_not_a_vector():
    assert is_pair((np.zeros((3, 2)), [1, 2, 3]))
    assert is_pair([torch.zeros(3, 2), [1, 2, 3]])
    assert not is_pair(("a", None))
    assert not is_pair(np.zeros((2, 2)))
    assert not is_pair(json.loads("[1, 2]"))


KINDS = [list, np.array, pd.Series, pl.Series, lambda v: np.array(v, dtype=object)]
COLUMNS = [pd.DataFrame, lambda v: pl.DataFrame({"seen_as": v}), lambda v: np.array(v)[:, None]]


@pytest.mark.parametrize("kind", [*KINDS, *COLUMNS])
@pytest.mark.parametrize("mark", ["|", ";"])
def test_joined_strings_are_sets(kind, mark):
    y = kind([mark.join(names) for names in SETS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        found = as_candidates(y)
    assert found.classes == tuple(NAMES)
    np.testing.assert_array_equal(found.mask, MASK)
    assert holds_sets(y)
    mask, plain = mask_over(y, np.array(NAMES))
    np.testing.assert_array_equal(mask, MASK)
    assert not plain


def test_plain_names_with_a_separator_stay_names():
    y = ["AC/DC", "Abba", "Earth, Wind"]
    assert as_candidates(y).classes == ("AC/DC", "Abba", "Earth, Wind")
    with pytest.raises(CandidateError, match=r"'red;fox' one label, or several"):
        as_candidates(["red;fox", "cat"])
    _, plain = mask_over(["red;fox", "cat"], np.array(["cat", "red;fox"]))
    assert plain
