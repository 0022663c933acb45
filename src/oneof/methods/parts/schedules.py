"""When parts of a method set in, whatever the length of the training."""

from __future__ import annotations

from oneof.methods.base import StepInfo


def at_most_a_quarter(wanted: int, whole: int) -> int:
    """Length of a warm-up: as wanted, but never so long that the method itself hardly runs."""
    return min(wanted, whole // 4)


def warm_up_steps(wanted: int, step: StepInfo) -> int:
    """A warm-up counted in steps."""
    return at_most_a_quarter(wanted, step.epochs * step.steps_per_epoch)


def fade_in(step: StepInfo, share: float) -> float:
    """0 in the first epoch, growing linearly to 1 after this share of the epochs; always 1 if that is 0."""
    return min(1.0, step.epoch / (share * step.epochs)) if share > 0 else 1.0
