"""Experiment trackers beside the progress bar: TensorBoard, wandb, trackio. Nothing here is required.

train(..., progress=Several(default_progress(), make_tracker("tensorboard", "runs/first")))
"""

from oneof.training.tracking.choose import TRACKERS, make_tracker
from oneof.training.tracking.tracker import Several, Tracked, Tracker, TrackingWarning

__all__ = ["TRACKERS", "Several", "Tracked", "Tracker", "TrackingWarning", "make_tracker"]
