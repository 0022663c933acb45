"""How good is a classifier, with and without true labels?

Every scorer takes `(estimator, X, y)`, higher is better, and y is a candidate mask (n, c), a
`Candidates`, or 1-D true labels. What they can tell:

- `accuracy` needs true labels. Given a mask it looks at the rows with one candidate only.
- `covering_rate` asks whether the prediction is a candidate. A model that learned the habits of the
  annotators scores high too, so that it is a weak criterion for large sets.
- `approximated_accuracy` asks how sure the model is of its choice among the candidates. It also
  likes models that are sure and wrong. Read the two together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oneof.candidates import Candidates


def accuracy(estimator: Any, X: Any, y: Any) -> float:
    """Share of right predictions; for a mask among the rows with one candidate (NaN without any)."""
    mask = _mask(estimator, y)
    known = mask.sum(axis=1) == 1
    if not known.any():
        return float("nan")
    return float(mask[np.arange(len(mask)), _columns(estimator, X)][known].mean())


def covering_rate(estimator: Any, X: Any, y: Any) -> float:
    """Share of predictions that are among the candidates of their row."""
    mask = _mask(estimator, y)
    return float(mask[np.arange(len(mask)), _columns(estimator, X)].mean())


def approximated_accuracy(estimator: Any, X: Any, y: Any) -> float:
    """1 − Σ_{k ≠ prediction} p_k Y_k / Σ_k p_k Y_k, averaged over the rows (PLENCH, ICLR 2025).

    The expected accuracy if the model's probabilities, restricted to the candidates, were right. A
    prediction outside the candidates counts 0.
    """
    mask = _mask(estimator, y)
    p = estimator.predict_proba(X) * mask
    chosen = p[np.arange(len(p)), _columns(estimator, X)]
    mass = p.sum(axis=1)
    return float(np.divide(chosen, mass, out=np.zeros_like(mass), where=mass > 0).mean())


def _columns(estimator: Any, X: Any) -> np.ndarray:
    """Predicted column of every row."""
    return estimator.predict_proba(X).argmax(axis=1)


def _mask(estimator: Any, y: Any) -> np.ndarray:
    """y as a mask over the estimator's classes; a label it has never seen is a candidate of no class."""
    if isinstance(y, Candidates):
        return y.mask
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == len(estimator.classes_):
        return values.astype(bool)
    return values.reshape(-1, 1) == estimator.classes_
