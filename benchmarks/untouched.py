"""Data on which no choice was ever made: Letter, Satellite, Vowel and MNIST with instance-dependent sets.

    apt-get download r-cran-mlbench && dpkg-deb -x r-cran-mlbench_*.deb mlbench && pip install pyreadr
    ONEOF_DATA=DIR python -m benchmarks.untouched mlbench --to untouched
    for p in plus-none plus-paper plus-equal; do
        oneof bench $p --data untouched/*.csv --accept spelling --splits 5 \\
            --methods rplg+ rplg proden valen clean-only --to results/untouched  # hAd and had are two vowels
    done

Each becomes a table with a column of candidates and one of true labels: at most 5,000 rows, drawn at random;
sets as everywhere in the lab, from a network that was trained on the true labels (`oneof.lab.generator`).
"""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path

import numpy as np

from benchmarks.common import print_table
from oneof.candidates.generate import instance_sets
from oneof.datasets import DataSet, load
from oneof.lab.generator import beliefs
from oneof.lab.prepared import candidate_rule
from oneof.tables.files import write_text

TABLES = {
    "letter": ("LetterRecognition", "lettr"),
    "satellite": ("Satellite", "classes"),
    "vowel": ("Vowel", "Class"),
}
ROWS = 5000


def from_r(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of one of mlbench's tables; a factor beside the labels becomes a number."""
    import pyreadr  # type: ignore[import-not-found]

    stem, label = TABLES[name]
    frame = next(iter(pyreadr.read_r(next(folder.rglob(f"{stem}.rda"))).values()))
    y = frame.pop(label).astype(str).to_numpy()
    columns = [c.cat.codes if hasattr(c, "cat") else c for _, c in frame.items()]
    return np.column_stack([np.asarray(c, dtype=float) for c in columns]), y


def from_images() -> tuple[np.ndarray, np.ndarray]:
    data = load("mnist")
    return data.x_train.reshape(len(data.x_train), -1).astype(float), data.y_train.astype(str)


def with_sets(name: str, x: np.ndarray, labels: np.ndarray) -> tuple[list[list[str]], float, float]:
    """Rows of the CSV file, the mean size of a set, and the generator's accuracy on these rows."""
    chosen = np.random.default_rng(0).permutation(len(x))[:ROWS]
    classes, y = np.unique(labels[chosen], return_inverse=True)
    data = DataSet(f"untouched-{name}", x[chosen].astype(np.float32), y, tuple(classes))
    found = beliefs(data, device="cpu")
    rule = candidate_rule(len(classes))
    sets = instance_sets(y, rule["rate"], rule["seed"], q=found.q, classes=data.classes)
    rows = [[f"f{i}" for i in range(x.shape[1])] + ["candidates", "truth"]]
    for values, candidates, truth in zip(x[chosen], sets.sets(), classes[y], strict=True):
        rows.append([f"{v:g}" for v in values] + ["|".join(map(str, candidates)), str(truth)])
    return rows, float(sets.sizes.mean()), found.facts["generator"]["train_accuracy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mlbench", type=Path, help="where the package was unpacked")
    parser.add_argument("--to", type=Path, default=Path("untouched"))
    given = parser.parse_args()
    facts = []
    for name in (*TABLES, "mnist"):
        rows, size, accuracy = with_sets(
            name, *(from_images() if name == "mnist" else from_r(given.mlbench, name))
        )
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_text(given.to / f"{name}.csv", text.getvalue())
        facts.append([name, len(rows) - 1, len(rows[0]) - 2, round(size, 2), accuracy])
    print_table("untouched data", ["name", "rows", "features", "labels per row", "generator right"], facts)


if __name__ == "__main__":
    main()
