"""Features in reduced precision, in another memory order, compiled: the same net with the same numbers."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from oneof import Candidates, train
from oneof.methods import make_method
from oneof.methods.rplg.meta_gradient import META_GRADIENTS, LookAhead
from oneof.nets import Net, build_net
from oneof.nets.fast import (
    FastFeatures,
    takes_channels_last,
    uncompiled,
    with_fast_features,
    without_fast_features,
)
from oneof.training import CleanRows, Recipe
from oneof.training.recipe import choose_speed

SHAPE = (3, 8, 8)


def net_of(classes=4, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        return Net(features, nn.Linear(6, classes))


def images(n=8, seed=0):
    return torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def compiler():
    """Compiling changes settings of torch, which other tests shall not see."""
    from torch._dynamo import config as dynamo_config
    from torch._dynamo import reset
    from torch._functorch import config as functorch_config

    before = functorch_config.donated_buffer, dynamo_config.recompile_limit
    yield
    functorch_config.donated_buffer, dynamo_config.recompile_limit = before
    reset()


def compiled(net, rows):
    """Its features compiled as far as it goes without a C++ compiler."""
    for part in net.modules():
        if isinstance(part, FastFeatures):
            part.compile_for(rows, backend="aot_eager")
    return net


# ---- precision and memory order ---------------------------------------------------------------


class Bytes(nn.Module):
    """The first layer of a net that takes images as they are stored."""

    def forward(self, x):
        return x.float() / 255


def test_bytes_in_numbers_out():
    plain = net_of()
    plain.features = nn.Sequential(Bytes(), *plain.features)
    x = torch.randint(0, 256, (8, *SHAPE), dtype=torch.uint8)
    wrapped = with_fast_features(copy.deepcopy(plain), torch.bfloat16, False)
    assert wrapped.features(x).dtype == torch.float32
    torch.testing.assert_close(wrapped(x), plain(x), rtol=0.05, atol=0.05)


def test_a_net_of_ones_own_is_unwrapped_too():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            made = net_of()
            self.features, self.head = made.features, made.head

        def forward(self, x):
            return self.head(self.features(x))

    y = np.arange(24) % 4
    own, mask = Own(), np.eye(4, dtype=bool)[y]
    names = list(own.state_dict())
    recipe = Recipe(epochs=1, batch_size=8, device="cpu", precision="bf16")
    made = train(make_method("proden", {}), own, images(24), Candidates.from_mask(mask), recipe=recipe)
    assert not any(isinstance(part, FastFeatures) for part in made.state.modules())
    assert list(own.state_dict()) == names


@pytest.mark.parametrize("channels_last", [False, True])
def test_reduced_precision_is_close_and_comes_out_in_full(channels_last):
    plain, x = net_of(), images()
    fast = with_fast_features(copy.deepcopy(plain), torch.bfloat16, channels_last)
    inside = []
    fast.features.inner[3].register_forward_hook(lambda module, args, out: inside.append(out.dtype))
    expected, got = plain.features(x), fast.features(x)
    assert inside == [torch.bfloat16]
    assert got.dtype == torch.float32
    assert fast(x).dtype == torch.float32
    assert not torch.equal(got, expected)
    torch.testing.assert_close(got, expected, atol=0.02, rtol=0.02)


def test_memory_order_alone_changes_no_number():
    plain, x = net_of(), images()
    fast = with_fast_features(copy.deepcopy(plain), None, channels_last=True)
    assert fast.features.inner[0].weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(fast(x), plain(x))


@pytest.mark.parametrize(("x", "capabilities", "expected"), [
    (images(2), {"amx_bf16": True, "avx512_bf16": True}, (torch.bfloat16, True)),
    (images(2), {"amx_bf16": False, "avx512_bf16": True}, (torch.bfloat16, True)),
    (images(2), {"amx_bf16": False, "avx512_f": True}, (None, True)),
    (torch.zeros(2, 5), {"amx_bf16": True}, (None, False)),
])  # fmt: skip
def test_images_are_fast_by_default_where_the_processor_can(monkeypatch, x, capabilities, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    net = net_of() if x.ndim == 4 else build_net("mlp", 5, 3)
    speed = choose_speed(Recipe(), torch.device("cpu"), net, x, True)
    assert (speed.precision, speed.channels_last) == expected


class Viewing(nn.Module):
    """Convolutions whose end only one memory order allows."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 2, 3)

    def forward(self, x):
        return self.convolution(x).view(len(x), -1)


def test_a_net_that_views_its_maps_keeps_their_memory_order():
    net = Net(Viewing(), nn.Linear(72, 4))
    assert takes_channels_last(net_of(), images())
    assert not takes_channels_last(net, images())
    y = np.arange(24) % 4
    sets = Candidates.from_mask(np.eye(4, dtype=bool)[y])
    recipe = Recipe(epochs=1, batch_size=8, device="cpu")
    assert len(train(make_method("proden", {}), net, images(24), sets, recipe=recipe).history) == 1


def test_features_that_are_a_method_are_computed_as_they_are_written(monkeypatch):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = net_of().features, nn.Linear(6, 4)

        def features(self, x):
            return self.body(x)

        def forward(self, x):
            return self.head(self.features(x))

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    speed = choose_speed(Recipe(), torch.device("cpu"), Own(), images(2), True)
    assert not speed.wraps_features


def test_a_table_has_no_memory_order():
    net = with_fast_features(build_net("mlp", 5, 3), torch.bfloat16, channels_last=False)
    assert net(torch.zeros(2, 5)).shape == (2, 3)


def test_gradients_reach_all_weights_in_full_precision():
    net = with_fast_features(net_of(), torch.bfloat16, channels_last=True)
    net(images()).square().sum().backward()
    for parameter in net.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32


# ---- wrapping ---------------------------------------------------------------------------------


def test_unwrapping_leaves_the_net_as_it_was():
    net = net_of()
    features, before = net.features, {k: v.clone() for k, v in net.state_dict().items()}
    holder = nn.ModuleDict({"net": with_fast_features(net, torch.bfloat16, True)})
    assert not features[0].weight.is_contiguous()
    assert isinstance(net.features, FastFeatures)
    assert list(net.state_dict()) == list(before)  # the wrapper has no part in the names
    without_fast_features(holder)
    assert net.features is features
    assert features[0].weight.is_contiguous()
    assert list(net.state_dict()) == list(before)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


@pytest.mark.parametrize("first", [False, True])
def test_features_with_a_part_of_the_same_name_as_the_wrappers(first):
    parts = {"proj": nn.Linear(3, 3), "inner": nn.ModuleDict({"proj": nn.Linear(3, 3)})}
    features = nn.Module()
    for name in parts if first else reversed(parts):
        features.add_module(name, parts[name])
    plain = Net(features, nn.Linear(3, 2))
    wrapped = with_fast_features(copy.deepcopy(plain), torch.bfloat16, False)
    state = wrapped.state_dict()
    assert state.keys() == plain.state_dict().keys()
    assert all(torch.equal(value, state[name]) for name, value in plain.state_dict().items())
    wrapped.load_state_dict(state)


def test_a_copy_is_a_net_of_its_own():
    net = with_fast_features(net_of(), torch.bfloat16, True)
    twin = copy.deepcopy(net)
    x = images()
    assert torch.equal(twin(x), net(x))
    with torch.no_grad():
        next(twin.features.parameters()).add_(1)
    assert not torch.equal(twin(x), net(x))


def test_features_that_are_no_module_are_refused():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 2)

        def features(self, x):
            return x

    with pytest.raises(TypeError, match="Own: reduced precision needs a net whose `features` is a module"):
        with_fast_features(Own(), torch.bfloat16, False)


# ---- compiled ---------------------------------------------------------------------------------


def test_small_batches_are_compiled_and_large_ones_are_not(compiler):
    net = compiled(with_fast_features(net_of(), None, False), rows=8)
    calls = []
    run = net.features._compiled
    net.features._compiled = lambda x: calls.append(len(x)) or run(x)
    plain = net_of()
    for n in (8, 4, 9):
        torch.testing.assert_close(net(images(n)), plain(images(n)))
    assert calls == [8, 4]
    with uncompiled(net):
        net(images(8))
        assert net.features.compiled_rows == 0
    assert calls == [8, 4]
    assert net.features.compiled_rows == 8
    with pytest.raises(RuntimeError), uncompiled(net):
        raise RuntimeError
    assert net.features.compiled_rows == 8  # also after an error


@pytest.mark.parametrize("form", ["head", "difference", "exact"])
def test_look_aheads_of_compiled_features_have_the_same_numbers(form, compiler):
    x, clean = images(8), images(6, seed=1)
    mask = torch.ones(8, 4, dtype=torch.bool)
    clean_mask = torch.eye(4, dtype=torch.bool)[torch.tensor([0, 1, 2, 3, 0, 1])]

    def slopes(net):
        features = net.features(x)
        logits = net.head(features)
        ahead = LookAhead(net, x, features, logits, mask / 4.0, 0.1, clean, clean_mask)
        found = META_GRADIENTS[form](ahead)
        logits.sum().backward()  # the real step goes back through the same pass
        return found, [p.grad for p in net.parameters()]

    plain = with_fast_features(net_of(), None, False)
    quick = compiled(copy.deepcopy(plain), rows=8)
    (expected, gradients), (got, others) = slopes(plain), slopes(quick)
    torch.testing.assert_close(got, expected, atol=2e-6, rtol=1e-3)
    for a, b in zip(gradients, others):
        torch.testing.assert_close(a, b)
    for a, b in zip(plain.buffers(), quick.buffers()):
        torch.testing.assert_close(a, b)  # running statistics moved once


# ---- in the loop ------------------------------------------------------------------------------


def problem(n=64, classes=4):
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=n)
    x = rng.normal(size=(n, *SHAPE)).astype(np.float32)
    x += 2 * rng.normal(size=(classes, 3, 1, 1))[y].astype(np.float32)
    mask = np.eye(classes, dtype=bool)[y] | (rng.random((n, classes)) < 0.3)
    return x, Candidates.from_mask(mask, truth=y), CleanRows(x[:12], np.eye(classes, dtype=bool)[y[:12]])


@pytest.mark.parametrize("form", ["head", "difference", "exact"])
def test_rplg_trains_in_reduced_precision_on_a_cpu(form):
    x, sets, clean = problem()
    results = {}
    for precision in ("float32", "bf16"):
        recipe = Recipe(epochs=6, batch_size=16, lr=0.01, device="cpu", precision=precision)
        method = make_method("rplg", {"meta_gradient": form})
        results[precision] = train(method, net_of, x, sets, recipe=recipe, clean=clean)
    low, full = results["bf16"], results["float32"]
    assert low.history[-1]["loss"] < low.history[0]["loss"]
    assert low.history[-1]["loss"] == pytest.approx(full.history[-1]["loss"], abs=0.2)
    assert low.history != full.history
    # what comes out is the net without its wrapping
    assert list(low.state.net.state_dict()) == list(net_of().state_dict())
    assert not any(isinstance(part, FastFeatures) for part in low.state.modules())
