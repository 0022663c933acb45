"""`Tracker`: three calls that any experiment tracker can answer, and how the training loop reaches it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, Protocol

from oneof.training.progress import Progress


class TrackingWarning(UserWarning):
    """A tracker failed. The training goes on without it."""


class Tracker(Protocol):
    """What a tracker does."""

    def start(self, config: Mapping[str, Any]) -> None:
        """A training begins, or goes on after epoch `config["done"]`."""
        ...

    def log(self, row: Mapping[str, Any]) -> None:
        """The numbers of one epoch; `row["epoch"]` counts from 0."""
        ...

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Training is over, well or not; `summary` is the last row, empty if there was none."""
        ...


class Tracked:
    """A tracker seen as progress: what the loop reports goes to the tracker.

    A tracker that fails (a full disk, a service out of reach) is not worth a lost training: the
    failure is told once, and the tracker is left alone from then on.
    """

    def __init__(self, tracker: Tracker, config: Mapping[str, Any] | None = None) -> None:
        self.tracker, self.config = tracker, dict(config or {})
        self.last: dict[str, Any] = {}
        self.failed = False

    def start(self, title: str, epochs: int, done: int) -> None:
        self._try("start", {"title": title, "epochs": epochs, "done": done, **self.config})

    def epoch(self, row: dict[str, Any]) -> None:
        self.last = row
        self._try("log", row)

    def finish(self) -> None:
        self._try("finish", self.last)

    def _try(self, call: str, facts: Mapping[str, Any]) -> None:
        if self.failed:
            return
        try:
            getattr(self.tracker, call)(facts)
        except ImportError:
            raise  # a missing package is better told before the training than after it
        except Exception as error:
            self.failed = True
            warnings.warn(
                f"{type(self.tracker).__name__}.{call} failed: {type(error).__name__}: {error}\n"
                "  The training goes on without this tracker.",
                TrackingWarning,
                stacklevel=2,
            )


class Several:
    """Several progress displays and trackers as one; `config` is what trackers note at the start.

    Examples
    --------
    >>> from oneof.training import Silent
    >>> progress = Several(Silent(), Silent())
    """

    def __init__(self, *parts: Progress | Tracker, config: Mapping[str, Any] | None = None) -> None:
        self.parts: list[Progress] = [
            part if hasattr(part, "epoch") else Tracked(part, config)  # type: ignore[misc]
            for part in parts
        ]

    def start(self, title: str, epochs: int, done: int) -> None:
        for part in self.parts:
            part.start(title, epochs, done)

    def epoch(self, row: dict[str, Any]) -> None:
        for part in self.parts:
            part.epoch(row)

    def finish(self) -> None:
        problem: BaseException | None = None
        for part in self.parts:  # each is closed, whatever the others do
            try:
                part.finish()
            except BaseException as error:
                problem = problem or error
        if problem is not None:
            raise problem


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row, without its epoch; what is missing or no number is left out."""
    return {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, Real) and not isinstance(value, bool) and name != "epoch"
    }
