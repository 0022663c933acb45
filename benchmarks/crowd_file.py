"""From a messy crowd file to a model and a report: how long does it take?

    OMP_NUM_THREADS=1 python -m benchmarks.crowd_file                 # 200,000 answers, `--budget 60s`
    python -m benchmarks.crowd_file --tasks 500 --budget 5s           # a try

Makes two files: answers (20,000 tasks, 50 workers of very different skill, ten answers each; semicolons,
repeated lines, empty answers) and a table of the tasks (20 features with gaps and a column of notes). Then
runs `oneof candidates import` and `oneof fit` as a user would, each in a process of its own. Printed: seconds
of both, the CPU seconds among them, the load of the machine before, and how many labels are right beside a
majority vote.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import print_json, print_table

CLASSES = ("crow", "finch", "jay", "raven", "robin", "wren")
IMPORT = "candidates import answers.csv --format crowd --skip-empty --out crowd.npz"
FIT = "fit tasks.csv --candidates crowd.npz --id task"
FEATURES, WORKERS, ANSWERS = 20, 50, 10


def write_files(folder: Path, tasks: int) -> tuple[np.ndarray, np.ndarray]:
    """The two files; returns the true labels and those of a majority vote, ties by chance."""
    rng, c = np.random.default_rng(0), len(CLASSES)
    truth = rng.integers(c, size=tasks)
    centres = rng.normal(size=(c, 2, FEATURES))  # two clusters per class
    x = centres[truth, rng.integers(2, size=tasks)] + 1.6 * rng.normal(size=(tasks, FEATURES))
    skill = rng.uniform(0.3, 0.9, size=WORKERS)
    who = np.argsort(rng.random((tasks, WORKERS)), axis=1)[:, :ANSWERS]
    near = np.argsort(((centres[:, None] - centres[None]) ** 2).sum(axis=(2, 3)), axis=1)[:, 1:3]
    slips = near[truth][np.arange(tasks)[:, None], rng.integers(2, size=who.shape)]
    said = np.where(rng.random(who.shape) < skill[who], truth[:, None], slips)
    counts = (said[:, :, None] == np.arange(c)).sum(axis=1)
    with open(folder / "answers.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["task", "worker", "label"])
        for i, k in rng.permutation(np.argwhere(np.ones(who.shape, dtype=bool))).tolist():
            line = [f"t{i}", f"w{who[i, k]}", "" if rng.random() < 0.005 else CLASSES[said[i, k]]]
            writer.writerows([line] * (2 if rng.random() < 0.005 else 1))
    with open(folder / "tasks.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["task", *(f"f{j}" for j in range(FEATURES)), "note"])
        for i in range(tasks):
            cells = ["" if gap else f"{v:.4f}" for v, gap in zip(x[i], rng.random(FEATURES) < 0.02)]
            writer.writerow([f"t{i}", *cells, f"seen on day {i}"])
    return truth, (counts + rng.random(counts.shape)).argmax(axis=1)


def run(folder: Path, command: str) -> float:
    """A command of `oneof`; the seconds it took."""
    began = time.perf_counter()
    code = "from oneof.app.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *command.split()], cwd=folder, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--budget", default="60s")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth, voted = write_files(folder, chosen.tasks)
        lines = (folder / "answers.csv").read_text(encoding="utf-8").count("\n") - 1
        before = os.times()
        imported = run(folder, IMPORT)
        fitted = run(folder, f"{FIT} --budget {chosen.budget}")
        after = os.times()
        with open(folder / "model" / "labels.csv", newline="", encoding="utf-8") as file:
            labels = {row["id"]: row["label"] for row in csv.DictReader(file)}
        report = (folder / "model" / "report.html").stat().st_size
    right = np.mean([labels[f"t{i}"] == CLASSES[k] for i, k in enumerate(truth)])
    figures = {
        "answers": lines,
        "tasks": chosen.tasks,
        "seconds_import": round(imported, 1),
        "seconds_fit": round(fitted, 1),
        "seconds": round(imported + fitted, 1),
        "cpu_seconds": round(
            after.children_user + after.children_system - before.children_user - before.children_system, 1
        ),
        "load_before": round(load, 1),
        "cores": os.cpu_count(),
        "labels_right": round(float(right), 4),
        "majority_vote_right": round(float((voted == truth).mean()), 4),
        "report_kilobytes": round(report / 1000),
    }
    print_table("A crowd file", ["what", "value"], [[name, value] for name, value in figures.items()])
    print_json(figures)


if __name__ == "__main__":
    main()
