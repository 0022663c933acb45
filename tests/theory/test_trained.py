"""Trained models against the Bayes label, and the command as a whole."""

import dataclasses
import json
import sys

import numpy as np
import pytest
import torch

from oneof.app.commands.lab import Theory
from oneof.lab import LabError
from oneof.lab.theory.figure import save_figure
from oneof.lab.theory.posteriors import GaussianClasses
from oneof.lab.theory.trained import (
    agreement,
    candidate_sets,
    check_trained,
    pseudo_labels,
    settings,
)


@pytest.fixture(scope="module")
def quick():
    setting = dataclasses.replace(settings()[0], rows=1500, clean=150, epochs=15)
    return check_trained(setting, draws=1, seed=3)


def test_ties_are_shared():
    p = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(agreement(p, np.array([0, 1, 2])), [0.5, 1.0, 1 / 3])
    np.testing.assert_allclose(agreement(p, np.array([2, 0, 0])), [0.0, 0.0, 1 / 3])


def test_candidate_sets_are_those_of_the_paper():
    """The drawn label is in, and no set is a singleton or full."""
    rng = np.random.default_rng(0)
    eta = GaussianClasses().draw(rng, 2000).eta
    sets = candidate_sets(rng, eta, 0.4, seed=0)
    assert sets.sizes.min() == 2
    assert sets.sizes.max() == 5
    assert sets.mask[np.arange(2000), sets.truth].all()
    # instance-dependent: the runner-up is a candidate far more often than the least probable label
    order = np.argsort(-eta, axis=1)
    runner_up, last = (sets.mask[np.arange(2000), order[:, k]].mean() for k in (1, 5))
    assert runner_up > 0.9 > 0.3 > last


def test_everything_is_measured(quick):
    assert quick["epsilon"]["median"][0] < quick["epsilon"]["95 %"][0] <= quick["epsilon"]["max"][0] <= 1
    assert quick["p_j"]["2 epsilon (max)"][0] >= quick["p_j"]["2 epsilon (95 %)"][0]
    both = quick["rows_in"]["J"][0] + quick["rows_in"]["outside J"][0]
    assert sum(quick["curve"]["rows"]) == both
    assert both == round(quick["facts"]["Bayes label and a in the set"][0] * 1500)
    assert len(quick["curve"]["right"]) == 8
    for name, counts in quick["curve"]["right"].items():
        inside, outside = (quick["consistency"][r][name][0] for r in ("J", "outside J"))
        counted = inside * quick["rows_in"]["J"][0] + outside * quick["rows_in"]["outside J"][0]
        assert sum(counts) == pytest.approx(counted)


def test_the_branch_without_the_disturbing_label_is_right_more_often(quick):
    """The claim of the theory, a being known: on J branch a beats f and the mixture of all branches."""
    in_j = quick["consistency"]["J"]
    assert in_j["u^a"][0] > in_j["mu"][0] + 0.1
    assert in_j["u^a"][0] > in_j["v uniform"][0] + 0.1
    assert quick["fresh"]["J"]["phi^a"][0] > quick["fresh"]["J"]["f"][0] + 0.1
    assert quick["certain"]["phi"][0] > quick["certain"]["f"][0]


def test_pseudo_labels_are_distributions_on_the_candidates():
    class State:
        def __init__(self, meta):
            from oneof.methods.rplg.branches import WholeBranches
            from oneof.nets import linear

            self.net, self.branches = linear(3, 4), WholeBranches(4, 3)
            torch.nn.init.normal_(self.branches.weight)
            if meta:
                self.meta = torch.nn.Linear(3, 4)

    torch.manual_seed(0)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=torch.bool)
    a = torch.tensor([1, 0, 0])
    states = {"PRODEN": State(False), "RPLG-NM": State(False), "RPLG": State(True)}
    with torch.no_grad():
        found = pseudo_labels(states, torch.randn(3, 3), mask, a)
    for p in found.values():
        torch.testing.assert_close(p.sum(dim=1), torch.ones(3))
        assert (p[~mask] == 0).all()
    # a is left out where it is a candidate; with two candidates the other one is all that remains
    for name in ("u^a", "mu without a", "u^out without a"):
        assert found[name][[0, 1], a[:2]].tolist() == [0.0, 0.0]
        assert found[name][0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert found["v uniform"][0].tolist() == [0.5, 0.5, 0.0, 0.0]


def test_command_writes_tables_and_values(tmp_path, capsys):
    threads = torch.get_num_threads()
    assert Theory(out=tmp_path, rows=5000, draws=0, figures=False).run() == 0
    assert torch.get_num_threads() == threads
    assert "## Verdicts" in capsys.readouterr().out
    assert (tmp_path / "theory.md").read_text(encoding="utf-8").startswith("# The theory of RPLG")
    values = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert values["command"] == f"oneof theory --out {tmp_path} --rows 5000 --draws 0 --no-figures"
    assert all(verdict["holds"] for verdict in values["verdicts"])


def test_command_draws_the_figure(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    short = [dataclasses.replace(s, rows=300, clean=30, epochs=1) for s in settings()]
    monkeypatch.setattr("oneof.lab.theory.trained.settings", lambda: short)
    assert Theory(out=tmp_path, rows=5000, draws=1).run() == 0
    with image.open(tmp_path / "theory.png") as picture:
        assert picture.size[0] > 1000
    record = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert save_figure(record, tmp_path / "again.png").read_bytes() == (tmp_path / "theory.png").read_bytes()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"rows": 10}, "--rows 10"), ({"draws": -1}, "--draws -1"), ({"delta": 0.0}, "--delta 0")],
)
def test_command_refuses_what_cannot_be_meant(wrong, message):
    with pytest.raises(ValueError, match=message):
        Theory(**wrong).run()


def test_a_missing_matplotlib_is_noticed_first(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LabError, match=r"oneof\[report\]"):
        Theory(out=tmp_path).run()
    assert not list(tmp_path.iterdir())
