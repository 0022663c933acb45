"""The settings of an estimator: set, checked, as the recipe of a training; and rows that count more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor

from oneof.candidates import Candidates
from oneof.candidates.cells import native, short
from oneof.methods import Method
from oneof.nets import IMAGE_NETS
from oneof.training import Recipe, TrainingError
from oneof.training.recipe import check_number, choose_device

EPOCHS, FEWEST_STEPS, MOST_STEPS = 40, 800, 3000
"""Of a training whose length nobody gave; longer ones were worse (`results/fit_defaults`)."""
FEWEST_EPOCHS, MOST_EPOCHS = 4, 100
OF_RECIPE = ["batch_size", "optimiser", "lr", "weight_decay", "schedule", "patience", "max_seconds", "device"]
"""Settings that a recipe has too."""
CLEAN_WEIGHT, CLEAN_WEIGHT_OF_IMAGES = 1.0, 0.5
"""Of clean rows in the loss where nobody gave another: every method is better with them there
(`results/table1`, `results/table2`), at these weights."""


def default_epochs(n_rows: int, rows_per_step: int) -> int:
    """How long to train where nobody said: 40 epochs, but 800 to 3,000 steps, in 4 to 100 epochs.

    100 epochs for 100 rows, 50 for 800, 40 for 1,300 to 4,800, 38 for 20,000 and 8 for 100,000.
    """
    steps = max(1, n_rows // rows_per_step)
    wanted = min(MOST_STEPS, max(FEWEST_STEPS, EPOCHS * steps))
    return min(MOST_EPOCHS, max(FEWEST_EPOCHS, round(wanted / steps)))


def clean_weight(given: float | None, n_clean: int, images: bool) -> float:
    """Weight of clean rows in the loss: the given one, or the default for so many to learn from."""
    if given is not None and n_clean:
        return float(given)
    if n_clean < 2:  # one row alone cannot be normalised by a net
        return 0.0
    return CLEAN_WEIGHT_OF_IMAGES if images else CLEAN_WEIGHT


def set_sizes(sizes: np.ndarray) -> dict[str, Any]:
    """How many rows there are and how large their sets: for the record of a model."""
    return {
        "rows": len(sizes),
        "mean_set_size": round(float(sizes.mean()), 4),
        "largest_set": int(sizes.max()),
        "singletons": int((sizes == 1).sum()),
    }


@dataclass(repr=False, eq=False)
class EstimatorSettings(ClassifierMixin, BaseEstimator):
    """The part of `PartialLabelClassifier` that holds its settings, checks and sets them."""

    method: str | Method = "rplg+"
    _: KW_ONLY
    method_params: dict[str, Any] | None = None
    net: Any = "mlp"
    hidden: Any = (300, 300)
    batch_norm: bool = True
    scaling: str = "standard"
    augment: str = "auto"
    optimiser: str = "adam"
    lr: float = 1e-2
    weight_decay: float = 0.0
    schedule: str = "one-cycle"
    epochs: int | None = None
    batch_size: int | None = None
    patience: int | None = None
    class_weight: Any = None
    clean_weight: float | None = None
    selection_share: float = 0.0
    device: str = "auto"
    random_state: int | None = 0
    run: Any = None
    max_seconds: float | None = None
    budget: float | None = None
    cluster: str | None = None
    callbacks: Sequence[Any] | None = None
    verbose: bool = False
    warm_start: bool = False

    def recipe(self, n_rows: int | None = None) -> Recipe:
        """How `fit` will train on so many rows; raises on settings that cannot be meant."""
        check_number("clean_weight", self.clean_weight, optional=True)
        check_number("budget", self.budget, optional=True)
        check_number("selection_share", self.selection_share)
        if self.selection_share >= 1:
            raise ValueError(
                f"selection_share is {self.selection_share!r}; give a part of the clean rows, below 1."
            )
        if self.augment not in ("auto", "none"):
            raise ValueError(f'augment is {self.augment!r}; give "auto" or "none".')
        choose_device(self.device)
        seed = self.random_state
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        elif isinstance(seed, np.random.RandomState):
            seed = seed.randint(2**31 - 1)
        else:
            check_number("random_state", seed, whole=True, optional=True)
        given = {name: getattr(self, name) for name in OF_RECIPE} | {
            "epochs": MOST_EPOCHS if self.epochs is None else self.epochs,
            "clean_weight": self.clean_weight or 0.0,
            "seed": seed,
        }
        # numbers of numpy would be no plain values of a run's configuration
        recipe = Recipe(**{name: native(value) for name, value in given.items()})
        recipe.check()
        if self.epochs is None and n_rows:
            recipe = replace(recipe, epochs=default_epochs(n_rows, recipe.rows_per_step(n_rows)))
        return recipe

    def set_params(self, **params: Any) -> Any:
        """As everywhere in scikit-learn; `method_params__alpha` sets one hyper-parameter of the method."""
        start = "method_params__"
        own = {name.removeprefix(start): params.pop(name) for name in list(params) if name.startswith(start)}
        super().set_params(**params)
        if own:
            self.method_params = {**(self.method_params or {}), **own}
        return self

    def continues(self, candidates: Candidates) -> bool:
        """Whether a fit goes on from the present weights (`warm_start`); raises where it cannot."""
        if not self.warm_start or not hasattr(self, "net_"):
            return False
        reason = ""
        if isinstance(self.method, str) and self.method == "auto":
            reason = 'method="auto" compares several; name the method, such as that of chosen_model()'
        elif self.classes_.tolist() != list(candidates.classes):
            known, here = short(self.classes_.tolist()), short(candidates.classes)
            reason = f"it knows the classes {known}, y has {here}; give Candidates with the classes it knows"
        elif len(self.net_) > 1:
            reason = f"{self.method} has {len(self.net_)} of them"
        if reason:
            raise ValueError(f"warm_start goes on with the network of the fit before: {reason}.")
        return True

    def __getstate__(self) -> Any:
        # copies of a model made on a GPU are usable without one; predictions move it back
        for net in getattr(self, "net_", ()):
            net.cpu()
        state: Any = super().__getstate__()
        # what can still be made of a training is no part of a copy
        return {k: v for k, v in state.items() if k != "_transduction" or not callable(v)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = self.takes_more_than_tables
        tags.non_deterministic = False
        return tags

    @property
    def takes_more_than_tables(self) -> bool:
        return not isinstance(self.net, str) or self.net in IMAGE_NETS


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
