"""Temperatures find back what was done to the logits; expected errors are as many as there are."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from oneof import PartialLabelClassifier
from oneof.classifier.calibration import cool, label_errors, temperature, tempered
from tests.test_inputs import problem

X, Y, MASK = problem()


def drawn(n=4000, c=4, seed=0):
    """Probabilities, and labels drawn from them: a model that is exactly as sure as it should be."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(c), size=n)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return p, y, rng


@pytest.mark.parametrize("t", [0.4, 1.0, 3.0])
def test_known_labels_find_the_temperature(t):
    p, y, _ = drawn()
    assert temperature(tempered(p, 1 / t), np.eye(4, dtype=bool)[y]) == pytest.approx(t, rel=0.1)


def test_sets_whose_other_labels_mean_nothing_find_it_too():
    p, y, rng = drawn()
    sets = np.eye(4, dtype=bool)[y] | (rng.random((len(y), 4)) < 0.3)
    assert temperature(tempered(p, 0.5), sets) == pytest.approx(2.0, rel=0.1)


def test_rows_that_say_nothing_change_nothing():
    assert temperature(np.full((5, 3), 1 / 3), np.ones((5, 3), dtype=bool)) == 1.0
    assert temperature(np.full((5, 3), 1 / 3), np.zeros((5, 3), dtype=bool)) == 1.0


@given(st.floats(0.1, 10))
def test_the_order_of_classes_stays(t):
    p, _, _ = drawn(50)
    cooled = tempered(p, t)
    np.testing.assert_allclose(cooled.sum(axis=1), 1)
    np.testing.assert_array_equal(cooled.argmax(axis=1), p.argmax(axis=1))


def test_the_last_layer_takes_the_temperature():
    net = nn.Module()
    net.head = nn.Linear(3, 2)
    before = net.head(torch.ones(1, 3))
    assert cool([net, net], 2.0)  # a head that two nets share is divided once
    torch.testing.assert_close(net.head(torch.ones(1, 3)), before / 2)
    net.head = nn.Sequential(nn.Linear(3, 2))
    with pytest.warns(UserWarning, match="probabilities stay as they are"):
        assert not cool([net], 2.0)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_head_whose_weights_are_made_of_others_stays_as_it_is(name):
    """What is divided there is made anew in every call."""

    class Twice(nn.Module):
        def forward(self, values):
            return 2 * values

    net = nn.Module()
    net.head = nn.utils.parametrize.register_parametrization(nn.Linear(3, 2), name, Twice())
    before = net.head.weight.clone(), net.head.bias.clone()
    with pytest.warns(UserWarning, match="without weight_norm or another parametrization"):
        assert not cool([net], 2.0)
    assert torch.equal(net.head.weight, before[0])
    assert torch.equal(net.head.bias, before[1])


def test_calibrating_changes_how_sure_a_model_is_and_nothing_else(tmp_path):
    import oneof

    model = PartialLabelClassifier("proden", hidden=(8,), epochs=4, device="cpu").fit(X, MASK)
    before, labels = model.predict_proba(X), model.predict(X)
    unsure = np.where(np.arange(len(Y)) % 5 == 0, (Y + 1) % 3, Y)  # every fifth label is another one
    model.calibrate(X, unsure)
    after = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), labels)
    np.testing.assert_allclose(after, tempered(before, model.temperature_), atol=1e-5)
    assert after.max(axis=1).mean() == pytest.approx(np.mean(labels == unsure), abs=0.1)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(oneof.load(tmp_path / "model").predict_proba(X), after, atol=1e-6)
    assert not hasattr(model.fit(X, MASK), "temperature_")


def test_few_rows_or_a_wish_leave_probabilities_alone():
    model = PartialLabelClassifier("proden", hidden=(8,), epochs=4, device="cpu").fit(X, MASK)
    before = model.predict_proba(X)
    model.calibrate(X[:10], Y[:10]).calibrate(X, Y, probabilities=False)
    np.testing.assert_array_equal(model.predict_proba(X), before)


# ---- how many labels are wrong ----------------------------------------------------------------


def test_as_many_errors_are_expected_as_there_are():
    p, y, rng = drawn()
    sets = np.eye(4, dtype=bool)[y] | (rng.random((len(y), 4)) < 0.4)
    found = label_errors(p, sets)
    wrong = found.labels != y
    assert found.expected == pytest.approx(wrong.sum(), rel=0.1)
    assert sets[np.arange(len(y)), found.labels].all()
    assert len(found.first) == found.expected
    assert wrong[found.first].mean() > 1.5 * wrong.mean()
    assert (np.diff(found.wrong[found.rows]) <= 0).all()


def test_known_labels_are_not_doubted():
    p, y, rng = drawn()
    sets = np.eye(4, dtype=bool)[y] | (rng.random((len(y), 4)) < 0.4)
    trusted = np.arange(len(y)) % 10 == 0
    found = label_errors(p, sets, trusted=trusted)
    assert (found.wrong[trusted] == 0).all()
    assert found.expected == pytest.approx(((found.labels != y) & ~trusted).sum(), rel=0.15)


def test_a_label_may_be_wrong_because_the_right_one_is_no_candidate():
    p, sets = np.array([[0.2, 0.2, 0.6]]), np.array([[True, True, False]])
    assert label_errors(p, sets).wrong.tolist() == [0.5]
    assert label_errors(p, np.ones_like(sets), labels=np.array([0])).wrong.tolist() == [0.8]
    assert label_errors(p, sets, labels=np.array([2])).wrong.tolist() == [1.0]


@pytest.mark.parametrize("n", [20, 100])
def test_rows_that_are_all_right_do_not_make_a_model_certain(n):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((n, 4)) + 4 * np.eye(4)[np.arange(n) % 4]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    mask = np.eye(4, dtype=bool)[p.argmax(axis=1)]
    sure = tempered(p, temperature(p, mask)).max(axis=1).mean()
    assert sure == pytest.approx((n + 1) / (n + 2), abs=1e-6)


def test_few_known_labels_move_an_expected_temperature_a_little_and_many_find_it():
    p, y, _ = drawn()
    right, sharp = np.eye(4, dtype=bool)[y], tempered(p, 0.5)  # 2.0 is the truth
    found = [temperature(sharp[:n], right[:n], expected=1.0) for n in (5, 50, 4000)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(1.0, abs=0.4)
    assert found[2] == pytest.approx(2.0, rel=0.1)
    assert temperature(sharp[:0], right[:0], expected=1.7) == 1.7


def test_all_of_a_few_rows_right_is_no_certainty():
    """Where a temperature is expected, that says it."""
    p, _, _ = drawn()
    best = np.eye(4, dtype=bool)[p.argmax(axis=1)]
    assert temperature(p[:8], best[:8], expected=1.0) > 0.4
