"""The one training loop: any method, any net, CPU or GPU."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from oneof.candidates import Candidates
from oneof.methods import parallel
from oneof.methods.base import Method, State
from oneof.methods.state import RowState
from oneof.methods.targets import candidate_softmax, uniform
from oneof.nets.fast import without_fast_features
from oneof.training.clean import CleanRows
from oneof.training.distributed import exchange_tables_, start
from oneof.training.ongoing import Given, OngoingTraining
from oneof.training.progress import Progress, Silent, showing
from oneof.training.randomness import DefaultGenerators
from oneof.training.recipe import Recipe, choose_device
from oneof.training.run import AFRESH, Run, RunError, identity
from oneof.training.sources import ResidentRows
from oneof.views import RowItself, Views

LOOKED_AT = 256
"""Rows that are predicted at the end, to see whether anything was learned."""


@dataclass
class Trained:
    """The result of a training."""

    method: Method
    state: State
    history: list[dict[str, Any]]
    """One row per epoch, as in `metrics.jsonl`."""
    labels_of: Callable[[Tensor], Tensor]
    """(B, c): of some rows the pseudo-labels, which together may be larger than all they are made from."""
    n_rows: int
    best_epoch: int
    """Epoch whose weights are kept."""
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def pseudo_labels(self) -> np.ndarray:
        """(n, c): the disambiguated training set, at the last epoch."""
        return self.labels_of(torch.arange(self.n_rows)).numpy()


def train(
    method: Method,
    net: nn.Module | Callable[[], nn.Module],
    x: Any,
    candidates: Candidates,
    *,
    recipe: Recipe | None = None,
    clean: CleanRows | None = None,
    selection: CleanRows | None = None,
    test: tuple[Any, Any] | None = None,
    views: Views | None = None,
    run: Run | None = None,
    progress: Progress | None = None,
    title: str = "",
) -> Trained:
    """Train a net with a method on rows that carry candidate labels.

    Inside `oneof.methods.parallel.join` several processes share the training: all call this with the same
    arguments, and all get the same result. The first alone writes and shows progress.

    Parameters
    ----------
    method : Method
        See `oneof.list_methods`.
    net : nn.Module or function that makes one
        With `features` and `head` (see `oneof.nets.as_net`). A function is called after seeding,
        so that the initial weights follow from the recipe's seed.
    x : array, tensor or Dataset
        Inputs of the training rows. A `Dataset` is loaded batch by batch.
    candidates : Candidates
        One set per row.
    recipe : Recipe
        Optimiser, schedule, stopping, seed, device.
    clean : CleanRows, optional
        Trusted rows, for methods that learn from them and for the recipe's clean term.
    selection : CleanRows, optional
        Rows to select the epoch by; default: the clean rows.
    test : (x, columns), optional
        Rows with their true classes, by column: the accuracy is logged each epoch, never used to decide.
    run : Run, optional
        Folder for metrics and checkpoints; an interrupted run continues from it.
    """
    recipe = recipe or Recipe()
    device = choose_device(recipe.device)
    first_process = parallel.rank() == 0
    progress = progress if progress and first_process else Silent()
    with fastest_convolutions(device):
        given = Given(x, candidates, clean, selection, test, views or RowItself())
        training = OngoingTraining(method, net, given, recipe, device)
        if run is None:
            training.before_first_epoch()
            return run_epochs(training, None, progress, title)
        with DefaultGenerators(recipe.seed, device).lent():  # inputs that are loaded may draw
            config = identity(training)
        checkpoint = start(run, config)
        try:
            if checkpoint is None:
                training.before_first_epoch()
            else:
                continue_from(checkpoint, training, run)
            return run_epochs(training, run, progress, title)
        finally:
            if first_process:
                run.release()


def run_epochs(training: OngoingTraining, run: Run | None, progress: Progress, title: str) -> Trained:
    """The epochs that are left, and the result."""
    recipe, first_process = training.recipe, parallel.rank() == 0
    began, first = time.perf_counter(), training.step.epoch
    shown = showing(progress, title or training.method.info.name, recipe.epochs, first)
    with finish_epoch_on_interrupt(active=run is not None) as interrupt, shown:
        over = training.finished
        while not over:
            row = training.run_epoch()
            progress.epoch(row)
            interrupted = parallel.anywhere(interrupt.is_set())
            epoch = training.step.epoch
            over = training.finished or out_of_time(began, epoch - first, recipe.max_seconds)
            if run:
                if first_process:
                    run.log(row)
                if over or interrupted or epoch % recipe.checkpoint_every == 0:
                    saved = training.state_dict()  # asks all processes
                    if first_process:
                        run.save(saved)
                if interrupted and not over:
                    raise KeyboardInterrupt(f"stopped after epoch {epoch}; continue from {run.folder}")
    trained = finished(training, time.perf_counter() - began)
    if run and first_process:
        run.finish({"epochs": training.step.epoch, "best_epoch": trained.best_epoch, **trained.facts})
    return trained


def continue_from(checkpoint: dict[str, Any], training: OngoingTraining, run: Run) -> None:
    """Bring a training to where a checkpoint was written."""
    try:
        training.load_state_dict(checkpoint)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise RunError(
            f"the checkpoint in {run.folder} does not fit this training: {type(error).__name__}: "
            f"{error!s:.300}\n  {AFRESH}"
        ) from error


def out_of_time(began: float, epochs: int, limit: float | None) -> bool:
    """Whether another epoch like the mean of those so far would end after the limit."""
    if limit is None:
        return False
    return parallel.agreed((time.perf_counter() - began) * (epochs + 1) / epochs) > limit


# ---- when the last epoch is over --------------------------------------------------------------


def finished(training: OngoingTraining, seconds: float) -> Trained:
    """The selected weights, pseudo-labels and what happened on the way."""
    labels = pseudo_labels(training)
    best_epoch = training.step.epoch - 1
    if training.best is not None:
        best_epoch = training.stopping.best_epoch
        training.predictors.load_state_dict(training.best)
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
    """Say so where a trained network cannot tell different rows apart, or overflows on them."""
    if not isinstance(training.rows, ResidentRows) or parallel.rank():
        return
    own = training.own_rows()
    x = next(training.rows.batches(own[:: 1 + len(own) // LOOKED_AT], LOOKED_AT))[1]
    logits, different = training.predict(x), bool((x != x[:1]).any())
    if logits.isfinite().all() and not (different and (logits == logits[:1]).all()):
        return
    warnings.warn(
        "the trained network gives all rows the same prediction, or none that is a number: it has learned "
        f"nothing. The largest input is {float(x.abs().max()):.3g}.\n"
        "  Scale the features (scaling='standard') or lower the learning rate.",
        stacklevel=3,
    )


# ---- around the epochs ------------------------------------------------------------------------


@contextmanager
def finish_epoch_on_interrupt(active: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C, which sets the event, lets the epoch end and its checkpoint be written; the second
    stops at once."""
    interrupt = threading.Event()
    if not active or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def handle(number: int, frame: Any) -> None:
        if interrupt.is_set():
            raise KeyboardInterrupt
        interrupt.set()
        told = "Ctrl-C: finishing this epoch and saving; press again to stop at once."
        try:
            print(told, file=sys.stderr)
        except RuntimeError:  # it came in the middle of a line, and a stream cannot be entered twice
            os.write(2, f"\n{told}\n".encode())

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


_TIMING = threading.Lock()
_timed: list[bool] = []
"""The setting each training that runs has found."""


@contextmanager
def fastest_convolutions(device: torch.device) -> Iterator[None]:
    """On a GPU convolutions are timed once per shape and the fastest kernel is kept.

    Which one that is may differ from run to run, and with it the last digits of a result. Where a run
    must repeat to the bit, set `torch.use_deterministic_algorithms(True)`.
    """
    if device.type != "cuda" or torch.are_deterministic_algorithms_enabled():
        yield
        return
    with _TIMING:
        _timed.append(torch.backends.cudnn.benchmark)
        torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        with _TIMING:  # the last of several threads gives back what the first has found
            found = _timed.pop()
            if not _timed:
                torch.backends.cudnn.benchmark = found
