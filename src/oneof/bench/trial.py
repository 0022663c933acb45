"""Running a job: from its configuration to the numbers of its record."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from oneof.bench.datasets import Prepared, prepare
from oneof.bench.errors import LabError
from oneof.bench.jobs import Job
from oneof.bench.records import Record
from oneof.data import Scaling, Split, split_80_10_10
from oneof.methods import make_method
from oneof.nets import build_net, evaluation_mode
from oneof.training import CleanRows, Recipe, Trained, train

CURVES = ("loss", "selection", "test", "q_change", "w_entropy", "w_on_truth")
"""Columns of the epoch log that a job with `curves` keeps, beside the accuracy of pseudo-labels."""


def run_job(job: Job, device: str = "cpu") -> Record:
    """The record of a job, whatever happens in it."""
    began = time.perf_counter()
    record: Record = {"job": job.hash, "config": dict(job.config)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record |= {"status": "ok", "result": run_trial(job.config, device)}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.filename.rpartition('/')[2]}:{where.lineno}"
        record |= {"status": "failed", "error": f"{type(error).__name__}: {error} ({place})"}
    return record | {"seconds": round(time.perf_counter() - began, 4)}


@dataclass
class Parts:
    """The rows of one split, scaled by its training rows."""

    x: np.ndarray
    split: Split
    clean: CleanRows | None
    selection: CleanRows
    in_loss: bool = False
    """Whether the rows to select by are in the loss; their accuracy then says nothing."""


def run_trial(config: Mapping[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Train once; accuracies are those of the selected epoch."""
    data = prepare(config["data"]["name"], config["data"]["candidates"])
    if config["data"]["hash"] != data.hash:
        raise LabError(
            f"{data.name}: the data here have hash {data.hash}, the job was planned with "
            f"{config['data']['hash']}; use the same files on all machines."
        )
    parts = divide(data, config)
    split, x = parts.split, parts.x
    test = (x[split.test], data.truth[split.test])
    method, net = dict(config["method"]), dict(config["net"])
    method_name, net_name = method.pop("name"), net.pop("name")
    began = time.perf_counter()
    trained = train(
        make_method(method_name, method),
        lambda: build_net(net_name, x.shape[1], data.n_classes, **net),
        x[split.train],
        data.candidates.take(split.train),
        recipe=Recipe(**config["recipe"], seed=config["split"]["seed"], device=device),
        clean=parts.clean,
        selection=parts.selection,
        test=test if config["curves"] else None,
    )
    seconds = time.perf_counter() - began
    return outcome(trained, data, parts, bool(config["curves"])) | {"train_seconds": round(seconds, 4)}


def divide(data: Prepared, config: Mapping[str, Any]) -> Parts:
    """Training, validation and test rows, and what the clean rows of this job are used for."""
    if config["split"]["rule"] != "80/10/10":
        raise LabError(f"unknown split rule {config['split']['rule']!r}; there is 80/10/10.")
    split = split_80_10_10(len(data.x), config["split"]["seed"])
    x = Scaling.fit(data.x[split.train], config["scaling"]).apply(data.x)
    rows = split.validation
    labels = np.eye(data.n_classes, dtype=bool)[data.truth[rows]]
    clean = CleanRows(x[rows], labels)
    if config["epoch_by"] == "candidates":  # no label is used at all, not even by methods that could
        sets = CleanRows(x[rows], data.candidates.mask[rows], "held-out sets")
        return Parts(x, split, sets, sets)
    if config["information"] == "half":
        learned, selection = clean.divide(0.5, config["split"]["seed"])
        return Parts(x, split, learned, selection)
    return Parts(x, split, clean, clean, in_loss=config["information"] == "loss")


def outcome(trained: Trained, data: Prepared, parts: Parts, curves: bool) -> dict[str, Any]:
    """The numbers of a record: test and selection accuracy, label-free scores, length and cost."""
    split, x = parts.split, parts.x
    probabilities = predict(trained, x[split.test])
    chosen = predict(trained, parts.selection.x)
    held = predict(trained, x[split.validation])
    covering, approximated = label_free(held, data.candidates.mask[split.validation])
    truth = data.truth[split.train]
    result: dict[str, Any] = {
        "test": float((probabilities.argmax(1) == data.truth[split.test]).mean()),
        "selection": float(parts.selection.mask[np.arange(len(chosen)), chosen.argmax(1)].mean()),
        "covering": covering,
        "approximated": approximated,
        "pseudo_labels": float((trained.pseudo_labels.argmax(1) == truth).mean()),
        "epoch": trained.best_epoch,
        "epochs": len(trained.history),
    }
    if parts.in_loss:
        del result["selection"]
    result = {name: round(value, 6) for name, value in result.items()}
    return result | ({"curves": compact(trained.history)} if curves else {})


@torch.no_grad()
def predict(trained: Trained, x: np.ndarray) -> np.ndarray:
    """Probabilities of the selected weights."""
    device = next(trained.state.net.parameters()).device
    with evaluation_mode(trained.state):
        logits = trained.method.logits(trained.state, torch.as_tensor(x).to(device))
    return logits.softmax(dim=1).cpu().numpy()


def label_free(probabilities: np.ndarray, mask: np.ndarray) -> tuple[float, float]:
    """Covering rate and approximated accuracy of predictions, by candidate sets alone (PLENCH)."""
    rows, columns = np.arange(len(mask)), probabilities.argmax(axis=1)
    inside = probabilities * mask
    mass = inside.sum(axis=1)
    share = np.divide(inside[rows, columns], mass, out=np.zeros_like(mass), where=mass > 0)
    return float(mask[rows, columns].mean()), float(share.mean())


def compact(history: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The epoch log by column, four digits."""
    names = [n for n in history[0] if n in CURVES or n.endswith("_accuracy")] if history else []
    return {name: [round(float(row[name]), 4) for row in history if name in row] for name in names}
