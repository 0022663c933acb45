"""Rows that count more than others: `sample_weight` and `class_weight` for any method."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneof.candidates import Candidates
from oneof.methods import Method
from oneof.training import TrainingError


def row_weights(
    sample_weight: np.ndarray | None, class_weight: Any, candidates: Candidates
) -> np.ndarray | None:
    """The weight of every row, with mean 1; None where all are equal.

    A class weight counts for a row as the mean over its candidates: one of them is right, nobody knows which.
    """
    if sample_weight is None and class_weight is None:
        return None
    made = np.ones(len(candidates)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if class_weight is not None:
        sets = candidates.compact
        share = 1 / sets.sizes[sets.rows]
        mass = np.bincount(sets.positions, share, sets.n_classes)
        weights = class_weights(class_weight, candidates.classes, mass)
        made = made * np.bincount(sets.rows, share * weights[sets.positions], len(sets))
    if not made.sum() > 0:
        raise ValueError("all weights are 0: no row is left to learn from.")
    return made / made.mean()


def class_weights(given: Any, classes: tuple[Any, ...], mass: np.ndarray) -> np.ndarray:
    """(c,): "balanced" gives every class the same sum, each row counted in equal parts for its candidates."""
    if isinstance(given, str) and given == "balanced":
        return mass.sum() / (len(classes) * np.maximum(mass, 1.0))
    if not isinstance(given, Mapping):
        raise ValueError(f'class_weight is {given!r}; give "balanced", a dictionary of class names, or None.')
    unknown = [name for name in given if name not in classes]
    if unknown:
        raise ValueError(f"class_weight names the class {unknown[0]!r}; there are {list(classes)[:10]}.")
    made = np.array([float(given.get(name, 1.0)) for name in classes])
    if not (np.isfinite(made) & (made >= 0)).all():
        raise ValueError(f"class_weight is {given!r}; give numbers of at least 0.")
    return made


class Weighted:
    """A method whose loss counts every row by its weight; in everything else the method itself."""

    def __init__(self, method: Method, weights: np.ndarray) -> None:
        self.method = method
        self.weights = torch.as_tensor(weights, dtype=torch.float32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def params(self) -> dict[str, Any]:
        """With a digest of the weights: a run folder continues no training with other ones."""
        digest = hashlib.sha256(self.weights.numpy().tobytes()).hexdigest()[:16]
        return {**self.method.params(), "row_weights": digest}

    def loss(self, state: Any, batch: Any, step: Any) -> Tensor:
        values = self.method.loss(state, batch, step)
        if values.ndim == 0:
            raise TrainingError(
                f"{self.method.info.name} cannot weigh rows: its loss is one number for a whole batch.\n"
                "  Leave out sample_weight and class_weight, or choose another method."
            )
        self.weights = self.weights.to(values.device)
        return values * self.weights[batch.index].to(values.dtype)
