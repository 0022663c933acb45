"""Data as jobs see them: stored candidate sets come first, robbed sets lose their truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oneof.candidates import Candidates
from oneof.datasets import load
from oneof.lab import prepared
from oneof.lab.prepared import candidate_rule, prepare, without_truth


@pytest.fixture(autouse=True)
def nothing_remembered():
    prepared._prepare.cache_clear()
    yield
    prepared._prepare.cache_clear()


def test_stored_sets_are_taken_before_a_generator_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    truth = load("digits").y_train
    mask = np.zeros((len(truth), 10), dtype=bool)
    mask[np.arange(len(truth)), truth] = True
    mask[:, 3] = True
    (tmp_path / "candidates").mkdir()
    np.savez(tmp_path / "candidates" / "digits_mlp_r0.4.npz", seed0=np.packbits(mask, axis=1))
    monkeypatch.setattr("oneof.lab.prepared.beliefs", lambda *_, **__: pytest.fail("trained a generator"))
    found = prepare("digits", candidate_rule(10))
    np.testing.assert_array_equal(found.candidates.mask, mask)


def test_a_tenth_of_the_sets_loses_its_truth_and_none_is_empty():
    draw = np.random.default_rng(1)
    truth = draw.integers(0, 5, 1000)
    mask = draw.random((1000, 5)) < 0.2
    mask[np.arange(1000), truth] = True
    given = Candidates(mask, tuple("abcde"), truth)
    robbed = without_truth(given, 0.1)
    inside = robbed.mask[np.arange(1000), truth]
    assert (~inside).sum() == 100
    assert robbed.mask.any(axis=1).all()
    np.testing.assert_array_equal(robbed.mask[inside], mask[inside])
    assert without_truth(given, 0.1) == robbed


def test_a_robbed_job_finds_its_sets_again():
    whole, robbed = prepare("digits"), prepare("digits", robbed=0.1)
    assert robbed.rule is not None
    assert robbed.rule["robbed"] == 0.1
    assert prepare("digits", robbed.rule).hash == robbed.hash != whole.hash


def test_the_draws_of_several_data_sets_share_their_rows(monkeypatch):
    """A worker gets its jobs split by split, and of every split one data set after the other."""
    digits, loads = load("digits"), []
    monkeypatch.setattr(prepared, "load", lambda name: loads.append(name) or replace(digits, name=name))
    monkeypatch.setattr(
        prepared, "_drawn", lambda data, rule: Candidates.from_labels(data.y_train, range(10))
    )
    prepared._loaded.cache_clear()
    for seed in range(3):
        for name in ("a", "b", "c"):
            prepare(name, {"seed": seed})
    prepared._loaded.cache_clear()
    assert loads == ["a", "b", "c"]
