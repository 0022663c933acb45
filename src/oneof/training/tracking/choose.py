"""Trackers by name."""

from __future__ import annotations

import os
from pathlib import Path

from oneof.training.tracking.tensorboard import TensorBoardTracker
from oneof.training.tracking.tracker import Tracker
from oneof.training.tracking.wandb_like import WandbLike

TRACKERS = ("tensorboard", "wandb", "trackio")


def make_tracker(name: str, folder: str | os.PathLike[str]) -> Tracker:
    """The tracker of that name for a run folder; an ImportError names the extra it needs.

    TensorBoard writes into `folder/tensorboard`; the others file the run under the folder's name, and
    wandb keeps its local files in the folder as well.
    """
    folder = Path(folder)
    if name == "tensorboard":
        return TensorBoardTracker(folder / "tensorboard")
    title = folder.resolve().name
    if name == "wandb":
        return WandbLike("wandb", name=title, dir=str(folder))
    if name == "trackio":
        return WandbLike("trackio", name=title)
    raise ValueError(f"there is no tracker {name!r}.\n  Choose one of {', '.join(TRACKERS)}.")
