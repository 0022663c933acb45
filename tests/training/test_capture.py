"""Captured steps against eager ones, their bookkeeping, and checkpoints of other memory orders.

On a GPU steps are recorded as CUDA graphs, elsewhere on a tape that does the same (tape.py)."""

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from oneof.candidates import Candidates
from oneof.methods import list_methods, make_method
from oneof.methods.base import Method
from oneof.methods.optimisers import like_parameters, make_optimiser
from oneof.methods.proden import Proden
from oneof.nets import Net
from oneof.nets.fast import with_fast_features
from oneof.training import CleanRows, Recipe, Run, RunError, ongoing, train
from oneof.training.capture import WARM_UP, CapturedStep
from oneof.training.checkpoint import load_tree, save_tree
from oneof.views import ImageViews
from tests.training import tape

CLASSES = 4
CAPTURABLE = [info.name for info in list_methods() if make_method(info.name).capturable]
STAGED = ("dirk-ref", "idgp", "pico", "plcr", "sdct", "valen")
"""What these compute changes with the stage; RPLG's stages only save time."""
METHODS = {name: (name, {}) for name in CAPTURABLE} | {
    "head": ("rplg", {"meta_gradient": "head"}),
    "difference": ("rplg", {"meta_gradient": "difference"}),
    "exact": ("rplg", {"meta_gradient": "exact"}),
    "plus, few clean rows": ("rplg+", {"meta_hidden": 4, "clean_batch": 8}),
}


def conv_net():
    features = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    return Net(features, nn.Linear(16, CLASSES))


def trained(method="proden", net=conv_net, run=None, epochs=4, cutout=3, **recipe):
    """A short training on images whose colour tells the class, weak and strong views included."""
    name, params = METHODS[method]
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=120)
    colours = rng.integers(40, 200, size=(CLASSES, 3, 1, 1))
    x = np.clip(colours[y] + rng.integers(-30, 31, size=(120, 3, 8, 8)), 0, 255).astype(np.uint8)
    mask = np.eye(CLASSES, dtype=bool)[y]
    mask[np.arange(120), (y + rng.integers(1, CLASSES, size=120)) % CLASSES] = True
    values = {"batch_size": 16, "optimiser": "sgd", "lr": 0.05, "weight_decay": 1e-3, "device": "cpu"}
    return train(
        make_method(name, params), net, x[:100], Candidates.from_mask(mask[:100], truth=y[:100]),
        recipe=Recipe(epochs=epochs, **({"schedule": "constant"} | values | recipe)),
        clean=CleanRows(x[100:], np.eye(CLASSES, dtype=bool)[y[100:]]),
        views=ImageViews((0.5,) * 3, (0.25,) * 3, cutout=cutout, pad=1), run=run,
    )  # fmt: skip


class Stop(Exception):
    """Raised by a progress display: as if the process had ended."""


def interrupted(folder, after, **more):
    """Train, fall over in the epoch after `after`, train on: the second training's result."""
    run = Run(folder)
    log = run.log

    def fall(row):
        if row["epoch"] == after:
            raise Stop
        log(row)

    run.log = fall  # type: ignore[method-assign]
    with pytest.raises(Stop):
        trained(run=run, checkpoint_every=1, **more)
    return trained(run=Run(folder), checkpoint_every=1, **more)


@pytest.fixture
def recordings(monkeypatch):
    """What is recorded from now on, and where: with `speed="graph"` all that is capturable is."""
    if torch.cuda.is_available():
        made, record = [], CapturedStep._record
        monkeypatch.setattr(CapturedStep, "_record", lambda *a: made.append(a) or record(*a))
        return made, "cuda"

    def chosen(recipe, device, net, example, capturable):
        found = choose(recipe, device, net, example, capturable)
        return replace(found, captured=capturable and recipe.speed == "graph")

    choose = ongoing.choose_speed
    monkeypatch.setattr(ongoing, "choose_speed", chosen)
    return tape.use(monkeypatch), "cpu"


# ---- the same numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_captured_steps_have_the_numbers_of_eager_ones(method, recordings):
    made, device = recordings
    settings = {"device": device, "precision": "float32", "schedule": "cosine", "epochs": 6}
    fast, slow = (trained(method, **settings, speed=speed) for speed in ("graph", "eager"))
    assert made  # otherwise this compares eager steps with eager ones
    close = 2e-2 if device == "cuda" else 1e-4
    for a, b in zip(fast.history, slow.history):
        assert a["lr"] == pytest.approx(b["lr"], rel=1e-5)
        assert a["loss"] == pytest.approx(b["loss"], rel=close)
        if "w_entropy" in b:
            assert a["w_entropy"] == pytest.approx(b["w_entropy"], rel=5e-2)
    np.testing.assert_allclose(fast.pseudo_labels, slow.pseudo_labels, atol=5 * close)


@pytest.mark.parametrize("method", STAGED)
def test_stages_are_needed_where_a_method_names_them(method, recordings, monkeypatch):
    _, device = recordings
    settings = {"device": device, "precision": "float32", "epochs": 6}
    slow = trained(method, **settings, speed="eager")
    monkeypatch.setattr(type(make_method(method)), "stage", Method.stage)
    fast = trained(method, **settings, speed="graph")
    assert any(a["loss"] != pytest.approx(b["loss"], rel=1e-3) for a, b in zip(fast.history, slow.history))


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("method", ["proden", "head"])
def test_a_captured_training_continues_from_its_checkpoint(method, optimiser, tmp_path, recordings):
    made, device = recordings
    settings = {"method": method, "optimiser": optimiser, "device": device, "speed": "graph", "lr": 0.01}
    whole = trained(**settings)
    continued = interrupted(tmp_path, after=2, **settings)
    assert made
    assert len(continued.history) == len(whole.history)
    for a, b in zip(continued.history, whole.history):
        assert a["loss"] == pytest.approx(b["loss"], rel=5e-2)


def test_views_of_a_captured_step_are_new_every_time(recordings):
    seen = []

    def step(x):
        seen.append(views.train(x, ("strong",), generator)[0])
        out.copy_(seen[-1])

    made, device = recordings
    views, generator = ImageViews((0.5,) * 3, (0.25,) * 3), torch.Generator(device).manual_seed(0)
    x = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, device=device)
    out = torch.zeros(4, 3, 32, 32, device=device)
    captured = CapturedStep(step, [generator])
    results = []
    for _ in range(WARM_UP + 3):
        captured("a stage", x)
        results.append(out.clone())
    assert len(seen) == WARM_UP + 1  # afterwards the graph is replayed
    assert len(made) == 1
    for i, a in enumerate(results):
        assert not any(torch.equal(a, b) for b in results[:i])


@pytest.mark.parametrize(
    "wait", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.nonzero(), lambda x: x.unique()]
)
def test_a_step_that_waits_for_the_gpu_cannot_be_recorded(wait, monkeypatch):
    tape.use(monkeypatch)
    captured = CapturedStep(wait)
    for _ in range(WARM_UP):
        captured(None, torch.ones(3))
    with pytest.raises(RuntimeError, match="waits for the GPU"):
        captured(None, torch.ones(3))


# ---- bookkeeping ------------------------------------------------------------------------------


@pytest.fixture
def tapes(monkeypatch):
    return tape.use(monkeypatch)


def test_steps_warm_up_are_recorded_once_and_replayed_with_new_inputs(tapes):
    calls, total = [], torch.zeros(())

    def step(x):
        calls.append(x)
        total.add_(x)

    generator = torch.Generator()
    captured = CapturedStep(step, [generator])
    for value in range(WARM_UP + 3):
        captured("first", torch.tensor(float(value)))
        assert total == sum(range(value + 1))  # each step ran once, with its own input
    assert len(calls) == WARM_UP + 1
    assert generator in tapes[0].generators
    captured("second", torch.tensor(9.0))  # another stage warms up and is recorded anew
    assert len(calls) == WARM_UP + 2
    for _ in range(WARM_UP):
        captured("second", torch.tensor(10.0))
    assert len(tapes) == 2
    assert total == sum(range(WARM_UP + 3)) + 9 + 10 * WARM_UP


@pytest.mark.parametrize("every", [1, 2, 3])
def test_stages_that_alternate_are_each_recorded_once(tapes, every):
    calls = []
    captured = CapturedStep(calls.append)
    for i in range(60):
        captured(i % every == 0, torch.zeros(2))
    assert len(tapes) == min(every, 2)
    assert len(calls) == len(tapes) * (WARM_UP + 1)
    captured("a third stage", torch.zeros(2))
    assert len(captured.recordings) == 2  # the oldest is given up, and its memory


def test_a_recording_keeps_its_own_copies_of_the_inputs(tapes):
    captured = CapturedStep(lambda x: None)
    x = torch.zeros(2)
    for _ in range(WARM_UP + 1):
        captured(None, x)
    captured(None, torch.ones(2))
    assert x.tolist() == [0, 0]
    assert captured.recordings[None].inputs[0].tolist() == [1, 1]


def test_no_earlier_graph_is_thrown_away_during_a_recording(tapes):
    """CUDA fails there ("operation not permitted when stream is capturing"), and so did the recording."""

    class Circle:  # as a training that holds its graph: only the garbage collector frees it
        def __init__(self):
            self.itself = self

    seen, earlier = [], weakref.ref(Circle())

    def step(x):
        if tapes:
            seen.append((gc.isenabled(), earlier()))

    captured = CapturedStep(step)
    for _ in range(WARM_UP + 1):
        captured(None, torch.zeros(2))
    assert seen == [(False, None)]
    assert gc.isenabled()


# ---- memory order in checkpoints --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_loaded_optimisers_have_the_memory_order_of_their_parameters(kind, tmp_path):
    def moved(optimiser, parameters):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter) * torch.arange(3).view(1, 3, 1, 1)
        optimiser.step()

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(4, 3, 3, 3, generator=generator)
    pairs = []
    for _ in range(2):
        parameter = nn.Parameter(start.clone(memory_format=torch.preserve_format).contiguous(
            memory_format=torch.channels_last
        ))  # fmt: skip
        pairs.append((parameter, make_optimiser(kind, [parameter], 0.1)))
        moved(pairs[-1][1], [parameter])
    (kept, straight), (parameter, optimiser) = pairs
    save_tree(tmp_path / "o.safetensors", optimiser.state_dict())
    optimiser.load_state_dict(load_tree(tmp_path / "o.safetensors"))
    like_parameters(optimiser)
    for value in optimiser.state[parameter].values():
        if value.shape == parameter.shape:
            assert value.stride() == parameter.stride()
    moved(straight, [kept])
    moved(optimiser, [parameter])
    assert torch.equal(parameter, kept)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("method", ["proden", "head"])
def test_a_net_in_channels_last_order_continues_bit_for_bit(method, optimiser, tmp_path):
    def net():
        return conv_net().to(memory_format=torch.channels_last)

    settings = {"method": method, "net": net, "optimiser": optimiser, "lr": 0.01}
    whole, continued = trained(**settings), interrupted(tmp_path, after=2, **settings)
    assert continued.history == whole.history
    for a, b in zip(whole.state.state_dict().values(), continued.state.state_dict().values()):
        assert torch.equal(a, b)


# ---- checkpoints do not depend on how fast a training ran ----------------------------------------


def test_wrapped_features_have_the_names_of_plain_ones():
    """A checkpoint of wrapped features fits a net without the wrapper, and the other way round."""
    plain, wrapped = conv_net(), with_fast_features(conv_net(), torch.bfloat16, channels_last=True)
    assert wrapped.state_dict().keys() == plain.state_dict().keys()
    wrapped.load_state_dict(plain.state_dict())
    for a, b in zip(plain.parameters(), wrapped.parameters()):
        assert torch.equal(a, b)
    plain.load_state_dict(wrapped.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        wrapped.load_state_dict({"head.weight": plain.head.weight, "head.bias": plain.head.bias})


def test_a_run_with_other_views_is_not_continued(tmp_path):
    trained(run=Run(tmp_path))
    with pytest.raises(RunError, match=r"holds a run with another views:\n.*'cutout': 3"):
        trained(run=Run(tmp_path), cutout=2)


def test_a_subclass_with_another_loss_is_not_recorded_unless_it_says_so():
    class Sharper(Proden):
        def loss(self, state, batch, step):
            return (1 + step.epoch) * super().loss(state, batch, step)  # a graph would keep the first epoch's

    class Renamed(Proden):
        """The loss is its parent's."""

    assert not Sharper.capturable
    assert not Sharper.shardable
    assert Renamed.capturable
    assert Renamed.shardable
