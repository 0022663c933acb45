"""The one training loop: any method, any net, CPU or GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from oneof.candidates import Candidates
from oneof.methods import parallel
from oneof.methods.base import Method
from oneof.training.clean import CleanRows
from oneof.training.distributed import start
from oneof.training.finish import finished
from oneof.training.given import Given, Trained
from oneof.training.identity import identity
from oneof.training.ongoing import OngoingTraining
from oneof.training.progress import Progress, Silent, closing
from oneof.training.randomness import DefaultGenerators
from oneof.training.recipe import Recipe, choose_device
from oneof.training.run import AFRESH, Run, RunError
from oneof.training.stopping import finish_epoch_on_interrupt
from oneof.views import RowItself, Views


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
    test : (x, labels), optional
        Rows whose accuracy is logged each epoch, for learning curves. Never used to decide anything.
    run : Run, optional
        Folder for metrics and checkpoints; an interrupted run continues from it.
    """
    recipe = recipe or Recipe()
    recipe.check()
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
    progress.start(title or training.method.info.name, recipe.epochs, training.step.epoch)
    began, first = time.perf_counter(), training.step.epoch
    with finish_epoch_on_interrupt(active=run is not None) as interrupt, closing(progress):
        while not training.finished and not out_of_time(
            began, training.step.epoch - first, recipe.max_seconds
        ):
            row = training.run_epoch()
            progress.epoch(row)
            interrupted = parallel.anywhere(interrupt.pressed)
            if run:
                if first_process:
                    run.log(row)
                if training.finished or interrupted or training.step.epoch % recipe.checkpoint_every == 0:
                    saved = training.state_dict()  # asks all processes
                    if first_process:
                        run.save(saved)
            if interrupted and not training.finished:
                assert run is not None
                raise KeyboardInterrupt(
                    f"stopped after epoch {training.step.epoch}; continue from {run.folder}"
                )
    trained = finished(training, time.perf_counter() - began)
    if run and first_process and not run.done:
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
    if limit is None or not epochs:
        return False
    return parallel.agreed((time.perf_counter() - began) * (epochs + 1) / epochs) > limit


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
