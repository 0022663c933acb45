"""What a choice has to beat: a linear model on labels that anybody could have made.

The model is scikit-learn's logistic regression; its coefficients become the one layer of the net "linear", so
that a baseline that wins is a model like any other: it is saved, exported and calibrated in the same way.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from oneof.candidates import Candidates
from oneof.classifier.clean import set_sizes
from oneof.classifier.inputs import class_array
from oneof.classifier.scoring import restricted
from oneof.methods import make_method
from oneof.nets import build_net

BASELINES = {
    "random candidate": "a linear model on one random candidate of every row",
    "majority vote": "a linear model on the candidate with the most support",
    "clean rows alone": "a linear model on the clean rows alone",
}
NEVER = -30.0
"""Logit of a class that no label names."""


@dataclass(frozen=True)
class KnownRows:
    """Clean rows in the form every part of a choice uses: inputs and columns of their labels."""

    x: np.ndarray
    columns: np.ndarray

    def __len__(self) -> int:
        return len(self.columns)


def fit_baseline(
    model: Any,
    kind: str,
    X: np.ndarray,
    candidates: Candidates,
    clean: KnownRows | None,
    seed: int,
    weights: Any = None,
) -> Any:
    """Fit a `PartialLabelClassifier` with the net "linear" by logistic regression. Returns the model.

    Parameters
    ----------
    kind : str
        One of `BASELINES`. "majority vote" needs evidence, "clean rows alone" clean rows.
    """
    x, columns = X, None
    if kind == "clean rows alone":
        assert clean is not None
        x, columns, weights = clean.x, clean.columns, None
    elif kind == "majority vote":
        columns = _likeliest(evidence_of(candidates), seed)
    else:
        columns = _likeliest(candidates.mask, seed)
    model.classes_ = class_array(candidates.classes)
    model.n_features_in_, model.input_shape_ = X.shape[1], tuple(map(int, X.shape[1:]))
    model.scaling_ = model._fitted_scaling(x)
    scaled = model.prepare(x)
    weight, bias = _regression(scaled, columns, len(model.classes_), seed, weights)
    net = build_net("linear", X.shape[1], len(model.classes_))
    net.head.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    model.net_ = (net.eval(),)
    model.method_ = make_method("clean-only" if kind == "clean rows alone" else "average")
    p = model.prepared_proba(scaled)
    loss = log_loss(columns, p, labels=np.arange(p.shape[1])) if p.shape[1] > 1 else 0.0
    model.history_, model.best_epoch_ = [{"epoch": 0, "loss": float(loss), "lr": 0.0}], 0
    model.clean_source_ = "none" if clean is None else "given"
    model.n_clean_, model.n_selection_ = 0 if clean is None else len(clean), 0
    model.clean_weight_ = float(kind == "clean rows alone")
    model.trained_on_ = set_sizes(candidates.sizes)
    model.encoder_ = model.checked_ = None
    own = model.prepared_proba(model.prepare(X))
    model.transduction_ = restricted(own, candidates.mask).astype(np.float32)
    return model


def evidence_of(candidates: Candidates) -> np.ndarray | None:
    """(n, c): how strongly every candidate is supported, where the sets carry that."""
    return None if candidates.evidence is None else candidates.evidence_of(np.arange(len(candidates)))


def _likeliest(support: Any, seed: int) -> np.ndarray:
    """The column with the most support in every row, ties by chance."""
    # a stream of its own: generated sets are often drawn from default_rng(seed), and the same numbers again
    # would tell which candidate is the true one
    chance = np.random.default_rng([seed, 0xBA5E]).random(np.shape(support))
    top = support == support.max(axis=1, keepdims=True)
    return np.where(top, chance, -1.0).argmax(axis=1)


def _regression(
    x: np.ndarray, columns: np.ndarray, n_classes: int, seed: int, weights: Any
) -> tuple[Any, Any]:
    """Weights (c, d) and biases (c,) of a logistic regression; one that never occurs is never predicted."""
    there = np.unique(columns)
    weight = np.zeros((n_classes, x.shape[1]), dtype=np.float32)
    bias = np.full(n_classes, NEVER, dtype=np.float32)
    if len(there) == 1:
        bias[there] = 0.0
        return weight, bias
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline need not be solved to the last digit
        found = LogisticRegression(max_iter=200, random_state=seed).fit(x, columns, sample_weight=weights)
    if len(there) == 2:  # one row of coefficients, for the second class
        weight[there[1]], bias[there] = found.coef_[0], [0.0, found.intercept_[0]]
    else:
        weight[there], bias[there] = found.coef_, found.intercept_
    return weight, bias
