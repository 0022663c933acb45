"""Distributions of (x, y) whose posterior eta(x) = p(y | x) is known exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

BLOCK = 20_000
"""Rows drawn at a time."""


class Draw(NamedTuple):
    x: np.ndarray
    """(n, d) instances."""
    eta: np.ndarray
    """(n, c) their posteriors."""


@dataclass(frozen=True)
class RandomLogits:
    """Posteriors are the softmax of independent normal logits, and the instance is its logits: there is
    nothing to learn, but gaps of all sizes occur. The reference values are of this one."""

    n_classes: int = 6
    scale: float = 1.5

    @property
    def n_features(self) -> int:
        return self.n_classes

    def draw(self, rng: np.random.Generator, n: int) -> Draw:
        logits = rng.normal(0.0, self.scale, (n, self.n_classes))
        return Draw(logits, softmax(logits, axis=1))


@dataclass(frozen=True)
class GaussianClasses:
    """Equally frequent normal classes with unit covariance around normal means: the posterior is a linear
    softmax model, and a linear classifier or branch can be exactly right."""

    n_classes: int = 6
    n_features: int = 6
    spread: float = 1.0
    seed: int = 0

    @cached_property
    def means(self) -> np.ndarray:
        return np.random.default_rng(self.seed).normal(0.0, self.spread, (self.n_classes, self.n_features))

    def draw(self, rng: np.random.Generator, n: int) -> Draw:
        labels = rng.integers(self.n_classes, size=n)
        x = self.means[labels] + rng.normal(size=(n, self.n_features))
        return Draw(x, softmax(x @ self.means.T - (self.means**2).sum(axis=1) / 2, axis=1))


@dataclass(frozen=True)
class RandomNetwork:
    """Normal instances; the posterior is the softmax of a fixed random network with 16 hidden units, centred
    and scaled to gaps about as wide as those of `RandomLogits`. No small model is exactly right."""

    n_classes: int = 6
    n_features: int = 6

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        first = rng.normal(0.0, 1.5 / np.sqrt(self.n_features), (self.n_features, 16))
        bias = rng.normal(0.0, 0.5, 16)
        second = rng.normal(size=(16, self.n_classes))
        logits = np.tanh(rng.normal(size=(BLOCK, self.n_features)) @ first + bias) @ second
        centre = logits.mean(axis=0)
        factor = RandomLogits.scale / (logits - centre).std()
        return first, bias, second * factor, centre * factor

    def draw(self, rng: np.random.Generator, n: int) -> Draw:
        first, bias, second, centre = self._weights
        x = rng.normal(size=(n, self.n_features))
        return Draw(x, softmax(np.tanh(x @ first + bias) @ second - centre, axis=1))


Posterior = RandomLogits | GaussianClasses | RandomNetwork
"""A distribution to draw from. Every draw takes all its randomness from `rng`."""
POSTERIORS: dict[str, Posterior] = {
    "random logits": RandomLogits(),
    "gaussian": GaussianClasses(),
    "network": RandomNetwork(),
}
"""The distributions of `oneof theory`; the reference values belong to the first."""


def blocks(posterior: Posterior, n: int, seed: int, size: int = BLOCK) -> Iterator[np.ndarray]:
    """Posteriors of n draws, some rows at a time; the same seed gives the same rows again."""
    rng = np.random.default_rng(seed)
    for start in range(0, n, size):
        yield posterior.draw(rng, min(size, n - start)).eta


def draw_labels(rng: np.random.Generator, eta: np.ndarray) -> np.ndarray:
    """One label per row, drawn from its posterior."""
    return (rng.random((len(eta), 1)) < eta.cumsum(axis=1)).argmax(axis=1)
