"""The settings of an estimator and what they become: the recipe of a training, features, the network."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data
from torch import nn
from torch.nn.parameter import is_lazy

from oneof.candidates import Candidates
from oneof.candidates.cells import native, short
from oneof.classifier.inputs import as_numpy
from oneof.datasets.scaling import Scaling
from oneof.methods import Method
from oneof.methods.settings import check_number
from oneof.nets import TABLE_NETS, Net, as_net, build_net, check_images
from oneof.nets.base import called
from oneof.nets.tabular import layer_sizes
from oneof.tables.encoding import TableEncoder
from oneof.training import Recipe
from oneof.training.randomness import DefaultGenerators
from oneof.training.recipe import choose_device
from oneof.training.run import digest_tensors
from oneof.training.sources import EVALUATION_BATCH, ROWS_IN_CACHE, StoredRows, in_batches, stay_in_file
from oneof.views import ImageViews, RowItself, Views

EPOCHS, FEWEST_STEPS, MOST_STEPS = 40, 800, 3000
"""Of a training whose length nobody gave; longer ones were worse (`results/fit_defaults`)."""
FEWEST_EPOCHS, MOST_EPOCHS = 4, 100
OF_RECIPE = ["batch_size", "optimiser", "lr", "weight_decay", "schedule", "patience", "max_seconds", "device"]
"""Settings that a recipe has too."""
CLEAN_WEIGHT, CLEAN_WEIGHT_OF_IMAGES = 1.0, 0.5
"""Of clean rows in the loss where nobody gave another: every method is better with them there
(`results/table1`, `results/table2`), at these weights."""
DENSE_LIMIT = 8 << 30
"""Bytes that a sparse matrix may take as an array."""


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


@dataclass(repr=False, eq=False)
class EstimatorSettings(ClassifierMixin, BaseEstimator):
    """The settings of `PartialLabelClassifier`, and the recipe, the features and the network they become."""

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

    classes_: np.ndarray = field(init=False)
    net_: tuple[nn.Module, ...] = field(init=False)
    scaling_: Scaling | None = field(init=False)
    input_shape_: tuple[int, ...] = field(init=False)

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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "net_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = self.takes_more_than_tables
        tags.non_deterministic = False
        return tags

    @property
    def takes_more_than_tables(self) -> bool:
        return not isinstance(self.net, str) or self.net not in TABLE_NETS

    # ---- from X to probabilities --------------------------------------------------------------

    def _inputs(self, X: Any, reset: bool) -> np.ndarray:
        encoder, columns = getattr(self, "encoder_", None), {str(name) for name in getattr(X, "columns", ())}
        if encoder is not None:
            missing = [name for name in encoder.column_names if name not in columns]
            if not missing:
                X = encoder.transform(X)
                if not reset:
                    return X  # checked by the encoder, which knows the names of its columns
            elif len(missing) < len(encoder.column_names) and not columns.issuperset(encoder.feature_names):
                raise ValueError(f"X lacks columns that the model was fitted on: {short(missing, 20)}.")
        X = dense(as_numpy(X))
        if isinstance(X, list | tuple) and self.takes_more_than_tables:
            X = np.asarray(X)  # a list of images of bytes is an array of bytes
        check_images(X, self.net) if reset else self.as_fitted(X)
        # features are scaled in double precision: in single, a column of time stamps would lose its digits
        table = getattr(X, "ndim", 2) == 2
        dtype: Any = [np.float64, np.float32] if table else [np.float32, np.uint8]
        X = validate_data(self, X, reset=reset, dtype=dtype, order="C", allow_nd=self.takes_more_than_tables)
        if reset:
            self.input_shape_, self.of_bytes_ = tuple(map(int, X.shape[1:])), X.dtype == np.uint8
        return X

    def as_fitted(self, X: Any) -> Any:
        """The same inputs; raises on images of another shape or kind than those of `fit`."""
        shape, known = getattr(X, "shape", ())[1:], self.input_shape_
        if max(len(shape), len(known)) > 1 and shape != known:
            raise ValueError(f"X has rows of shape {shape}, but the model was fitted on {known}.")
        if len(shape) == 3 and (X.dtype.kind not in "iu" if self.of_bytes_ else X.dtype == np.uint8):
            kind = "bytes (0 to 255)" if self.of_bytes_ else "other numbers"
            raise ValueError(f"X holds {X.dtype}, but `fit` got {kind}: give images of that type and range.")
        return X

    def _fitted_scaling(self, X: np.ndarray | StoredRows) -> Scaling | None:
        if X.ndim != 2 and not (X.ndim == 4 and X.dtype == np.uint8):
            return None
        kind = self.scaling if X.ndim == 2 else "pixels"
        if isinstance(X, StoredRows):
            return Scaling.fit_blocks(X.split(X.block), kind)
        return Scaling.fit(X, kind)

    def _views(self) -> Views:
        """What the network sees of a row in training."""
        scaling = self.scaling_
        if scaling is None or scaling.kind != "pixels":
            return RowItself()
        _, height, width = self.input_shape_
        mean, std = (scaling.shift / 255).tolist(), (scaling.scale / 255).tolist()
        if self.augment == "none":
            return ImageViews(mean, std, policy="none", cutout=0, pad=0, flip=False)
        return ImageViews(mean, std, cutout=min(height, width) // 2, pad=min(height, width) // 8)

    def prepare(self, X: Any) -> Any:
        """Checked inputs as the network takes them: tables scaled, images still bytes."""
        if isinstance(X, StoredRows):
            return StoredRows(X.x, self.prepare, X.rows)
        if self.scaling_ is not None and self.scaling_.kind == "pixels":
            return X
        if self.scaling_ is None:
            return np.ascontiguousarray(X, dtype=np.float32)
        with np.errstate(over="ignore"):
            x = self.scaling_.apply(X)
        if not np.isfinite(x).all():
            i, k = np.argwhere(~np.isfinite(x))[0]
            raise ValueError(
                f"X[{i}, {k}] = {X[i, k]} is too large for float32, the precision of the network."
            )
        return x

    def _make_net(self, x: np.ndarray) -> Net:
        """A new net for scaled inputs."""
        if isinstance(self.net, str):
            inputs = x.shape[1] if x.ndim == 2 else tuple(x.shape[1:])
            return build_net(self.net, inputs, len(self.classes_), **self.net_options())
        example = self._views().plain(torch.from_numpy(x[:2]))
        return as_net(called(self.net, x, len(self.classes_)), example, n_classes=len(self.classes_))

    def _net_or_maker(self, x: np.ndarray) -> Net | Callable[[], Net]:
        """What `train` gets: a network with weights of its own as it is, else how to make one once seeded."""
        parts = self.net if isinstance(self.net, tuple | list) else [self.net]
        own = all(isinstance(part, nn.Module) for part in parts)
        if own and not any(is_lazy(p) for part in parts for p in part.parameters()):
            return self._make_net(x)
        return lambda: self._make_net(x)

    def _present_net(self, x: np.ndarray) -> nn.Module:
        """A copy of the network of the fit before, as it is."""
        net = self.net_[0]
        if isinstance(self.net, str):
            with torch.device("meta"):  # takes no memory and draws nothing
                wanted = self._make_net(x)
            shapes = [{name: value.shape for name, value in n.state_dict().items()} for n in (net, wanted)]
            if shapes[0] != shapes[1]:
                raise ValueError(
                    "warm_start goes on with the network of the fit before, but net, hidden or batch_norm "
                    f"ask for another one ({self.net}).\n  Set them back, or fit with warm_start=False."
                )
        return deepcopy(net)

    def net_options(self) -> dict[str, Any]:
        if self.net != "mlp":
            return {}
        return {"hidden": layer_sizes(self.hidden), "batch_norm": bool(self.batch_norm)}

    def prepared_proba(self, x: Any) -> np.ndarray:
        """Class probabilities of inputs that went through `prepare`."""
        device = choose_device(self.device)
        nets = [net.to(device) for net in self.net_]
        dtype = next((p.dtype for p in nets[0].parameters()), torch.float32)

        def probabilities(batch: torch.Tensor) -> torch.Tensor:
            logits = torch.stack([net(batch.to(dtype)) for net in nets]).mean(dim=0)
            return logits.double().softmax(dim=-1).cpu()

        size = EVALUATION_BATCH if device.type == "cuda" else ROWS_IN_CACHE if x.ndim == 2 else 256
        made = in_batches(probabilities, x, views=self._views(), modules=nets, device=device, size=size)
        return made.numpy()

    def _raw_probabilities(self, X: Any) -> np.ndarray:
        return self.prepared_proba(self.prepare(stay_in_file(X, self._inputs(X, reset=False))))


def dense(X: Any) -> Any:
    """A sparse matrix as an array, if there is room for it; the rest as it is."""
    if not issparse(X):
        return X
    if X.shape[0] * X.shape[1] * 8 > DENSE_LIMIT:
        raise ValueError(
            f"X is sparse, and as an array of {X.shape[0]:,} rows and {X.shape[1]:,} columns it would take "
            f"more than {DENSE_LIMIT >> 30} GiB.\n  Reduce it first: sklearn.decomposition.TruncatedSVD(300)."
        )
    return X.toarray()


def encoder_for(X: Any) -> TableEncoder | None:
    """How a data frame with texts, categories or gaps becomes features; None where X is numbers already."""
    if not hasattr(X, "columns") or not len(X):
        return None
    if len(set(X.columns)) < len(X.columns):
        raise ValueError(f"X has several columns {max(X.columns, key=list(X.columns).count)!r}; rename them.")
    for name in X.columns:
        column = np.asarray(X[name])
        if column.dtype.kind not in "biuf" or (column.dtype.kind == "f" and np.isnan(column).any()):
            made = TableEncoder.fit(X)
            if told := "; ".join(f'column "{title}" {why}' for title, why in made.left_out.items()):
                warnings.warn(f"left out: {told}.", stacklevel=3)
            return made
    return None


def told_apart(net: Any, x: np.ndarray, n_classes: int) -> str:
    """What tells a network from others: its name, or layers and weights, also of what a function makes."""
    if isinstance(net, str):
        return net
    with DefaultGenerators(0, torch.device("cpu")).lent():
        net = called(net, x, n_classes)
    parts = net if isinstance(net, tuple | list) else (net,)
    weights = [p for part in parts for p in part.state_dict().values() if not is_lazy(p)]
    return f"{parts} {digest_tensors(*weights)}"
