"""Who takes part in a choice, who is better, and the baselines it is measured by."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import oneof
from oneof import Candidates, PartialLabelClassifier
from oneof.classifier.contenders import ChoiceData, Contender, fit_baseline, portfolio, promising
from oneof.classifier.inputs import one_hot
from oneof.classifier.rows import KnownRows
from oneof.classifier.standings import as_good, further_criteria, note, ordered, table
from tests.test_choice import MASK, X, Y, answered, auto

# ---- who takes part, and who is better --------------------------------------------------------


def entries(**more):
    data = ChoiceData(X, Candidates.from_mask(MASK)).divided(None, 0)
    return {entry.name: entry.settings for entry in portfolio(auto(**more), data, 50)}


def test_the_portfolio_follows_what_was_asked_for():
    whole = entries()
    assert {s["net"] for s in whole.values()} == {"linear", "mlp"}
    assert {s.get("scaling") for s in whole.values()} == {None, "standard", "global"}
    assert whole["rplg+, mlp, short"]["epochs"] == 10
    assert whole["rplg+, mlp, long"]["epochs"] == 50
    assert {s["net"] for s in entries(net="linear").values()} == {"linear"}
    assert {s["scaling"] for s in entries(scaling="minmax").values() if "scaling" in s} == {"minmax"}
    own = entries(net=torch.nn.Linear(4, 3))
    assert all(name.split(", ")[1] == "own net" for name in own)


@pytest.mark.parametrize(("labels", "offered"), [([0, 1, 2], True), ([0, 1], False), ([0], False)])
def test_clean_rows_alone_take_part_where_they_name_every_class(labels, offered):
    """A model that learns from one class only is right on all clean rows, and useless."""
    rows = np.flatnonzero(np.isin(Y, labels))
    clean = KnownRows(X[rows], one_hot(Y[rows], 3), of_x=rows)
    data = ChoiceData(X, Candidates.from_mask(MASK), clean).divided(None, 0)
    there = [entry.name for entry in portfolio(auto(), data, 50)]
    assert ("linear model, clean rows alone" in there) == offered


def test_who_said_what_brings_the_crowd_method_in():
    data = ChoiceData(X, answered().candidates).divided(None, 0)
    methods = {c.settings["method"] for c in portfolio(auto(), data, 50) if not c.is_baseline}
    assert methods == {"proden", "rplg+", "crowd"}


def contender(name, hits, **settings):
    """One that is right (and inside its sets) for so many of ten rows."""
    p = np.where(np.arange(10) < hits, 0.9, 0.1)
    made = Contender(name, "method", {"method": "proden", "net": "mlp", "scaling": "standard", **settings})
    made.settings = {"epochs": 10, "lr": 1.0, **made.settings}
    made.probabilities = np.column_stack([p, 1 - p])
    made.clean_probabilities = np.zeros((0, 2))
    return made


def ten_rows():
    mask = np.tile([True, False], (10, 1))
    return ChoiceData(np.zeros((10, 1)), Candidates.from_mask(mask))


def all_first(n):
    """So many clean rows of the first class."""
    return KnownRows(np.zeros((n, 1)), one_hot(np.zeros(n), 2))


def test_the_better_one_wins_and_equals_come_in_the_order_of_the_records():
    data = ten_rows()
    bad, good = contender("bad", 2), contender("good", 9)
    assert ordered([bad, good], data) == [good, bad]
    linear, plus = contender("linear", 9, net="linear"), contender("plus", 9, method="rplg+")
    assert ordered([bad, good, plus], data, final=True) == [plus, good, bad]
    assert ordered([bad, linear, contender("mlp", 8)], data, final=True)[0] is linear  # data choose the net
    assert ordered([contender("short", 9, epochs=2), good], data, final=True)[0] is good
    almost = contender("almost", 8, method="rplg+")
    assert ordered([good, almost], data, final=True) == [almost, good]  # one row of ten tells nothing
    assert ordered([good, almost], data) == [good, almost]  # but nobody is preferred before the end
    assert as_good(np.array([1.0, np.nan, 0]), np.array([1.0, 1, 0]))


def test_a_baseline_that_is_no_better_leaves_the_place_to_a_method():
    data = ten_rows()
    plain = replace(contender("plain", 9, net="linear", method="random candidate"), kind="baseline")
    assert ordered([plain, contender("method", 8)], data, final=True)[0].name == "method"
    assert ordered([plain, contender("method", 3)], data, final=True)[0] is plain
    assert ordered([plain, contender("method", 8)], data)[0] is plain  # nobody is preferred before the end


def test_a_few_clean_rows_leave_the_word_to_the_sets():
    data = replace(ten_rows(), clean=all_first(2))
    lucky, good = contender("lucky", 4), contender("good", 9)
    lucky.clean_probabilities = np.array([[0.9, 0.1], [0.9, 0.1]])
    good.clean_probabilities = np.array([[0.1, 0.9], [0.9, 0.1]])
    assert ordered([lucky, good], data) == [good, lucky]
    for said in (0.9, np.nan):  # one row tells as little, and none says nothing
        one = replace(data, clean=all_first(1))
        lucky.clean_probabilities = np.array([[said, 1 - said]])
        good.clean_probabilities = np.array([[1 - said, said]])
        assert ordered([lucky, good], one) == [good, lucky]
        judged = {row["judged_by"] for row in table([good, lucky], [], one)}
        assert judged == {"covering rate" if np.isnan(said) else "accuracy on clean rows"}
    data = replace(data, clean=all_first(40))
    lucky.clean_probabilities = np.tile([0.9, 0.1], (40, 1))
    good.clean_probabilities = np.where(np.arange(40)[:, None] % 2, [0.9, 0.1], [0.1, 0.9])
    assert ordered([lucky, good], data) == [lucky, good]


@pytest.mark.filterwarnings("ignore:10 of 10 rows")
def test_support_counts_where_candidates_carry_evidence():
    data, sure = ten_rows(), contender("sure", 10)
    voted = Candidates(np.ones((10, 2), dtype=bool), "ab", evidence=np.tile([1.0, 4.0], 10))
    data = replace(data, candidates=voted)
    other = contender("other", 0)
    assert ordered([sure, other], data) == [other, sure]


def test_a_long_training_is_no_better_where_sets_are_noisy():
    data, short, long = ten_rows(), contender("short", 9, epochs=2), contender("long", 9)
    assert ordered([short, long], data, final=True)[0] is long
    noisy = replace(data, candidates=data.candidates.replace(truth_may_be_outside=True))
    assert ordered([short, long], noisy, final=True)[0] is short


def test_hopeless_contenders_are_left_out():
    data = ten_rows()
    standard = contender("a", 3, epochs=2, lr=0.3)
    scaled = contender("b", 9, epochs=2, lr=0.3, scaling="global")
    plus = contender("c", 0, epochs=2, lr=0.3, method="rplg+")
    assert promising(standard, [], data)
    assert not promising(plus, [standard, scaled], data)  # the scaling that served the first method worse
    plus = contender("c", 8, epochs=2, lr=0.3, method="rplg+", scaling="global")
    assert promising(plus, [standard, scaled], data)
    short = [standard, scaled, plus]
    assert not promising(contender("d", 0), short, data)
    assert promising(contender("e", 0, scaling="global"), short, data)


def test_the_note_says_when_a_baseline_is_as_good_or_better():
    row = {"name": "x", "kind": "method", "score": 0.8, "standard_error": 0.01, "judged_by": "covering rate"}
    plain = {**row, "name": "linear model", "kind": "baseline"}
    assert (
        note([{**row, "as_good": True}, {**plain, "as_good": False}])
        == "x was chosen: covering rate 0.800 ± 0.010."
    )
    assert "The baseline is as good: linear model has 0.800." in note([row, {**plain, "as_good": True}])
    assert "It is a baseline" in note([plain, row])


def test_the_note_says_why_a_lower_score_was_chosen():
    row = {"name": "x", "kind": "method", "score": 0.8, "standard_error": 0.01, "judged_by": "covering rate"}
    higher = {**row, "name": "y", "score": 0.81, "as_good": True}
    words = "y has 0.810, but these rows cannot tell the two apart: between equals, our benchmarks decide."
    assert words in note([row, higher])
    clean = {"judged_by": "accuracy on clean rows", "covering_rate": 0.9}
    told = note([{**row, **clean}, {**higher, **clean}])
    assert "between equals, the candidate sets and our benchmarks decide." in told
    assert "y has" not in note([row, {**higher, "as_good": False}])


@pytest.mark.parametrize("n_clean", [0, 40])
def test_a_table_names_all_that_decides(n_clean):
    """Two that are right on the same clean rows, but one of them is outside its sets more often."""
    data, good, bad = ten_rows(), contender("good", 9), contender("bad", 2)
    if n_clean:
        data = replace(data, clean=all_first(n_clean))
        good.clean_probabilities = bad.clean_probabilities = np.tile([0.9, 0.1], (n_clean, 1))
    made = table([good, bad], [], data)
    assert not made[1]["as_good"]
    assert further_criteria(made) == ([("covering rate", "covering_rate")] if n_clean else [])
    if n_clean:
        assert made[0]["score"] == made[1]["score"]
        assert made[0]["covering_rate"] > made[1]["covering_rate"]


# ---- baselines --------------------------------------------------------------------------------


def baseline(kind, rows=None, **more):
    """Fitted; `rows`: those whose label is known."""
    model = PartialLabelClassifier("average", net="linear", device="cpu", **more)
    clean = None if rows is None else KnownRows(X[rows], one_hot(Y[rows], 3))
    return fit_baseline(model, kind, ChoiceData(X, Candidates.from_mask(MASK), clean), seed=0)


def test_a_baseline_is_logistic_regression_in_a_net(tmp_path):
    from sklearn.linear_model import LogisticRegression

    model = baseline("clean rows alone", np.arange(30))
    same = LogisticRegression(max_iter=200).fit(model.prepare(X[:30]), Y[:30])
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(model.prepare(X)), atol=1e-4)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(oneof.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    assert baseline("random candidate").score(X, Y) > 0.8


def test_classes_that_no_label_names_are_never_predicted():
    assert set(baseline("clean rows alone", Y < 2).predict(X)) == {0, 1}
    assert set(baseline("clean rows alone", Y == 1).predict(X)) == {1}


def test_baselines_weigh_classes_as_methods_do():
    heavy = {"class_weight": {0: 50.0}}
    plain, weighted = baseline("random candidate"), baseline("random candidate", **heavy)
    assert weighted.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.05
    alone = baseline("clean rows alone", Y < 2, **heavy)  # their labels need no weights
    np.testing.assert_array_equal(
        alone.predict_proba(X), baseline("clean rows alone", Y < 2).predict_proba(X)
    )


def test_a_random_candidate_does_not_repeat_the_draw_of_the_sets():
    """Sets drawn with the same seed and shape would tell which candidate is the true one."""
    rng = np.random.default_rng(0)
    y = np.zeros(3000, dtype=int)
    mask = rng.random((3000, 4)) < 0.5
    mask[:, 0] = True
    from oneof.classifier.contenders import _likeliest

    share = np.mean(_likeliest(mask, 0) == y)
    assert share == pytest.approx(np.mean(1 / mask.sum(axis=1)), abs=0.04)
