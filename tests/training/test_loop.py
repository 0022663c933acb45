import copy
import dataclasses
import io
import json
import signal
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from oneof.methods.base import Method, Restart, State
from oneof.methods.losses import cross_entropy
from oneof.methods.proden import Proden
from oneof.methods.rplg import Rplg
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, Run, RunError, TrainingError, train
from oneof.training.checkpoint import load_tree, save_tree
from oneof.training.loop import finish_epoch_on_interrupt
from oneof.training.progress import PlainLines, facts
from oneof.training.recipe import SCHEDULES, EarlyStopping
from oneof.training.sources import LoadedRows
from oneof.views import RowItself
from tests.methods.harness import C, D, assert_same_fit, blobs, fit, random_candidates, tiny_net


class Rows(Dataset):
    def __init__(self, x):
        self.x = torch.as_tensor(x)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


@pytest.mark.parametrize("workers", [0, 1])
def test_loaded_rows_give_the_same_fit_as_resident_ones(workers):
    resident = fit(Rplg())
    loaded = fit(Rplg(), x=Rows(blobs()[0]), recipe={"workers": workers})
    assert_same_fit(resident, loaded)


class Noise(Rows):
    def __getitem__(self, i):
        return torch.rand(2)


def test_workers_draw_other_numbers_in_every_epoch_and_the_same_again():
    rows = LoadedRows(Noise(np.zeros(8)), torch.device("cpu"), torch.float32, workers=1)
    orders = [torch.randperm(8, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1, 0)]
    first, second, again = (torch.cat([x for _, x in rows.batches(order, 4)]) for order in orders)
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "one-cycle", "multi-step"])
def test_every_optimiser_and_schedule_learns(optimiser, schedule):
    lr = 0.1 if optimiser == "sgd" else 1e-2
    trained = fit(Proden(), recipe={"optimiser": optimiser, "schedule": schedule, "lr": lr, "epochs": 12})
    assert trained.history[-1]["test"] > 0.85


def test_schedules_by_hand():
    recipe = Recipe(milestones=(0.5, 0.75))
    assert SCHEDULES["constant"](0.9, recipe) == 1
    assert SCHEDULES["cosine"](0.5, recipe) == pytest.approx(0.5)
    assert SCHEDULES["one-cycle"](0.0, recipe) == pytest.approx(1 / 25)
    assert SCHEDULES["one-cycle"](0.3, recipe) == pytest.approx(1)
    assert SCHEDULES["one-cycle"](1.0, recipe) == pytest.approx(1 / 25e4)
    assert [SCHEDULES["multi-step"](t, recipe) for t in (0.4, 0.5, 0.8)] == pytest.approx([1, 0.1, 0.01])
    # the one-cycle of torch has the same shape
    optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    reference = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1.0, total_steps=1001, cycle_momentum=False)
    for step in range(1000):
        expected = SCHEDULES["one-cycle"](step / 1000, recipe)
        assert optimiser.param_groups[0]["lr"] == pytest.approx(expected, abs=3e-3)
        optimiser.step()
        reference.step()


def test_early_stopping_keeps_the_best_epoch():
    stopping = EarlyStopping(patience=2)
    scores = [0.5, 0.7, 0.7, 0.6]
    assert [stopping.improved(s, e) for e, s in enumerate(scores)] == [True, True, False, False]
    assert stopping.best_epoch == 1
    assert not stopping.exhausted(2)
    assert stopping.exhausted(3)


def test_patience_ends_training_and_the_best_weights_are_kept():
    trained = fit(Proden(), recipe={"epochs": 60, "patience": 3, "lr": 0.05})
    assert len(trained.history) < 60
    scores = [row["selection"] for row in trained.history]
    assert trained.best_epoch == int(np.argmax(scores))
    assert len(scores) == trained.best_epoch + 4
    x_clean, y_clean = blobs(40, seed=5)
    with torch.no_grad():
        right = trained.state.net(torch.tensor(x_clean)).argmax(1).numpy() == y_clean
    assert right.mean() == pytest.approx(max(scores))


def test_batches_are_equal_and_every_row_is_seen_over_time():
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Watching(Method):
        watched = ()

        def loss(self, state, batch, step):
            seen.append(batch.index.clone())
            return cross_entropy(state.net(batch.views[0]), batch.candidates.float())

    Watching.info = Proden.info
    fit(Watching(), recipe={"batch_size": 50, "epochs": 10})
    assert {len(index) for index in seen} == {50}
    assert len(seen) == 10 * (120 // 50)
    for first, second in zip(seen[::2], seen[1::2]):
        assert len(torch.cat([first, second]).unique()) == 100
    assert len(torch.cat(seen).unique()) == 120


def test_an_epoch_ends_once_before_the_first_step_and_after_every_epoch():
    ended = []

    class Counting(Proden):
        def end_epoch(self, state, task, step):
            ended.append((step.epoch, step.step))

    fit(Counting(), recipe={"batch_size": 40, "epochs": 2})
    assert ended == [(-1, 0), (0, 3), (1, 6)]


def test_a_loss_is_one_value_per_row():
    class Wide(Proden):
        def loss(self, state, batch, step):
            return state.net(batch.views[0])

    with pytest.raises(
        TrainingError, match=r"the loss of proden has the shape .*; it must be one value for each"
    ):
        fit(Wide())


def test_more_rows_in_a_batch_than_there_are():
    assert len(fit(Proden(), recipe={"batch_size": 500}).history) == 4


def test_restart_makes_a_new_optimiser_and_survives_a_checkpoint(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Restarting(Proden):
        def setup(self, task):
            state = super().setup(task)
            state.register_buffer("phase", torch.zeros(()))
            return state

        def param_groups(self, state: State):
            parameters = list(state.net.parameters())
            return [{"params": parameters if state.phase > 0 else parameters[-2:], "lr": 0.01}]

        def end_epoch(self, state, task, step):
            if step.epoch == 2:
                state.phase += 1
                return Restart()
            return None

    Restarting.info = Proden.info
    recipe = {"epochs": 6, "checkpoint_every": 1}
    first = fit(Restarting(), recipe=recipe).state
    untouched = fit(Restarting(), recipe={**recipe, "epochs": 2}).state
    start = fit(Restarting(), recipe={"epochs": 1, "lr": 0.0}).state
    assert not torch.equal(first.net.features[0].weight, untouched.net.features[0].weight)
    assert torch.equal(untouched.net.features[0].weight, start.net.features[0].weight)


def test_a_loss_that_explodes_is_explained():
    with pytest.raises(TrainingError, match="Lower the learning rate, or scale the inputs"):
        fit(Proden(), kind="linear", recipe={"optimiser": "sgd", "lr": 1e38, "schedule": "constant"})


def test_inputs_and_candidates_must_match():
    with pytest.raises(ValueError, match="119 inputs but 120 candidate sets"):
        fit(Proden(), x=blobs()[0][:-1])


@pytest.mark.parametrize(
    ("field", "value"),
    [("epochs", 0), ("batch_size", 0), ("lr", -1.0), ("optimiser", "sgdd"), ("schedule", "x")],
)
def test_recipes_are_checked(field, value):
    with pytest.raises(ValueError, match=field):
        fit(Proden(), recipe={field: value})


# ---- run folders and checkpoints --------------------------------------------------------------


def test_a_run_folder_holds_everything(tmp_path):
    fit(Rplg(), recipe={"epochs": 3}, run=Run(tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["method"]["name"] == "rplg"
    assert config["method"]["alpha"] == 0.5
    assert config["clean"] == [40, "given"]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    saved = load_tree(tmp_path / "checkpoint" / "last.safetensors")
    assert {
        "branches.weight",
        "branches.weight_velocity",
        "meta.weight",
        "rows.mu",
        "rows.q",
        "net.head.weight",
    } <= saved["state"].keys()
    assert saved["own_optimisers"].keys() == {"meta"}
    assert saved["generators"].keys() == {"default", "order", "clean", "step"}
    assert json.loads((tmp_path / "done").read_text())["epochs"] == 3


def test_a_run_folder_refuses_another_configuration(tmp_path):
    fit(Proden(), recipe={"epochs": 2}, run=Run(tmp_path))
    with pytest.raises(RunError, match="another recipe"):
        fit(Proden(), recipe={"epochs": 3}, run=Run(tmp_path))
    with pytest.raises(RunError, match="another method"):
        fit(Rplg(), recipe={"epochs": 2}, run=Run(tmp_path))


def test_a_finished_run_is_not_run_again(tmp_path):
    first = fit(Rplg(), recipe={"epochs": 3}, run=Run(tmp_path))
    again = fit(Rplg(), recipe={"epochs": 3}, run=Run(tmp_path))
    assert_same_fit(first, again)


def test_trees_survive_the_round_trip(tmp_path):
    shared = torch.arange(6.0).reshape(2, 3)
    tree = {
        "a": {0: shared, 1: shared.T, "x": (1, 2.5, None, True)},
        "empty": {},
        "list": [torch.tensor(3), "text", [1e-300]],
        "bytes": torch.zeros(5, dtype=torch.uint8),
    }
    save_tree(tmp_path / "tree.safetensors", tree)
    back = load_tree(tmp_path / "tree.safetensors")
    assert torch.equal(back["a"][1], shared.T)
    assert back["a"]["x"] == (1, 2.5, None, True)
    assert back["list"][1:] == ["text", [1e-300]]
    assert [p.name for p in tmp_path.iterdir()] == ["tree.safetensors"]
    with pytest.raises(TypeError, match="cannot hold a object"):
        save_tree(tmp_path / "bad.safetensors", {"a": object()})
    assert [p.name for p in tmp_path.iterdir()] == ["tree.safetensors"]


# ---- clean rows -------------------------------------------------------------------------------


def test_a_part_of_the_clean_rows_selects():
    x, y = blobs(100)
    clean = CleanRows(x, np.eye(C, dtype=bool)[y])
    learn, select = clean.divide(0.4, seed=1)
    assert (len(learn), len(select)) == (60, 40)
    assert np.bincount(select.labels).tolist() == [10] * 4
    trained = fit(Rplg(), clean=learn, selection=select, recipe={"patience": 2, "epochs": 20})
    assert 0 <= trained.history[-1]["selection"] <= 1
    assert trained.facts["clean_rows"] == 60


def test_sets_as_clean_rows():
    x, y = blobs(40, seed=5)
    clean = CleanRows(x, random_candidates(y, special=False).mask, "held-out sets")
    assert clean.labels is None
    assert fit(Rplg(), clean=clean, recipe={"epochs": 12}).history[-1]["test"] > 0.85


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_clean_rows_in_the_loss_are_augmented_like_training_rows(weight):
    """Few images, always the same, would soon be known by heart. The look-ahead sees them as they are."""

    class Watched(RowItself):
        def __init__(self):
            self.seen = []

        def train(self, x, roles, generator):
            self.seen.append((len(x), roles))
            return (x,)

    views = Watched()
    recipe = {"epochs": 1, "batch_size": 16, "clean_weight": weight, "clean_batch": 7}
    fit(Rplg(), views=views, recipe=recipe)
    clean = [(7, ("strong",))] if weight else []
    assert views.seen[: 1 + len(clean)] == [(16, ("weak", "strong")), *clean]


# ---- small things -----------------------------------------------------------------------------


def test_plain_progress_is_about_ten_lines(capsys):
    fit(Proden(), recipe={"epochs": 30}, progress=PlainLines(), title="proden  blobs")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith("proden  blobs  30/30  loss")
    assert facts({"loss": 0.5, "selection": 0.25}) == "loss 0.500  clean 25.0%"


def test_a_module_and_a_factory_are_both_accepted():
    x, y = blobs()
    net = tiny_net()
    before = copy.deepcopy(net.state_dict())
    one, two = (
        train(Proden(), net, x, random_candidates(y), recipe=Recipe(epochs=1, device="cpu")) for _ in range(2)
    )
    assert one.history == two.history  # both begin with the given weights, which stay as they are
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    plain = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.ReLU(), torch.nn.Linear(8, C))
    trained = train(Proden(), plain, x, random_candidates(y), recipe=Recipe(epochs=5, device="cpu"))
    assert trained.state.net.head.out_features == C


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("form", ["exact", "difference", "head", "unrolled"])
def test_the_same_fit_on_a_gpu(form):
    cpu = fit(Rplg(meta_gradient=form), dtype=torch.float64)
    gpu = fit(Rplg(meta_gradient=form), dtype=torch.float64, recipe={"device": "cuda"})
    for a, b in zip(cpu.history, gpu.history):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-6)
    assert build_net("mlp", D, C) is not None


def test_ctrl_c_in_the_middle_of_a_line_stops_like_any_other(monkeypatch, capfd):
    class PressedWhileWriting(io.RawIOBase):
        def writable(self):
            return True

        def write(self, text):
            signal.raise_signal(signal.SIGINT)
            return len(text)

    stream = io.TextIOWrapper(io.BufferedWriter(PressedWhileWriting()), write_through=True)
    with finish_epoch_on_interrupt(True) as interrupt:
        monkeypatch.setattr(sys, "stderr", stream)
        print("20/200", file=stream, flush=True)
        monkeypatch.undo()
    assert interrupt.is_set()
    assert "finishing this epoch" in capfd.readouterr().err
