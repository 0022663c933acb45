"""Scorers that work with a candidate mask as y, in `cross_val_score` and `GridSearchCV`."""

from oneof.scoring.scorers import accuracy, approximated_accuracy, covering_rate

__all__ = ["accuracy", "approximated_accuracy", "covering_rate"]
