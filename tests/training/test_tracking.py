"""Trackers: what they are told, that they disturb nothing, and real event files read back."""

import sys

import numpy as np
import pytest

from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import Recipe, Run, Silent, train
from oneof.training.tracking import Several, TensorBoardTracker, Tracked, TrackingWarning, scalars


class Noted:
    """A tracker that remembers its calls."""

    def __init__(self):
        self.calls = []

    def start(self, config):
        self.calls.append(("start", dict(config)))

    def log(self, row):
        self.calls.append(("log", dict(row)))

    def finish(self, summary):
        self.calls.append(("finish", dict(summary)))


def short_training(progress, run=None, epochs=3, **recipe_settings):
    draw = np.random.default_rng(0)
    y = draw.integers(3, size=60)
    x = (np.eye(3)[y] + 0.3 * draw.normal(size=(60, 3))).astype(np.float32)
    mask = np.eye(3, dtype=bool)[y]
    mask[np.arange(60), (y + 1) % 3] |= draw.random(60) < 0.5
    net = lambda: build_net("linear", 3, 3)  # noqa: E731
    recipe = Recipe(epochs=epochs, batch_size=20, device="cpu", **recipe_settings)
    return train(
        make_method("proden"), net, x, Candidates.from_mask(mask), recipe=recipe, run=run, progress=progress
    )


def test_a_training_reports_to_the_tracker_and_stays_the_same():
    tracker = Noted()
    tracked = short_training(Several(Silent(), tracker, config={"seed": 0}))
    plain = short_training(None)
    kinds = [kind for kind, _ in tracker.calls]
    assert kinds == ["start", "log", "log", "log", "finish"]
    assert tracker.calls[0][1] == {"title": "proden", "epochs": 3, "done": 0, "seed": 0}
    assert tracker.calls[-1][1]["epoch"] == 2
    assert [row["loss"] for row in tracked.history] == [row["loss"] for row in plain.history]


def test_a_tracker_that_fails_is_told_once_and_the_training_ends_well():
    class Broken(Noted):
        def log(self, row):
            super().log(row)
            raise ConnectionError("out of reach")

    broken = Broken()
    with pytest.warns(TrackingWarning, match="out of reach") as said:
        trained = short_training(Tracked(broken))
    assert len(trained.history) == 3
    assert len(said) == 1
    assert [kind for kind, _ in broken.calls] == ["start", "log"]


def test_all_are_finished_even_if_one_cannot():
    class Bad(Silent):
        def finish(self):
            raise RuntimeError("no")

    tracker = Noted()
    with pytest.raises(RuntimeError, match="no"):
        Several(Bad(), tracker).finish()
    assert tracker.calls == [("finish", {})]


def test_a_display_is_closed_where_a_tracker_beside_it_cannot_start():
    class Missing(Noted):
        def start(self, config):
            raise ImportError("no such package")

    display, missing = Noted(), Missing()
    with pytest.raises(ImportError, match="no such package"):
        short_training(Several(display, missing))
    assert [kind for kind, _ in display.calls] == ["start", "finish"]
    assert not missing.calls


def test_scalars_are_the_numbers():
    row = {"epoch": 3, "loss": np.float32(0.5), "n": 2, "flag": True, "name": "x", "none": None}
    assert scalars(row) == {"loss": 0.5, "n": 2.0}


def test_a_missing_package_names_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r"oneof\[track-tensorboard\]"):
        TensorBoardTracker(tmp_path)


# ---- TensorBoard ------------------------------------------------------------------------------------


def curves(folder):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]
    }, events


def test_event_files_hold_the_learning_curve(tmp_path):
    tracker = TensorBoardTracker(tmp_path / "tensorboard")
    trained = short_training(Several(Silent(), tracker, config={"seed": 0}))
    found, events = curves(tmp_path / "tensorboard")
    wanted = [(row["epoch"], pytest.approx(row["loss"], rel=1e-6)) for row in trained.history]
    assert found["loss"] == wanted
    assert {name.split("/")[0] for name in events.Tags()["tensors"]} == {"config", "summary"}


@pytest.mark.parametrize("every", [1, 2, 10])
def test_a_continued_training_has_every_epoch_once(tmp_path, every):
    class Stop(Silent):
        def epoch(self, row):
            if row["epoch"] == 2:
                raise KeyboardInterrupt

    run = tmp_path / "run"
    progress = Several(TensorBoardTracker(tmp_path / "tensorboard"), Stop())
    with pytest.raises(KeyboardInterrupt):
        short_training(progress, Run(run), epochs=5, checkpoint_every=every)
    progress = Several(TensorBoardTracker(tmp_path / "tensorboard"))
    short_training(progress, Run(run), epochs=5, checkpoint_every=every)
    found, _ = curves(tmp_path / "tensorboard")
    assert [step for step, _ in found["loss"]] == [0, 1, 2, 3, 4]
