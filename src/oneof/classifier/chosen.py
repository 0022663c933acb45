"""What `method="auto"` adds to the estimator: its fit, what it leaves behind, the model it chose."""

from __future__ import annotations

from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.classifier.calibration import LabelErrors

LEFT = ("settings_", "selection_", "selection_note_", "out_of_fold_", "label_errors_")
"""What a choice leaves behind beside the model."""

OWN = ("feature_names_in_", "n_features_in_", "encoder_")
"""What the estimator knows of its inputs; contenders see arrays."""


def learned(name: str) -> bool:
    """Whether an attribute was learned by `fit`; `transduction_` may still have to be made."""
    return name.endswith("_") or name == "_transduction"


class ChoicePart:
    """The part of `PartialLabelClassifier` that takes over what a choice found."""

    settings_: dict[str, Any]
    selection_: list[dict[str, Any]]
    selection_note_: str
    out_of_fold_: np.ndarray
    label_errors_: LabelErrors

    def choose(
        self, X: np.ndarray, given: Any, candidates: Candidates, clean: Any, groups: Any, weights: Any
    ) -> Any:
        """Fit by comparing; see `oneof.classifier.choice`. X was made from what was `given`."""
        from oneof.classifier.choice_of_part import choose_by_some_or_all

        self.forget()
        chosen = choose_by_some_or_all(self, X, given, candidates, clean, groups, weights)
        for name, value in vars(chosen.model).items():
            if learned(name) and name not in OWN:
                setattr(self, name, value)
        for name in LEFT:
            value = getattr(chosen, name.rstrip("_"))
            if value is not None:
                setattr(self, name, value)
        return self

    def forget(self) -> None:
        """Drop what only some fits leave behind: those of an earlier one."""
        for name in (*LEFT, "calibration_scores_", "temperature_"):
            vars(self).pop(name, None)

    def chosen_model(self) -> Any:
        """The fitted model as if what `method="auto"` chose had been asked for; else the model itself."""
        if not hasattr(self, "settings_"):
            return self
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        plain = type(self)(**{**params, **self.settings_})
        for name, value in vars(self).items():
            if learned(name):
                setattr(plain, name, value)
        for name in ("settings_", "out_of_fold_", "label_errors_"):
            vars(plain).pop(name, None)
        return plain
