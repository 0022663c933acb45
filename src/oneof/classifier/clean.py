"""Trusted rows as users give them to `fit`, and what becomes of them: to learn from, or to judge by."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.classifier.inputs import as_numpy, is_pair, known, label_columns, one_hot
from oneof.classifier.scoring import restricted
from oneof.datasets.splits import hold_out
from oneof.methods import Method
from oneof.training import CleanRows, Recipe

HELD_OUT = 0.1
"""Part of the rows whose candidate sets choose the epoch, where patience is asked for without clean rows."""


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

    def prepared(self, prepare: Callable[[np.ndarray], np.ndarray]) -> RowRoles:
        """The same with inputs as the network takes them."""
        clean, selection = (
            part and replace(part, x=prepare(part.x)) for part in (self.clean, self.selection)
        )
        return replace(self, clean=clean, selection=selection)

    def labels(
        self,
        rows: np.ndarray,
        trained: Callable[[np.ndarray], np.ndarray],
        held: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """(B, c): of some rows the pseudo-labels that `trained` gives, by their place in `self.rows`, and of
        those that left training what `held` says of them."""
        made = np.empty((len(rows), self.held_mask.shape[1]), dtype=np.float32)
        outside = np.isin(rows, self.held)
        made[~outside] = trained(np.searchsorted(self.rows, rows[~outside]))
        if outside.any():
            mask = self.held_mask[np.searchsorted(self.held, rows[outside])]
            made[outside] = restricted(held(rows[outside]), mask)
        return made


def learns_from_clean(method: Method, recipe: Recipe, n_rows: int) -> bool:
    """Whether clean rows have a part in the training beyond being evaluated."""
    return method.clean_rows(recipe.rows_per_step(n_rows)) > 0 or recipe.clean_weight > 0


def without_clean_rows(X: Any, candidates: Candidates, recipe: Recipe) -> RowRoles:
    """All rows are trained on; only where patience asks for it some are held out to choose the epoch by."""
    none = np.zeros(0, dtype=np.int64)
    nothing = RowRoles(np.arange(len(X)), none, candidates.rows(none))
    if recipe.clean_weight:
        warnings.warn(
            f"clean_weight = {recipe.clean_weight:g} has no effect: no clean rows were given.", stacklevel=3
        )
    if recipe.patience is None:
        return nothing
    if len(X) < 1 / HELD_OUT:
        warnings.warn(
            f"patience = {recipe.patience} has no effect: {len(X)} rows are too few to hold any out.",
            stacklevel=3,
        )
        return nothing
    split = hold_out(len(X), HELD_OUT, recipe.seed)
    held, sets = split.validation, candidates.rows(split.validation)
    return RowRoles(split.train, held, sets, selection=CleanRows(X[held], sets, "held-out sets"))


def read_clean(
    clean: Any, X: Any, classes: np.ndarray, read: Callable[[Any], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs of the clean rows, columns of their labels, and which rows of X they are (None: further ones).

    `clean` is a pair (X_clean, y_clean) or a vector with the labels of some rows. `read` turns what a user
    passes as X_clean into an array.
    """
    if is_pair(clean):
        x, columns = read(clean[0]), label_columns(np.asarray(as_numpy(clean[1])), classes, "y_clean")
        if not len(x) == len(columns) > 0:
            raise ValueError(f"X_clean has {len(x)} rows, but y_clean has {len(columns)}.")
        return x, columns, None
    labels = clean_vector(clean, len(X))
    rows = np.flatnonzero(known(labels))
    if not len(rows):
        raise ValueError("clean names no label at all: every entry is missing.")
    return X[rows], label_columns(labels, classes, "clean", rows=rows), rows


def with_clean_rows(
    X: Any,
    clean: Any,
    classes: np.ndarray,
    read: Callable[[Any], np.ndarray],
    selection_share: float,
    seed: int,
) -> RowRoles:
    """Roles where clean rows are given; see `read_clean`."""
    x, columns, of_x = read_clean(clean, X, classes, read)
    trusted = CleanRows(x, one_hot(columns, len(classes)))
    held = np.zeros(0, dtype=np.int64) if of_x is None else of_x
    rows = np.setdiff1d(np.arange(len(X)), held)
    roles = RowRoles(rows, held, trusted.mask[: len(held)], trusted)
    if not selection_share:
        return roles
    parts = trusted.divide(selection_share, seed) if len(trusted) > 1 else ()
    if not parts or not all(map(len, parts)):
        raise ValueError(
            f"selection_share is {selection_share!r}, but {len(trusted)} clean rows are too few to divide."
        )
    return replace(roles, clean=parts[0], selection=parts[1])


def clean_vector(clean: Any, n: int) -> np.ndarray:
    try:
        labels = np.asarray(as_numpy(clean))
    except ValueError:  # parts of different shapes
        labels = np.zeros(())
    if labels.shape == (n,):
        return labels
    size = f" of {len(clean)}" if hasattr(clean, "__len__") else ""
    what = f"has shape {labels.shape}" if labels.ndim else f"is a {type(clean).__name__}{size}"
    raise ValueError(
        f"clean {what}, but there are {n} rows; give one entry per row (missing where unknown), or a pair "
        "(X_clean, y_clean)."
    )


def set_sizes(sizes: np.ndarray) -> dict[str, Any]:
    """How many rows there are and how large their sets: for the record of a model."""
    return {
        "rows": len(sizes),
        "mean_set_size": round(float(sizes.mean()), 4),
        "largest_set": int(sizes.max()),
        "singletons": int((sizes == 1).sum()),
    }
