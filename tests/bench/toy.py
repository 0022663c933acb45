"""A tiny partial-label data set on disk, a protocol on it, and folders with made-up records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

from oneof.lab.plan import Plan
from oneof.lab.protocol import PAPER_RECIPE, Protocol
from oneof.lab.protocols import default_rows
from oneof.lab.records import Record, Records
from oneof.lab.runners import Runner
from oneof.lab.search import Search


def write_mat(folder: Path, n: int = 120) -> str:
    """Four Gaussian classes in six dimensions with up to three candidates; returns the file's path."""
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=n)
    x = rng.normal(size=(n, 6)) + 3 * np.eye(4, 6)[labels]
    mask = rng.random((n, 4)) < 0.4
    mask[np.arange(n), labels] = True
    mask[np.arange(n), (labels + 1) % 4] &= ~mask.all(axis=1)  # sets of all labels say nothing
    path = folder / "toy.mat"
    savemat(path, {"data": x, "target": np.eye(4)[labels].T, "partial_target": mask.T.astype(float)})
    return str(path)


def toy_protocol(path: str, **changes: Any) -> Protocol:
    values: dict[str, Any] = {
        "name": "toy",
        "title": "a test",
        "entries": default_rows("rplg-nm", "proden"),
        "data": (path,),
        "nets": ("linear",),
        "recipe": {**PAPER_RECIPE, "epochs": 3, "batch_size": 32},
        "search": Search(configurations=2, seeds=(1000,)),
        "seeds": (0, 1, 2),
        "reference": "rplg-nm",
    }
    return Protocol(**(values | changes))


class Inline(Runner):
    """A runner without processes, for the lab's own logic."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.ran: list[str] = []
        self.stop_after = stop_after

    def wait(self) -> list[Record]:
        if self.stop_after is not None and len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        self.ran.append(self.jobs[-1].hash)
        return super().wait()


def made_up_folder(folder: Path, protocol: Protocol, scores: Mapping[str, float]) -> Path:
    """Records as if the protocol had been run: row `label` has accuracy `scores[label]` plus split noise."""
    records = Records(folder)
    plan = Plan(protocol, records)
    noise = np.random.default_rng(0).normal(0, 0.01, size=1000)
    while jobs := list(plan.ready()):
        for job in jobs:
            seed = job.config["split"]["seed"]
            owner = next(
                c.entry.label for c in plan.cells if job in c.report or any(job in s for s in c.search)
            )
            jitter = noise[(len(owner) * 31 + seed) % 97] if owner in scores else 0.0
            test = round(scores.get(owner, 0.5) + noise[seed % 1000] + jitter / 5, 4)
            curve = [round(test * (1 - 0.5**e), 4) for e in range(1, 6)]
            result = {
                "test": test,
                "selection": test,
                "covering": test,
                "approximated": test,
                "pseudo_labels": test,
                "epoch": 4,
                "epochs": 5,
                "train_seconds": 0.5,
            }
            if job.config["curves"]:
                names = ("selection", "test", "q_accuracy", "mu_accuracy", "v_accuracy", "target_accuracy")
                extra = ("q_change", "w_entropy", "w_on_truth")
                result["curves"] = dict.fromkeys((*names, *extra), curve)
            records.add(
                {
                    "job": job.hash,
                    "config": dict(job.config),
                    "status": "ok",
                    "result": result,
                    "seconds": 0.6,
                }
            )
    plan.save(folder, {"command": "oneof bench toy", "versions": {"oneof": "0", "torch": "0"}})
    return folder
