"""A classifier that stops in time."""

from __future__ import annotations

from dataclasses import replace

from oneof.estimator import PartialLabelClassifier
from oneof.training import Recipe


class TimedClassifier(PartialLabelClassifier):
    """`PartialLabelClassifier` whose training ends before a number of seconds; see `Recipe.max_seconds`."""

    max_seconds: float | None = None

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), max_seconds=self.max_seconds)
