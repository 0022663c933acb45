"""What a fitted model says: restricted, with a set, or not at all."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oneof import Candidates, PartialLabelClassifier
from oneof.candidates.compact import restricted
from oneof.classifier.prediction import allowed_mask, chosen
from tests.test_inputs import problem

X, Y, MASK = problem()
NAMES = np.array(["ant", "bee", "cow"])


def fitted(method="proden", clean=None, **more):
    model = PartialLabelClassifier(method, **{"hidden": (8,), "epochs": 4, "device": "cpu", **more})
    return model.fit(X, Candidates.from_mask(MASK, NAMES), clean=clean)


@pytest.fixture(scope="module")
def model():
    return fitted()


# ---- allowed ----------------------------------------------------------------------------------

ROWS = np.tile([True, False, True], (len(X), 1))


@pytest.mark.parametrize(
    "allowed",
    [
        ["ant", "cow"],
        ("cow", "ant"),
        {"ant", "cow"},
        np.array(["ant", "cow"]),
        np.array([True, False, True]),
        ROWS,
        torch.from_numpy(ROWS),
        pd.DataFrame(ROWS, columns=NAMES),
        pd.DataFrame(ROWS[:, ::-1], columns=NAMES[::-1]),
        Candidates.from_mask(ROWS, NAMES),
        [["ant", "cow"]] * len(X),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_way_to_say_what_is_allowed(model, allowed):
    p, full = model.predict_proba(X, allowed=allowed), model.predict_proba(X)
    np.testing.assert_allclose(p, full * ROWS / (full * ROWS).sum(axis=1, keepdims=True))
    assert set(model.predict(X, allowed=allowed)) == {"ant", "cow"}


@pytest.mark.parametrize("mark", ["/", ";", ", "])
def test_a_class_with_a_separator_in_its_name_is_one_class(mark):
    names = np.array(["no", "yes", f"yes{mark}no"])
    model = PartialLabelClassifier("proden", epochs=1, device="cpu").fit(X, Candidates.from_mask(MASK, names))
    every = model.predict_proba(X[:3], allowed=names.tolist())
    np.testing.assert_allclose(every, model.predict_proba(X[:3]))
    assert model.score(X, names[Y]) == (model.predict(X) == names[Y]).mean()
    assert set(model.predict(X, allowed=names[2])) == {names[2]}


def test_allowed_row_by_row(model):
    mask = np.eye(3, dtype=bool)[Y]
    assert model.predict(X, allowed=mask).tolist() == NAMES[Y].tolist()
    assert model.predict(X, allowed="bee").tolist() == ["bee"] * len(X)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (["ant", "bea"], "the class 'bea', which the model does not know; did you mean 'bee'"),
        (["zebra"], "the model knows 'ant', 'bee', 'cow'"),
        ([], "allowed leaves no class"),
        (np.zeros((len(X), 3), dtype=bool), "row 0"),
        (np.ones((2, 3), dtype=bool), "allowed has 2 rows, but X has 90"),
        (np.ones((len(X), 2), dtype=bool), "2 columns, but the model knows 3"),
    ],
)
def test_allowed_that_cannot_be_meant(model, allowed, words):
    with pytest.raises(ValueError, match=words):
        model.predict_proba(X, allowed=allowed)


def test_number_classes_are_found_by_their_text():
    classes = np.array([0, 1, 10])
    assert allowed_mask(["10", "1"], classes, 5).tolist() == [[False, True, True]]
    with pytest.raises(ValueError, match="did you mean '10'"):
        allowed_mask(["100"], classes, 5)


def test_restricted_rows_without_mass_become_uniform():
    p = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    mask = np.array([[False, True, True]])
    np.testing.assert_allclose(restricted(p, mask), [[0, 0.5, 0.5], [0, 0.375, 0.625]])


# ---- abstention -------------------------------------------------------------------------------


@given(st.floats(0, 1))
def test_rows_below_the_threshold_get_none(t):
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=20)
    made = chosen(p, NAMES, t)
    for row, label in zip(p, made):
        assert label == (NAMES[row.argmax()] if row.max() >= t else None)


def test_rejecting(model):
    made = model.predict(X, reject_below=0.6)
    assert made.dtype == object
    rejected = np.array([label is None for label in made])
    np.testing.assert_array_equal(rejected, model.predict_proba(X).max(axis=1) < 0.6)
    assert model.predict(X).dtype.kind == "U"
    assert all(label is None for label in model.predict(X, reject_below=1.1))
    for wrong in (-1, "high", float("nan")):
        with pytest.raises(ValueError, match="reject_below"):
            model.predict(X, reject_below=wrong)


def test_the_curve_of_a_model(model):
    curve = model.risk_coverage(X, NAMES[Y])
    assert curve.risk[-1] == pytest.approx(1 - model.score(X, NAMES[Y]))
    t = curve.threshold_for(0.0)
    made = model.predict(X, reject_below=t)
    assert all(label in (None, truth) for label, truth in zip(made, NAMES[Y]))
    with pytest.raises(ValueError, match="no label is one of the classes"):  # numbers where names are meant
        model.risk_coverage(X, Y)


# ---- sets -------------------------------------------------------------------------------------


def test_sets_are_candidates(model):
    model = fitted().calibrate(X[:50], NAMES[Y[:50]])
    sets = model.predict_set(X[50:], coverage=0.8)
    assert sets.shape == (40, 3)
    assert sets.dtype == bool
    assert sets.any(axis=1).all()
    made = Candidates.from_mask(sets, model.classes_)
    assert made.classes == ("ant", "bee", "cow")
    cut = model.predict_set(X[50:], coverage=0.8, allowed=["ant", "bee"])
    assert not cut[:, 2].any()
    assert cut.any(axis=1).all()
    wide = model.predict_set(X[50:], coverage=0.95)
    assert (wide | ~sets).all()  # more coverage never takes a class away
    with pytest.warns(UserWarning, match="50 calibration rows are too few for a coverage of 0.999"):
        assert model.predict_set(X, coverage=0.999).all()


@pytest.mark.parametrize("score", ["probability", "adaptive"])
def test_coverage_of_a_trained_model_over_repeated_splits(score):
    """New rows of the same source, divided anew each time: the truth is in the set as often as promised."""
    x, y, _ = problem(3000, seed=5)
    x = x + np.random.default_rng(1).normal(scale=2, size=x.shape).astype(np.float32)  # so that it errs
    model = fitted()
    rng, shares, sizes = np.random.default_rng(2), [], []
    for _ in range(40):
        order = rng.permutation(len(x))
        model.calibrate(x[order[:199]], NAMES[y[order[:199]]])
        sets = model.predict_set(x[order[199:]], 0.8, score=score, allow_empty=True)
        shares.append(sets[np.arange(len(sets)), y[order[199:]]].mean())
        sizes.append(sets.sum(axis=1).mean())
    # one split is off by about sqrt(0.8 · 0.2 / 199) = 0.028
    error = 4 * 0.028 / np.sqrt(40)
    assert np.mean(shares) > 0.8 - error
    # the least probable class always has the adaptive score 1: such ties make sets larger than needed
    assert np.mean(shares) < 0.8 + (error if score == "probability" else 0.1)
    assert np.mean(sizes) < 2.5


def test_rows_kept_aside_calibrate_by_themselves():
    clean = (X[:60], NAMES[Y[:60]])
    aside = fitted(clean=clean, clean_weight=1, selection_share=0.5)
    assert len(aside.calibration_scores_["probability"]) == aside.n_selection_ == 30
    with pytest.warns(UserWarning, match="only evaluated"):
        unused = fitted(clean=clean, clean_weight=0.0)  # PRODEN does not learn from them
    assert len(unused.calibration_scores_["probability"]) == 60
    by_hand = fitted().calibrate(*clean)
    np.testing.assert_allclose(
        by_hand.calibration_scores_["adaptive"], unused.calibration_scores_["adaptive"], atol=1e-6
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"clean": None}, "no labelled rows were given"),
        ({}, "the model learned from all"),
        ({"method": "rplg"}, "the model learned from all"),
        ({"clean_weight": 1, "selection_share": 0.5, "patience": 2}, "chose its last epoch"),
    ],
)
def test_rows_that_were_learned_from_do_not_calibrate(more, why):
    model = fitted(**{"clean": (X[:60], NAMES[Y[:60]]), **more})
    assert not hasattr(model, "calibration_scores_")
    with pytest.raises(ValueError, match=why) as caught:
        model.predict_set(X)
    assert "calibrate(X, y)" in str(caught.value)
    assert model.calibrate(X, NAMES[Y]).predict_set(X).any()


def test_a_new_fit_forgets_the_calibration():
    model = fitted().calibrate(X, NAMES[Y])
    assert model.checked_ is None
    model.calibrate(X, NAMES[Y], record_accuracy=True)
    assert model.checked_ == {"rows": len(X), "accuracy": model.score(X, NAMES[Y])}
    model.fit(X, MASK)
    assert not hasattr(model, "calibration_scores_")
    assert model.checked_ is None


def test_calibration_that_cannot_be_meant(model):
    with pytest.raises(ValueError, match="X has 90 rows, but y has 3 labels"):
        model.calibrate(X, NAMES)
    with pytest.raises(ValueError, match="not one of the classes"):
        model.calibrate(X[:1], ["zebra"])
    with pytest.raises(ValueError, match="score is 'lac'"):
        model.predict_set(X, score="lac")
