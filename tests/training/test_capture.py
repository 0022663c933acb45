"""Captured steps against eager ones (GPU), their bookkeeping, and checkpoints of other memory orders."""

import copy
import gc
import weakref
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from oneof.candidates import Candidates
from oneof.methods import list_methods, make_method
from oneof.methods.optimisers import like_parameters, make_optimiser
from oneof.methods.proden import Proden
from oneof.nets import Net
from oneof.nets.fast import with_fast_features
from oneof.training import CleanRows, Recipe, Run, RunError, capture, train
from oneof.training.capture import WARM_UP, CapturedStep
from oneof.training.checkpoint import load_tree, save_tree
from oneof.views import ImageViews
from tests.methods.harness import assert_same_fit, fit

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device")
CLASSES = 4
PLAIN = ("able", "dirk", "dirk-ref", "idgp", "pico", "plcr", "pop", "sdct", "valen")
METHODS = {name: (name, {}) for name in PLAIN} | {
    "proden": ("proden", {}),
    "head": ("rplg", {"meta_gradient": "head"}),
    "difference": ("rplg", {"meta_gradient": "difference"}),
    "exact": ("rplg", {"meta_gradient": "exact"}),
    "no rollback": ("rplg-no-rollback", {}),
    "new U": ("rplg-new-u", {}),
    "prior": ("rplg-prior", {}),
    "averaged": ("rplg-averaged", {}),
    "plus": ("rplg+", {}),
    "plus, few clean rows": ("rplg+", {"meta_hidden": 4, "clean_batch": 8}),
    "clean rows alone": ("clean-only", {}),
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


# ---- on a GPU ---------------------------------------------------------------------------------


@needs_gpu
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("method", METHODS)
def test_captured_steps_have_the_numbers_of_eager_ones(method, schedule, monkeypatch):
    recorded = []
    record = CapturedStep._record
    monkeypatch.setattr(CapturedStep, "_record", lambda *a: recorded.append(a) or record(*a))
    settings = {"device": "cuda", "precision": "float32", "schedule": schedule, "epochs": 6}
    fast, slow = (trained(method, **settings, speed=speed) for speed in ("graph", "eager"))
    assert recorded  # otherwise this compares eager steps with eager ones
    for a, b in zip(fast.history, slow.history):
        assert a["lr"] == pytest.approx(b["lr"], rel=1e-5)
        assert a["loss"] == pytest.approx(b["loss"], rel=2e-2)
        if "w_entropy" in b:
            assert a["w_entropy"] == pytest.approx(b["w_entropy"], rel=5e-2)
    np.testing.assert_allclose(fast.pseudo_labels, slow.pseudo_labels, atol=0.1)


@needs_gpu
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("method", ["proden", "head"])
def test_a_captured_training_continues_from_its_checkpoint(method, optimiser, tmp_path):
    settings = {"method": method, "optimiser": optimiser, "device": "cuda", "lr": 0.01}
    whole = trained(**settings)
    continued = interrupted(tmp_path, after=2, **settings)
    assert len(continued.history) == len(whole.history)
    for a, b in zip(continued.history, whole.history):
        assert a["loss"] == pytest.approx(b["loss"], rel=5e-2)


@needs_gpu
def test_views_of_a_captured_step_are_new_every_time():
    seen = []

    def step(x):
        seen.append(views.train(x, ("strong",), generator)[0])
        out.copy_(seen[-1])

    views, generator = ImageViews((0.5,) * 3, (0.25,) * 3), torch.Generator("cuda").manual_seed(0)
    x = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8, device="cuda")
    out = torch.zeros(4, 3, 32, 32, device="cuda")
    captured = CapturedStep(step, [generator])
    results = []
    for _ in range(WARM_UP + 3):
        captured("a stage", x)
        torch.cuda.synchronize()
        results.append(out.clone())
    assert len(seen) == WARM_UP + 1  # afterwards the graph is replayed
    for i, a in enumerate(results):
        assert not any(torch.equal(a, b) for b in results[:i])


# ---- bookkeeping, with a stand-in for the GPU -------------------------------------------------


class FakeGraph:
    """Records nothing: a replay calls the function on the recorded inputs again."""

    def __init__(self):
        self.generators, self.again = [], None

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def replay(self):
        self.again()


class FakeStream:
    def wait_stream(self, other):
        pass


@pytest.fixture
def fake_cuda(monkeypatch):
    graphs = []

    @contextmanager
    def recording(graph, **options):
        graphs.append(graph)
        yield

    @contextmanager
    def stream(_):
        yield

    cuda = capture.torch.cuda
    for name, value in {
        "Stream": FakeStream, "current_stream": FakeStream, "stream": stream, "CUDAGraph": FakeGraph,
        "graph": recording,
    }.items():  # fmt: skip
        monkeypatch.setattr(cuda, name, value)
    return graphs


def test_steps_warm_up_are_recorded_once_and_replayed_with_new_inputs(fake_cuda):
    calls, results = [], []

    def step(x):
        calls.append(x)
        if fake_cuda and fake_cuda[-1].again is None:
            fake_cuda[-1].again = lambda: results.append(x.item())

    generator = torch.Generator()
    captured = CapturedStep(step, [generator])
    for value in range(WARM_UP + 3):
        captured("first", torch.tensor(float(value)))
    assert len(calls) == WARM_UP + 1
    assert results == [3.0, 4.0, 5.0]  # each step ran once, with its own input
    assert fake_cuda[0].generators == [generator]
    captured("second", torch.tensor(9.0))  # another stage warms up and is recorded anew
    assert len(calls) == WARM_UP + 2
    for _ in range(WARM_UP):
        captured("second", torch.tensor(10.0))
    assert len(fake_cuda) == 2
    assert results[-1] == 10.0


@pytest.mark.parametrize("every", [1, 2, 3])
def test_stages_that_alternate_are_each_recorded_once(fake_cuda, every):
    calls = []

    def step(x):
        calls.append(x)
        if fake_cuda and fake_cuda[-1].again is None:
            fake_cuda[-1].again = lambda: None

    captured = CapturedStep(step)
    for i in range(60):
        captured(i % every == 0, torch.zeros(2))
    assert len(fake_cuda) == min(every, 2)
    assert len(calls) == len(fake_cuda) * (WARM_UP + 1)
    captured("a third stage", torch.zeros(2))
    assert len(captured.recordings) == 2  # the oldest is given up, and its memory


def test_a_recording_keeps_its_own_copies_of_the_inputs(fake_cuda):
    def step(x):
        if fake_cuda:
            fake_cuda[-1].again = lambda: None

    captured = CapturedStep(step)
    x = torch.zeros(2)
    for _ in range(WARM_UP + 1):
        captured(None, x)
    captured(None, torch.ones(2))
    assert x.tolist() == [0, 0]
    assert captured.recordings[None].inputs[0].tolist() == [1, 1]


# ---- memory order in checkpoints --------------------------------------------------------------


def test_no_earlier_graph_is_thrown_away_during_a_recording(fake_cuda):
    """CUDA fails there ("operation not permitted when stream is capturing"), and so did the recording."""

    class Circle:  # as a training that holds its graph: only the garbage collector frees it
        def __init__(self):
            self.itself = self

    seen, earlier = [], weakref.ref(Circle())

    def step(x):
        if fake_cuda:
            seen.append((gc.isenabled(), earlier()))
            fake_cuda[-1].again = lambda: None

    captured = CapturedStep(step)
    for _ in range(WARM_UP + 1):
        captured(None, torch.zeros(2))
    assert seen == [(False, None)]
    assert gc.isenabled()


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


@pytest.mark.parametrize("name", [info.name for info in list_methods() if make_method(info.name).capturable])
def test_a_recorded_step_keeps_the_numbers_of_its_recording_and_learns_the_same(name, monkeypatch):
    # as a graph does, on a CPU: numbers outside of tensors stay those of a stage's first step
    plain = fit(make_method(name))
    kind, recorded = type(make_method(name)), {}

    def replayed(hook):
        def run(self, state, batch, step):
            first = recorded.setdefault(self.stage(state, step), copy.copy(step))
            first.lr = step.lr  # a tensor there
            return hook(self, state, batch, first)

        return run

    for hook in ("loss", "after_step"):
        monkeypatch.setattr(kind, hook, replayed(getattr(kind, hook)))
    assert_same_fit(plain, fit(make_method(name)))


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
