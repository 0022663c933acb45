"""Nets for feature vectors: linear model and multi-layer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from oneof.nets.base import Net

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "softplus": nn.Softplus, "gelu": nn.GELU}


def linear(n_features: int, n_classes: int) -> Net:
    """One affine layer; its features are the inputs themselves."""
    return Net(nn.Identity(), nn.Linear(n_features, n_classes))


def mlp(
    n_features: int,
    n_classes: int,
    hidden: Sequence[int] = (300, 300),
    batch_norm: bool = True,
    activation: str = "relu",
    dropout: float = 0.0,
) -> Net:
    """Multi-layer perceptron; its features are the last hidden layer after the activation.

    With batch normalisation the linear layers before it have no bias: it would be subtracted again.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it must be one of {', '.join(ACTIVATIONS)}.")
    layers: list[nn.Module] = []
    width = n_features
    for size in layer_sizes(hidden):
        layers.append(nn.Linear(width, size, bias=not batch_norm))
        if batch_norm:
            layers.append(nn.BatchNorm1d(size))
        layers.append(ACTIVATIONS[activation]())
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    return Net(nn.Sequential(*layers), nn.Linear(width, n_classes))


def layer_sizes(hidden: Any) -> tuple[int, ...]:
    """Sizes of hidden layers as plain numbers, or an error that repeats what was given."""
    sizes = tuple(hidden) if isinstance(hidden, Sequence) or hasattr(hidden, "tolist") else (None,)
    if isinstance(hidden, str) or not all(isinstance(size, int | np.integer) and size >= 1 for size in sizes):
        raise ValueError(f"hidden is {hidden!r}; give the sizes of the hidden layers, such as (300, 300).")
    return tuple(int(size) for size in sizes)
