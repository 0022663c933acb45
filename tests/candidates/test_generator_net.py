"""The clean generator: trained once, kept, used again."""

import json

import numpy as np
import pytest

from oneof.app.commands.candidates import CandidatesGenerate
from oneof.candidates.generate import instance_sets
from oneof.datasets import DataError, DataSet, load
from oneof.lab import generator as generator_net
from oneof.lab.generator import GENERATORS, beliefs

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")


def small_digits():
    data = load("digits")
    return DataSet("digits", data.x_train[:300], data.y_train[:300], data.classes, facts=data.facts)


def test_it_is_trained_once_and_kept(tmp_path, monkeypatch):
    data = small_digits()
    first = beliefs(data, tmp_path, epochs=3, device="cpu")
    assert first.q.shape == (300, 10)
    np.testing.assert_allclose(first.q.sum(axis=1), 1, atol=1e-5)
    assert (first.q[np.arange(300), data.y_train] == 0).all()
    inside = tmp_path / "candidates"
    assert sorted(p.name for p in inside.iterdir()) == [
        "digits_mlp.json",
        "digits_mlp.safetensors",
        "digits_mlp_q.npy",
    ]
    facts = json.loads((inside / "digits_mlp.json").read_text())["generator"]
    assert 0.5 < facts["train_accuracy"] <= 1
    assert facts["recipe"]["epochs"] == 3

    def never(*_, **__):
        raise AssertionError("the generator is trained a second time")

    monkeypatch.setattr(generator_net, "train", never)
    again = beliefs(data, tmp_path)
    np.testing.assert_array_equal(again.q, first.q)
    assert again.facts["generator"] == facts
    one = instance_sets(data.y_train, 0.4, 0, q=again.q)
    assert one == instance_sets(data.y_train, 0.4, 0, q=first.q)


def test_a_generator_of_other_labels_is_not_used(tmp_path):
    data = small_digits()
    beliefs(data, tmp_path, epochs=1, device="cpu")
    other = DataSet("digits", data.x_train, np.roll(data.y_train, 1), data.classes)
    with pytest.raises(DataError, match="made from other labels"):
        beliefs(other, tmp_path)
    with pytest.raises(DataError, match="made by 1 epochs of training, not 2"):
        beliefs(data, tmp_path, epochs=2)
    fewer = DataSet("digits", data.x_train[:9], data.y_train[:9], data.classes)
    with pytest.raises(DataError, match="q has shape"):
        beliefs(fewer, tmp_path)


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_the_nets_of_the_image_sets_take_bytes(tmp_path, name):
    from oneof.datasets.registry import entry

    known = entry(name)
    rng = np.random.default_rng(0)
    x = rng.integers(256, size=(16, *known.shape), dtype=np.uint8)
    y = rng.integers(4, size=16)
    data = DataSet(name, x, y, tuple(range(4)), x_test=x[:8], y_test=y[:8], facts=known.facts)
    made = beliefs(data, tmp_path, epochs=1, device="cpu")
    assert made.q.shape == (16, 4)
    assert made.facts["generator"]["test_accuracy"] is not None


def test_the_command_prints_the_facts_and_trains_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    command = CandidatesGenerate("digits", rate=0.4, seed=0, epochs=1, device="cpu")
    assert command.run() == 0
    said, progress = capsys.readouterr()
    assert progress.startswith("a network is trained to draw candidate sets for digits: 1 epochs")
    for words in (
        "generator mlp, train accuracy",
        "candidates per row",
        "singletons",
        "sizes: ",
        "most probable wrong",
    ):
        assert words in said
    assert command.run() == 0
    assert capsys.readouterr() == (said, "")
