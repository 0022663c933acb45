"""A net is a pair: `features(x)` gives the representation, `head(h)` the logits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy


class Net(nn.Module):
    """Features followed by a head; the shape every method of the library expects.

    Parameters
    ----------
    features : nn.Module
        Maps a batch of inputs to vectors (batch, d).
    head : nn.Module
        Maps these vectors to logits (batch, classes); an `nn.Linear` for everything that works
        on the last layer alone.
    """

    def __init__(self, features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def as_net(module: Any, example: Tensor | None = None, n_classes: int | None = None) -> Net:
    """A user's network as a pair of features and head.

    Accepted are a pair `(features, head)`, a module that has both as attributes, and any module
    whose last `nn.Linear` is also the last thing it applies. The module given is copied, never
    changed. With `example` (a small batch) the pair is tried out and compared with the original.
    """
    pair = isinstance(module, tuple | list) and len(module) == 2
    parts = module if pair else (module,)
    if not all(isinstance(part, nn.Module) for part in parts):
        raise TypeError(
            f"a net is an nn.Module or a pair (features, head) of them, "
            f"not {type(module).__name__}: {module!r}"
        )
    made: Any = Net(*copy.deepcopy(tuple(parts))) if pair else copy.deepcopy(module)
    title = "the pair (features, head)" if pair else type(module).__name__
    if example is not None:
        reference = next((p for p in made.parameters() if not is_lazy(p)), example)
        example = example.to(reference.device, reference.dtype)
        expected = _tried(made, example, title)
    if not (callable(getattr(made, "features", None)) and callable(getattr(made, "head", None))):
        made = _cut_last_linear(made)
    if example is not None:
        _compare(made, example, expected, title, n_classes)
    return made


def called(net: Any, x: Any, n_classes: int) -> Any:
    """The network that a class or a function makes for inputs like x; any other as it is."""
    if not callable(net) or isinstance(net, nn.Module):
        return net
    sizes = (x.shape[1] if x.ndim == 2 else tuple(x.shape[1:]), n_classes)
    try:
        return net(*sizes)
    except TypeError as error:
        raise TypeError(f"net{sizes}: {error}.\n  Give a function of sizes, or net=MyNetwork().") from error


def _compare(made: Any, example: Tensor, expected: Tensor, title: str, n_classes: int | None) -> None:
    """Raise unless features are vectors, the head's output is the network's, and it has c columns."""
    try:
        with evaluation_mode(made), torch.no_grad():
            features = made.features(example)
            got = made.head(features)
        same = expected.shape == got.shape and torch.allclose(expected, got, atol=1e-5, equal_nan=True)
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError):
        same = False  # a network that looks inside the layer that was taken out, or applies it earlier
    if not same:
        raise TypeError(
            f"{title}: head(features(x)) is not what the network returns, so its last "
            "nn.Linear is not its last step (a softmax after it, or a dictionary or tuple?).\n"
            "  Return logits alone, or give the net as a pair (features, head)."
        )
    if features.ndim != 2:
        raise TypeError(
            f"{title}: the features of {len(example)} rows have shape {tuple(features.shape)}; "
            "the head needs one vector per row.\n  End the features with nn.Flatten()."
        )
    if got.ndim != 2 or (n_classes is not None and got.shape[1] != n_classes):
        raise TypeError(
            f"{title} returns shape {tuple(got.shape)} for {len(example)} rows; it must return one logit for "
            f"each of the {n_classes or ''} classes.".replace("  ", " ")
        )


def _cut_last_linear(module: nn.Module) -> Net:
    """Split at the last `nn.Linear`: the module with an identity in its place gives the features."""
    linears = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    if not linears:
        raise TypeError(
            f"{type(module).__name__} has no nn.Linear to use as its head.\n"
            "  Give the net as a pair (features, head), or give it attributes `features` and `head`."
        )
    head = module.get_submodule(linears[-1])
    if head is module:
        return Net(nn.Identity(), head)
    parent, _, name = linears[-1].rpartition(".")
    setattr(module.get_submodule(parent), name, nn.Identity())
    return Net(module, head)


def _tried(module: nn.Module, x: Tensor, title: str) -> Tensor:
    try:
        with evaluation_mode(module), torch.no_grad():
            return module(x)
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError) as error:
        raise TypeError(f"{title} cannot take a batch of shape {tuple(x.shape)}: {error}") from error


@contextmanager
def evaluation_mode(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every part is back in the mode it had.

    Unlike `eval()` followed by `train()` this keeps parts that were frozen in evaluation mode.
    """
    training = [part for module in modules for part in module.modules() if part.training]
    with having(training, "training", False):
        yield


def training_mode(module: nn.Module) -> nn.Module:
    """The module in training mode, but for parts in evaluation mode whose weights are all frozen."""
    kept = [part for part in module.modules() if not part.training]
    frozen = [part for part in kept if {weight.requires_grad for weight in part.parameters()} == {False}]
    module.train()
    for part in frozen:
        part.eval()
    return module


@contextmanager
def having(parts: Sequence[nn.Module], name: str, value: Any) -> Iterator[None]:
    """Inside, an attribute of all these parts has this value; afterwards each has its own again."""
    before = [getattr(part, name) for part in parts]
    for part in parts:
        setattr(part, name, value)
    try:
        yield
    finally:
        for part, own in zip(parts, before):
            setattr(part, name, own)


@contextmanager
def frozen_statistics(*modules: nn.Module) -> Iterator[None]:
    """Batch normalisation inside works with the batch's statistics, as in training, but records none.

    Parts in evaluation mode stay in it. Setting the momentum to 0 would not do: the count of batches
    would still grow, and 0 · ∞ would spoil the running statistics.
    """
    recording = [
        part
        for module in modules
        for part in module.modules()
        if isinstance(part, _BatchNorm) and part.training and part.track_running_stats
    ]
    with having(recording, "track_running_stats", False):
        yield


@torch.no_grad()
def peek(net: nn.Module, x: Tensor) -> Tensor:
    """Logits in the mode the net is in, without a gradient and without a trace in its statistics."""
    with frozen_statistics(net):
        return net(x)


# parts of torch that draw in their forward pass; dropout is asked for its probability
DRAWING = (nn.RReLU, nn.RNNBase, nn.MultiheadAttention, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def may_draw_forward(net: nn.Module) -> bool:
    """Whether a pass in training mode may draw from torch's default generators. Parts of others may."""
    return any(_may_draw(part) for part in net.modules())


def _may_draw(part: nn.Module) -> bool:
    if isinstance(part, _DropoutNd):
        return part.p > 0
    hooked = bool(part._forward_hooks or part._forward_pre_hooks)
    torchs = type(part).__module__.startswith("torch.nn.modules.")
    return hooked or isinstance(part, DRAWING) or (not torchs and foreign(part))


def foreign(thing: object) -> bool:
    """Whether its class is not from this library."""
    return not type(thing).__module__.startswith("oneof.")
