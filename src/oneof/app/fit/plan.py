"""Before a training: what it will take in time and memory, and what it may take."""

from __future__ import annotations

import json
import math
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import nn

from oneof.candidates import Candidates
from oneof.candidates.cells import counted
from oneof.candidates.compact import BLOCK, DENSE, OTHERS, is_large
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import known
from oneof.classifier.rows import is_pair
from oneof.methods.rows import places_per_row
from oneof.nets import IMAGE_NETS
from oneof.tables.errors import DataError
from oneof.tables.files import free_memory

FEW_EPOCHS = 5
RESERVE = 0.9
"""Part of a budget that training may plan with: measured steps are no promise."""
AFTERWARDS = 5.0
"""Seconds kept for evaluation and the report."""
MEASURED_BATCHES = 8
LONG_STEP = 2.0
LIBRARIES = 600.0
"""Megabytes of Python, torch, scikit-learn and readers of files, with what they freed but keep, about."""
TABLES_OF_A_STEP = 50
"""Tables (batch, c) that a step takes, and the trainings on a few batches that are measured before, about."""
SMALL_STEP = 2**16
"""Inputs and outputs of a step, up to which it is small."""
CONTENDERS = 20
"""Tables of probabilities that a comparison holds, about."""


# ---- how long it will take --------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """Sizes of a training, and how long its parts take."""

    rows: int
    parameters: int
    memory: Mapping[str, float]
    """Megabytes by what takes them."""
    setup: float
    """Seconds before the first epoch."""
    epoch: float
    """Seconds per epoch."""
    trainings: float = 0
    """Of a choice: how many trainings on all rows it takes as long as."""

    @property
    def megabytes(self) -> float:
        return sum(self.memory.values())

    def seconds(self, epochs: int) -> float:
        return self.setup + epochs * self.epoch

    def describe(self, epochs: int) -> str:
        """One line."""
        size = f"{self.parameters / 1e6:.2f} million" if self.parameters >= 1e5 else f"{self.parameters:,}"
        time = f"{about(self.seconds(epochs))} for {counted(epochs, 'epoch')}"
        if self.trainings:
            time += f", {about(self.trainings * self.seconds(epochs))} for the whole comparison"
        return (
            f"estimate: {self.rows:,} training rows, {size} parameters, about {as_size(self.megabytes)} "
            f"of memory for data and training, {time}"
        )


Given = tuple[np.ndarray, Candidates, Any]
"""What `fit` gets: features, candidate sets, clean rows."""


def measure(
    model: PartialLabelClassifier, x: np.ndarray, candidates: Candidates, clean: Any = None
) -> Estimate:
    """Train a copy of the model for a few steps on a few of the rows that `fit` will get, and scale up."""
    n, batch = len(x), model.recipe().rows_per_step(len(x))
    if clean is not None and not is_pair(clean):
        given = np.flatnonzero(known(np.asarray(clean)))
        clean = (x[given], np.asarray(clean)[given])

    def timed(rows: int, epochs: int = 1) -> tuple[float, PartialLabelClassifier]:
        # spread over the table: the first rows may be all of one kind
        picked, few = np.unique(np.linspace(0, n - 1, max(rows, 2)).astype(np.int64)), clean
        if few is not None:
            part = max(2, round(len(few[0]) * len(picked) / n))  # one alone cannot be normalised
            few = (few[0][:part], few[1][:part])
        small = clone(model).set_params(epochs=epochs, batch_size=batch, run=None, verbose=False)
        if small.method == "auto":
            from oneof.classifier.contenders import METHODS  # a fit by one method needs nothing of a choice

            small.set_params(method=METHODS[0])
        began = time.perf_counter()
        small.fit(x[picked], candidates.take(picked), clean=few)
        return time.perf_counter() - began, small

    with warnings.catch_warnings(action="ignore"):
        timed(batch)  # what happens once in a process only
        step, fitted = timed(batch)
        if step > LONG_STEP:  # long enough to be measured alone, and too long for many
            setup, epoch = 0.0, step * n / batch
        else:
            rows = min(n, MEASURED_BATCHES * batch)
            (one, _), (three, fitted) = timed(rows), timed(rows, epochs=3)
            part = max((three - one) / 2, three / 8)
            setup, epoch = max(0.0, one - part), part * n / rows
    parameters = sum(p.numel() for net in fitted.net_ for p in net.parameters())
    takes = memory(fitted, x, candidates, batch, parameters)
    if model.method != "auto":
        return Estimate(n, parameters, takes, setup, epoch)
    from oneof.classifier.choice import LONG_FITS

    takes["the comparison"] = CONTENDERS * 8 * min(math.prod(candidates.shape), DENSE) / 1e6
    some, trainings = min(n, DENSE // candidates.n_classes), float(LONG_FITS)
    if some < n:  # on a large table contenders learn from some of the rows
        trainings = 1 + LONG_FITS * some * model.recipe(some).epochs / (n * model.recipe(n).epochs)
    return Estimate(n, parameters, takes, setup, epoch, trainings)


def memory(
    fitted: PartialLabelClassifier, x: np.ndarray, candidates: Candidates, batch: int, parameters: int
) -> dict[str, float]:
    """Megabytes that a fit takes at its peak, by what takes them; libraries not counted."""
    n, c, method = len(x), len(fitted.classes_), fitted.method_
    size = math.prod(x.shape[1:]) * (4 if x.ndim == 2 else x.itemsize)
    places = places_per_row(candidates.sizes, c)
    kept = places or c  # numbers of a row in a table
    head = [part for part in fitted.net_[0].modules() if isinstance(part, nn.Linear)][-1]
    # what is believed of a row: two tables, and as they are made double precision, or blocks of some rows
    believed = 24 * n * c
    if is_large(candidates.shape):
        believed = 16 * n * min(c, candidates.sizes.mean() + min(c, candidates.sizes.mean() + OTHERS))
        believed += 32 * BLOCK
    found = {
        "features": 0 if isinstance(x, np.memmap) else x.nbytes + 3 * n * size,
        "row tables": n * (2 * kept if places is None else 16 + 8 * kept) + 4 * n * method.row_numbers(kept),
        "weights": 16 * parameters,  # with a gradient and two moments
        "branches": 4 * method.extra_numbers(c, head.in_features, batch),
        "a step": 4 * TABLES_OF_A_STEP * batch * c,
        "review and labels": believed + 300 * n,
    }
    return {name: n_bytes / 1e6 for name, n_bytes in found.items()}


ADVICE = {
    "features": "give them as an .npy file of float32, which stays on disk",
    "row tables": "--method proden keeps the fewest; fewer labels per set make them smaller",
    "weights": "take a smaller net (--net linear)",
    "branches": "--method proden has none",
    "a step": "fewer classes make it smaller",
    "review and labels": "fewer labels per set make them smaller",
    "the comparison": "name one method (--method proden)",
}


def check_memory(estimate: Estimate, limit: float | None) -> None:
    """Raise where a fit takes more than a limit in megabytes; without one, warn where more than is free."""
    parts = dict(estimate.memory)
    most = max(parts, key=lambda name: parts[name])
    advice = f"Most goes to {most}: {ADVICE[most]}."
    if limit is not None:
        parts["Python and torch"] = LIBRARIES
        if parts[most] < LIBRARIES:
            rest = (
                f"Of the rest {advice[0].lower()}{advice[1:]}" if limit > LIBRARIES else "Give more memory."
            )
            advice = f"Most goes to Python and torch, which every fit needs. {rest}"
    needed, there = sum(parts.values()), free_memory() / 1e6 if limit is None else limit
    if needed <= there:
        return
    large = sorted((name for name in parts if parts[name] >= 1), key=lambda name: -parts[name])
    shown = ", ".join(f"{name} {as_size(parts[name])}" for name in large)
    told = f"this fit takes about {as_size(needed)} ({shown}).\n  {advice}"
    if limit is not None:
        raise DataError(f"--memory {as_size(limit)}: {told}")
    print(f"warning: {as_size(there)} of memory are free, and {told}", flush=True)


# ---- limits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What a fit may take in all: seconds from when it began, and megabytes."""

    seconds: float | None
    megabytes: float | None
    began: float

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds that training may take."""
        assert self.seconds is not None
        return max(0.0, self.seconds - self.spent - min(AFTERWARDS, 0.2 * self.seconds))


def keep_within(limits: Limits, model: PartialLabelClassifier, given: Given) -> int:
    """Say what training will take, and make the model keep the limits. Returns the number of epochs."""
    n, run = len(given[0]), model.run
    epochs, continues = model.recipe(n).epochs, run is not None and run.exists()
    if continues:
        print(f"continues the training in {run}", flush=True)
    by_choice = model.method == "auto" and limits.seconds is not None  # which finds out what trainings take
    estimate = None
    if not continues and (not by_choice or limits.megabytes is not None):
        estimate = measure(model, *given)
        print(estimate.describe(epochs), flush=True)
        check_memory(estimate, limits.megabytes)
    if by_choice:
        model.set_params(budget=limits.left)
    elif limits.seconds is not None:
        if estimate is None:
            epochs = epochs_of_run(run) or epochs
        else:
            epochs, note = epochs_within(limits, estimate, epochs, model.net)
            print(note, flush=True)
        model.set_params(epochs=epochs, max_seconds=limits.left)
    return epochs


def epochs_within(limits: Limits, estimate: Estimate, epochs: int, net: str) -> tuple[int, str]:
    """The largest number of epochs, up to `epochs`, for which there is time, and what to say about it."""
    assert limits.seconds is not None
    fits = int((RESERVE * limits.left - estimate.setup) / max(estimate.epoch, 1e-9))
    chosen = max(1, min(epochs, fits))
    how_many = f"all {epochs} epochs fit" if fits >= epochs else f"{chosen} of {epochs} epochs"
    note = f"budget {as_time(limits.seconds)}: {how_many}, {about(estimate.seconds(chosen))}"
    if fits < 1:
        note += "; not even one epoch fits, and less than one is never trained"
    if chosen < min(FEW_EPOCHS, epochs):
        enough = limits.spent + AFTERWARDS + estimate.seconds(FEW_EPOCHS) / RESERVE
        note += f".\n  So few epochs teach little: give a budget of {as_time(enough)} or more"
        smallest = "lenet" if net in IMAGE_NETS else "linear"
        if net != smallest:
            note += f", or take a smaller net (--net {smallest})"
    return chosen, note


def epochs_of_run(folder: Path) -> int | None:
    """The number of epochs a run folder was started with, where it says so."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["recipe"]["epochs"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, int) and found > 0 else None


def parse_memory(text: str | None) -> float | None:
    """Megabytes of 6GB, 500MB or 1.5 GB."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([mg])i?b?\s*", text.lower())
    if found is None or not 0 < float(found[1]) < math.inf:
        raise DataError(f"--memory {text}: write a size such as 6GB or 500MB.")
    return float(found[1]) * (1000 if found[2] == "g" else 1)


_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def parse_budget(text: str | None) -> float | None:
    """Seconds of 30s, 10m, 2h, 1h30m or 90."""
    if text is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smh]?)", text.strip().lower())
    whole = "".join(number + unit for number, unit in parts)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if whole != re.sub(r"\s", "", text.lower()) or not 0 < seconds < math.inf:
        raise ValueError(f"--budget {text}: write a time such as 30s, 10m, 2h or 1h30m.")
    return seconds


def as_time(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 1:
        return "a second" if seconds > 0.5 else "less than a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{seconds / 3600:.1f} h"


def about(seconds: float) -> str:
    return as_time(seconds) if seconds < 1 else f"about {as_time(seconds)}"


def as_size(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{max(1, round(megabytes))} MB"


# ---- threads ----------------------------------------------------------------------------------


@contextmanager
def one_thread_for_small_steps(model: PartialLabelClassifier, given: Given) -> Iterator[None]:
    """Inside, small steps on tables are computed in one thread, unless OMP_NUM_THREADS says how many.

    In several they are hardly faster, and many times slower where other programs keep the cores busy.
    """
    x, sets, _ = given
    numbers = model.recipe(len(x)).rows_per_step(len(x)) * (x.shape[1] + sets.n_classes)
    before = torch.get_num_threads()
    if x.ndim == 2 and numbers <= SMALL_STEP and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
