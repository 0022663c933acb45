"""Times are about right, budgets are kept, and the copy that is measured leaves no trace."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from oneof.app.fit.plan import (
    Estimate,
    Limits,
    as_size,
    as_time,
    epochs_within,
    measure,
    one_thread_for_small_steps,
    parse_budget,
)
from oneof.candidates import Candidates
from oneof.classifier.estimator import PartialLabelClassifier
from tests.test_inputs import problem


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("90", 90), ("1.5 min", 90), (" 2H ", 7200)],
)
def test_budgets_as_people_write_them(text, seconds):
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0", "10x", "1h-2m", "s"])
def test_what_is_no_budget(text):
    with pytest.raises(ValueError, match="such as 30s, 10m"):
        parse_budget(text)


def estimate(epoch, setup=0.0):
    return Estimate(rows=1000, parameters=10, memory={"features": 1.0}, setup=setup, epoch=epoch)


def within(seconds, estimate, epochs, spent=0, net="mlp"):
    return epochs_within(Limits(seconds, None, time.perf_counter() - spent), estimate, epochs, net)


def test_epochs_that_fit_a_budget():
    epochs, note = within(1000, estimate(1.0), 100)
    assert epochs == 100
    assert "all 100 epochs fit" in note
    assert within(65, estimate(1.0, setup=1.5), 100, spent=10)[0] == int(0.9 * 50 - 1.5)
    assert Limits(65, None, time.perf_counter() - 10).left == pytest.approx(50, abs=0.5)
    epochs, note = within(60, estimate(100.0), 100)
    assert epochs == 1
    assert "not even one epoch fits" in note
    assert "a budget of 9 min or more" in note
    assert "teach little" not in within(60, estimate(1.0), 3)[1]


@pytest.mark.parametrize(
    ("net", "smaller"),
    [("mlp", "linear"), ("linear", None), ("resnet18", "lenet"), ("lenet", None)],
)
def test_a_smaller_net_is_one_that_takes_the_rows(net, smaller):
    note = within(60, estimate(100.0), 100, net=net)[1]
    assert ("smaller net" in note) == (smaller is not None)
    assert smaller is None or f"(--net {smaller})" in note


def test_measuring_changes_nothing_and_counts_parameters(tmp_path):
    x, y, mask = problem(600)
    candidates = Candidates.from_mask(mask)
    model = PartialLabelClassifier("proden", hidden=(20,), device="cpu", run=tmp_path / "run", epochs=30)
    before = repr(model.get_params())
    labels = np.where(np.arange(600) % 5, np.nan, y)
    for clean in (None, labels, (x[:50], y[:50])):
        found = measure(model, x, candidates, clean)
        assert found.rows == 600
        assert found.parameters == 4 * 20 + 2 * 20 + 20 * 3 + 3
        assert found.epoch > 0
        assert 0 < found.megabytes < 5
    assert repr(model.get_params()) == before
    assert not (tmp_path / "run").exists()
    assert not hasattr(model, "classes_")
    text = found.describe(30)
    assert "600 training rows, 183 parameters" in text
    assert "for 30 epochs" in text
    assert "for the whole comparison" in replace(found, trainings=8).describe(30)


@pytest.mark.parametrize("method", ["rplg", "cc", "auto"])
def test_few_rows_can_be_measured(method):
    x, _, mask = problem(12)
    assert measure(PartialLabelClassifier(method, device="cpu"), x, Candidates.from_mask(mask)).epoch > 0


def test_training_stops_in_time_and_gives_a_model():
    x, y, mask = problem(300)
    model = PartialLabelClassifier("proden", epochs=100_000, device="cpu", net="linear", max_seconds=0.5)
    began = time.perf_counter()
    model.fit(x, mask)
    assert 1 < len(model.history_) < 100_000
    assert time.perf_counter() - began < 20  # generous: other programs may be running
    assert model.predict(x).shape == y.shape


def test_numbers_for_people():
    assert [as_time(s) for s in (0.1, 0.7, 42, 150, 7000)] == [
        "less than a second",
        "a second",
        "42 s",
        "2 min",
        "1.9 h",
    ]
    assert [as_size(s) for s in (0.2, 42.4, 1234)] == ["1 MB", "42 MB", "1.2 GB"]


def test_small_steps_of_tables_have_one_thread_and_those_of_images_all(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    model, sets = PartialLabelClassifier("proden", device="cpu"), Candidates.from_labels([0, 1] * 20)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread_for_small_steps(model, (np.zeros((40, 5)), sets, None)):
            assert torch.get_num_threads() == 1
        with one_thread_for_small_steps(model, (np.zeros((40, 3, 8, 8)), sets, None)):
            assert torch.get_num_threads() == 2
        with one_thread_for_small_steps(model, (np.zeros((40, 5000)), sets, None)):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
