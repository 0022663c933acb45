"""How the files in `files/` were written, by version 0.1.0. They are not written again: later versions must
read what this one wrote. A new kind of file gets a writer of its own and a name of its own.

    python -m tests.golden.write_files FOLDER
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.io import savemat

from tests.golden import histories, paths

FILES = Path(__file__).with_name("files")
COLOURS = ("blue", "green", "red")

RPLG_OPTIONS: dict[str, Any] = {
    "alpha": 0.4,
    "weights": "learned",
    "meta_gradient": "head",
    "meta_lr": 0.002,
    "meta_decay": 0.001,
    "meta_hidden": 4,
    "meta_input": "features",
    "meta_every": 1,
    "clean_batch": 8,
    "clean_mode": "eval",
    "branch_lr": 0.04,
    "branch_momentum": 0.8,
    "branch_decay": 0.001,
    "branch_rows": "all",
    "mu": "table",
    "u": "current",
    "prior": "none",
    "rollback": True,
    "recompute_u": False,
    "difference_step": 0.01,
    "branches": "auto",
    "branch_rank": 16,
    "meta_scale": "unit",
    "meta_schedule": "follow",
    "clean_draw": "random",
    "branch_schedule": "constant",
}
"""All options of 0.1.0; those that a model says nothing about when they are usual have other values here."""

BENCH = [
    "bench",
    "quick",
    "--data",
    "toy.mat",
    "--methods",
    "rplg",
    "proden",
    "--splits",
    "2",
    "--epochs",
    "3",
    "--set",
    "recipe.batch_size=32",
    "--workers",
    "1",
    "--to",
    "lab",
]
FIT = [
    "fit",
    "table.csv",
    "--candidates",
    "colours",
    "--id",
    "name",
    "--out",
    "fitted",
    "--method",
    "rplg",
    "--net",
    "linear",
    "--epochs",
    "5",
    "--device",
    "cpu",
    "--no-report",
]
PREDICT = ["predict", "fitted", "table.csv", "--device", "cpu", "--keep", "name"]
IMPORT = ["candidates", "import", "crowd.csv", "--format", "crowd", "--out"]
GENERATE = ["candidates", "generate", "digits", "--rule", "flips", "--rate", "0.2", "--seed", "4", "--out"]


def command(arguments: list[str]) -> None:
    """A command as a user gives it."""
    before, sys.argv = sys.argv, ["oneof", *arguments]
    try:
        paths.main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"oneof {' '.join(arguments)} ended with {end.code}") from None
    finally:
        sys.argv = before


def problem() -> tuple[np.ndarray, np.ndarray, list[list[str]]]:
    """Rows, labels, and label sets as text."""
    rng = np.random.default_rng(11)
    labels = rng.integers(3, size=60)
    x = rng.normal(size=(60, 4)) + 1.2 * np.eye(3, 4)[labels]
    other = (labels + rng.integers(1, 3, size=60)) % 3
    sets = [[COLOURS[a]] if i % 4 == 0 else sorted({COLOURS[a], COLOURS[b]}) for i, (a, b) in
            enumerate(zip(labels, other))]  # fmt: skip
    return x, labels, sets


def model(method: str, params: dict[str, Any]) -> Any:
    x, labels, sets = problem()
    made = paths.PartialLabelClassifier(
        method, method_params=params, hidden=(6,), epochs=4, device="cpu", selection_share=0.4
    )
    return made.fit(x[:40], sets[:40], clean=(x[40:], [COLOURS[k] for k in labels[40:]]))


def predictions(made: Any) -> dict[str, Any]:
    x = problem()[0]
    return {
        "classes": made.classes_.tolist(),
        "labels": made.predict(x).tolist(),
        "probabilities": made.predict_proba(x[:8]).tolist(),
        "sets": np.asarray(made.predict_set(x[:8], coverage=0.8)).tolist(),
        "transduction": made.transduction_[:8].tolist(),
        "method": made.method_.info.name,
        "n_clean": made.n_clean_,
        "history": made.history_,
    }


class Stopped(Exception):
    """The end of a training that was to be interrupted."""


class Stopping:
    """Progress that ends the training before an epoch is logged, as a crash would."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.began, self.epochs = at, -1, 0

    def start(self, title: str, epochs: int, done: int) -> None:
        self.began = done

    def epoch(self, row: dict[str, Any]) -> None:
        self.epochs += 1
        if row["epoch"] == self.at:
            raise Stopped

    def finish(self) -> None:
        pass


def proden_run(folder: Path | None, progress: Stopping | None = None) -> dict[str, Any]:
    """PRODEN for six epochs, and what it ends with."""
    made = histories.table()
    trained = paths.train(
        paths.make_method("proden"),
        made.net,
        made.x,
        made.candidates,
        recipe=paths.Recipe(epochs=6, seed=5, device="cpu", checkpoint_every=2),
        run=None if folder is None else paths.Run(folder),
        progress=progress,
    )
    with torch.no_grad():
        logits = trained.method.logits(trained.state, torch.from_numpy(made.x)).numpy()
    return {
        "history": trained.history,
        "weights": [value.tolist() for value in trained.state.net.state_dict().values()],
        "logits": histories.summary(logits),
        "pseudo_labels": histories.summary(trained.pseudo_labels),
    }


def sets_of(found: Any) -> dict[str, Any]:
    return {
        "hash": found.hash,
        "classes": list(found.classes),
        "first": found.mask[:6].astype(int).tolist(),
        "sizes": np.bincount(found.sizes).tolist(),
        "truth": None if found.truth is None else found.truth[:12].tolist(),
        "truth_may_be_outside": found.truth_may_be_outside,
        "provenance": json.loads(json.dumps(dict(found.provenance))),
    }


def annotations_of(found: Any) -> dict[str, Any]:
    answers = found.answers
    return {
        "sets": sets_of(found.candidates),
        "ids": None if found.ids is None else list(found.ids),
        "answers": None
        if answers is None
        else {
            "row": answers.row.tolist(),
            "worker": answers.worker.tolist(),
            "label": answers.label.tolist(),
            "workers": list(answers.workers),
            "named": answers.named,
        },
    }


def decisions_of(folder: Path) -> dict[str, Any]:
    data = paths.ReviewData.load(folder)
    found = paths.Decisions(folder, data)
    return {
        "decided": {str(row): column for row, column in found.decided.items()},
        "skipped": sorted(found.skipped),
        "foreign": found.foreign,
        "events": len(found.events),
        "trusted": {str(k): v for k, v in paths.trusted_labels(folder / "decisions.jsonl", data).items()},
        "probabilities": data.probabilities[:4].tolist(),
        "trusted_rows": int(data.trusted.sum()),
        "ids": list(data.ids[:4]),
    }


def _write_tables() -> None:
    x, labels, sets = problem()
    with open("table.csv", "w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["name", "a", "b", "c", "kind", "colours"])
        for i, values in enumerate(x):
            numbers = [f"{v:.4f}" for v in values[:3]]
            numbers[1] = "" if i % 11 == 0 else numbers[1]  # a missing value
            rows.writerow([f"r{i}", *numbers, "xyz"[labels[i]] if i % 3 else "w", "|".join(sets[i])])
    rng = np.random.default_rng(12)
    with open("crowd.csv", "w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out)
        rows.writerow(["task", "worker", "label"])
        for i in range(20):
            for worker in rng.choice(["ann", "bob", "cy", "dee"], size=3, replace=False):
                rows.writerow([f"t{i}", worker, COLOURS[rng.integers(3) if rng.random() < 0.4 else i % 3]])
    savemat(
        "toy.mat",
        {
            "data": np.round(x, 4),
            "target": np.eye(3)[labels].T,
            "partial_target": np.array([[name in s for s in sets] for name in COLOURS]).astype(float),
        },
        do_compression=True,
    )


def write(folder: Path) -> None:
    """Everything, into a folder that is not there yet."""
    folder = folder.absolute()
    folder.mkdir()
    os.chdir(folder)
    torch.set_num_threads(1)
    expected: dict[str, Any] = {"models": {}, "candidates": {}}
    for name, params in (("proden", {}), ("rplg", RPLG_OPTIONS)):
        made = model(name, params)
        made.save(f"model_{name}")
        expected["models"][f"model_{name}"] = predictions(made)
    _write_tables()
    command(FIT)
    command([*PREDICT, "--out", "predictions.csv"])
    data = paths.ReviewData.load("fitted")
    decisions = paths.Decisions("fitted", data)
    for row, action, label in ((3, "decide", 2), (5, "skip", None), (7, "decide", 0), (7, "undo", None),
                               (3, "decide", 1), (9, "decide", 0)):  # fmt: skip
        decisions.append(row, action, label)
    expected["decisions"] = decisions_of(Path("fitted"))
    _, labels, sets = problem()
    mask = np.array([[name in s for name in COLOURS] for s in sets])
    paths.save_candidates(paths.Candidates(mask, COLOURS, labels), "sets.npz")
    command([*GENERATE, "digits.npz"])
    for name in ("sets.npz", "digits.npz"):
        expected["candidates"][name] = sets_of(paths.load_candidates(name))
    for name in ("answers.npz", "answers.parquet"):
        command([*IMPORT, name])
        expected["candidates"][name] = annotations_of(paths.load_annotations(name))
    with tempfile.TemporaryDirectory() as other:
        with contextlib.suppress(Stopped):
            proden_run(Path("run"), Stopping(at=3))
        whole = proden_run(None)
        command(BENCH)
        shutil.copytree("lab", Path(other) / "lab")
        command(["report", str(Path(other) / "lab"), "--no-figures"])
        for name in ("report.md", "tables.tex", "summary.json"):
            shutil.copy(Path(other) / "lab" / name, f"expected-{name}")
    expected["run"] = whole
    with open("expected.json", "w", encoding="utf-8") as out:
        json.dump(expected, out)
        out.write("\n")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(Path(sys.argv[1]))
