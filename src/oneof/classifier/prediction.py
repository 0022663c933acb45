"""What a fitted model says about new rows: labels, probabilities, sets, or nothing.

`Predictions` is the part of `PartialLabelClassifier` that users call after `fit`; it only needs class
probabilities and the names of the classes.
"""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from oneof.candidates.cells import short
from oneof.candidates.compact import restricted
from oneof.classifier import scoring
from oneof.classifier.calibration import ENOUGH, cool, temperature
from oneof.classifier.inputs import as_numpy, holds_sets, label_columns, mask_over, one_hot
from oneof.classifier.settings import EstimatorSettings


class Predictions(EstimatorSettings):
    """Prediction methods on top of the network's probabilities."""

    calibration_scores_: dict[str, np.ndarray]
    checked_: dict[str, Any] | None
    temperature_: float
    encoder_: Any
    n_features_in_: int
    _transduction: Any

    def with_encoder(self, encoder: Any) -> Any:
        """Keep with a fitted model the `TableEncoder` that made the X of `fit`. Returns the model.

        `oneof predict`, `save` and `export_onnx` then know it, and the features have the encoder's names.
        """
        check_is_fitted(self)
        names = np.asarray(encoder.feature_names, dtype=object)
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"the encoder makes {len(names)} features, but the model was fitted on {self.n_features_in_}."
            )
        self.encoder_, self.feature_names_in_ = encoder, names
        return self

    def with_transduction(self, transduction: np.ndarray) -> Any:
        """Replace what is believed of the rows of `fit` by that of a whole table, (n, c). Returns the model.

        Its rows are those of `fit`, and others whose label was known.
        """
        check_is_fitted(self)
        if transduction.ndim != 2 or transduction.shape[1] != len(self.classes_):
            raise ValueError(
                f"transduction has shape {transduction.shape}, but there are {len(self.classes_)} classes."
            )
        self.transduction_ = transduction
        return self

    @property
    def transduction_(self) -> np.ndarray:
        """(n, c): what is believed of the rows of `fit`; made now, where it is large."""
        if "_transduction" not in vars(self):
            raise AttributeError("there is no transduction_: this model knows no training rows.")
        if callable(self._transduction):
            self._transduction = self._transduction()
        return self._transduction

    @transduction_.setter
    def transduction_(self, value: Any) -> None:
        self._transduction = value

    def transduction_of(self, rows: np.ndarray) -> np.ndarray:
        """(B, c): `transduction_` of some rows, by number; what is large is not made as a whole for it."""
        made = vars(self).get("_transduction")
        return made(rows) if callable(made) else self.transduction_[rows]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for 1-D labels, covering rate for a mask, a `Candidates` or label sets."""
        if holds_sets(y, self.classes_.tolist()):
            return scoring.covering_rate(self, X, y, sample_weight)
        return ClassifierMixin.score(self, X, as_numpy(y), sample_weight)

    def predict_proba(self, X: Any, allowed: Any = None) -> np.ndarray:
        """(n, c): class probabilities.

        Parameters
        ----------
        X : array, tensor or data frame (n, d)
        allowed : class names, boolean mask (n, c), Candidates or label sets, optional
            Classes that can be right, for all rows or for each row. The others get probability 0, and
            the rest is renormalised.
        """
        check_is_fitted(self)
        p = self._raw_probabilities(X)
        return p if allowed is None else restricted(p, allowed_mask(allowed, self.classes_, len(p)))

    def predict(self, X: Any, allowed: Any = None, reject_below: float | None = None) -> np.ndarray:
        """(n,): the most probable class.

        Parameters
        ----------
        X : array, tensor or data frame (n, d)
        allowed : optional
            Classes that can be right; see `predict_proba`.
        reject_below : float, optional
            Rows whose most probable class is less probable than this get None instead of a class;
            `risk_coverage` helps to choose the number.
        """
        return chosen(self.predict_proba(X, allowed), self.classes_, reject_below)

    def calibrate(self, X: Any, y: Any, *, record_accuracy: bool = False, probabilities: bool = True) -> Any:
        """Learn from labelled rows how sure to be and how wide `predict_set` has to be. Returns the model.

        The rows must be new to the model: on rows it has learned from it looks better than it is, and the
        sets would be too small. Calibrating again replaces what was there.

        From 20 rows on the logits are divided by a temperature, inside the network's last layer:
        `predict_proba` is less (or more) sure then, `predict` says the same, and a saved or exported
        model has it too.

        Parameters
        ----------
        X : array, tensor or data frame (m, d)
        y : array (m,)
            True labels.
        record_accuracy : bool, default=False
            Keep the accuracy on these rows as `checked_`, for the model card.
        probabilities : bool, default=True
            Whether to change `predict_proba`.
        """
        check_is_fitted(self)
        columns = label_columns(np.asarray(as_numpy(y)), self.classes_, "y")
        x = self.prepare(self._inputs(X, reset=False))
        if not len(x) == len(columns) > 0:
            raise ValueError(f"X has {len(x)} rows, but y has {len(columns)} labels.")
        p = self.calibrate_prepared(x, columns, probabilities)
        if record_accuracy:
            self.checked_ = {"rows": len(p), "accuracy": float((p.argmax(axis=1) == columns).mean())}
        return self

    def calibrate_prepared(self, x: Any, columns: np.ndarray, probabilities: bool = True) -> np.ndarray:
        """Calibrate on inputs that went through `prepare`. Returns their probabilities afterwards."""
        p = self.prepared_proba(x)
        if probabilities and len(p) >= ENOUGH:
            self.set_temperature(temperature(p, one_hot(columns, p.shape[1])))
            p = self.prepared_proba(x)
        self.calibration_scores_ = scoring.calibration_scores(p, columns)
        return p

    def set_temperature(self, t: float) -> None:
        """Divide the logits by t from now on; `temperature_` is the product of all such numbers."""
        if cool(self.net_, t):
            self.temperature_ = getattr(self, "temperature_", 1.0) * t

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        score: str = "probability",
        allowed: Any = None,
        allow_empty: bool = False,
    ) -> np.ndarray:
        """(n, c) mask: for every row the classes that remain possible (split-conformal prediction).

        The sets hold the true label in at least the share `coverage` of new rows, as long as these come
        from the same source as the calibration rows; for single classes or groups of rows it may be
        less. `Candidates.from_mask(sets, model.classes_)` makes candidates of them.

        Needs calibration rows: those given to `fit` as `clean` and kept aside from learning serve by
        themselves, others are given to `calibrate`.

        Parameters
        ----------
        X : array, tensor or data frame (n, d)
        coverage : float, default=0.9
            Share of rows whose set holds the true label.
        score : {"probability", "adaptive"}, default="probability"
            "probability" gives the smallest sets on average, "adaptive" sets that grow more where the
            model is unsure; see `oneof.classifier.scoring`.
        allowed : optional
            Classes that can be right; see `predict_proba`. The sets are cut down to them.
        allow_empty : bool, default=False
            A set can come out empty where every class is less probable than usual for a right one. By
            default it gets the most probable class; True leaves it empty, as a sign that a row is odd.
        """
        check_is_fitted(self)
        limit = self.set_limit(coverage, score)
        p = self._raw_probabilities(X)
        mask = None if allowed is None else allowed_mask(allowed, self.classes_, len(p))
        return scoring.sets_within(p, limit, score, mask, allow_empty)

    def set_limit(self, coverage: float, score: str = "probability") -> float:
        """The worst score a class may have to be in a set of `predict_set`."""
        if score not in scoring.SCORES:
            raise ValueError(f"score is {score!r}; it must be one of {', '.join(map(repr, scoring.SCORES))}.")
        if not hasattr(self, "calibration_scores_"):
            raise ValueError(
                f"prediction sets need calibration rows, and {why_not_calibrated(self)}.\n"
                "  Call calibrate(X, y) with labelled rows that `fit` has not seen, or keep part of the "
                "clean rows aside: selection_share=0.5."
            )
        return scoring.score_limit(self.calibration_scores_[score], coverage)

    def risk_coverage(self, X: Any, y: Any, allowed: Any = None) -> scoring.RiskCoverage:
        """What rejecting unsure rows costs and buys, on labelled rows the model has not learned from."""
        return scoring.risk_coverage(self.predict_proba(X, allowed), y, self.classes_)


def why_not_calibrated(model: Any) -> str:
    """Why `fit` found no rows to calibrate on, as the end of a sentence."""
    if getattr(model, "clean_source_", "none") != "given":
        return "no labelled rows were given to `fit`"
    if getattr(model, "patience", None) is not None:
        return "those given to `fit` chose its last epoch (patience)"
    return "the model learned from all that were given to `fit`"


def chosen(p: np.ndarray, classes: np.ndarray, reject_below: float | None = None) -> np.ndarray:
    """The most probable class of every row; None where it is less probable than `reject_below`."""
    labels = classes[p.argmax(axis=1)]
    if reject_below is None:
        return labels
    if not (isinstance(reject_below, int | float | np.number) and reject_below >= 0):
        raise ValueError(f"reject_below is {reject_below!r}; give a probability such as 0.8.")
    made = np.empty(len(p), dtype=object)
    made[:] = labels.tolist()
    made[p.max(axis=1) < reject_below] = None
    return made


def allowed_mask(allowed: Any, classes: np.ndarray, n: int) -> np.ndarray:
    """(1, c) or (n, c): which classes a user allows, given by name, as a mask, or row by row."""
    if isinstance(allowed, str):
        allowed = [allowed]
    if isinstance(allowed, set | frozenset):
        allowed = sorted(allowed, key=str)
    if holds_sets(allowed, classes.tolist()):
        mask = mask_over(allowed, classes)[0]
        if len(mask) != n:
            raise ValueError(f"allowed has {len(mask)} rows, but X has {n}; give one row each, or a list.")
    else:
        names = np.asarray(as_numpy(allowed))
        if names.dtype == bool and names.shape == classes.shape and classes.dtype != bool:
            mask = names[None]
        else:
            columns = label_columns(names, classes, "allowed", strict=False)
            unknown = [name for name, k in zip(names.tolist(), columns) if k < 0]
            if unknown:
                near = difflib.get_close_matches(str(unknown[0]), map(str, classes.tolist()), n=1)
                meant = (
                    f"did you mean {near[0]!r}?" if near else f"the model knows {short(classes.tolist())}."
                )
                raise ValueError(
                    f"allowed names the class {unknown[0]!r}, which the model does not know; {meant}"
                )
            mask = np.zeros((1, len(classes)), dtype=bool)
            mask[0, columns] = True
    empty = np.flatnonzero(~mask.any(axis=1))
    if len(empty):
        row = f"row {empty[0]} of " if len(mask) > 1 else ""
        raise ValueError(f"{row}allowed leaves no class; the model knows {short(classes.tolist())}.")
    return mask
