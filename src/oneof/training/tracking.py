"""Callbacks and trackers beside the progress bar: any object with three calls, TensorBoard among them.

train(..., progress=Several(default_progress(), TensorBoardTracker("runs/first")))
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from numbers import Real
from typing import Any, Protocol

from oneof.training.progress import Progress, Silent


class TrackingWarning(UserWarning):
    """A tracker failed. The training goes on without it."""


class Tracker(Protocol):
    """What a tracker does."""

    def start(self, config: Mapping[str, Any]) -> None:
        """A training begins, or goes on after epoch `config["done"]`."""

    def log(self, row: Mapping[str, Any]) -> None:
        """The numbers of one epoch; `row["epoch"]` counts from 0."""

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Training is over, well or not; `summary` is the last row, empty if there was none."""


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
            self.failed = True
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
    """Several progress displays, trackers and functions of an epoch's row as one.

    `config` is what trackers note at the start.

    Examples
    --------
    >>> from oneof.training import Silent
    >>> progress = Several(Silent(), Silent())
    """

    def __init__(
        self,
        *parts: Progress | Tracker | Callable[[dict[str, Any]], Any],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.parts: list[Progress] = [_as_progress(part, config) for part in parts]

    def start(self, title: str, epochs: int, done: int) -> None:
        for part in self.parts:
            part.start(title, epochs, done)

    def epoch(self, row: dict[str, Any]) -> None:
        for part in self.parts:
            part.epoch(row)

    def finish(self) -> None:
        with ExitStack() as each:  # each is closed, whatever the others do
            for part in reversed(self.parts):
                each.callback(part.finish)


class Called(Silent):
    """A function seen as progress: called with the row of every epoch. What it raises ends the training."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self.function = function

    def epoch(self, row: dict[str, Any]) -> None:
        self.function(row)


def _as_progress(part: Any, config: Mapping[str, Any] | None) -> Progress:
    if hasattr(part, "epoch"):
        return part
    if hasattr(part, "log"):
        return Tracked(part, config)
    if callable(part):
        return Called(part)
    raise TypeError(f"{part!r} can be told of no epoch: give a function of a row, or a tracker.")


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row, without its epoch; what is missing or no number is left out."""
    return {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, Real) and not isinstance(value, bool) and name != "epoch"
    }


class TensorBoardTracker:
    """Writes event files into a folder. Needs the extra `track-tensorboard`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self.writer: Any = None
        try:
            importlib.import_module("tensorboard")  # a missing package is told now, not at the first epoch
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed.\n  Install it with: pip install 'oneof[track-tensorboard]'"
            ) from error

    def start(self, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # epochs that an interrupted training logged after its checkpoint come again: the old ones are dropped
        self.writer = SummaryWriter(self.folder, purge_step=int(config.get("done", 0)))
        self.writer.add_text("config", _as_text(config))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in scalars(row).items():
            self.writer.add_scalar(name, value, int(row["epoch"]))
        self.writer.flush()

    def finish(self, summary: Mapping[str, Any]) -> None:
        if self.writer is not None:
            self.writer.add_text("summary", _as_text(summary))
            self.writer.close()
            self.writer = None


def _as_text(facts: Mapping[str, Any]) -> str:
    """JSON, indented so that TensorBoard's Markdown shows it as it is."""
    text = json.dumps(dict(facts), indent=2, default=str, ensure_ascii=False)
    return "\n".join("    " + line for line in text.splitlines())
