"""What is left of a training when its last epoch is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor

from oneof.methods import parallel
from oneof.nets.fast import without_fast_features
from oneof.training.checks import warn_of_equal_predictions
from oneof.training.given import Trained
from oneof.training.ongoing import OngoingTraining
from oneof.training.sources import ResidentRows

LOOKED_AT = 256
"""Rows that are predicted at the end, to see whether anything was learned."""


def finished(training: OngoingTraining, seconds: float) -> Trained:
    """The selected weights, pseudo-labels and what happened on the way."""
    labels = pseudo_labels(training)
    best_epoch = training.step.epoch - 1
    if training.best is not None:
        best_epoch = training.stopping.best_epoch
        for i, net in enumerate(training.method.predictors(training.state)):
            prefix = f"{i}."
            net.load_state_dict(
                {k.removeprefix(prefix): v for k, v in training.best.items() if k.startswith(prefix)}
            )
    training.state.eval()
    look_at_some_rows(training)
    without_fast_features(training.state)
    clean = training.given.clean
    facts = {"clean_rows": 0 if clean is None else len(clean), "clean_source": clean and clean.source}
    return Trained(training.method, training.state, training.history, labels, best_epoch, seconds, facts)


def pseudo_labels(training: OngoingTraining) -> Callable[[], Tensor]:
    """Those of the last epoch: made now, or where they are large when somebody asks for them."""
    method, state, task = training.method, training.state, training.task
    if training.candidates.layout is not None and any(name in state.rows for name in method.watched):
        # from tables that nothing changes any more; no row passes the nets again
        return partial(method.pseudo_labels, state, replace(task, row_pass=None))
    with training.drawing():
        made = method.pseudo_labels(state, task).cpu().clone()
    return lambda: made


def look_at_some_rows(training: OngoingTraining) -> None:
    """Say so where a net has come to predict the same for all rows."""
    if isinstance(training.rows, ResidentRows) and parallel.rank() == 0:
        own = training.own_rows()
        x = next(training.rows.batches(own[:: 1 + len(own) // LOOKED_AT], LOOKED_AT))[1]
        warn_of_equal_predictions(training.predict(x), x)
