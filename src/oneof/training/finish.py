"""What is left of a training when its last epoch is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from oneof.methods import parallel
from oneof.methods.state import RowState
from oneof.methods.targets import candidate_softmax, uniform
from oneof.nets.fast import without_fast_features
from oneof.training.checks import warn_of_equal_predictions
from oneof.training.distributed import exchange_tables_
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
    n = len(training.rows)
    return Trained(training.method, training.state, training.history, labels, n, best_epoch, seconds, facts)


def pseudo_labels(training: OngoingTraining) -> Callable[[Tensor], Tensor]:
    """Those of the last epoch by row numbers, (B, c); where they are large they stay kept by candidate."""
    method, state, task = training.method, training.state, training.task
    sets, layout = task.candidates, task.candidates.layout
    take: Callable[[Tensor], Tensor]
    if any(name in state.rows for name in method.watched[-1:]):
        # from tables that nothing changes any more; no row passes the nets again
        take = partial(method.pseudo_labels, state, replace(task, row_pass=None))
    else:
        found = RowState()
        found.add("label", partial(uniform, dtype=task.dtype), support=sets)

        def put(x: Tensor, index: Tensor) -> Tensor:
            found.put(index, label=candidate_softmax(method.logits(state, x), sets.take(index)))
            return index

        with training.drawing():
            training.each_row(put)
        exchange_tables_(found)
        take = lambda index: found.take(index, "label")  # noqa: E731
    if layout is None:
        made = take(torch.arange(task.n_rows, device=task.device)).cpu()
        return lambda index: made[index]
    return lambda index: take(index.to(layout.labels.device)).cpu()


def look_at_some_rows(training: OngoingTraining) -> None:
    """Say so where a net has come to predict the same for all rows."""
    if isinstance(training.rows, ResidentRows) and parallel.rank() == 0:
        own = training.own_rows()
        x = next(training.rows.batches(own[:: 1 + len(own) // LOOKED_AT], LOOKED_AT))[1]
        warn_of_equal_predictions(training.predict(x), x)
