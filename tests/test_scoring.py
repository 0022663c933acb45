"""Scores against slow twins, and inside scikit-learn's own model selection."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oneof import Candidates, PartialLabelClassifier
from oneof.classifier.inputs import mask_over
from oneof.classifier.scoring import accuracy, approximated_accuracy, covering_rate
from tests.test_inputs import problem

SCORERS = [accuracy, covering_rate, approximated_accuracy]


class Fixed:
    """An estimator whose probabilities are given."""

    def __init__(self, p, classes=None):
        self.p = np.asarray(p, dtype=float)
        self.classes_ = np.arange(self.p.shape[1]) if classes is None else np.asarray(classes)

    def predict_proba(self, X):
        return self.p[: len(X)]


def small_model(**more):
    return PartialLabelClassifier("proden", hidden=(8,), epochs=20, device="cpu", **more)


def by_hand(p, mask):
    """Slow twin: accuracy on single candidates, covering rate, approximated accuracy."""
    right, covered, approximated = [], [], []
    for row, candidates in zip(p, mask):
        best = max(range(len(row)), key=lambda k: row[k])
        covered.append(bool(candidates[best]))
        if sum(candidates) == 1:
            right.append(bool(candidates[best]))
        others = sum(v for k, v in enumerate(row) if candidates[k] and k != best)
        total = sum(v for k, v in enumerate(row) if candidates[k])
        approximated.append(1 - others / total if total > 0 else 0.0)
    mean = [sum(v) / len(v) if v else math.nan for v in (right, covered, approximated)]
    return dict(zip(["accuracy", "covering_rate", "approximated_accuracy"], mean))


@st.composite
def predictions(draw):
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    weights = st.lists(st.integers(0, 20), min_size=c, max_size=c).filter(any)
    p = np.array(draw(st.lists(weights, min_size=n, max_size=n)), dtype=float)
    sets = st.lists(st.booleans(), min_size=c, max_size=c).filter(any)
    return p / p.sum(axis=1, keepdims=True), np.array(draw(st.lists(sets, min_size=n, max_size=n)))


@given(predictions())
def test_scores_match_the_slow_twin(case):
    p, mask = case
    expected = by_hand(p, mask)
    for scorer in SCORERS:
        found = scorer(Fixed(p), np.zeros((len(p), 1)), mask)
        assert found == pytest.approx(expected[scorer.__name__], nan_ok=True)


def test_a_label_nobody_has_seen_counts_as_missed():
    model = Fixed([[0.9, 0.1], [0.2, 0.8]], ["ant", "bee"])
    assert accuracy(model, np.zeros((2, 1)), ["ant", "elk"]) == 0.5
    assert covering_rate(model, np.zeros((2, 1)), ["ant", "elk"]) == 0.5
    assert approximated_accuracy(model, np.zeros((2, 1)), ["ant", "elk"]) == 0.5


def test_weights_of_rows():
    model, x = Fixed([[0.9, 0.1], [0.2, 0.8]]), np.zeros((2, 1))
    assert covering_rate(model, x, [0, 0], sample_weight=[3, 1]) == 0.75
    assert accuracy(model, x, np.array([[1, 1], [1, 0]]), sample_weight=[3, 1]) == 0.0
    with pytest.raises(ValueError, match=r"\(3,\), expected \(2,\)"):
        covering_rate(model, x, [0, 0], sample_weight=[3, 1, 1])
    fitted = small_model().fit(*problem()[::2])
    x, y, mask = problem()
    inside = mask[np.arange(len(y)), fitted.predict(x)]
    weight = np.where(inside, 1.0, 0.0)
    assert fitted.score(x, mask, sample_weight=weight) == 1.0
    assert fitted.score(x, y, sample_weight=np.ones(len(y))) == fitted.score(x, y)


def test_rows_must_agree():
    with pytest.raises(ValueError, match="X has 2 rows, but y has 3"):
        covering_rate(Fixed(np.eye(2)), np.zeros((2, 1)), [0, 1, 0])


def test_score_matches_classes_by_name():
    x, y, mask = problem()
    names = np.array(["ant", "bee", "cow"])
    model = small_model().fit(x, pd.DataFrame(mask, columns=names))
    shuffled = pd.DataFrame(mask, columns=names)[["cow", "ant", "bee"]]
    plain = covering_rate(model, x, mask)
    assert plain > 0.9
    for other in (shuffled, Candidates.from_mask(mask[:, ::-1], names[::-1]), [names[row] for row in mask]):
        assert model.score(x, other) == plain
    assert model.score(x, names[y]) == accuracy(model, x, names[y]) == model.score(x, pd.Series(names[y]))


def test_accuracy_is_unknown_without_single_candidates():
    assert math.isnan(accuracy(Fixed(np.eye(3)), np.zeros((3, 1)), ~np.eye(3, dtype=bool)))


@pytest.mark.parametrize("scorer", [None, *SCORERS])
def test_cross_validation_with_a_mask(scorer):
    x, _, mask = problem()
    pipeline = make_pipeline(StandardScaler(), small_model())
    scores = cross_val_score(pipeline, x, mask, cv=3, scoring=scorer, error_score="raise")
    assert np.all(scores > 0.7)
    assert np.all(scores <= 1)


def test_cross_validation_with_label_sets_and_clean_labels():
    x, y, mask = problem()
    sets = [np.flatnonzero(row).tolist() for row in mask]
    assert np.all(cross_val_score(small_model(), x, sets, cv=KFold(3), error_score="raise") > 0.8)
    clean = np.where(np.arange(len(y)) % 5 == 0, y, np.nan)  # cut to the rows of a fold by scikit-learn
    model = small_model(clean_weight=1.0)
    scores = cross_val_score(model, x, mask, params={"clean": clean}, error_score="raise")
    assert np.all(scores > 0.8)


def test_grid_search_over_methods_and_their_hyper_parameters():
    x, _, mask = problem()
    grid = [
        {"method": ["rplg"], "method_params": [{"alpha": 0.2}, {"alpha": 0.8}]},
        {"method": ["proden", "average"], "lr": np.array([0.01])},
    ]
    search = GridSearchCV(small_model(), grid, cv=2, scoring=approximated_accuracy, error_score="raise")
    search.fit(x, mask)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_score_ > 0.6
    assert search.score(x, mask) > 0.6
    assert search.predict(x[:3]).shape == (3,)


def test_grid_search_selects_by_several_scores():
    x, _, mask = problem()
    scoring = {scorer.__name__: scorer for scorer in SCORERS}
    search = GridSearchCV(small_model(), {"epochs": [1, 8]}, cv=2, scoring=scoring, refit="covering_rate")
    assert search.fit(x, mask).best_params_ == {"epochs": 8}


def test_labels_in_another_spelling_are_not_counted_as_missed():
    with pytest.raises(ValueError, match=r"label 'Cat', spelled otherwise than the class 'cat'"):
        mask_over(np.array(["cat", "Cat", "eagle"]), np.array(["cat", "dog"]))
    assert mask_over(np.array(["cat", "eagle"]), np.array(["cat", "dog"]))[0].sum() == 1
