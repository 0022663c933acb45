"""The figures of all candidate sets at hand, real and generated.

    ONEOF_DATA=DIR python -m benchmarks.candidate_summary > results/candidates/summary.json

The generator of Fashion-MNIST must have been trained before
(`oneof candidates generate fmnist --rule instance --rate 0.4 --seed 0`).
"""

import json
import warnings
from typing import Any

from oneof.candidates import Candidates, NoInformationWarning
from oneof.candidates.describe import describe
from oneof.candidates.generate import instance_sets
from oneof.datasets import load
from oneof.datasets.ready_made import ready_made_q, ready_made_sets

KEPT = (
    "rows",
    "classes",
    "mean_size",
    "sizes",
    "singletons",
    "pairs",
    "full_rows",
    "top_wrong_label_in",
    "hash",
)
PUBLISHED = {"lost": 2.23, "birdsong": 2.18, "msrcv2": 3.16}
RATE, SEEDS = 0.4, range(5)


def figures(candidates: Candidates, q: Any = None) -> dict[str, Any]:
    facts = describe(candidates, q)
    return {name: facts[name] for name in KEPT if name in facts}


def generated(name: str) -> dict[str, Any]:
    data = load(name)
    stored = ready_made_q(name, len(data.y_train), len(data.classes))
    if stored is None:
        raise SystemExit(f"no generator of {name}: run `oneof candidates generate {name}` first")
    draws = {}
    for seed in SEEDS:
        sets = instance_sets(data.y_train, RATE, seed, q=stored.q, classes=data.classes)
        ready = ready_made_sets(name, RATE, seed, data.y_train, data.classes)
        draws[f"seed {seed}"] = {
            **figures(sets, stored.q),
            "expected_mean_size": sets.provenance["expected_mean_size"],
            "equals_ready_made": None if ready is None else ready == sets,
        }
    return {"rule": "instance", "rate": RATE, "generator": stored.facts["generator"], "draws": draws}


def main() -> None:
    warnings.simplefilter("ignore", NoInformationWarning)
    real = {}
    for name, published in PUBLISHED.items():
        candidates = load(name).candidates
        assert candidates is not None
        real[name] = {"published_mean_size": published, **figures(candidates)}
    summary = {"real": real, "generated": {name: generated(name) for name in ("cifar10", "fmnist")}}
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
