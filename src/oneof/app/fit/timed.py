"""A classifier that stops in time."""

from __future__ import annotations

from dataclasses import replace

from oneof.classifier.estimator import PartialLabelClassifier
from oneof.training import Recipe
from oneof.training.progress import Progress
from oneof.training.tracking import Several, Tracker


class TimedClassifier(PartialLabelClassifier):
    """`PartialLabelClassifier` whose training ends before a number of seconds; see `Recipe.max_seconds`."""

    max_seconds: float | None = None
    tracker: Tracker | None = None
    """Told of every epoch beside what is shown; see `oneof.training.tracking`."""

    def _progress(self) -> Progress:
        shown = super()._progress()
        if self.tracker is None:
            return shown
        method = self.method if isinstance(self.method, str) else self.method.info.name
        config = {"method": method, "net": str(self.net), "epochs": self.epochs, "lr": self.lr}
        return Several(shown, self.tracker, config=config)

    def _recipe(self) -> Recipe:
        return replace(super()._recipe(), max_seconds=self.max_seconds)
