"""`method="auto"`: compared out of fold, bounded, resumable, and honest about baselines."""

import copy
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import oneof
from oneof import Candidates, PartialLabelClassifier
from oneof.app.fit_page.page import model_settings
from oneof.classifier import choice
from oneof.classifier.calibration import calibrated, tempered
from oneof.classifier.contenders import ChoiceData, Contender, row_folds
from oneof.classifier.inputs import one_hot
from oneof.classifier.rows import KnownRows
from oneof.classifier.scoring import calibration_scores
from oneof.classifier.settings import default_epochs, told_apart
from oneof.tables.importers import from_answers
from oneof.training import Recipe, RunError
from tests.test_inputs import problem

X, Y, MASK = problem()
N = len(Y)
CLEAN = np.where(np.arange(N) % 4 == 0, Y, np.nan)


def auto(**more):
    return PartialLabelClassifier("auto", **{"hidden": (8,), "epochs": 20, "device": "cpu", **more})


@pytest.fixture(scope="module")
def chosen():
    return auto().fit(X, Candidates.from_mask(MASK, ["ant", "bee", "cow"]))


def test_the_winner_is_a_model_like_any_other(chosen, tmp_path):
    assert chosen.get_params()["method"] == "auto"
    assert chosen.score(X, np.array(["ant", "bee", "cow"])[Y]) > 0.9
    plain = chosen.chosen_model()
    assert plain.method == chosen.settings_["method"] != "auto"
    np.testing.assert_array_equal(plain.predict_proba(X), chosen.predict_proba(X))
    chosen.save(tmp_path / "model")
    again = oneof.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(X), chosen.predict_proba(X), atol=1e-6)
    assert (again.selection_, again.selection_note_) == (chosen.selection_, chosen.selection_note_)
    assert again.temperature_ == chosen.temperature_
    assert chosen.selection_note_ in (tmp_path / "model" / "README.md").read_text()
    again.save(tmp_path / "again")
    assert oneof.load(tmp_path / "again").selection_ == chosen.selection_


def test_calibrating_the_chosen_model_leaves_the_choice_as_it_is(chosen):
    before, plain = chosen.predict_proba(X), chosen.chosen_model()
    plain.calibrate(X, np.array(["ant", "bee", "cow"])[Y])
    assert not np.allclose(plain.predict_proba(X), before, atol=1e-6)
    np.testing.assert_array_equal(chosen.predict_proba(X), before)


def test_the_selection_tells_how_it_was_made(chosen):
    first, *others = chosen.selection_
    wanted = {"name", "kind", "score", "standard_error", "rounds", "seconds", "chosen", "as_good"}
    assert wanted <= first.keys()
    assert first["chosen"]
    assert not any(row["chosen"] for row in others)
    assert first["rounds"] == 2
    methods = [row for row in chosen.selection_ if row["kind"] == "method"]
    assert {row["rounds"] for row in methods} >= {1, 2}  # some left after the first round
    assert [row["rounds"] for row in chosen.selection_ if row["kind"] == "baseline"] == [2]
    assert first["name"] in chosen.selection_note_


def test_training_rows_are_judged_by_models_that_have_not_seen_them(chosen):
    assert chosen.out_of_fold_.shape == MASK.shape
    np.testing.assert_allclose(chosen.out_of_fold_.sum(axis=1), 1)
    assert not np.allclose(chosen.out_of_fold_, chosen.predict_proba(X))
    assert np.mean(chosen.label_errors_.labels == Y) > 0.9
    ambiguous = MASK.sum(axis=1) > 1
    assert chosen.label_errors_.wrong[ambiguous].mean() < 0.1  # models that know the answer doubt little
    assert chosen.temperature_ > 0


def test_another_fit_forgets_the_choice(chosen):
    model = auto().fit(X, MASK)
    model.set_params(method="proden").fit(X, MASK)
    for name in ("selection_", "settings_", "out_of_fold_", "label_errors_", "temperature_"):
        assert not hasattr(model, name)
    assert model.chosen_model() is model


@pytest.mark.parametrize("kind", ["vector", "pair"])
def test_clean_rows_judge_where_there_are_some(kind):
    more, labels, _ = problem(30, seed=1)
    model = auto().fit(X, MASK, clean=CLEAN if kind == "vector" else (more, labels))
    assert {row["judged_by"] for row in model.selection_} == {"accuracy on clean rows"}
    assert "linear model, clean rows alone" in [row["name"] for row in model.selection_]
    assert model.score(X, Y) > 0.9
    if kind == "vector":
        assert (model.label_errors_.wrong[~np.isnan(CLEAN)] == 0).all()


def test_clean_rows_that_are_too_few_to_judge_leave_it_to_the_sets():
    model = auto(epochs=1).fit(X, MASK, clean=(X[:3], Y[:3]))
    assert {row["judged_by"] for row in model.selection_} == {"covering rate"}
    assert all(0 < row["score"] <= 1 for row in model.selection_ if row["rounds"])
    assert "was chosen: covering rate" in model.selection_note_


def test_one_clean_row_is_enough_for_a_fit():
    """It is held out by one of the folds, and then nothing can be learned from clean rows alone."""
    model = auto(epochs=1).fit(X, MASK, clean=np.where(np.arange(N) == 3, Y, np.nan))
    assert "linear model, clean rows alone" not in [row["name"] for row in model.selection_]
    assert model.transduction_[3].argmax() == Y[3]


def test_no_share_of_the_clean_rows_is_kept_aside():
    with pytest.raises(
        ValueError, match=r'selection_share is 0.5, but method="auto" judges by every clean row'
    ):
        auto(selection_share=0.5).fit(X, MASK, clean=CLEAN)


def test_a_baseline_that_wins_keeps_the_labels_that_were_given(monkeypatch):
    monkeypatch.setattr(
        choice, "ordered", lambda some, *_, **__: sorted(some, key=lambda c: not c.is_baseline)
    )
    against = np.where(np.isnan(CLEAN), np.nan, (Y + 1) % 3)  # nothing in the rows speaks for these labels
    model = auto(epochs=1).fit(X, MASK, clean=against)
    assert model.selection_[0]["kind"] == "baseline"
    assert model_settings(model)["method"] == f"{model.selection_[0]['name']} (a baseline)"
    given = ~np.isnan(against)
    np.testing.assert_array_equal(model.transduction_[given].argmax(axis=1), against[given])


def test_prediction_sets_go_by_the_probabilities_that_the_model_gives(monkeypatch):
    """Clean rows that nothing is learned from calibrate the last fit; the winner has a temperature, too."""
    monkeypatch.setattr(choice, "METHODS", ("proden",))
    monkeypatch.setattr("oneof.classifier.contenders.METHODS", ("proden",))
    monkeypatch.setattr("oneof.classifier.contenders.BASELINES", ())
    with pytest.warns(UserWarning, match="only evaluated"):
        model = auto(epochs=2, clean_weight=0.0).fit(X, MASK, clean=CLEAN)
    given = ~np.isnan(CLEAN)
    scores = calibration_scores(model.predict_proba(X[given]), Y[given])
    for name, found in model.calibration_scores_.items():
        np.testing.assert_allclose(found, scores[name], atol=1e-9)


def test_everything_is_repeatable():
    fits = [auto(random_state=3).fit(X, MASK) for _ in range(2)]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in fits))
    assert fits[0].selection_note_ == fits[1].selection_note_


def test_callbacks_hear_of_comparisons_and_of_the_last_fit():
    heard = []
    model = auto(callbacks=[heard.append]).fit(X, MASK)
    compared = [row for row in heard if "contender" in row]
    assert {row["round"] for row in compared} == {0, 1}
    assert all(0 <= row["score"] <= 1 for row in compared)
    assert heard[len(compared) :] == model.history_


def test_the_progress_of_a_choice_ends_at_its_total(capsys):
    auto(verbose=True).fit(X, MASK)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("choosing")]
    done, total = lines[-1].split()[1].split("/")
    assert done == total


def test_a_run_folder_continues_a_choice(tmp_path, monkeypatch):
    first = auto(run=tmp_path / "run").fit(X, MASK)
    fitted = []
    whole = choice.Comparison.fitted

    def counted(self, contender, data, last=False):
        fitted.append(last)
        return whole(self, contender, data, last)

    monkeypatch.setattr(choice.Comparison, "fitted", counted)
    again = auto(run=tmp_path / "run").fit(X, MASK)
    assert fitted == [True]  # all comparisons were read, only the last fit is looked up in its own run
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))
    auto(run=tmp_path / "other").fit(X[:60], MASK[:60])
    assert len(fitted) > 5


def test_a_run_folder_of_another_fit_is_refused_before_anything_is_compared(tmp_path, monkeypatch):
    PartialLabelClassifier("proden", epochs=1, device="cpu", run=tmp_path).fit(X, MASK)
    monkeypatch.setattr(choice.Comparison, "run", lambda self: pytest.fail("compared"))
    with pytest.raises(RunError, match="another folder, or delete this one"):
        auto(run=tmp_path).fit(X, MASK)


def own_net(inputs, n_classes, width=8):
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, n_classes)
    )


@pytest.mark.parametrize("what", ["random_state", "net"])
def test_a_run_folder_knows_its_folds_again_with_a_random_state_or_a_function(tmp_path, what):
    def fit(width=8):
        state = np.random.RandomState(1) if what == "random_state" else 1
        net = (lambda d, c: own_net(d, c, width)) if what == "net" else "mlp"
        auto(random_state=state, net=net, run=tmp_path / "run", epochs=3).fit(X, MASK)
        return {path.name for path in (tmp_path / "run" / "choice").iterdir()}

    first = fit()
    assert fit() == first
    if what == "net":
        shutil.rmtree(tmp_path / "run" / "checkpoint")  # of the last fit
        for file in ("config.json", "done"):
            (tmp_path / "run" / file).unlink()
        assert len(fit(width=5)) > len(first)  # another function of the same name


def test_folds_of_a_network_with_other_weights_are_others():
    def told(net):
        return told_apart(net, X, 3)

    net = own_net(X.shape[1], 3)
    assert told(net) == told(copy.deepcopy(net))
    assert told(net) != told(own_net(X.shape[1], 3))
    assert told(own_net) == told(lambda d, c: own_net(d, c))  # what it makes counts, not its name
    assert told(own_net) != told(lambda d, c: own_net(d, c, 9))


def test_what_a_stopped_run_had_decided_stays_decided(tmp_path, monkeypatch):
    """With a budget, lengths and what was left out depend on the clock: they are kept with the run."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(choice.time, "perf_counter", lambda: float(next(ticks)))
    first = auto(epochs=100, budget=12.0, run=tmp_path / "run").fit(X, MASK)
    monkeypatch.undo()
    again = auto(epochs=100, budget=600.0, run=tmp_path / "run").fit(X, MASK)
    assert [row["name"] for row in again.selection_] == [row["name"] for row in first.selection_]
    assert again.settings_ == first.settings_
    np.testing.assert_array_equal(again.predict_proba(X), first.predict_proba(X))


def test_a_budget_shortens_and_leaves_out(monkeypatch):
    """The clock is a counter: every look at it takes a second."""
    ticks = iter(range(10**6))
    monkeypatch.setattr(choice.time, "perf_counter", lambda: float(next(ticks)))
    free = auto(epochs=100).recipe(N).epochs
    model = auto(epochs=100, budget=12.0).fit(X, MASK)
    assert free == 100
    assert len(model.history_) < 100
    judged = sum(row["rounds"] for row in model.selection_ if row["kind"] == "method")
    assert 0 < judged < 8


def test_time_that_runs_out_in_the_second_round_was_spent_on_the_best_of_the_first(monkeypatch):
    """A weaker method that came earlier in the list was judged alone, and then lost to a baseline."""
    data = ChoiceData(X, Candidates.from_mask(np.eye(3, dtype=bool)[Y])).divided(None, 0)
    comparison = choice.Comparison(auto(epochs=2), data, 0)
    wrong = {"rplg+, linear, long": 0, "linear model, random candidate": 8, "proden, linear, long": 4}

    def opinion(self, contender, fold):
        every = wrong.get(contender.name, 1)  # one of so many rows
        return [np.eye(3)[np.where(every and fold.rows % max(every, 1) == 0, Y[fold.rows] - 1, Y[fold.rows])]]

    def out_of_time(self, contender):
        return not contender.is_baseline and any(c.rounds > 1 for c in self.contenders if not c.is_baseline)

    monkeypatch.setattr(choice.Comparison, "opinion", opinion)
    monkeypatch.setattr(choice.Comparison, "out_of_time", out_of_time)
    comparison.run()
    assert comparison.decided()[0].name == "rplg+, linear, long"


def test_a_budget_is_a_number_of_seconds():
    with pytest.raises(ValueError, match="budget is -1"):
        auto(budget=-1).fit(X, MASK)


@pytest.mark.filterwarnings("ignore")
def test_too_few_rows_for_folds():
    model = auto().fit(X[:4], MASK[:4])
    assert "without a comparison" in model.selection_note_
    assert model.predict(X).shape == (N,)


# ---- folds ------------------------------------------------------------------------------------


def test_folds_keep_groups_together():
    groups = np.arange(N) // 9
    held = row_folds(N, groups, seed=0)
    assert sorted(np.concatenate(held).tolist()) == list(range(N))
    for fold in held:
        assert not set(groups[fold]) & set(groups[np.setdiff1d(np.arange(N), fold)])
    assert row_folds(N, np.zeros(N), seed=0) == []
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), but there are 90 rows"):
        row_folds(N, [1, 2, 3], seed=0)
    for gap in (np.where(groups == 3, np.nan, groups), np.where(groups == 3, None, groups)):
        with pytest.raises(ValueError, match=r"groups\[27\] is missing"):
            row_folds(N, gap, seed=0)


def test_rows_of_one_scene_do_not_judge_each_other():
    """A net that knows a scene names somebody of its set: no sign that it knows who is in the picture."""
    rng = np.random.default_rng(0)
    scenes = rng.permutation(np.repeat(np.arange(12), 10))
    mask = np.array([[k in (s % 8, (3 * s + 1) % 8, 7) for k in range(8)] for s in scenes])
    mask[:20] = np.eye(8, dtype=bool)[np.arange(20) % 8]  # rows with one candidate
    data = ChoiceData(rng.normal(size=(120, 4)), Candidates.from_mask(mask)).divided(None, 0)
    apart = data.without_known_sets(0)
    kinds = data.candidates.compact.kinds()
    for held, _ in apart.folds:
        known = np.setdiff1d(np.arange(120), held)
        assert not set(kinds[held[held >= 20]]) & set(kinds[known[known >= 20]])
    assert sorted(np.concatenate([fold.rows for fold in apart.folds])) == list(range(120))
    few = data.candidates.take(np.flatnonzero(scenes < 3))  # as where there are few sets at all
    rest = ChoiceData(rng.normal(size=(len(few), 4)), few).divided(None, 0)
    assert rest.without_known_sets(0) is rest


def test_groups_reach_the_folds(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "oneof.classifier.contenders.row_folds", lambda n, g, s: seen.append(g) or row_folds(n, g, s)
    )
    groups = np.arange(N) // 9
    auto(epochs=1).fit(X, MASK, groups=groups)
    np.testing.assert_array_equal(seen[0], groups)


def test_clean_rows_of_a_fold_are_held_out_with_it():
    rows = np.flatnonzero(~np.isnan(CLEAN))
    clean = KnownRows(X[rows], one_hot(Y[rows], 3), of_x=rows)
    data = ChoiceData(X, Candidates.from_mask(MASK), clean).divided(None, 0)
    for fold in data.folds:
        assert set(rows[fold.clean]) == set(fold.rows) & set(rows)
        others = data.outside(fold)
        assert others.n_clean == len(rows) - len(fold.clean)
        np.testing.assert_array_equal(others.x[others.clean.of_x], others.clean.x)


# ---- how many labels are wrong ----------------------------------------------------------------


def judged_by_forty(seed):
    """A model that is too sure, right for nine labels in ten; 40 of 2,000 labels are known."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(5, 0.15), size=2000)
    y = (p.cumsum(axis=1) > rng.random((2000, 1))).argmax(axis=1)
    mask = np.eye(5, dtype=bool)[y] | (rng.random(p.shape) < 0.4)
    rows, sure, taken = np.arange(40), tempered(p, 0.6), []
    known = KnownRows(np.zeros((40, 1)), one_hot(y[rows], 5), of_x=rows)
    data = ChoiceData(np.zeros((2000, 1)), Candidates.from_mask(mask), known)
    fitted = SimpleNamespace(transduction_=np.where(mask, p, 0), set_temperature=taken.append)
    fitted.prepare, fitted.prepared_proba = (lambda x: x), (lambda x: sure)
    said, found = calibrated(fitted, Contender("a", "method", {}, sure, sure[rows]), data)
    np.testing.assert_allclose(said, tempered(sure, taken[0]))
    assert not found.wrong[rows].any()
    return taken[0], found.expected / ((found.labels != y)[40:]).sum()


@pytest.mark.filterwarnings("ignore")
def test_forty_clean_rows_tell_how_many_labels_are_wrong():
    """Four of the forty are wrong, more or less: alone they would be off by half."""
    t, ratio = np.array([judged_by_forty(seed) for seed in range(12)]).T
    assert np.abs(np.log(ratio)).mean() < 0.25
    assert np.abs(np.log(t * 0.6)).mean() < 0.15


# ---- answers ----------------------------------------------------------------------------------


def answered(each=15):
    """Answers of ten people who are right three times out of four; with 15 of them nobody is in doubt."""
    rng = np.random.default_rng(0)
    said = np.where(rng.random((N, each)) < 0.75, Y[:, None], rng.integers(3, size=(N, each)))
    people = rng.permuted(np.tile(np.arange(each), (N, 1)), axis=1)
    return from_answers(np.repeat(np.arange(N), each), people.ravel(), said.ravel(), classes=range(3))


def test_fifteen_answers_leave_few_labels_in_doubt():
    """The votes say what the features do not: errors are counted by both."""
    features = np.random.default_rng(1).normal(size=X.shape)  # nothing to learn
    found = auto().fit(features, answered().candidates).label_errors_
    assert (found.labels == Y).mean() > 0.95
    assert found.expected < 0.3 * N


# ---- length -----------------------------------------------------------------------------------


def test_the_length_goes_by_steps():
    sizes = (100, 800, 1_300, 4_800, 20_000, 100_000, 10**7)
    batches = [Recipe().rows_per_step(n) for n in sizes]
    assert batches == [16, 50, 64, 64, 250, 256, 256]
    assert [default_epochs(*both) for both in zip(sizes, batches)] == [100, 50, 40, 40, 38, 8, 4]
    assert PartialLabelClassifier().recipe(100_000).epochs == 8
    assert PartialLabelClassifier(epochs=3).recipe(100_000).epochs == 3
    assert PartialLabelClassifier().recipe().epochs == 100


def test_temperatures_are_those_of_the_folds(chosen):
    raw = tempered(chosen.out_of_fold_, 1 / chosen.temperature_)
    np.testing.assert_allclose(tempered(raw, chosen.temperature_), chosen.out_of_fold_, atol=1e-6)
