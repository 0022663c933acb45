"""A net is a pair: `features(x)` gives the representation, `head(h)` the logits."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


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


def as_net(module: Any, example: Tensor | None = None) -> Net:
    """A user's network as a pair of features and head.

    Accepted are a pair `(features, head)`, a module that has both as attributes, and any module
    whose last `nn.Linear` is also the last thing it applies. The module given is copied, never
    changed. With `example` (a small batch) the pair is compared with the original's output.
    """
    if isinstance(module, tuple) and len(module) == 2:
        return Net(*(copy.deepcopy(part) for part in module))
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"a net is an nn.Module or a pair (features, head), not {type(module).__name__}: {module!r}"
        )
    made: Any = copy.deepcopy(module)
    expected = None if example is None else _quiet(made, made, example)
    if not (callable(getattr(made, "features", None)) and callable(getattr(made, "head", None))):
        made = _cut_last_linear(made)
    if example is not None:
        got = _quiet(made, lambda x: made.head(made.features(x)), example)
        if expected is None or expected.shape != got.shape or not torch.allclose(expected, got, atol=1e-5):
            raise TypeError(
                f"{type(module).__name__}: head(features(x)) is not what the network returns, so its last "
                "nn.Linear is not its last step (a softmax after it?).\n"
                "  Return logits, or give the net as a pair (features, head)."
            )
    return made


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


def _quiet(module: nn.Module, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    with evaluation_mode(module), torch.no_grad():
        return function(x)


@contextmanager
def evaluation_mode(*modules: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, every part back in the mode it had afterwards.

    Unlike `eval()` followed by `train()` this keeps parts that were frozen in evaluation mode.
    """
    training = [part for module in modules for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True
