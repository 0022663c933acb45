"""How good is a classifier, with and without true labels?

Every scorer takes `(estimator, X, y)`, higher is better, and y is a candidate mask (n, c), a
`Candidates`, label sets, or 1-D true labels. Names of classes are matched where y has them. What they
can tell:

- `accuracy` needs true labels. Given a mask it looks at the rows with one candidate only.
- `covering_rate` asks whether the prediction is a candidate. A model that learned the habits of the
  annotators scores high too, so that it is a weak criterion for large sets.
- `approximated_accuracy` asks how sure the model is of its choice among the candidates. It also
  likes models that are sure and wrong. Read the two together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneof.classifier.inputs import mask_over


def accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of right predictions; for a mask among the rows with one candidate (NaN without any).

    A label that the estimator has never seen counts as missed.
    """
    mask, labels = mask_over(y, estimator.classes_)
    counted = np.ones(len(mask), dtype=bool) if labels else mask.sum(axis=1) == 1
    if not counted.any():
        return float("nan")
    return _mean(_at_prediction(mask, estimator.predict_proba(X)), sample_weight, counted)


def covering_rate(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Share of predictions that are among the candidates of their row."""
    mask, _ = mask_over(y, estimator.classes_)
    return _mean(_at_prediction(mask, estimator.predict_proba(X)), sample_weight)


def approximated_accuracy(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """1 − Σ_{k ≠ prediction} p_k Y_k / Σ_k p_k Y_k, averaged over the rows (PLENCH, ICLR 2025).

    The expected accuracy if the model's probabilities, restricted to the candidates, were right. A
    prediction outside the candidates counts 0.
    """
    mask, _ = mask_over(y, estimator.classes_)
    p = estimator.predict_proba(X)
    inside = _checked(mask, p) * p
    mass = inside.sum(axis=1)
    share = np.divide(_at_prediction(inside, p), mass, out=np.zeros_like(mass), where=mass > 0)
    return _mean(share, sample_weight)


def _at_prediction(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The value of every row at its most probable class."""
    return _checked(values, p)[np.arange(len(p)), p.argmax(axis=1)]


def _checked(values: np.ndarray, p: np.ndarray) -> np.ndarray:
    if len(values) != len(p):
        raise ValueError(f"X has {len(p)} rows, but y has {len(values)}.")
    return values


def _mean(values: np.ndarray, weight: Any, counted: np.ndarray | None = None) -> float:
    weight = None if weight is None else np.asarray(weight, dtype=np.float64)
    if counted is not None:
        values, weight = values[counted], None if weight is None else weight[counted]
    return float(np.average(values, weights=weight))
