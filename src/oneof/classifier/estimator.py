"""`PartialLabelClassifier`: the scikit-learn face of the library."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data
from torch import nn

from oneof.candidates import Candidates
from oneof.classifier.inputs import (
    as_candidates,
    class_array,
    holds_sets,
    is_pair,
    known,
    label_columns,
    plain,
)
from oneof.classifier.prediction import Predictions, restricted
from oneof.classifier.scoring import covering_rate
from oneof.classifier.scoring.conformal import calibration_scores
from oneof.datasets.scaling import Scaling
from oneof.methods import Method, make_method
from oneof.nets import IMAGE_NETS, Net, as_net, build_net
from oneof.nets.tabular import layer_sizes
from oneof.training import CleanRows, Recipe, Run, Silent, default_progress, find_clean_rows, train
from oneof.training.progress import Progress
from oneof.training.recipe import choose_device
from oneof.training.sources import EVALUATION_BATCH
from oneof.views import ImageViews, RowItself, Views

ROWS_IN_CACHE = 1024
"""Rows per forward pass on a CPU: more of them leave its cache and take longer."""


class PartialLabelClassifier(Predictions, ClassifierMixin, BaseEstimator):
    """A classifier learned from rows that carry one of several possible labels.

    Parameters
    ----------
    method : str or Method, default="rplg"
        How to learn from candidate sets; `oneof.list_methods()` names them all.
    method_params : dict, optional
        Hyper-parameters of the method, by name.
    net : str, nn.Module or (features, head), default="mlp"
        The network: "mlp" or "linear" for tables and embeddings, "resnet18", "wrn-28-2", "lenet" and others
        (`oneof.nets.IMAGE_NETS`) for images. A module of your own is copied, not changed; it returns
        logits, and every fit starts from the weights it has.
    hidden : sequence of int, default=(300, 300)
        Hidden layers of the MLP.
    batch_norm : bool, default=True
        Whether the MLP normalises its layers.
    scaling : {"standard", "global", "minmax", "none"}, default="standard"
        Scaling of the features, learned from the training rows. "global" divides by one number and
        suits embeddings and principal components. Ignored for inputs that are no table.
    augment : {"auto", "none"}, default="auto"
        "auto" shows images (bytes, see `fit`) to the network mirrored, shifted and, in a second view,
        strongly changed (AutoAugment and Cutout). Ignored for other inputs.
    optimiser, lr, weight_decay, schedule, epochs, batch_size, patience
        See `oneof.training.Recipe`.
    clean_weight : float, default=0
        Weight of cross-entropy on the clean rows in the loss.
    selection_share : float, default=0
        Part of the clean rows kept aside: the accuracy in `history_` and, with `patience`, the choice
        of the epoch come from rows nobody learned from. With 0 the clean rows do both, which favours
        methods that learn from them.
    device : str, default="auto"
        The GPU where there is one.
    random_state : int, RandomState or None, default=0
        Seed of everything random in a fit. None draws a new one.
    run : path, optional
        Folder for metrics and checkpoints; an interrupted `fit` continues from it.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    classes_ : array (c,)
        Class names.
    transduction_ : array (n, c)
        The disambiguated training rows: for each a distribution over its candidates.
    history_ : list of dict
        One entry per epoch.
    clean_source_ : str
        Where the clean rows came from: `given`, `singletons`, `held-out sets` or `none`.
    n_clean_ : int
        How many there were, those kept aside by `selection_share` included.
    n_selection_ : int
        How many of them were kept aside.
    best_epoch_ : int
        Epoch (from 0) whose weights were kept: the last one without `patience`.
    trained_on_ : dict
        How many rows were learned from and how large their candidate sets were.
    calibration_scores_ : dict of arrays
        What `predict_set` goes by. There after `calibrate`, or when clean rows were given that nothing
        was learned from (see `selection_share`).
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn; names where X was a data frame.
    net_ : tuple of nn.Module
        The trained network(s); the prediction is the mean of their logits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from oneof import PartialLabelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> mask = [[k == label or k == (label + 1) % 3 and i % 2 for k in range(3)] for i, label in enumerate(y)]
    >>> model = PartialLabelClassifier(method="proden", epochs=20, device="cpu").fit(X, mask)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        method: str | Method = "rplg",
        *,
        method_params: dict[str, Any] | None = None,
        net: Any = "mlp",
        hidden: Any = (300, 300),
        batch_norm: bool = True,
        scaling: str = "standard",
        augment: str = "auto",
        optimiser: str = "adam",
        lr: float = 1e-2,
        weight_decay: float = 0.0,
        schedule: str = "one-cycle",
        epochs: int = 100,
        batch_size: int | None = None,
        patience: int | None = None,
        clean_weight: float = 0.0,
        selection_share: float = 0.0,
        device: str = "auto",
        random_state: int | None = 0,
        run: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.method_params = method_params
        self.net = net
        self.hidden = hidden
        self.batch_norm = batch_norm
        self.scaling = scaling
        self.augment = augment
        self.optimiser = optimiser
        self.lr = lr
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.clean_weight = clean_weight
        self.selection_share = selection_share
        self.device = device
        self.random_state = random_state
        self.run = run
        self.verbose = verbose

    # ---- fit ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, clean: Any = None) -> PartialLabelClassifier:
        """Learn from candidate labels.

        Parameters
        ----------
        X : array, tensor or data frame (n, d)
            Inputs. Images are bytes (uint8), shape (n, channels, height, width); a network of your own
            gets them with every channel normalised, and any other array as it is.
        y : mask (n, c), Candidates, list of label sets, or labels (n,)
            What each row may be. A mask is an array, tensor, sparse matrix or data frame of booleans
            or of 0 and 1; the columns of a data frame name the classes. Lists of equal length that
            hold only 0 and 1 are read as a mask.
        clean : (X_clean, y_clean) or vector (n,), optional
            Rows with trusted labels: further ones, or a vector with the known label of a training
            row and a missing value elsewhere (those rows leave candidate training).
        """
        candidates = as_candidates(y)
        X = self._inputs(X, reset=True)
        if len(X) != len(candidates):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {len(X)} rows, "
                f"y has {len(candidates)}."
            )
        self._check_settings()
        method = make_method(self.method, self.method_params)
        recipe = self._recipe()
        recipe.check()
        self.classes_ = class_array(candidates.classes)
        rows, held, clean_rows = self._clean_rows(X, candidates, clean, method, recipe)
        if len(rows) < 2:
            raise ValueError(
                f"n_samples = {len(rows)}: at least 2 training rows are needed, and only 1 sample or none "
                "is left after the clean rows."
            )
        self.scaling_ = self._fitted_scaling(X[rows])
        self.input_shape_ = tuple(map(int, X.shape[1:]))
        x = self._scaled(X)
        learned, selection = self._divided(clean_rows, recipe.seed)
        learns = selection is not None or learns_from_clean(method, recipe, len(X))
        trained = train(
            method,
            lambda: self._make_net(x),
            x[rows],
            candidates.take(rows),
            recipe=recipe,
            clean=learned,
            selection=selection,
            views=self._views(),
            run=Run(self.run) if self.run is not None else None,
            progress=self._progress(),
        )
        self.method_ = method
        self.net_ = method.predictors(trained.state)
        self.history_ = trained.history
        self.best_epoch_ = trained.best_epoch
        self.clean_source_ = "none" if clean_rows is None else clean_rows.source
        self.n_clean_ = 0 if clean_rows is None else len(clean_rows)
        self.n_selection_ = 0 if selection is None else len(selection)
        self.trained_on_ = set_sizes(candidates.mask[rows])
        self._calibrate_on(selection if learns else learned, recipe)
        self.transduction_ = np.empty(candidates.mask.shape, dtype=np.float32)
        self.transduction_[rows] = trained.pseudo_labels
        if clean_rows is not None and len(held):
            # rows that left training: the label that was given, or the model's opinion on their set
            self.transduction_[held] = restricted(self._probabilities(x[held]), clean_rows.mask)
        return self

    def _check_settings(self) -> None:
        """Raise on values that cannot be meant, before anything is computed."""
        for name, empty in (("epochs", False), ("batch_size", True), ("patience", True)):
            value = getattr(self, name)
            if not (empty and value is None) and not (isinstance(value, int | np.integer) and value >= 1):
                more = " or None" if empty else ""
                raise ValueError(f"{name} is {value!r}; give a whole number of at least 1{more}.")
        for name in ("lr", "weight_decay", "clean_weight", "selection_share"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.number) and 0 <= value < math.inf):
                raise ValueError(f"{name} is {value!r}; give a number of at least 0.")
        if self.selection_share >= 1:
            raise ValueError(
                f"selection_share is {self.selection_share!r}; give a part of the clean rows, below 1."
            )
        if self.augment not in ("auto", "none"):
            raise ValueError(f'augment is {self.augment!r}; give "auto" or "none".')
        try:
            choose_device(self.device)
        except (RuntimeError, TypeError) as error:
            raise ValueError(f'device is {self.device!r}; give "auto", "cpu" or "cuda".') from error

    def _recipe(self) -> Recipe:
        seed = self.random_state
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        elif isinstance(seed, np.random.RandomState):
            seed = seed.randint(2**31 - 1)
        elif not (isinstance(seed, int | np.integer) and seed >= 0):
            raise ValueError(f"random_state is {seed!r}; give a whole number of at least 0 or None.")
        return Recipe(
            epochs=int(self.epochs),
            batch_size=self.batch_size and int(self.batch_size),
            optimiser=self.optimiser,  # type: ignore[arg-type]
            lr=float(self.lr),
            weight_decay=float(self.weight_decay),
            schedule=self.schedule,  # type: ignore[arg-type]
            patience=self.patience and int(self.patience),
            clean_weight=float(self.clean_weight),
            seed=int(seed),
            device=self.device,
        )

    def _inputs(self, X: Any, reset: bool) -> np.ndarray:
        X = plain(X)
        more_than_tables = not isinstance(self.net, str) or self.net in IMAGE_NETS
        # features are scaled in double precision: in single, a column of time stamps would lose its digits
        table = getattr(X, "ndim", 2) == 2
        dtype: Any = [np.float64, np.float32] if table else [np.float32, np.uint8]
        X = validate_data(self, X, reset=reset, dtype=dtype, order="C", allow_nd=more_than_tables)
        shape = getattr(self, "input_shape_", None)
        if not reset and shape is not None and X.shape[1:] != shape:
            raise ValueError(f"X has rows of shape {X.shape[1:]}, but the model was fitted on {shape}.")
        return X

    def _fitted_scaling(self, X: np.ndarray) -> Scaling | None:
        if X.ndim == 2:
            return Scaling.fit(X, self.scaling)
        return Scaling.fit(X, "pixels") if is_image(X) else None

    def _views(self) -> Views:
        """What the network sees of a row in training."""
        scaling = self.scaling_
        if scaling is None or scaling.kind != "pixels":
            return RowItself()
        channels, height, width = self.input_shape_
        mean, std = (scaling.shift / 255).tolist(), (scaling.scale / 255).tolist()
        if self.augment == "none":
            return ImageViews(mean, std, policy="none", cutout=0, pad=0, flip=False)
        policy = "autoaugment" if channels == 3 else "none"
        return ImageViews(mean, std, policy, cutout=min(height, width) // 2, pad=min(height, width) // 8)

    def _progress(self) -> Progress:
        return default_progress() if self.verbose else Silent()

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Tables scaled; images stay bytes, which views and predictions normalise batch by batch."""
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
            return build_net(self.net, inputs, len(self.classes_), **self._net_options())
        example = self._views().plain(torch.from_numpy(x[:2]))
        return as_net(self.net, example, n_classes=len(self.classes_))

    def _net_options(self) -> dict[str, Any]:
        if self.net != "mlp":
            return {}
        return {"hidden": layer_sizes(self.hidden), "batch_norm": bool(self.batch_norm)}

    def _clean_rows(
        self, X: np.ndarray, candidates: Candidates, clean: Any, method: Method, recipe: Recipe
    ) -> tuple[np.ndarray, np.ndarray, CleanRows | None]:
        """Rows to train on, rows taken out of them, and the clean rows."""
        everything, nothing = np.arange(len(X)), np.zeros(0, dtype=np.int64)
        learns = learns_from_clean(method, recipe, len(X))
        if clean is None:
            if not learns and recipe.patience is None:
                return everything, nothing, None
            rows, held, source = find_clean_rows(candidates, recipe.seed)
            if len(held):
                return rows, held, CleanRows(X[held], candidates.mask[held], source)
            if recipe.patience is not None:
                warnings.warn(
                    f"patience = {recipe.patience} has no effect: {len(X)} rows are too few to hold any out.",
                    stacklevel=3,
                )
            return everything, nothing, None
        if not learns and recipe.patience is None:
            warnings.warn(
                f"{method.info.name} does not learn from the clean rows: they are only evaluated.\n"
                "  Set clean_weight to train on them, or patience to choose the epoch by them.",
                stacklevel=3,
            )
        one_hot = np.eye(len(self.classes_), dtype=bool)
        if is_pair(clean):
            x_clean, labels = self._inputs(clean[0], reset=False), np.asarray(plain(clean[1]))
            columns = label_columns(labels, self.classes_, "y_clean")
            if not len(x_clean) == len(columns) > 0:
                raise ValueError(f"X_clean has {len(x_clean)} rows, but y_clean has {len(columns)}.")
            return everything, nothing, CleanRows(x_clean, one_hot[columns])
        try:
            labels = np.asarray(plain(clean))
        except ValueError:  # parts of different shapes
            labels = np.zeros(())
        if labels.shape != (len(X),):
            size = f" of {len(clean)}" if hasattr(clean, "__len__") else ""
            what = f"has shape {labels.shape}" if labels.ndim else f"is a {type(clean).__name__}{size}"
            raise ValueError(
                f"clean {what}, but there are {len(X)} rows; give one entry per row "
                "(missing where unknown), or a pair (X_clean, y_clean)."
            )
        held = np.flatnonzero(known(labels))
        if not len(held):
            raise ValueError("clean names no label at all: every entry is missing.")
        columns = label_columns(labels, self.classes_, "clean", rows=held)
        return np.setdiff1d(everything, held), held, CleanRows(X[held], one_hot[columns])

    def _divided(self, clean: CleanRows | None, seed: int) -> tuple[CleanRows | None, CleanRows | None]:
        """Clean rows to learn from and, where `selection_share` asks for them, others to select by."""
        if clean is None:
            return None, None
        clean = CleanRows(self._scaled(clean.x), clean.mask, clean.source)
        if not self.selection_share:
            return clean, None
        parts = clean.divide(self.selection_share, seed) if len(clean) > 1 else ()
        if not parts or not all(len(part) for part in parts):
            raise ValueError(
                f"selection_share is {self.selection_share!r}, but {len(clean)} clean rows are too few to "
                "divide."
            )
        return parts

    # ---- predict ------------------------------------------------------------------------------

    def _raw_probabilities(self, X: Any) -> np.ndarray:
        return self._probabilities(self._scaled(self._inputs(X, reset=False)))

    def _calibrate_on(self, rows: CleanRows | None, recipe: Recipe) -> None:
        """Prepare `predict_set` where labelled rows had no part in the training, not even in its end."""
        if hasattr(self, "calibration_scores_"):
            del self.calibration_scores_  # those of an earlier fit
        # singletons are no substitute for given labels: rows without any doubt are the easy ones
        if rows is not None and rows.source == "given" and recipe.patience is None:
            self.calibration_scores_ = calibration_scores(
                self._probabilities(rows.x), rows.mask.argmax(axis=1)
            )

    def _probabilities(self, x: np.ndarray) -> np.ndarray:
        """Class probabilities of scaled inputs."""
        device = choose_device(self.device)
        nets: tuple[nn.Module, ...] = tuple(net.to(device).eval() for net in self.net_)
        dtype = next((p.dtype for p in nets[0].parameters()), torch.float32)
        views = self._views()
        rows = EVALUATION_BATCH if device.type == "cuda" else ROWS_IN_CACHE if x.ndim == 2 else 256
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), rows):
                batch = views.plain(torch.from_numpy(x[start : start + rows]).to(device)).to(dtype)
                logits = torch.stack([net(batch) for net in nets]).mean(dim=0)
                parts.append(logits.double().softmax(dim=-1).cpu().numpy())
        return np.concatenate(parts)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for 1-D labels, covering rate for a mask, a `Candidates` or label sets."""
        if holds_sets(y):
            return covering_rate(self, X, y, sample_weight)
        return super().score(X, plain(y), sample_weight)

    # ---- the rest of the contract -------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: weights as safetensors, everything else as JSON."""
        from oneof.classifier.persist import save

        save(self, path)

    def __getstate__(self) -> Any:
        # copies of a model made on a GPU are usable without one; predictions move it back
        for net in getattr(self, "net_", ()):
            net.cpu()
        return super().__getstate__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        tags.input_tags.three_d_array = not isinstance(self.net, str) or self.net in IMAGE_NETS
        tags.non_deterministic = False
        return tags


def is_image(X: np.ndarray) -> bool:
    """Whether an array holds images: bytes of shape (n, channels, height, width)."""
    return X.ndim == 4 and X.dtype == np.uint8


def learns_from_clean(method: Method, recipe: Recipe, n_rows: int) -> bool:
    """Whether clean rows have a part in the training beyond being evaluated."""
    return method.clean_rows(recipe.rows_per_step(n_rows)) > 0 or recipe.clean_weight > 0


def set_sizes(mask: np.ndarray) -> dict[str, Any]:
    """How many rows there are and how large their sets: for the record of a model."""
    sizes = mask.sum(axis=1)
    return {
        "rows": len(sizes),
        "mean_set_size": round(float(sizes.mean()), 4),
        "largest_set": int(sizes.max()),
        "singletons": int((sizes == 1).sum()),
    }
