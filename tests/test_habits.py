"""What people do with scikit-learn's estimators, done with this one."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import csr_array, csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oneof
from oneof import CandidateError, Candidates, PartialLabelClassifier
from oneof.candidates.questions import QuestionError
from oneof.classifier import settings
from oneof.classifier.inputs import as_candidates, holds_sets
from oneof.classifier.rows import row_weights
from oneof.training import TrainingError
from tests.test_inputs import problem

X, Y, MASK = problem()
N = len(Y)
NAMES = np.array(["ant", "bee", "cow"])
SETS = Candidates.from_mask(MASK, NAMES)
JOINED = ["|".join(names) for names in SETS.sets()]


def small(method="proden", **more):
    return PartialLabelClassifier(method, **{"hidden": (8,), "epochs": 8, "device": "cpu", **more})


# ---- joined strings and Candidates as y --------------------------------------------------------


@pytest.mark.parametrize(
    "joined",
    [JOINED, np.array(JOINED), np.array(JOINED, dtype=object), pd.Series(JOINED), pl.Series(JOINED)],
    ids=["list", "text array", "object array", "pandas", "polars"],
)
def test_joined_strings_are_sets(joined):
    made = as_candidates(joined)
    assert made.classes == ("ant", "bee", "cow")
    np.testing.assert_array_equal(made.mask, MASK)
    assert holds_sets(joined)


def test_plain_strings_stay_labels_and_broken_cells_are_named():
    with pytest.raises(QuestionError, match="is 'a;b' one label, or several"):
        as_candidates(["a;b", "c"])
    assert not holds_sets(np.array(["ant", "bee"]))
    with pytest.raises(ValueError, match=r'(?s)row 1, column "y".*cannot be read'):
        as_candidates(["a|b", "['a' 'b']", "c"])
    with pytest.raises(CandidateError, match="row 1 has no candidate"):
        as_candidates(["a|b", "", "c"])


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize(
    "y", [np.array(JOINED), pd.Series(JOINED), SETS], ids=["text", "pandas", "Candidates"]
)
def test_cross_validation_and_search_keep_class_names(y):
    scores = cross_val_score(small(), X, y, cv=KFold(3, shuffle=True, random_state=0), error_score="raise")
    assert np.all(scores > 0.8)
    search = GridSearchCV(small(), {"lr": [0.01, 0.03]}, cv=KFold(2), error_score="raise").fit(X, y)
    assert search.best_estimator_.classes_.tolist() == NAMES.tolist()
    assert search.score(X, NAMES[Y]) > 0.8


# ---- settings ---------------------------------------------------------------------------------


def test_grids_over_one_hyper_parameter():
    model = small("rplg+", method_params={"meta_lr": 0.01})
    assert model.set_params(method_params__alpha=0.2, lr=0.02) is model
    assert (model.method_params, model.lr) == ({"meta_lr": 0.01, "alpha": 0.2}, 0.02)
    search = GridSearchCV(small("rplg+"), {"method_params__alpha": [0.1, 0.4]}, cv=2, error_score="raise")
    search.fit(X, MASK)
    assert search.best_estimator_.method_.alpha == search.best_params_["method_params__alpha"]
    pipeline = make_pipeline(StandardScaler(), small("rplg+"))
    pipeline.set_params(partiallabelclassifier__method_params__alpha=0.3)
    assert pipeline[-1].method_params == {"alpha": 0.3}


class Perceptron(torch.nn.Module):
    def __init__(self, n_features, n_classes):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.ReLU(), torch.nn.Linear(8, n_classes)
        )

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("net", [Perceptron, lambda d, c: Perceptron(d, c).layers], ids=["class", "function"])
def test_a_net_may_be_a_class_or_a_function(net):
    first, second = (small(net=net, epochs=20).fit(X, MASK) for _ in range(2))
    assert first.score(X, Y) > 0.9
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))  # weights by the seed


# ---- weights ----------------------------------------------------------------------------------


def test_rows_of_weight_zero_teach_nothing():
    """Half of the rows carry one wrong label alone; without weight they do no harm."""
    mask = MASK.copy()
    mask[::2] = np.eye(3, dtype=bool)[(Y[::2] + 1) % 3]
    weight = np.where(np.arange(N) % 2, 1.0, 0.0)
    assert small(epochs=30).fit(X, mask, sample_weight=weight).score(X, Y) > 0.9
    assert small(epochs=30).fit(X, mask).score(X, Y) < 0.8


def test_equal_weights_are_none():
    plain = small().fit(X, MASK).predict_proba(X)
    for weight in (np.ones(N), [2.0] * N, pd.Series(np.full(N, 3))):
        np.testing.assert_allclose(
            small().fit(X, MASK, sample_weight=weight).predict_proba(X), plain, atol=1e-5
        )


def test_class_weights_count_by_the_mean_over_candidates():
    weights = row_weights(None, {"ant": 3.0}, SETS)
    by_hand = [np.mean([3.0 if name == "ant" else 1.0 for name in names]) for names in SETS.sets()]
    np.testing.assert_allclose(weights, np.array(by_hand) / np.mean(by_hand))
    balanced = row_weights(None, "balanced", SETS)
    shares = MASK / MASK.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(balanced, (lambda w: w / w.mean())(shares @ (1 / shares.sum(axis=0))))
    assert row_weights(None, None, SETS) is None
    heavy = small(class_weight={"ant": 50.0}).fit(X, SETS)
    assert heavy.predict_proba(X)[:, 0].mean() > small().fit(X, SETS).predict_proba(X)[:, 0].mean()


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ("even", "class_weight is 'even'"),
        ({"elk": 1}, "names the class 'elk'"),
        ({"ant": -1}, "numbers of at least 0"),
        ({"ant": 0, "bee": 0, "cow": 0}, "all weights are 0"),
    ],
)
def test_class_weights_that_cannot_be_meant(class_weight, words):
    with pytest.raises(ValueError, match=words):
        small(class_weight=class_weight).fit(X, SETS)


def test_sample_weights_that_cannot_be_meant(tmp_path):
    with pytest.raises(ValueError, match="sample_weight"):
        small().fit(X, MASK, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="egative"):
        small().fit(X, MASK, sample_weight=-np.ones(N))
    small(run=tmp_path / "run").fit(X, MASK, sample_weight=np.arange(N) + 1.0)
    with pytest.raises(oneof.training.RunError, match="another method"):
        small(run=tmp_path / "run").fit(X, MASK, sample_weight=np.arange(N) + 2.0)


def test_a_loss_of_whole_batches_cannot_weigh_rows(monkeypatch):
    from oneof.methods.proden import Proden

    whole = Proden.loss
    monkeypatch.setattr(
        Proden, "loss", lambda self, state, batch, step: whole(self, state, batch, step).mean()
    )
    with pytest.raises(TrainingError, match="proden cannot weigh rows"):
        small().fit(X, MASK, sample_weight=np.ones(N))


def test_weights_go_through_a_pipeline_and_a_choice():
    weight = np.linspace(0.5, 2, N)
    pipeline = make_pipeline(StandardScaler(), small())
    pipeline.fit(X, MASK, partiallabelclassifier__sample_weight=weight)
    assert pipeline.score(X, Y) > 0.9
    model = PartialLabelClassifier("auto", hidden=(8,), epochs=5, device="cpu", class_weight="balanced")
    assert model.fit(X, MASK, sample_weight=weight).score(X, Y) > 0.9


# ---- inputs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_inputs(kind, monkeypatch):
    expected = small().fit(X, MASK).predict_proba(X)
    np.testing.assert_array_equal(small().fit(kind(X), MASK).predict_proba(kind(X)), expected)
    monkeypatch.setattr(settings, "DENSE_LIMIT", 100)
    with pytest.raises(ValueError, match="TruncatedSVD"):
        small().fit(kind(X), MASK)


def messy():
    frame = pd.DataFrame(X[:, :2], columns=["length", "weight"])
    frame.loc[::7, "length"] = np.nan
    frame["colour"] = pd.Categorical(np.array(["red", "green", "blue"])[Y])
    frame["place"] = np.where(np.arange(N) % 4, "field", None)
    return frame


@pytest.mark.parametrize("method", ["proden", "auto"])
def test_data_frames_with_categories_and_gaps(method, tmp_path):
    frame = messy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(method, epochs=20).fit(frame, SETS)
        labels = model.predict(frame)
    assert np.mean(labels == NAMES[Y]) > 0.9
    assert model.encoder_.column_names == list(frame.columns)
    assert model.n_features_in_ == len(model.feature_names_in_) == len(model.encoder_.feature_names)
    model.save(tmp_path / "model")
    assert oneof.load(tmp_path / "model").predict(frame).tolist() == labels.tolist()
    with pytest.raises(ValueError, match=r"X lacks columns that the model was fitted on: 'colour'\.$"):
        model.predict(frame.drop(columns="colour"))
    encoded = pd.DataFrame(model.encoder_.transform(frame), columns=model.encoder_.feature_names)
    assert model.predict(encoded).tolist() == labels.tolist()


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_rows_without_a_trusted_label_are_left_out_of_lists_and_pairs(gap):
    labels = [name if i < 20 else gap for i, name in enumerate(NAMES[Y])]
    assert small().fit(X, SETS, clean=labels).n_clean_ == 20
    pair = small().fit(X, SETS, clean=(X, labels))
    few = small().fit(X, SETS, clean=(X[:20], labels[:20]))
    assert pair.n_clean_ == 20
    np.testing.assert_array_equal(pair.predict_proba(X), few.predict_proba(X))


def test_clean_rows_may_be_such_a_frame_and_another_fit_forgets_it():
    frame = messy()
    model = small(clean_weight=1.0).fit(frame, SETS, clean=(frame[:20], NAMES[Y[:20]]))
    assert model.n_clean_ == 20
    assert model.set_params(clean_weight=0.0).fit(X, SETS).encoder_ is None
    cells = {name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame}
    polars = pl.DataFrame(cells)
    assert small(epochs=20).fit(polars, SETS).score(polars, NAMES[Y]) > 0.9


# ---- ensembles --------------------------------------------------------------------------------


def test_calibrated_and_bagged_where_labels_are_known():
    calibrated = CalibratedClassifierCV(FrozenEstimator(small(epochs=20).fit(X, MASK)), cv=3).fit(X, Y)
    assert calibrated.score(X, Y) > 0.9
    bagged = BaggingClassifier(small(), n_estimators=2, random_state=0).fit(X, Y)
    assert bagged.score(X, Y) > 0.9


# ---- warm_start -------------------------------------------------------------------------------


def weights(model):
    return [p.detach().clone() for p in model.net_[0].parameters()]


def test_a_warm_start_goes_on_from_the_present_weights():
    x, _, mask = problem(120)
    model = small(lr=0.0, batch_norm=False, warm_start=True).fit(x, mask)
    before, scaling = weights(model), model.scaling_
    model.set_params(random_state=1).fit(5 * x, mask)  # with a learning rate of 0 nothing may change
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model)))
    assert model.scaling_ is scaling  # the weights mean what they meant
    model.set_params(warm_start=False).fit(x, mask)
    assert not all(torch.equal(a, b) for a, b in zip(before, weights(model)))
    model.set_params(warm_start=True, lr=1e-2, epochs=1).fit(x, mask)
    assert len(model.history_) == 1


def test_a_saved_model_goes_on(tmp_path):
    x, y, mask = problem(120)
    small(warm_start=True).fit(x, mask).save(tmp_path / "m")
    model = oneof.load(tmp_path / "m").set_params(epochs=20)
    before = model.score(x, y)
    assert model.warm_start
    assert model.fit(x, mask).score(x, y) >= before - 0.02


def test_a_warm_start_keeps_the_encoder_of_a_frame():
    frame = messy()
    model = small(warm_start=True).fit(frame, SETS)
    encoder = model.encoder_
    assert model.fit(frame[:50], SETS.take(np.arange(50))).encoder_ is encoder


def test_what_cannot_be_continued():
    x, _, mask = problem(120)
    model = small(warm_start=True).fit(x, mask)
    with pytest.raises(ValueError, match="it knows the classes 0, 1, 2, y has 0, 1; give Candidates with"):
        model.fit(x, mask[:, :2] | ~mask[:, :2].any(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="X has 3 features, but PartialLabelClassifier is expecting 4"):
        model.fit(x[:, :3], mask)
    with pytest.raises(ValueError, match=r"another one \(linear\)"):
        model.set_params(net="linear").fit(x, mask)
    with pytest.raises(ValueError, match="sdct has 2 of them"):
        small("sdct", warm_start=True).fit(x, mask).fit(x, mask)
    with pytest.raises(ValueError, match="compares several; name the method"):
        model.set_params(net="mlp", method="auto").fit(x, mask)
