"""Make the example files: birds that observers could not always tell apart.

    python examples/make_birds.py

`birds.csv`: 400 sightings; `seen_as` has all species an observer thought possible, the true one among them.
`checked.csv`: 20 of them that an expert has looked at. `new_birds.csv`: 100 further ones, without labels;
`new_birds_truth.csv` tells what they are.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SPECIES = ("carrion crow", "raven", "house sparrow", "tree sparrow", "marsh tit", "willow tit")
WING_CM = np.array([32.0, 42.0, 7.7, 7.0, 6.3, 6.1])
WEIGHT_G = np.array([510.0, 1200.0, 30.0, 22.0, 11.0, 11.4])
BEAK_MM = np.array([55.0, 75.0, 13.5, 11.5, 9.0, 9.4])
SPREAD = 0.09
"""Of every measurement, relative: about what separates the two species of a pair."""
HABITATS = ("town", "field", "wood", "bog")
LIVES_IN = np.array(
    [[4, 4, 1, 1], [1, 2, 4, 3], [6, 3, 1, 0], [2, 5, 2, 1], [1, 1, 6, 2], [0, 1, 3, 6]], dtype=float
)


def sightings(rng: np.random.Generator, n: int) -> tuple[list[dict[str, str]], np.ndarray, np.ndarray]:
    """Rows without labels, their species, and how like each species they look."""
    truth = rng.integers(len(SPECIES), size=n)
    measures = np.stack([WING_CM, WEIGHT_G, BEAK_MM], axis=1)
    seen = measures[truth] * np.exp(rng.normal(0, SPREAD, (n, 3)))
    lives_in = LIVES_IN / LIVES_IN.sum(axis=1, keepdims=True)
    habitat = np.array([rng.choice(4, p=lives_in[k]) for k in truth])
    distance = (((np.log(seen)[:, None] - np.log(measures)) / SPREAD) ** 2).sum(axis=2) / 2
    like = np.exp(-distance) * lives_in[:, habitat].T + 1e-12
    rows = [
        {
            "wing_cm": f"{seen[i, 0]:.1f}",
            "weight_g": "" if rng.random() < 0.05 else f"{seen[i, 1]:.0f}",
            "beak_mm": f"{seen[i, 2]:.1f}",
            "habitat": HABITATS[habitat[i]],
        }
        for i in range(n)
    ]
    return rows, truth, like / like.sum(axis=1, keepdims=True)


def hesitating(rng: np.random.Generator, truth: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Every observer names the true species, and others the likelier the more the bird looks like them."""
    named = rng.random(like.shape) < np.minimum(1, 0.4 + 1.2 * like) * (like > 0.005)
    named |= rng.random(like.shape) < 0.04
    named[np.arange(len(truth)), truth] = True
    return named


def write(name: str, rows: list[dict[str, str]]) -> None:
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    rng = np.random.default_rng(7)
    rows, truth, like = sightings(rng, 400)
    named = hesitating(rng, truth, like)
    for i, row in enumerate(rows):
        labels = "|".join(SPECIES[k] for k in np.flatnonzero(named[i]))
        rows[i] = {"id": f"b{i:03d}", **row, "seen_as": labels}
    write("birds.csv", rows)
    checked = np.sort(rng.choice(400, 20, replace=False))
    write("checked.csv", [{"id": f"b{i:03d}", "label": SPECIES[truth[i]]} for i in checked])
    new, new_truth, _ = sightings(rng, 100)
    new = [{"id": f"n{i:03d}", **row} for i, row in enumerate(new)]
    write("new_birds.csv", new)
    write("new_birds_truth.csv", [{"id": row["id"], "label": SPECIES[k]} for row, k in zip(new, new_truth)])


if __name__ == "__main__":
    main()
