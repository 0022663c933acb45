"""`PartialLabelClassifier`: the scikit-learn contract, and what a fit promises about its rows."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from oneof import Candidates, PartialLabelClassifier
from oneof.classifier.settings import clean_weight
from oneof.methods.proden import Proden
from oneof.training import RunError
from tests.test_inputs import problem

# a row of weight 2 is not the same as two rows: batches are drawn at random, and batch norm looks at them
WEIGHTS_IN_BATCHES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "stochastic gradient descent sees other batches"
    for kind in ("dense", "sparse")
}


# no other check is expected to fail; one is skipped unless SCIPY_ARRAY_API is set
@parametrize_with_checks(
    [PartialLabelClassifier(), PartialLabelClassifier("proden", epochs=20)],
    expected_failed_checks=lambda estimator: WEIGHTS_IN_BATCHES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def small(method="proden", **more):
    return PartialLabelClassifier(method, **{"hidden": (8,), "epochs": 4, "device": "cpu", **more})


X, Y, MASK = problem()
N = len(Y)
NAMES = np.array(["ant", "bee", "cow"])


# ---- X ----------------------------------------------------------------------------------------


def test_inputs_of_every_kind_give_the_same_model():
    expected = small().fit(X, MASK).predict_proba(X)
    columns = list("abcd")
    frame = pd.DataFrame(X, columns=columns)
    kinds = {
        "tensor": torch.from_numpy(X),
        "tensor with gradient": torch.from_numpy(X).requires_grad_(),
        "lists": X.tolist(),
        "double": X.astype(np.float64),
        "fortran": np.asfortranarray(X),
        "pandas": frame,
        "polars": pl.DataFrame(X, schema=columns),
        "object": X.astype(object),
    }
    for name, x in kinds.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = small().fit(x, MASK)
            np.testing.assert_array_equal(model.predict_proba(x), expected, err_msg=name)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_columns_of_a_data_frame_that_are_left_out_are_told_of():
    frame = pd.DataFrame({"a": X[:, 0], "seen": pd.Timestamp("2020-01-02"), "visit": map(str, range(len(X)))})
    with pytest.warns(UserWarning, match=r'left out: column "seen" holds dates; column "visit" counts'):
        model = small().fit(frame, MASK)
    assert model.encoder_.column_names == ["a"]
    with pytest.raises(ValueError, match="several columns 'visit'"):
        small().fit(pd.concat([frame, frame["visit"]], axis=1), MASK)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_feature_names_are_kept_and_checked(frame):
    table = frame({name: X[:, k] for k, name in enumerate("abcd")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # rows held out inside the fit must not warn about missing names
        model = small(patience=3).fit(table, MASK)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="order"):
        model.predict(table[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}) if frame is pd.DataFrame else table.rename({"a": "z"}))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(table[["a", "b", "c"]].to_numpy())
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)


@pytest.mark.parametrize("odd", ["gap", "text"])
def test_columns_of_a_frame_may_be_called_by_numbers(odd):
    frame = pd.DataFrame(X.astype(object) if odd == "text" else X)
    frame[3] = np.where(np.arange(N) % 9 == 0, np.nan, X[:, 3]) if odd == "gap" else list("xyz" * (N // 3))
    model = small().fit(frame, MASK)
    named = small().fit(frame.rename(columns=str), MASK)
    np.testing.assert_array_equal(model.predict_proba(frame[:5]), named.predict_proba(frame[:5]))


def test_digits_survive_until_features_are_scaled():
    seconds = 1_700_000_000 + 3600 * np.arange(N)[:, None]  # single precision would keep every 128th
    close = 1_700_000_000 + Y[:, None]
    for x in (close, close.astype(np.float64), pd.DataFrame(close), torch.from_numpy(close)):
        assert small(epochs=40).fit(x, MASK).score(x, Y) > 0.9
    small().fit(seconds, MASK)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.where(np.arange(4 * N).reshape(N, 4) == 5, np.nan, X), ["NaN"]),
        (X[:, 0], ["1D array"]),
        (X[:-1], [f"{N - 1} rows", f"{N}"]),
        (np.full((N, 4), "a"), ["could not convert"]),
        (X.reshape(N, 2, 2), ["dim 3"]),
    ],
)
def test_inputs_that_cannot_be_used(x, words):
    with pytest.raises(ValueError, match=r".") as caught:
        small().fit(x, MASK)
    for word in words:
        assert word in str(caught.value)


def test_a_number_too_large_for_the_network_is_named():
    model = small(scaling="none").fit(X, MASK)
    wide = X.astype(np.float64)
    wide[3, 2] = 1e300
    with pytest.raises(ValueError, match=r"X\[3, 2\] = 1e\+300 is too large"):
        model.predict(wide)


# ---- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, ["epochs is 0"]),
        ({"epochs": 2.5}, ["epochs is 2.5"]),
        ({"batch_size": 0}, ["batch_size is 0", "None"]),
        ({"patience": 0}, ["patience is 0"]),
        ({"lr": -1}, ["lr is -1"]),
        ({"lr": "big"}, ["lr is 'big'"]),
        ({"lr": float("nan")}, ["lr is nan"]),
        ({"clean_weight": float("inf")}, ["clean_weight is inf"]),
        ({"selection_share": 1.0}, ["selection_share is 1.0"]),
        ({"hidden": 30}, ["hidden is 30"]),
        ({"hidden": (0,)}, ["hidden is (0,)"]),
        ({"net": "resnet"}, ["'resnet'", "linear, mlp"]),
        ({"scaling": "robust"}, ["'robust'", "standard"]),
        ({"optimiser": "lion"}, ["'lion'", "adam"]),
        ({"schedule": "linear"}, ["'linear'", "one-cycle"]),
        ({"method": "magic"}, ["'magic'", "proden"]),
        ({"method_params": {"alpha": 1}}, ["proden", "'alpha'"]),
        ({"random_state": "x"}, ["random_state is 'x'"]),
        ({"random_state": -1}, ["random_state is -1"]),
        ({"device": "abacus"}, ["'abacus'"]),
    ],
)
def test_settings_that_cannot_be_meant(settings, words):
    with pytest.raises(ValueError, match=r".") as caught:
        small(**settings).fit(X, MASK)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said():
    with pytest.raises(ValueError, match="'cuda', but torch sees no GPU"):
        small(device="cuda").fit(X, MASK)


def test_params_clone_and_pickle():
    model = small("rplg", method_params={"alpha": 0.3}, hidden=[5], random_state=7)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(lr=0.5, method_params={"alpha": 0.1}).lr == 0.5
    assert model.lr == 1e-2
    fitted = clone(model).fit(X, MASK)
    assert fitted.method_.alpha == 0.3
    assert not hasattr(clone(fitted), "net_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_a_method_can_be_given_whole():
    model = clone(small(Proden())).fit(X, MASK)
    np.testing.assert_array_equal(model.predict_proba(X), small().fit(X, MASK).predict_proba(X))


def test_nothing_without_a_fit():
    for use in (lambda m: m.predict(X), lambda m: m.predict_proba(X), lambda m: m.save("never")):
        with pytest.raises(NotFittedError):
            use(small())


@pytest.mark.parametrize("method", ["proden", "auto"])
def test_a_fit_that_is_stopped_leaves_no_mixture_of_two_models(method):
    model = small(method).fit(X, Candidates.from_mask(MASK, ["ant", "bee", "cow"]))

    def stop(row):
        raise KeyboardInterrupt

    model.set_params(callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Candidates.from_mask(MASK, ["x", "y", "z"]))
    with pytest.raises(NotFittedError):
        model.predict(X)


# ---- randomness -------------------------------------------------------------------------------


def test_fits_are_deterministic_and_leave_the_callers_generators_alone():
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = small("rplg", random_state=5).fit(X, MASK)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    torch.manual_seed(4)
    second = small("rplg", random_state=np.int64(5)).fit(X, MASK)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert first.history_ == second.history_
    first.fit(X, MASK)  # nothing of the first fit is left in the second
    np.testing.assert_array_equal(first.transduction_, second.transduction_)
    other = small("rplg", random_state=6).fit(X, MASK)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_random_state_none_and_generator():
    fits = [small(random_state=None).fit(X, MASK).predict_proba(X) for _ in range(2)]
    assert not np.array_equal(*fits)
    state = np.random.RandomState(0)
    fits = [small(random_state=state).fit(X, MASK).predict_proba(X) for _ in range(2)]
    assert not np.array_equal(*fits)
    again = small(random_state=np.random.RandomState(0)).fit(X, MASK).predict_proba(X)
    np.testing.assert_array_equal(again, fits[0])


# ---- what a fit leaves behind -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["rplg", "proden", "average", "sdct"])
def test_predictions_and_attributes(method):
    model = small(method, epochs=20)
    assert model.fit(X, pd.DataFrame(MASK, columns=NAMES)) is model
    assert model.classes_.tolist() == NAMES.tolist()
    p = model.predict_proba(X)
    assert p.shape == (N, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.predict(X).tolist() == NAMES[p.argmax(axis=1)].tolist()
    assert model.score(X, NAMES[Y]) > 0.9
    assert model.score(X, MASK) == np.mean(MASK[np.arange(N), p.argmax(axis=1)])
    assert [row["epoch"] for row in model.history_] == list(range(20))
    assert {"loss", "lr"} <= model.history_[0].keys()
    assert model.best_epoch_ == 19
    assert len(model.net_) == (2 if method == "sdct" else 1)


def test_predictions_do_not_depend_on_the_company():
    model = small().fit(X, MASK)
    alone = np.vstack([model.predict_proba(X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(alone, model.predict_proba(X)[:5], atol=1e-6)


def test_mixed_class_names_stay_what_they_are():
    model = small(epochs=15).fit(X, Candidates.from_mask(MASK, (1, "b", 2.5)))
    assert set(model.predict(X).tolist()) == {1, "b", 2.5}


def is_distribution_on(transduction, mask):
    assert transduction.shape == mask.shape
    assert (transduction >= 0).all()
    assert (transduction[~mask] == 0).all()
    np.testing.assert_allclose(transduction.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("method", ["rplg", "proden", "average"])
@pytest.mark.parametrize("patience", [None, 2])
def test_transduction_covers_all_rows_in_their_order(method, patience):
    model = small(method, epochs=20, patience=patience).fit(X, MASK)
    is_distribution_on(model.transduction_, MASK)
    assert np.mean(model.transduction_.argmax(axis=1) == Y) > (0.9 if patience is None else 0.6)
    alone = MASK.sum(axis=1) == 1
    np.testing.assert_array_equal(model.transduction_[alone], MASK[alone])


# ---- clean rows -------------------------------------------------------------------------------


def clean_vectors():
    every_third = np.arange(N) % 3 == 1
    text = np.where(every_third, NAMES[Y], None)
    numbers = pd.Series(np.where(every_third, Y, -1)).astype("Int64").mask(~every_third)
    return {
        "None": (text, NAMES),
        "list": (text.tolist(), NAMES),
        "tuple": (tuple(text), NAMES),
        "pandas": (pd.Series(text), NAMES),
        "pandas string": (pd.Series(text).astype("string"), NAMES),
        "categories": (pd.Categorical(text), NAMES),
        "polars": (pl.Series(text.tolist()), NAMES),
        "NaN": (np.where(every_third, Y, np.nan), range(3)),
        "tensor": (torch.from_numpy(np.where(every_third, Y, np.nan)), range(3)),
        "nullable": (numbers, range(3)),
        "pandas NA": (numbers.astype(object).to_numpy(), range(3)),
        "polars null": (pl.Series([int(v) if k else None for v, k in zip(Y, every_third)]), range(3)),
        "numbers as text": (np.where(every_third, Y.astype(str), None), range(3)),
    }


def test_labels_after_one_epoch_are_not_the_first_candidates():
    """Targets of RPLG+ are equal until a row is visited again: the model's opinion tells them apart."""
    model = small("rplg+", epochs=1).fit(X, MASK)
    several = MASK.sum(axis=1) > 1
    believed = model.transduction_.argmax(axis=1)
    assert (believed == model.predict_proba(X, allowed=MASK).argmax(axis=1))[several].all()
    assert (believed != MASK.argmax(axis=1))[several].any()
    np.testing.assert_allclose(model.transduction_.sum(axis=1), 1, atol=1e-6)


def test_another_fit_may_have_fewer_features_and_a_clean_pair():
    model = PartialLabelClassifier("proden", hidden=(8,), epochs=1, device="cpu").fit(X, MASK)
    model.fit(X[:, :3], MASK, clean=(X[:9, :3], Y[:9]))
    assert model.predict(X[:, :3]).shape == Y.shape
    with pytest.raises(ValueError, match="X has 4 features"):
        model.predict(X)


@pytest.mark.parametrize("clean", clean_vectors().values(), ids=clean_vectors())
def test_clean_vector(clean):
    labels, classes = clean
    candidates = MASK.copy()
    candidates[1] = [True, False, True]  # row 1 is a bee, whatever its candidates say
    model = small(clean_weight=1.0).fit(X, Candidates.from_mask(candidates, list(classes)), clean=labels)
    assert model.clean_source_ == "given"
    assert model.n_clean_ == N // 3
    assert model.n_selection_ == 0
    held = np.arange(N) % 3 == 1
    np.testing.assert_array_equal(model.transduction_[held], np.eye(3)[Y[held]])
    is_distribution_on(model.transduction_[~held], MASK[~held])


@pytest.mark.parametrize("kind", [tuple, list])
def test_clean_pair(kind):
    more, labels, _ = problem(30, seed=1)
    pair = kind((pd.DataFrame(more), labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small("rplg").fit(pd.DataFrame(X), MASK, clean=pair)
    assert (model.clean_source_, model.n_clean_) == ("given", 30)
    is_distribution_on(model.transduction_, MASK)
    assert "selection" in model.history_[0]


def test_clean_rows_change_the_model():
    more, labels, _ = problem(30, seed=1)
    with_clean = small(clean_weight=1.0).fit(X, MASK, clean=(more, labels))
    assert with_clean.history_[-1]["loss"] != small().fit(X, MASK).history_[-1]["loss"]


def test_clean_rows_nobody_uses_are_pointed_out():
    with pytest.warns(UserWarning, match="proden does not learn from the clean rows"):
        model = small(clean_weight=0.0).fit(X, MASK, clean=(X[:9], Y[:9]))
    assert model.clean_weight_ == 0.0


def test_the_defaults_are_what_the_records_favour():
    model = PartialLabelClassifier()
    assert (model.method, model.clean_weight) == ("rplg+", None)
    learned = small().fit(X, MASK, clean=(X[:9], Y[:9]))
    assert learned.clean_weight_ == 1.0
    assert [clean_weight(None, 9, images=True), clean_weight(0.0, 9, images=True)] == [0.5, 0.0]
    assert small().fit(X, MASK).clean_weight_ == 0.0
    with pytest.warns(UserWarning, match="does not learn"):  # one row alone cannot be normalised
        assert small().fit(X, MASK, clean=(X[:1], Y[:1])).clean_weight_ == 0.0


@pytest.mark.parametrize(
    ("clean", "words"),
    [
        ([None] * N, ["every entry is missing"]),
        ([None] * (N - 1), [f"({N - 1},)", f"{N} rows"]),
        ([None, None, "elk"] + [None] * (N - 3), ["clean[2] = 'elk'", "[0, 1, 2]"]),
        (np.where(Y == 0, -1, Y), ["clean[0] = -1", "None or NaN"]),
        (np.eye(3)[Y], [f"({N}, 3)"]),
        ((X, Y[:-1]), [f"X_clean has {N} rows", f"{N - 1}"]),
        ((X, np.eye(3)[Y]), ["y_clean has shape", "one label per row"]),
        ((X, ["elk"] * N), ["y_clean[0] = 'elk'"]),
        ((X, [np.nan] * N), ["y_clean", "every entry is missing"]),
        ((X[:, :2], Y), ["2 features"]),
        ((X, Y, Y), ["clean is a tuple of 3"]),
        ("ant", ["clean is a str"]),
        (7, ["clean is a int"]),
        (Y, ["n_samples = 0"]),
    ],
)
def test_clean_rows_that_cannot_be_used(clean, words):
    with pytest.raises(ValueError, match=r".") as caught:
        small("rplg").fit(X, MASK, clean=clean)
    for word in words:
        assert word in str(caught.value)


def test_without_clean_rows_rplg_says_that_it_learns_no_weights():
    mask = MASK.copy()
    mask[:60] = np.eye(3, dtype=bool)[Y[:60]]  # rows with one candidate are no clean rows
    with pytest.warns(UserWarning, match="no clean rows to learn the branch weights from"):
        model = small("rplg").fit(X, mask)
    assert (model.clean_source_, model.n_clean_, model.n_selection_) == ("none", 0, 0)
    assert model.trained_on_["rows"] == N
    is_distribution_on(model.transduction_, mask)


def test_patience_without_clean_rows_goes_by_held_out_sets():
    model = small(epochs=60, patience=3).fit(X, MASK)
    assert (model.clean_source_, model.n_clean_, model.n_selection_) == ("none", 0, round(0.1 * N))
    assert model.trained_on_["rows"] == N - model.n_selection_
    assert len(model.history_) == min(60, model.best_epoch_ + 4)
    assert not hasattr(model, "calibration_scores_")
    is_distribution_on(model.transduction_, MASK)


def test_no_clean_rows_where_nobody_asks_or_there_are_too_few():
    model = small().fit(X, MASK)
    assert (model.clean_source_, model.n_clean_) == ("none", 0)
    assert "selection" not in model.history_[0]
    with pytest.warns(UserWarning, match="patience = 3 has no effect: 8 rows"):
        small(patience=3).fit(X[:8], MASK[:8])
    with pytest.warns(UserWarning, match="clean_weight = 0.5 has no effect"):
        assert small(clean_weight=0.5).fit(X, MASK).n_clean_ == 0


def test_patience_stops_and_keeps_the_best_epoch():
    model = small(epochs=60, patience=3).fit(X, MASK, clean=(X, Y))
    scores = [row["selection"] for row in model.history_]
    assert len(scores) < 60
    assert model.best_epoch_ == int(np.argmax(scores)) == len(scores) - 4
    assert model.score(X, Y) == pytest.approx(max(scores))


def test_a_share_of_the_clean_rows_is_kept_for_selection():
    model = small("rplg", patience=50, selection_share=0.5).fit(X, MASK, clean=(X[:20], Y[:20]))
    assert (model.n_clean_, model.n_selection_) == (20, 10)
    everything = small("rplg", patience=50).fit(X, MASK, clean=(X[:20], Y[:20]))
    assert (everything.n_clean_, everything.n_selection_) == (20, 0)
    with pytest.raises(ValueError, match="1 clean rows are too few"):
        small("rplg", selection_share=0.5).fit(X, MASK, clean=(X[:1], Y[:1]))


# ---- with the rest of the library -------------------------------------------------------------


def test_pipeline_passes_clean_rows_on():
    pipeline = make_pipeline(StandardScaler(), small("rplg", scaling="none", epochs=20))
    clean = np.where(np.arange(N) % 4 == 0, Y, np.nan)
    pipeline.fit(X, MASK, partiallabelclassifier__clean=clean)
    assert pipeline[-1].n_clean_ == len(range(0, N, 4))
    assert pipeline.score(X, Y) > 0.9
    assert pipeline.score(X, MASK) > 0.9


def test_a_run_folder_continues_and_refuses_other_settings(tmp_path):
    first = small(run=tmp_path / "run", epochs=np.int64(6), lr=np.float32(0.01)).fit(X, MASK)
    assert (tmp_path / "run" / "done").exists()
    again = small(run=tmp_path / "run", epochs=6, lr=float(np.float32(0.01))).fit(X, MASK)
    assert again.history_ == first.history_
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    with pytest.raises(RunError, match="another recipe"):
        small(run=tmp_path / "run", epochs=7).fit(X, MASK)


def test_callbacks_hear_of_every_epoch():
    class Tracker:
        def __init__(self):
            self.heard = []

        def start(self, config):
            self.heard.append((config["method"], config["epochs"]))

        def log(self, row):
            self.heard.append(row["epoch"])

        def finish(self, summary):
            self.heard.append("end")

    rows, tracker = [], Tracker()
    model = small(callbacks=[rows.append, tracker]).fit(X, MASK)
    assert rows == model.history_
    assert tracker.heard == [("proden", 4), 0, 1, 2, 3, "end"]
    with pytest.raises(TypeError, match="'bell' can be told of no epoch"):
        small(callbacks=["bell"]).fit(X, MASK)


def test_no_epoch_is_begun_that_would_end_too_late():
    assert len(small(max_seconds=0).fit(X, MASK).history_) == 1  # one is always trained
    with pytest.raises(ValueError, match="max_seconds is -1"):
        small(max_seconds=-1).fit(X, MASK)


def test_a_budget_that_no_comparison_keeps_is_told_of():
    with pytest.warns(UserWarning, match="budget has no effect with method='proden'; set max_seconds"):
        small(budget=60).fit(X, MASK)


def test_an_encoder_is_kept_until_the_next_fit():
    class Encoder:
        feature_names = ("a", "b", "c", "d")

    model = small().fit(X, MASK)
    assert model.encoder_ is None
    encoder = Encoder()
    assert model.with_encoder(encoder).encoder_ is encoder
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.fit(X, MASK).encoder_ is None
    Encoder.feature_names = ("a",)
    with pytest.raises(ValueError, match="makes 1 features, but the model was fitted on 4"):
        model.with_encoder(encoder)


def test_the_recipe_can_be_read_before_a_fit():
    model = small(batch_size=7, max_seconds=60, random_state=3)
    recipe = model.recipe()
    assert (recipe.batch_size, recipe.max_seconds, recipe.seed, recipe.epochs) == (7, 60.0, 3, 4)


def test_progress_is_shown_where_asked(capsys):
    small(verbose=True).fit(X, MASK)
    assert "4/4" in capsys.readouterr().err
    small().fit(X, MASK)
    assert capsys.readouterr() == ("", "")
