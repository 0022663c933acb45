"""What every row of a fit is for, and how much it counts."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneof.candidates import Candidates
from oneof.candidates.cells import as_array
from oneof.candidates.compact import restricted
from oneof.classifier.inputs import as_numpy, known, label_columns, one_hot
from oneof.datasets.splits import hold_out
from oneof.methods import Method
from oneof.training import CleanRows, Recipe, TrainingError

Said = Callable[[np.ndarray], np.ndarray]
HELD_OUT = 0.1
"""Part of the rows whose candidate sets choose the epoch, where patience is asked for without clean rows."""


@dataclass(frozen=True)
class KnownRows(CleanRows):
    """Clean rows, and which of the training rows they are."""

    of_x: np.ndarray | None = None
    """Their numbers, rising; None where they are further rows."""

    def take(self, rows: np.ndarray) -> KnownRows:
        of_x = None if self.of_x is None else self.of_x[rows]
        return replace(self, x=self.x[rows], mask=self.mask[rows], of_x=of_x)


@dataclass(frozen=True)
class RowRoles:
    """What every row is for."""

    rows: np.ndarray
    """Rows to train on."""
    held: np.ndarray
    """Rows that leave training."""
    held_mask: np.ndarray
    """What is known of those: their label, or their candidates."""
    clean: CleanRows | None = None
    """Trusted rows for methods that learn from them; evaluated where nobody does."""
    selection: CleanRows | None = None
    """Rows to judge by that nobody learns from."""

    def prepared(self, prepare: Said) -> RowRoles:
        """The same with inputs as the network takes them."""
        clean, selection = (p and replace(p, x=prepare(p.x)) for p in (self.clean, self.selection))
        return replace(self, clean=clean, selection=selection)

    def labels(self, trained: Said, model: Said, rows: np.ndarray | None = None) -> np.ndarray:
        """(B, c): pseudo-labels of some rows, or of all, which `trained` gives by their place in `self.rows`.

        Of rows that left training it is the label that was given, or what the model says about the set. Among
        equals, as a target that has not moved leaves them, the model's choice is ahead by a hair.
        """
        rows = np.arange(len(self.rows) + len(self.held)) if rows is None else rows
        made = np.empty((len(rows), self.held_mask.shape[1]), dtype=np.float32)
        outside = np.isin(rows, self.held)
        made[~outside] = trained(np.searchsorted(self.rows, rows[~outside]))
        if outside.any():
            mask = self.held_mask[np.searchsorted(self.held, rows[outside])]
            made[outside] = restricted(model(rows[outside]), mask)
        top = made == made.max(axis=1, keepdims=True)
        tied = np.flatnonzero(top.sum(axis=1) > 1)
        if len(tied):
            choice = (model(rows[tied]) * top[tied]).argmax(axis=1)
            made[tied, choice] = np.nextafter(made[tied, choice], np.float32(2))
        return made


def learns_from_clean(method: Method, recipe: Recipe, n_rows: int) -> bool:
    """Whether clean rows have a part in the training beyond being evaluated."""
    return method.clean_rows(recipe.rows_per_step(n_rows)) > 0 or recipe.clean_weight > 0


def is_pair(clean: Any) -> bool:
    """Whether clean rows are given as (X_clean, y_clean) and not as one entry per row."""
    return isinstance(clean, tuple | list) and len(clean) == 2 and np.ndim(as_numpy(clean[0])) > 0


def read_clean(clean: Any, X: np.ndarray, classes: np.ndarray, read: Said) -> KnownRows:
    """Clean rows as users give them: a pair (X_clean, y_clean), or a vector with the labels of some rows.

    `read` turns what a user passes as X_clean into an array.
    """
    pair = is_pair(clean)
    x, what = (read(clean[0]), "y_clean") if pair else (X, "clean")
    try:
        labels = as_array(as_numpy(clean[1] if pair else clean))
    except ValueError:  # parts of different shapes
        labels = np.zeros(())
    if pair and (labels.shape[:1] != (len(x),) or not len(x)):
        raise ValueError(f"X_clean has {len(x)} rows, but y_clean has {len(clean[1])}.")
    if not pair and labels.shape != (len(X),):
        size = f" of {len(clean)}" if hasattr(clean, "__len__") else ""
        shape = f"has shape {labels.shape}" if labels.ndim else f"is a {type(clean).__name__}{size}"
        raise ValueError(
            f"clean {shape}, but there are {len(X)} rows; give one entry per row (missing where unknown), "
            "or a pair (X_clean, y_clean)."
        )
    rows = np.flatnonzero(known(labels)) if labels.ndim == 1 else np.arange(len(labels))
    if not len(rows):
        raise ValueError(f"{what} names no label at all: every entry is missing.")
    columns = label_columns(labels, classes, what, rows=rows)
    return KnownRows(x[rows], one_hot(columns, len(classes)), of_x=None if pair else rows)


def row_roles(
    X: Any, candidates: Candidates, clean: KnownRows | None, selection_share: float, recipe: Recipe
) -> RowRoles:
    """All rows are trained on but those that are clean; a share of the clean rows is kept aside to judge by.

    Without clean rows some are held out where patience asks for rows to choose the epoch by.
    """
    none = np.zeros(0, dtype=np.int64)
    if clean is not None:
        held = none if clean.of_x is None else clean.of_x
        roles = RowRoles(np.setdiff1d(np.arange(len(X)), held), held, clean.mask[: len(held)], clean)
        if not selection_share:
            return roles
        parts = clean.divide(selection_share, recipe.seed) if len(clean) > 1 else ()
        if not parts or not all(map(len, parts)):
            raise ValueError(
                f"selection_share is {selection_share!r}, but {len(clean)} clean rows are too few to divide."
            )
        return replace(roles, clean=parts[0], selection=parts[1])
    if recipe.clean_weight:
        warnings.warn(
            f"clean_weight = {recipe.clean_weight:g} has no effect: no clean rows were given.", stacklevel=4
        )
    if recipe.patience is not None and len(X) < 1 / HELD_OUT:
        warnings.warn(
            f"patience = {recipe.patience} has no effect: {len(X)} rows are too few to hold any out.",
            stacklevel=4,
        )
    elif recipe.patience is not None:
        split = hold_out(len(X), HELD_OUT, recipe.seed)
        held, sets = split.validation, candidates.rows(split.validation)
        return RowRoles(split.train, held, sets, selection=CleanRows(X[held], sets, "held-out sets"))
    return RowRoles(np.arange(len(X)), none, candidates.rows(none))


def set_sizes(sizes: np.ndarray) -> dict[str, Any]:
    """How many rows there are and how large their sets: for the record of a model."""
    return {
        "rows": len(sizes),
        "mean_set_size": round(float(sizes.mean()), 4),
        "largest_set": int(sizes.max()),
        "singletons": int((sizes == 1).sum()),
    }


# ---- `sample_weight` and `class_weight`, for any method ---------------------------------------


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
