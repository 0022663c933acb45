"""Slow twins: a linear model trained by loops in NumPy, one row and one label at a time."""

from __future__ import annotations

import numpy as np
import torch

from oneof.methods.base import Method
from oneof.training import Trained
from tests.methods.harness import blobs, fit, random_candidates
from tests.methods.test_baselines import softmax_by_hand

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 1e-4}, torch.float64: {"rtol": 1e-9, "atol": 1e-9}}

# a singleton, a full set, and sets in between, for checks of gradients
MASKS = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1]]).bool()


def sample_logits(size: float = 1.0, seed: int = 0) -> torch.Tensor:
    """Logits in double precision for `MASKS`, with a gradient."""
    z = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (z * size).requires_grad_()


def softmax_within(z, keep):
    """Softmax over the labels in `keep`, 0 elsewhere."""
    inside = [k for k in range(len(z)) if keep[k]]
    within = dict(zip(inside, softmax_by_hand([z[k] for k in inside])))
    return [within.get(k, 0.0) for k in range(len(z))]


class RowByRow:
    """What a method does, for one row: its first table entry, gradient by the logits, next entry."""

    def start(self, mask):
        return [float(k) / sum(mask) for k in mask]

    def gradient(self, z, row, mask, epoch):
        """Of the cross-entropy against the stored row."""
        return [p - t for p, t in zip(softmax_by_hand(z), row)]

    def update(self, i, before, after, mask):
        """The row's next entry, from its logits before and after the step."""
        raise NotImplementedError

    def end_epoch(self, table, epoch):
        return table


def assert_linear_fit_equals(method: Method, rule: RowByRow, epochs: int = 4, lr: float = 0.5) -> Trained:
    """Whole batches and plain SGD, in the loop and by hand: the same weights, the same table."""
    x, y = blobs()
    candidates = random_candidates(y)
    recipe = {
        "epochs": epochs,
        "batch_size": len(x),
        "optimiser": "sgd",
        "momentum": 0.0,
        "schedule": "constant",
        "lr": lr,
    }
    options = {"kind": "linear", "dtype": torch.float64, "candidates": candidates}
    start = fit(method, recipe={**recipe, "lr": 0.0, "epochs": 1}, **options)
    trained = fit(method, recipe=recipe, **options)

    weight = start.state.net.head.weight.detach().numpy().copy()
    bias = start.state.net.head.bias.detach().numpy().copy()
    x, mask = x.astype(np.float64), candidates.mask
    table = [rule.start(m) for m in mask]
    for epoch in range(epochs):
        before = x @ weight.T + bias
        gradient = np.array([rule.gradient(z, t, m, epoch) for z, t, m in zip(before, table, mask)])
        weight -= lr / len(x) * gradient.T @ x
        bias -= lr / len(x) * gradient.sum(axis=0)
        after = x @ weight.T + bias
        table = [rule.update(i, before[i], after[i], mask[i]) for i in range(len(x))]
        table = rule.end_epoch(table, epoch)
    # tables start in single precision
    assert np.allclose(trained.state.net.head.weight.detach(), weight, rtol=0, atol=1e-7)
    assert np.allclose(trained.state.net.head.bias.detach(), bias, rtol=0, atol=1e-7)
    assert np.allclose(trained.state.rows["target"], table, rtol=0, atol=1e-7)
    return trained
