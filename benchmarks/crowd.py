"""LabelMe crowd answers: aggregate first and train, or train on candidate sets? Five seeds each.

    ONEOF_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.crowd --to results/crowd
    ONEOF_DATA=DIR python -m benchmarks.crowd --parts DIR      # features as files for the shell lines

All methods: the same MLP on the 512 VGG features, the library's defaults, nothing tuned. The 500 valid rows
are the clean rows where a line says so; no line looks at a test row before its one evaluation.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import print_json, print_table, versions
from oneof import Candidates, PartialLabelClassifier
from oneof.candidates.annotations import Annotations
from oneof.candidates.evidence import estimate_true_labels
from oneof.datasets import data_folder
from oneof.tables.files import write_text, write_with
from oneof.tables.importers.files import import_file
from oneof.tables.importers.options import ImportOptions

SEEDS = range(5)
CLASSES = tuple("01234567")
Sets = Callable[["Crowd", int], Candidates]


@dataclass(frozen=True)
class Crowd:
    """The data, and the imports that are tried."""

    parts: dict[str, np.ndarray]
    imports: dict[str, Annotations]


@dataclass(frozen=True)
class Line:
    """One line of the table: what the rows carry, how it is learned, and whether clean rows are used."""

    name: str
    sets: Sets
    method: str = "proden"
    clean_weight: float = 0.0
    clean: bool = False
    only_clean: bool = False

    @property
    def group(self) -> str:
        return "valid rows as clean rows" if self.clean or self.only_clean else "crowd answers only"


RULES: dict[str, dict[str, Any]] = {
    "union": {},
    "share 0.5": {"rule": "share", "at_least": 0.5},
    "Dawid-Skene top 2": {"rule": "dawid-skene", "keep": 2},
    "Dawid-Skene top 2, at least 0.05": {"rule": "dawid-skene", "keep": 2, "at_least": 0.05},
}


def voted(crowd: Crowd, seed: int) -> Candidates:
    """Majority vote, ties by chance."""
    answers = crowd.imports["union"].answers
    assert answers is not None
    votes = answers.counts(len(crowd.parts["y_train"]), len(CLASSES))
    chance = np.random.default_rng(seed).random(votes.shape)
    return labelled((votes + chance).argmax(axis=1))


def most_probable(crowd: Crowd, seed: int) -> Candidates:
    """The most probable label by Dawid and Skene."""
    answers = crowd.imports["union"].answers
    assert answers is not None
    found = estimate_true_labels(answers, len(crowd.parts["y_train"]), len(CLASSES))
    return labelled(found.posterior.argmax(axis=1))


def true_labels(crowd: Crowd, seed: int) -> Candidates:
    return labelled(crowd.parts["y_train"])


def labelled(columns: np.ndarray) -> Candidates:
    return Candidates.from_labels([CLASSES[k] for k in columns], classes=CLASSES)


def imported(rule: str) -> Sets:
    """The sets alone: what votes add as evidence is in generated_crowds.py."""
    return lambda crowd, seed: crowd.imports[rule].candidates.replace(evidence=None)


LINES = [
    Line("majority vote", voted),
    Line("Dawid-Skene", most_probable),
    *(Line(f"PRODEN, {rule}", imported(rule)) for rule in RULES),
    Line("RPLG, union, without clean rows (RPLG-NM)", imported("union"), method="rplg"),
    Line("clean rows alone", voted, only_clean=True),
    Line("majority vote + clean", voted, clean=True, clean_weight=1.0),
    Line("Dawid-Skene + clean", most_probable, clean=True, clean_weight=1.0),
    *(Line(f"PRODEN + clean, {rule}", imported(rule), clean=True, clean_weight=1.0) for rule in RULES),
    *(Line(f"RPLG, {rule}", imported(rule), method="rplg", clean=True) for rule in RULES),
    Line("RPLG + clean in the loss, union", imported("union"), method="rplg", clean=True, clean_weight=1.0),
]
LIMIT = Line("true labels (upper limit)", true_labels)


def load_crowd() -> Crowd:
    folder = data_folder() / "crowd"
    with np.load(folder / "labelme_features.npz") as stored:
        parts = {name: stored[name] for name in stored.files}
    imports = {}
    for rule, options in RULES.items():
        made = import_file(
            folder / "labelme_answers.csv", "crowd", ImportOptions(n_rows=1000, classes=CLASSES, **options)
        )
        imports[rule] = made.with_truth(parts["y_train"])
    return Crowd(parts, imports)


def fit_once(line: Line, crowd: Crowd, seed: int) -> dict[str, Any]:
    p = crowd.parts
    started = time.perf_counter()
    valid = np.array(CLASSES)[p["y_valid"]]
    model = PartialLabelClassifier(
        line.method, clean_weight=line.clean_weight, random_state=seed, device="cpu"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows with all classes: none here that matter
        if line.only_clean:
            model.fit(p["X_valid"], labelled(p["y_valid"]))
            sets = labelled(p["y_valid"])
        else:
            sets = line.sets(crowd, seed)
            model.fit(p["X_train"], sets, clean=(p["X_valid"], valid) if line.clean else None)
    right = model.predict(p["X_test"]).astype(int) == p["y_test"]
    inside = None
    if not line.only_clean:
        inside = float(sets.mask[np.arange(len(sets)), p["y_train"]].mean())
    return {
        "line": line.name,
        "group": line.group if line is not LIMIT else "limit",
        "method": line.method,
        "clean_weight": line.clean_weight,
        "clean_source": model.clean_source_,
        "seed": seed,
        "mean_candidates": float(sets.sizes.mean()),
        "truth_inside": inside,
        "test_accuracy": float(right.mean()),
        "seconds": round(time.perf_counter() - started, 2),
    }


def summarised(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for line in [*LINES, LIMIT]:
        mine = [r for r in records if r["line"] == line.name]
        accuracy = 100 * np.array([r["test_accuracy"] for r in mine])
        first = mine[0]
        kept = ("line", "group", "method", "clean_weight", "mean_candidates", "truth_inside")
        rows.append(
            {name: first[name] for name in kept}
            | {
                "mean": round(float(accuracy.mean()), 2),
                "std": round(float(accuracy.std(ddof=1)), 2),
                "seconds": round(float(np.mean([r["seconds"] for r in mine])), 1),
            }
        )
    return rows


def as_markdown(rows: list[dict[str, Any]]) -> str:
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += [f"\n**{group.capitalize()}**\n", "| labels | candidates | truth inside | test accuracy |"]
        lines.append("|---|---|---|---|")
        for row in (r for r in rows if r["group"] == group):
            inside = "" if row["truth_inside"] is None else f"{row['truth_inside']:.1%}"
            size = f"{row['mean_candidates']:.2f}"
            lines.append(f"| {row['line']} | {size} | {inside} | {row['mean']:.2f} ± {row['std']:.2f} |")
    return "\n".join(lines)


def write_parts(crowd: Crowd, folder: Path) -> None:
    """The features as the files that `oneof fit` and `oneof predict` take."""
    p = crowd.parts
    for part in ("train", "test"):
        write_with(folder / f"{part}.npy", lambda out, part=part: np.save(out, p[f"X_{part}"]))
    arrays = {"x": p["X_valid"], "label": np.array(CLASSES)[p["y_valid"]]}
    write_with(folder / "valid.npz", lambda out: np.savez(out, **arrays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, help="folder for summary.json and records.jsonl")
    parser.add_argument("--parts", type=Path, help="write train.npy, valid.npz and test.npy there, and stop")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    crowd = load_crowd()
    if chosen.parts is not None:
        write_parts(crowd, chosen.parts)
        return
    started = time.perf_counter()
    records = []
    for line in [*LINES, LIMIT]:
        records += [fit_once(line, crowd, seed) for seed in SEEDS]
        accuracy = [r["test_accuracy"] for r in records[-len(SEEDS) :]]
        print(f"{line.name}: {100 * np.mean(accuracy):.2f}", flush=True)
    rows = summarised(records)
    shown = [[r["line"], r["mean"], r["std"], r["mean_candidates"], r["seconds"]] for r in rows]
    print_table("LabelMe, test accuracy in %", ["labels", "mean", "std", "candidates", "s"], shown)
    print(as_markdown(rows))  # as in results/crowd/README.md
    took = round(time.perf_counter() - started)
    defaults = PartialLabelClassifier().get_params()
    summary = {"lines": rows, "seeds": len(SEEDS), "defaults": defaults, "seconds": took}
    if chosen.to is not None:
        write_text(chosen.to / "records.jsonl", "".join(json.dumps(r) + "\n" for r in records))
        text = json.dumps({**summary, "versions": versions()}, indent=1, default=str)
        write_text(chosen.to / "summary.json", text + "\n")
    print_json({"seconds": took, "lines": {r["line"]: r["mean"] for r in rows}})


if __name__ == "__main__":
    main()
