"""The training loop and what belongs to it."""

from oneof.training.clean import CleanRows
from oneof.training.loop import Trained, train
from oneof.training.progress import Silent, default_progress
from oneof.training.recipe import Recipe, TrainingError
from oneof.training.run import Run, RunError

__all__ = [
    "CleanRows",
    "Recipe",
    "Run",
    "RunError",
    "Silent",
    "Trained",
    "TrainingError",
    "default_progress",
    "train",
]
