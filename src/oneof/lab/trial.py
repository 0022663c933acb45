"""Running a job: from its configuration to the numbers of its record."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.classifier.scoring import label_free
from oneof.datasets import Scaling, hold_out, split_80_10_10
from oneof.lab import LabError
from oneof.lab.prepared import Prepared, prepare
from oneof.lab.records import Job, Record
from oneof.lab.runners import HERE, Place
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, Run, Trained, train
from oneof.training.run import code_of
from oneof.training.sources import predict
from oneof.views import ImageViews, RowItself, Views

CURVES = ("loss", "selection", "test", "q_change", "w_entropy", "w_on_truth")
"""Columns of the epoch log that a job with `curves` keeps, beside the accuracy of pseudo-labels."""


class OutOfTime(Exception):
    """The time of the lab is up; the checkpoint of the training is stored."""


class TimedRun(Run):
    """A run that ends at its first checkpoint after a moment, to be continued later, and adds up its time."""

    def __init__(self, folder: Path, epochs: int, until: float | None) -> None:
        super().__init__(folder)
        self.epochs, self.until = epochs, until
        self.before, self.began = 0.0, time.perf_counter()
        """Seconds up to the checkpoint from which it continues, and when it went on from there."""

    def start(self, config: dict[str, Any]) -> dict[str, Any] | None:
        checkpoint = super().start(config)
        if checkpoint is not None:
            self.before = checkpoint.get("seconds", 0.0)
        self.began = time.perf_counter()
        return checkpoint

    def save(self, checkpoint: dict[str, Any]) -> None:
        super().save({**checkpoint, "seconds": self.before + time.perf_counter() - self.began})
        if self.until is not None and time.time() > self.until and len(checkpoint["history"]) < self.epochs:
            raise OutOfTime


def run_job(job: Job, place: Place = HERE) -> Record:
    """The record of a job, whatever happens in it; of status `stopped` where the time was up."""
    began = time.perf_counter()
    record: Record = {"job": job.hash, "config": dict(job.config)}
    run: TimedRun | None = None
    if "views" in job.config:  # where and how, which decides the last digits of images and their cost
        record["place"] = place.describe()
    try:
        if "views" in job.config and place.scratch is not None:
            run = TimedRun(place.scratch / job.hash, job.config["recipe"]["epochs"], place.until)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record |= {"status": "ok", "result": run_trial(job.config, place, run)}
    except OutOfTime:
        record["status"] = "stopped"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error} ({line})"}
    record["seconds"] = round(time.perf_counter() - began + (run.before if run else 0.0), 4)
    return record


@dataclass
class Parts:
    """The rows of one split as a training sees them."""

    x: Any
    candidates: Candidates
    clean: CleanRows | None
    selection: CleanRows
    held: tuple[Any, np.ndarray]
    """Validation rows and their candidate sets."""
    test: tuple[Any, np.ndarray]
    views: Views


def run_trial(config: Mapping[str, Any], place: Place = HERE, run: TimedRun | None = None) -> dict[str, Any]:
    """Train once; accuracies are those of the selected epoch."""
    data = prepare(config["data"]["name"], config["data"]["candidates"])
    if config["data"]["hash"] != data.hash:
        raise LabError(
            f"{data.name}: the data here have hash {data.hash}, the job was planned with "
            f"{config['data']['hash']}; use the same files on all machines."
        )
    parts = divide(data, config)
    method, net = dict(config["method"]), dict(config["net"])
    method_name, net_name = method.pop("name"), net.pop("name")
    made = make_method(method_name, method)
    if code_of(made).get("code") != config.get("code"):
        raise LabError(f"{method_name}: its file is not the one of the plan; start the lab again.")
    shape, seed = parts.x.shape[1:], config["split"]["seed"]
    began = time.perf_counter()
    trained = train(
        made,
        lambda: build_net(net_name, shape[0] if len(shape) == 1 else tuple(shape), data.n_classes, **net),
        parts.x,
        parts.candidates,
        recipe=Recipe(**{"speed": place.speed, **config["recipe"]}, seed=seed, device=place.device),
        clean=parts.clean,
        selection=parts.selection,
        test=parts.test if config["curves"] else None,
        views=parts.views,
        run=run,
    )
    seconds = time.perf_counter() - began + (run.before if run else 0.0)
    return outcome(trained, parts, config) | {"train_seconds": round(seconds, 4)}


def divide(data: Prepared, config: Mapping[str, Any]) -> Parts:
    """Training, validation and test rows, and what the clean rows of this job are used for."""
    seed, x, test = config["split"]["seed"], data.x, data.test
    if test is None:
        split = split_80_10_10(len(x), seed)
    else:
        split = hold_out(len(x), 0.1, seed, labels=data.truth)
    views: Views = RowItself()
    if data.pixels is not None:
        views = ImageViews(*data.pixels, **config["views"])
    else:
        scaling = Scaling.fit(x[split.train], config["scaling"])
        x, test = scaling.apply(x), test and (scaling.apply(test[0]), test[1])
    test = test or (x[split.test], data.truth[split.test])
    rows, information = split.validation, config["information"]
    sets = data.candidates.rows(rows)
    clean = selection = CleanRows(x[rows], np.eye(data.n_classes, dtype=bool)[data.truth[rows]])
    if information == "half":
        clean, selection = clean.divide(0.5, seed)
    if "clean_share" in config:
        few = max(1, round(config["clean_share"] * len(data.x)))
        clean = clean.take(np.random.default_rng(seed).permutation(len(clean))[:few])
    no_label = config["epoch_by"] == "candidates"  # at all, not even for methods that could use it
    return Parts(
        x[split.train],
        data.candidates.take(split.train),
        None if no_label or information == "none" else clean,
        CleanRows(x[rows], sets, "held-out sets") if no_label else selection,
        (x[rows], sets),
        test,
        views,
    )


def outcome(trained: Trained, parts: Parts, config: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a record: test and selection accuracy, label-free scores, length and cost."""
    device = next(trained.state.net.parameters()).device
    probabilities, chosen, held = (
        predict(trained.method, trained.state, x, parts.views, device).softmax(dim=1).cpu().numpy()
        for x in (parts.test[0], parts.selection.x, parts.held[0])
    )
    covering, approximated = label_free(held, parts.held[1])
    means = {
        "test": probabilities.argmax(1) == parts.test[1],
        "selection": parts.selection.mask[np.arange(len(chosen)), chosen.argmax(1)],
        "covering": covering,
        "approximated": approximated,
        "pseudo_labels": trained.pseudo_labels.argmax(1) == parts.candidates.truth,
    }
    if config["information"] == "loss" and config["epoch_by"] == "labels":
        del means["selection"]  # those rows are in the loss, so their accuracy says nothing
    result: dict[str, Any] = {name: round(float(values.mean()), 6) for name, values in means.items()}
    log = trained.history
    result |= {"epoch": trained.best_epoch, "epochs": len(log)}
    if config["curves"]:
        names = [n for n in log[0] if n in CURVES or n.endswith("_accuracy")]
        result["curves"] = {n: [round(float(row[n]), 4) for row in log if n in row] for n in names}
    return result
