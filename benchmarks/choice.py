"""What does a choice made on the data cost and bring? `method="auto"` against all it could have chosen.

    ONEOF_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.choice --to results/choice
    python -m benchmarks.choice --sets blobs digits --quick        # a try: fewer rows, nothing recorded

Ten sets, with no clean rows and with 5 % of the training rows as clean rows. For each: the choice, and then
every entry of its portfolio and every baseline fitted on all training rows as the choice would have done.
Test rows are looked at by this script alone. Recorded, one line per set and share: test accuracy and balanced
accuracy of all, the regret (best entry of the portfolio minus the chosen one, in points), the chosen one
minus the best baseline, the cost (CPU time) in trainings of the long MLP with RPLG+, as
`PartialLabelClassifier()` is, and with PRODEN, the labels expected to be wrong beside those that are, and the
calibration error on test rows. A stopped run goes on where it was. `--again` makes the choices of a record
once more, with its entries and its cost: for a change that concerns neither, such as one of the calibration.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import make_blobs, make_classification
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.common import print_json, print_table, versions
from oneof import Candidates, PartialLabelClassifier
from oneof.candidates.generate import flip_sets, instance_sets
from oneof.classifier.choice import ChoiceData, Comparison
from oneof.classifier.rows import read_clean
from oneof.datasets import data_folder, load
from oneof.lab.prepared import prepare
from oneof.tables.files import write_text
from oneof.tables.importers.files import import_file
from oneof.tables.importers.options import ImportOptions

SHARES = (0.0, 0.05)
SEED = 100
"""Of generated candidate sets."""


@dataclasses.dataclass(frozen=True)
class ChoiceSet:
    """Training rows with their sets and (for judging alone) true columns; test rows."""

    x: np.ndarray
    candidates: Candidates
    truth: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    def first(self, n: int) -> ChoiceSet:
        """A part for a quick try."""
        rows = slice(0, n)
        sets = self.candidates.take(np.arange(len(self.x))[rows])
        return ChoiceSet(self.x[rows], sets, self.truth[rows], self.x_test[rows], self.y_test[rows])


def divided(x: np.ndarray, sets: Callable[[np.ndarray, np.ndarray], Candidates], y: np.ndarray) -> ChoiceSet:
    """Half of the rows for training, with sets made from the true labels; the rest for the test."""
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=0, stratify=y)
    return ChoiceSet(x_train, sets(x_train, y_train), y_train, x_test, y_test)


def confusing(rate: float) -> Callable[[np.ndarray, np.ndarray], Candidates]:
    """Instance-dependent sets: the labels of near rows join the true one."""

    def sets(x: np.ndarray, y: np.ndarray) -> Candidates:
        near = KNeighborsClassifier(25).fit(x, y).predict_proba(x) + 0.02
        return instance_sets(y, rate, SEED, log_probabilities=np.log(near))

    return sets


def blobs() -> ChoiceSet:
    """Six classes of three clusters each."""
    x, cluster = make_blobs(n_samples=2400, centers=18, n_features=8, cluster_std=3.0, random_state=3)
    return divided(x, confusing(0.25), cluster % 6)


def hypercube() -> ChoiceSet:
    x, y = make_classification(
        n_samples=3000, n_features=20, n_informative=8, n_classes=5, n_clusters_per_class=2, random_state=0
    )
    return divided(x, lambda x, y: flip_sets(y, 5, 0.4, SEED), y)


def uneven() -> ChoiceSet:
    """Classes of 50, 25, 13, 7 and 5 %."""
    x, y = make_classification(
        n_samples=3000,
        n_features=12,
        n_informative=7,
        n_classes=5,
        n_clusters_per_class=1,
        weights=[0.5, 0.25, 0.13, 0.07, 0.05],
        class_sep=0.8,
        random_state=1,
    )
    return divided(x, confusing(0.4), y)


TOPICS = {
    "login": "password account sign session locked reset token user cookie expired",
    "billing": "invoice card charge refund payment account tax price month expired",
    "crash": "error freeze window stack memory restart session update version file",
    "shipping": "parcel address delivery late courier tracking order card return month",
    "feature": "wish button colour export dark file report version user order",
}


def texts() -> ChoiceSet:
    """Short tickets whose topics share words; TF-IDF and 40 singular vectors."""
    rng = np.random.default_rng(0)
    every = sorted({word for words in TOPICS.values() for word in words.split()})
    y = rng.integers(len(TOPICS), size=2400)
    own = [words.split() for words in TOPICS.values()]
    tickets = [
        " ".join([*rng.choice(own[k], rng.integers(1, 6)), *rng.choice(every, rng.integers(3, 10))])
        for k in y
    ]
    weights = TfidfVectorizer().fit_transform(tickets)
    x = TruncatedSVD(40, random_state=0).fit_transform(weights)
    return divided(x, lambda x, y: flip_sets(y, len(TOPICS), 0.3, SEED), y)


def published(name: str) -> Callable[[], ChoiceSet]:
    """A real-world set with its own candidates."""

    def read() -> ChoiceSet:
        data = prepare(name)
        assert data.truth is not None
        train, test = train_test_split(np.arange(len(data.x)), test_size=0.3, random_state=0)
        return ChoiceSet(
            data.x[train],
            data.candidates.take(train).replace(truth=None),
            data.truth[train],
            data.x[test],
            data.truth[test],
        )

    return read


def labelme() -> ChoiceSet:
    """The union of a crowd's answers, and who gave them."""
    folder, names = data_folder() / "crowd", tuple("01234567")
    with np.load(folder / "labelme_features.npz") as stored:
        parts = {name: stored[name] for name in stored.files}
    made = import_file(folder / "labelme_answers.csv", "crowd", ImportOptions(n_rows=1000, classes=names))
    return ChoiceSet(parts["X_train"], made.candidates, parts["y_train"], parts["X_test"], parts["y_test"])


def fashion_crowd() -> ChoiceSet:
    """10,000 Fashion-MNIST images with the counts of about 60 answers each; 50 principal components."""
    data = load("fashion_mnist")
    assert data.x_test is not None
    assert data.y_test is not None
    counts = np.loadtxt(data_folder() / "crowd" / "fmh_counts.csv", delimiter=",")
    x = PCA(50, random_state=0).fit_transform(np.asarray(data.x_test).reshape(10_000, -1) / 255.0)
    train, test = train_test_split(np.arange(10_000), test_size=0.3, random_state=0)
    kept = counts * (
        counts >= 0.05 * counts.sum(axis=1, keepdims=True)
    )  # a slip of one in sixty is no candidate
    sets = voted(kept[train] > 0, kept[train], tuple(range(10)))
    return ChoiceSet(x[train], sets, data.y_test[train], x[test], data.y_test[test])


def voted(mask: np.ndarray, votes: np.ndarray, names: tuple[Any, ...]) -> Candidates:
    return Candidates(mask, names, truth_may_be_outside=True, evidence=votes * mask)


SETS: dict[str, Callable[[], ChoiceSet]] = {
    "lost": published("lost"),
    "msrcv2": published("msrcv2"),
    "birdsong": published("birdsong"),
    "digits": published("digits"),
    "labelme": labelme,
    "fashion-crowd": fashion_crowd,
    "blobs": blobs,
    "hypercube": hypercube,
    "uneven": uneven,
    "texts": texts,
}


def scores(model: Any, data: ChoiceSet) -> dict[str, float]:
    predicted = model.predict_proba(data.x_test).argmax(axis=1)
    return {
        "accuracy": round(float((predicted == data.y_test).mean()), 5),
        "balanced": round(float(balanced_accuracy_score(data.y_test, predicted)), 5),
    }


def calibration_error(p: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """Expected calibration error in points: how far confidence is from accuracy, in bins of equal count."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    parts = np.array_split(np.argsort(sure), bins)
    return 100 * sum(len(k) * abs(sure[k].mean() - right[k].mean()) for k in parts if len(k)) / len(p)


def clean_vector(data: ChoiceSet, share: float) -> np.ndarray | None:
    if not share:
        return None
    trusted = np.random.default_rng(1).random(len(data.x)) < share
    names = [data.candidates.classes[k] for k in data.truth]
    return np.array([name if there else None for name, there in zip(names, trusted)], dtype=object)


def wrong_labels(model: Any, data: ChoiceSet) -> np.ndarray:
    """Which training labels are wrong, clean rows (whose label is known) aside."""
    found = model.label_errors_
    return (found.labels != data.truth) & (found.wrong > 0)


def compare(
    name: str,
    data: ChoiceSet,
    share: float,
    budget: float | None,
    epochs: int | None = None,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One line of the record; `before`: the line whose entries and cost stay."""
    clean = clean_vector(data, share)
    model = PartialLabelClassifier("auto", epochs=epochs, budget=budget, device="cpu")
    began = time.process_time()  # of one thread: other work on the machine does not count
    model.fit(data.x, data.candidates, clean=clean)
    took = time.process_time() - began if before is None else before["seconds"]
    entries = all_entries(model, data, clean) if before is None else before["entries"]
    best = {
        kind: max(e["accuracy"] for e in entries.values() if e["kind"] in kinds)
        for kind, kinds in {"all": ("method", "baseline"), "baseline": ("baseline",)}.items()
    }
    default, proden = (entries[f"{method}, mlp, long"]["seconds"] for method in ("rplg+", "proden"))
    chosen = scores(model, data)
    return {
        "set": name,
        "clean_share": share,
        "rows": len(data.x),
        "candidates": round(float(data.candidates.sizes.mean()), 3),
        "chosen": model.selection_[0]["name"],
        **chosen,
        "regret": round(100 * (best["all"] - chosen["accuracy"]), 3),
        "over_baseline": round(100 * (chosen["accuracy"] - best["baseline"]), 3),
        "noise": round(100 * math.sqrt(chosen["accuracy"] * (1 - chosen["accuracy"]) / len(data.y_test)), 3),
        "errors_expected": model.label_errors_.expected,
        "errors": int(wrong_labels(model, data).sum()),
        "calibration_error": round(calibration_error(model.predict_proba(data.x_test), data.y_test), 3),
        "cost": round(took / default, 2),
        "cost_in_proden": round(took / proden, 2),
        "seconds": round(took, 2),
        "note": model.selection_note_,
        "selection": model.selection_,
        "entries": entries,
        "budget": budget,
        "versions": versions(),
    }


def all_entries(model: Any, data: ChoiceSet, clean: np.ndarray | None) -> dict[str, Any]:
    """All that could have been chosen, fitted on all rows."""
    known = None if clean is None else read_clean(clean, data.x, model.classes_, lambda x: x)
    rows = ChoiceData(data.x, data.candidates, known).divided(None, model.recipe(len(data.x)).seed)
    whole = Comparison(model, rows, 0, model.budget)
    entries: dict[str, Any] = {}
    for contender in whole.contenders:
        began = time.process_time()
        fitted = whole.fitted(contender, rows)
        seconds = round(time.process_time() - began, 3)
        entries[contender.name] = {"kind": contender.kind, **scores(fitted, data), "seconds": seconds}
    return entries


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", choices=sorted(SETS), default=list(SETS))
    parser.add_argument("--shares", nargs="+", type=float, choices=SHARES, default=SHARES)
    parser.add_argument("--again", action="store_true", help="choices once more, entries as recorded")
    parser.add_argument("--to", type=Path, help="folder for records.jsonl and summary.json")
    parser.add_argument("--budget", type=float, help="seconds for each choice")
    parser.add_argument("--quick", action="store_true", help="200 rows of each set, 10 epochs")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    file = None if chosen.to is None else chosen.to / "records.jsonl"
    records = []
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    done = {(r["set"], r["clean_share"]): place for place, r in enumerate(records)}
    for name in chosen.sets:
        data = SETS[name]().first(200) if chosen.quick else SETS[name]()
        for share in chosen.shares:
            place = done.get((name, share))
            if (place is None) == chosen.again:
                continue
            before = None if place is None else records[place]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                record = compare(name, data, share, chosen.budget, 10 if chosen.quick else None, before)
            if place is None:
                records.append(record)
            else:
                records[place] = record
            print(f"{name}, {share:.0%} clean: {record['note']} Regret {record['regret']:.2f}.", flush=True)
            if file is not None:
                write_text(file, "".join(json.dumps(r) + "\n" for r in records))
    columns = ["chosen", "accuracy", "balanced", "regret", "over_baseline", "noise", "errors"]
    columns += ["errors_expected", "calibration_error", "cost"]
    rows = [
        [f"{r['set']}, {r['clean_share']:.0%}", r["chosen"]]
        + [100 * r[name] if name in ("accuracy", "balanced") else r[name] for name in columns[1:]]
        for r in records
    ]
    print_table("The choice on test rows, in % and points", ["set, clean rows", *columns], rows)
    summary = {
        "mean_regret": round(float(np.mean([r["regret"] for r in records])), 3),
        "worst_below_baseline": min(r["over_baseline"] for r in records),
        "largest_cost": max(r["cost"] for r in records),
    }
    if chosen.to is not None:
        facts = {
            **summary,
            "command": "python -m benchmarks.choice --to results/choice",
            "versions": versions(),
        }
        write_text(chosen.to / "summary.json", json.dumps(facts, indent=1) + "\n")
    print_json(summary)


if __name__ == "__main__":
    main()
