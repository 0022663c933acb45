"""The card of a saved model says what was recorded, and nothing that was not."""

import pytest
from torch import nn

from oneof import Candidates
from oneof.classifier.persist.card import MARK, model_card
from tests.persist.folders import MASK, X, Y, fitted


def test_a_card_names_what_was_learned_from():
    model = fitted("pop", y=Candidates.from_mask(MASK, ["ant", "`bee`\n# x", "cow"]), hidden=(6, 5), lr=0.03)
    card = model_card(model)
    assert card.startswith(MARK)
    sizes = MASK.sum(axis=1)
    assert f"90 rows with {sizes.mean():.2f} candidates on average (at most 2)" in card
    assert f"{(sizes == 1).sum()} rows have only one" in card
    assert "3 classes: `ant`, `bee # x`, `cow`" in card  # a name is text, whatever it holds
    assert "clean rows: none" in card
    assert "method: pop; theta 0.001" in card
    assert "mlp, hidden (6, 5), batch_norm True" in card
    assert "lr 0.03" in card
    assert "nothing is known about the accuracy" in card
    assert "not calibrated; no labelled rows were given" in card
    assert "predict_set" not in card


@pytest.mark.parametrize(
    ("more", "words", "never"),
    [
        ({"clean_weight": 1}, ["nothing is known about the accuracy", "learned from all"], "kept aside:"),
        (
            {"clean_weight": 1, "selection_share": 0.5},
            ["accuracy on 30 rows kept aside: ", "calibrated on 30 rows", "60 with labels", "predict_set"],
            "optimistic",
        ),
        (
            {"clean_weight": 1, "selection_share": 0.5, "patience": 1},
            ["optimistic: these rows also chose the epoch", "not calibrated; those given to `fit` chose"],
            "predict_set",
        ),
    ],
)
def test_quality_is_claimed_only_where_it_was_measured(more, words, never):
    model = fitted(clean=(X[:60], Y[:60]), **more)
    card = model_card(model)
    for word in words:
        assert word in card
    assert never not in card
    if model.n_selection_:
        assert f"kept aside: {model.history_[model.best_epoch_]['selection']:.1%}" in card


def test_held_out_sets_that_chose_the_epoch_are_no_measured_accuracy():
    model = fitted(patience=1)
    card = model_card(model)
    assert f"predictions in their candidate set on {model.n_selection_} rows kept aside: " in card
    assert "accuracy on" not in card


def test_rows_given_later_for_calibration_are_no_measured_accuracy():
    card = model_card(fitted(clean=(X[:60], Y[:60]), clean_weight=1).calibrate(X, Y))
    assert "nothing is known about the accuracy" in card
    assert "calibrated on 90 rows" in card


def test_a_card_for_an_own_network_and_several_copies():
    card = model_card(fitted("sdct", net=nn.Linear(4, 3)))
    assert "one of the user's own, 2 copies" in card
    assert "net=MyNetwork()" in card
    assert "oneof predict" not in card
