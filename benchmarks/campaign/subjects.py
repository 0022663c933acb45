"""What the campaign writes, and how it is read back: a small problem, trainings, a model, records."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oneof
from oneof import Candidates, PartialLabelClassifier
from oneof.app.review import ReviewData
from oneof.lab.records import Records
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, Run, Trained, train

CLASSES, FEATURES, ROWS = 3, 4, 60


def problem() -> tuple[np.ndarray, Candidates]:
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=ROWS)
    x = (2 * np.eye(CLASSES, FEATURES)[truth] + rng.standard_normal((ROWS, FEATURES))).astype(np.float32)
    mask = np.eye(CLASSES, dtype=bool)[truth]
    mask[np.arange(ROWS), rng.integers(CLASSES, size=ROWS)] = True
    return x, Candidates(mask, ("ant", "bee", "cow"), truth)


X, SETS = problem()


class Stop(Exception):
    """In the place of a kill."""


class AfterEpochs:
    """A progress that calls a function after every epoch."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def start(self, title: str, epochs: int, done: int) -> None:
        pass

    def epoch(self, row: dict[str, Any]) -> None:
        self.tell()

    def finish(self) -> None:
        pass


def stop_after(epochs: int) -> AfterEpochs:
    left = iter(range(epochs - 1))

    def stop() -> None:
        if next(left, None) is None:
            raise Stop

    return AfterEpochs(stop)


def run(folder: Path | None, progress: Any = None, method: str = "proden") -> list[bytes] | None:
    """A training of six epochs, in a folder or without; what it ends with, None where it was stopped."""
    recipe = Recipe(epochs=6, batch_size=16, checkpoint_every=2, device="cpu", lr=0.02)
    net = lambda: build_net("mlp", FEATURES, CLASSES, hidden=(6,))  # noqa: E731
    there = None if folder is None else Run(folder)
    clean = CleanRows(X[:12], np.eye(CLASSES, dtype=bool)[SETS.truth[:12]]) if "rplg" in method else None
    try:
        made = make_method(method)
        return ends_with(train(made, net, X, SETS, clean=clean, recipe=recipe, run=there, progress=progress))
    except Stop:
        return None


def ends_with(trained: Trained) -> list[bytes]:
    values = [value.numpy().tobytes() for value in trained.state.state_dict().values()]
    return [repr(trained.history).encode(), trained.pseudo_labels.tobytes(), *values]


def model(epochs: int) -> PartialLabelClassifier:
    return PartialLabelClassifier("proden", hidden=(6,), epochs=epochs, device="cpu").fit(X, SETS)


def predictions(folder: Path) -> list[bytes]:
    """Everything of a model that is promised; its training rows may be missing."""
    found = oneof.load(folder)
    rows = getattr(found, "transduction_", None)
    return [
        found.predict_proba(X).tobytes(),
        b"" if rows is None else rows.tobytes(),
        repr(found.history_).encode(),
    ]


def record(i: int) -> dict[str, Any]:
    return {
        "job": f"{i:016x}",
        "status": "ok",
        "config": {"seed": i},
        "result": {"test": i / 7},
        "seconds": 1.5,
    }


def records(folder: Path) -> dict[str, Any]:
    found = Records(folder)
    if found.damaged:
        warnings.warn(f"damaged: {found.damaged[0]}", stacklevel=2)
    return found.by_job


def review_data() -> ReviewData:
    beliefs = np.random.default_rng(1).dirichlet(np.ones(CLASSES), ROWS)
    return ReviewData(SETS, beliefs, beliefs, ids=tuple(f"r{i}" for i in range(ROWS)))
