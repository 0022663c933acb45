"""How much should answers count beside a classifier? An exponent, fixed on generated crowds; then real ones.

    OMP_NUM_THREADS=1 python -m benchmarks.generated_crowds --to results/crowd/exponents.jsonl
    ONEOF_DATA=DIR python -m benchmarks.generated_crowds --real labelme --to results/crowd/evidence.jsonl
    ONEOF_DATA=DIR python -m benchmarks.generated_crowds --real cifar10n --to results/crowd/cifar10n.jsonl

Generated: people of different skill and habits, who err together where rows look like another class, and some
who answer at random. Recorded for each exponent: training labels that are right, and accuracy on test rows.
LabelMe and CIFAR-10N: the exponent as it is in the library, with 20 epochs at 3e-3 and with the library's
default length; a test row is looked at once per fit.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

import oneof.training.ongoing
from benchmarks.common import print_table
from oneof import Candidates, PartialLabelClassifier
from oneof.candidates.annotations import Annotations
from oneof.candidates.evidence import estimate_true_labels
from oneof.datasets import data_folder, load
from oneof.tables.files import write_text
from oneof.tables.importers import from_answers

EXPONENTS = (0.125, 0.25, 0.5, 1.0)
SHORT = {"epochs": 20, "lr": 3e-3}


@dataclass(frozen=True)
class Kind:
    """A kind of crowd. `together`: part of the mistakes that follow what a row looks like."""

    rows: int
    classes: int
    answers: float
    workers: int
    skill: tuple[float, float]
    together: float
    at_random: float
    digits: bool = False


KINDS = {
    "few answers": Kind(1000, 8, 2.5, 59, (4, 2), 0.7, 0.05),
    "ten classes": Kind(700, 10, 4.2, 40, (3, 3), 0.7, 0.1),
    "random workers": Kind(1000, 6, 5, 30, (3, 2), 0.3, 0.4),
    "digits": Kind(900, 10, 3, 40, (3, 3), 0.8, 0.1, digits=True),
    "46 answers": Kind(500, 6, 46, 60, (3, 3), 0.5, 0.1),
}


@dataclass(frozen=True)
class Answered:
    """Rows with answers; true labels and test rows are for judging alone."""

    x: np.ndarray
    y: np.ndarray
    made: Annotations
    x_test: np.ndarray
    y_test: np.ndarray


def generated(kind: Kind, seed: int) -> Answered:
    rng, n, c = np.random.default_rng(seed), kind.rows, kind.classes
    if kind.digits:
        x, y = load_digits(return_X_y=True)
        order = rng.permutation(len(x))
        x, y = (x + rng.normal(size=x.shape) * 4)[order], y[order]
    else:
        x, y = make_classification(
            n + 1000, 30, n_informative=10, n_classes=c, n_clusters_per_class=1, random_state=seed
        )
    looks = KNeighborsClassifier(15).fit(x, y).predict_proba(x) + 0.02
    looks /= looks.sum(axis=1, keepdims=True)
    right = rng.beta(*kind.skill, kind.workers)
    habit = rng.dirichlet(np.full(c, 0.5), (kind.workers, c))
    random = rng.random(kind.workers) < kind.at_random
    busy = 0.9 * rng.dirichlet(np.ones(kind.workers)) + 0.1 / kind.workers
    answers = []
    for i in range(n):
        people = min(kind.workers, max(1, rng.poisson(kind.answers)))
        for w in rng.choice(kind.workers, people, replace=False, p=busy):
            if random[w]:
                said = rng.integers(c)
            elif rng.random() < right[w]:
                said = y[i]
            else:
                said = rng.choice(c, p=looks[i] if rng.random() < kind.together else habit[w, y[i]])
            answers.append((i, f"w{w}", int(said)))
    made = from_answers(*zip(*answers), n_rows=n, classes=range(c))
    return Answered(x[:n], y[:n], made, x[n:], y[n:])


def labelme() -> Answered:
    from crowd import load_crowd

    found = load_crowd()
    p = found.parts
    return Answered(p["X_train"], p["y_train"], found.imports["union"], p["X_test"], p["y_test"])


def cifar10n() -> Answered:
    """5,000 CIFAR-10 images with three answers each, as if of three people; 64 principal components."""
    data = load("cifar10")
    assert data.x_test is not None
    assert data.y_test is not None
    with np.load(data_folder() / "crowd" / "cifar10n.npz") as stored:
        labels, truth = stored["labels"][:5000], stored["clean"][:5000]
    pixels = [
        np.asarray(x[:5000], dtype=np.float32).reshape(5000, -1) / 255 for x in (data.x_train, data.x_test)
    ]
    axes = PCA(64, random_state=0).fit(pixels[0])
    x, x_test = map(axes.transform, pixels)
    rows, people = np.divmod(np.arange(15_000), 3)
    made = from_answers(rows, people, labels.ravel(), n_rows=5000, classes=range(10))
    return Answered(x, truth.astype(int), made, x_test, data.y_test[:5000])


REAL = {"labelme": labelme, "cifar10n": cifar10n}


def aggregated(data: Answered) -> dict[str, np.ndarray]:
    """One label per row: majority vote with ties by chance, and Dawid and Skene's."""
    n, c = data.made.candidates.shape
    votes = data.made.answers.counts(n, c)
    chance = np.random.default_rng(0).random(votes.shape)
    found = estimate_true_labels(data.made.answers, n, c)
    return {"majority vote": (votes + chance).argmax(axis=1), "Dawid-Skene": found.posterior.argmax(axis=1)}


def fits(
    data: Answered, seed: int, exponents: tuple[float | None, ...], length: dict[str, Any]
) -> Iterator[Any]:
    """A record per line: name, exponent, right labels, test accuracy."""
    sets = data.made.candidates
    usual = oneof.training.ongoing.EXPONENT

    def fit(name: str, method: str, y: Candidates, exponent: float | None = None) -> dict[str, Any]:
        own = {"exponent": exponent} if method == "crowd" and exponent is not None else None
        oneof.training.ongoing.EXPONENT = usual if exponent is None else exponent
        model = PartialLabelClassifier(method, method_params=own, random_state=seed, device="cpu", **length)
        model.fit(data.x, y)
        oneof.training.ongoing.EXPONENT = usual
        right = model.predict(data.x_test).astype(int) == data.y_test
        labels = model.transduction_.argmax(axis=1) == data.y
        scores = {"labels": round(100 * labels.mean(), 2), "test": round(100 * right.mean(), 2)}
        return {"line": name, "exponent": exponent, "seed": seed, **length, **scores}

    for name, columns in aggregated(data).items():
        names = [sets.classes[k] for k in columns]
        yield fit(name, "proden", Candidates.from_labels(names, classes=sets.classes))
    yield fit("PRODEN, union", "proden", sets.replace(evidence=None))
    for exponent in exponents:
        yield fit("PRODEN, votes as evidence", "proden", sets, exponent)
        yield fit("crowd", "crowd", sets, exponent)
    yield fit("RPLG+, votes as evidence", "rplg+", sets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, help="file for the records")
    parser.add_argument("--real", choices=REAL, help="a real crowd instead of generated ones")
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    records = []
    for seed in range(chosen.seeds):
        if chosen.real:
            data = REAL[chosen.real]()
            for length in (SHORT, {}):
                records += [{"set": chosen.real, **r} for r in fits(data, seed, (None,), length)]
        else:
            for name, kind in KINDS.items():
                records += [{"set": name, **r} for r in fits(generated(kind, seed), seed, EXPONENTS, SHORT)]
        print(f"seed {seed} done", flush=True)
        if chosen.to is not None:
            write_text(chosen.to, "".join(json.dumps(r) + "\n" for r in records))
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for r in records:
        groups.setdefault((r["set"], r["line"], r["exponent"], r.get("epochs")), []).append(r)
    shown = [
        [*map(str, key), *(round(float(np.mean([r[what] for r in some])), 2) for what in ("labels", "test"))]
        for key, some in groups.items()
    ]
    print_table(f"{chosen.seeds} seeds, %", ["set", "line", "exponent", "epochs", "labels", "test"], shown)


if __name__ == "__main__":
    main()
