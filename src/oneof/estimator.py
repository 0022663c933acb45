"""`PartialLabelClassifier`: the scikit-learn face of the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from oneof.candidates import Candidates
from oneof.data.scaling import Scaling
from oneof.inputs import as_candidates, known, label_columns
from oneof.methods import Method, make_method
from oneof.nets import NETS, Net, as_net, build_net
from oneof.scoring import covering_rate
from oneof.training import CleanRows, Recipe, Run, Silent, default_progress, find_clean_rows, train
from oneof.training.recipe import choose_device
from oneof.training.sources import EVALUATION_BATCH


class PartialLabelClassifier(ClassifierMixin, BaseEstimator):
    """A classifier learned from rows that carry one of several possible labels.

    Parameters
    ----------
    method : str or Method, default="rplg"
        How to learn from candidate sets; `oneof.list_methods()` names them all.
    method_params : dict, optional
        Hyper-parameters of the method, by name.
    net : {"mlp", "linear"}, nn.Module or (features, head), default="mlp"
        The network. A module of your own is copied, not changed.
    hidden : sequence of int, default=(300, 300)
        Hidden layers of the MLP.
    batch_norm : bool, default=True
        Whether the MLP normalises its layers.
    scaling : {"standard", "global", "minmax", "none"}, default="standard"
        Scaling of the features, learned from the training rows. "global" divides by one number and
        suits embeddings and principal components. Ignored for inputs that are no table.
    optimiser, lr, weight_decay, schedule, epochs, batch_size, patience
        See `oneof.training.Recipe`.
    clean_weight : float, default=0
        Weight of cross-entropy on the clean rows in the loss.
    selection_share : float, default=0
        Part of the clean rows kept aside to choose the epoch by, where `patience` is set. With 0
        the clean rows do both, which favours methods that learn from them.
    device : str, default="auto"
        The GPU where there is one.
    random_state : int, default=0
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
        How many there were.
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
            Inputs.
        y : mask (n, c), Candidates, list of label sets, or labels (n,)
            What each row may be.
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
        method = make_method(self.method, self.method_params)
        recipe = self._recipe()
        recipe.check()
        self.classes_ = np.asarray(candidates.classes)
        rows, held, clean_rows = self._clean_rows(X, candidates, clean, method, recipe)
        if len(rows) < 2:
            raise ValueError(
                f"n_samples = {len(rows)}: at least 2 training rows are needed, and only 1 sample or none "
                "is left after the clean rows."
            )
        table = X.ndim == 2
        self.scaling_ = Scaling.fit(X[rows], self.scaling) if table else None
        selection = None
        if clean_rows is not None:
            clean_rows = CleanRows(self._scaled(clean_rows.x), clean_rows.mask, clean_rows.source)
            if self.selection_share:
                clean_rows, selection = clean_rows.divide(self.selection_share, recipe.seed)
        trained = train(
            method,
            lambda: self._make_net(X, len(self.classes_)),
            self._scaled(X[rows]),
            candidates.take(rows),
            recipe=recipe,
            clean=clean_rows,
            selection=selection,
            run=Run(self.run) if self.run is not None else None,
            progress=default_progress() if self.verbose else Silent(),
        )
        self.method_ = method
        self.net_ = method.predictors(trained.state)
        self.history_ = trained.history
        self.best_epoch_ = trained.best_epoch
        self.clean_source_ = "none" if clean_rows is None else clean_rows.source
        self.n_clean_ = 0 if clean_rows is None else len(clean_rows)
        self.transduction_ = self._transduction(X, candidates, rows, held, trained.pseudo_labels)
        return self

    def _recipe(self) -> Recipe:
        seed = self.random_state
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
        elif not isinstance(seed, int | np.integer):
            raise ValueError(f"random_state is {seed!r}; give a whole number or None.")
        return Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimiser=self.optimiser,  # type: ignore[arg-type]
            lr=self.lr,
            weight_decay=self.weight_decay,
            schedule=self.schedule,  # type: ignore[arg-type]
            patience=self.patience,
            clean_weight=self.clean_weight,
            seed=int(seed),
            device=self.device,
        )

    def _inputs(self, X: Any, reset: bool) -> np.ndarray:
        own_net = not isinstance(self.net, str)
        return validate_data(self, X, reset=reset, dtype=np.float32, allow_nd=own_net, ensure_min_samples=1)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        return X if self.scaling_ is None else self.scaling_.apply(X)

    def _make_net(self, X: np.ndarray, n_classes: int) -> Net:
        if isinstance(self.net, str):
            if self.net not in NETS:
                raise ValueError(f"there is no net {self.net!r}; there are {', '.join(sorted(NETS))}.")
            return build_net(self.net, X.shape[1], n_classes, **self._net_options())
        return as_net(self.net, torch.from_numpy(self._scaled(X[:2])))

    def _net_options(self) -> dict[str, Any]:
        if self.net != "mlp":
            return {}
        return {"hidden": tuple(int(size) for size in self.hidden), "batch_norm": bool(self.batch_norm)}

    def _clean_rows(
        self, X: np.ndarray, candidates: Candidates, clean: Any, method: Method, recipe: Recipe
    ) -> tuple[np.ndarray, np.ndarray, CleanRows | None]:
        """Rows to train on, rows taken out of them, and the clean rows."""
        everything, nothing = np.arange(len(X)), np.zeros(0, dtype=np.int64)
        one_hot = np.eye(len(self.classes_), dtype=bool)
        if isinstance(clean, tuple):
            if len(clean) != 2:
                raise ValueError(f"clean is a tuple of {len(clean)}; give (X_clean, y_clean) or a vector.")
            x_clean, labels = self._inputs(clean[0], reset=False), np.asarray(clean[1])
            if len(x_clean) != len(labels):
                raise ValueError(f"clean has {len(x_clean)} rows but {len(labels)} labels.")
            mask = one_hot[label_columns(labels, self.classes_, "y_clean")]
            return everything, nothing, CleanRows(x_clean, mask)
        if clean is not None:
            labels = np.asarray(clean)
            if labels.shape != (len(X),):
                raise ValueError(
                    f"clean has shape {labels.shape}, but there are {len(X)} rows; give one entry per row "
                    "(missing where unknown), or a pair (X_clean, y_clean)."
                )
            held = np.flatnonzero(known(labels))
            if not len(held):
                raise ValueError("clean names no label at all: every entry is missing.")
            mask = one_hot[label_columns(labels[held], self.classes_, "clean")]
            return np.setdiff1d(everything, held), held, CleanRows(X[held], mask)
        wanted = method.clean_rows(recipe.rows_per_step(len(X))) or recipe.clean_weight or recipe.patience
        if not wanted:
            return everything, nothing, None
        rows, held, source = find_clean_rows(candidates, recipe.seed)
        found = CleanRows(X[held], candidates.mask[held], source) if len(held) else None
        return rows, held, found

    def _transduction(
        self,
        X: np.ndarray,
        candidates: Candidates,
        rows: np.ndarray,
        held: np.ndarray,
        pseudo_labels: np.ndarray,
    ) -> np.ndarray:
        """Pseudo-labels of all rows; rows that left training get the model's opinion on their set."""
        whole = np.empty(candidates.mask.shape, dtype=np.float32)
        whole[rows] = pseudo_labels
        if len(held):
            inside = self.predict_proba(X[held]) * candidates.mask[held]
            mass = inside.sum(axis=1, keepdims=True)
            flat = candidates.mask[held] / candidates.mask[held].sum(axis=1, keepdims=True)
            whole[held] = np.where(mass > 0, inside / np.where(mass > 0, mass, 1), flat)
        return whole

    # ---- predict ------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, c): class probabilities."""
        check_is_fitted(self)
        x = self._scaled(self._inputs(X, reset=False))
        device = choose_device(self.device)
        nets: tuple[nn.Module, ...] = tuple(net.to(device).eval() for net in self.net_)
        parts = []
        with torch.no_grad():
            for start in range(0, len(x), EVALUATION_BATCH):
                batch = torch.from_numpy(x[start : start + EVALUATION_BATCH]).to(device)
                logits = torch.stack([net(batch) for net in nets]).mean(dim=0)
                parts.append(logits.double().softmax(dim=-1).cpu().numpy())
        return np.concatenate(parts)

    def predict(self, X: Any) -> np.ndarray:
        """(n,): the most probable class."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for 1-D labels, covering rate for a mask or `Candidates`."""
        if isinstance(y, Candidates) or (np.ndim(y) == 2 and np.shape(y)[1] > 1):
            return covering_rate(self, X, y)
        return super().score(X, y, sample_weight)

    # ---- the rest of the contract -------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: weights as safetensors, everything else as JSON."""
        from oneof.persist import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        tags.input_tags.three_d_array = not isinstance(self.net, str)
        tags.non_deterministic = False
        return tags
