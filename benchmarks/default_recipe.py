"""How long and in which batches should a table be trained where nobody says? Two rules, splits of their own.

    ONEOF_DATA=DIR OMP_NUM_THREADS=1 python -m benchmarks.default_recipe > results/fit_defaults/recipe.jsonl

`before`: 3,000 steps in 4 to 100 epochs, batches of an eighth of the rows, 16 to 256. `now`: the estimator's
defaults. PRODEN and RPLG+, MLP and linear, without clean rows and with 10 %; random 80/10/10 splits, seeds
100 to 102, which are reported nowhere else; test accuracy.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from typing import Any

import numpy as np
import torch

from oneof.classifier.estimator import PartialLabelClassifier
from oneof.datasets import split_80_10_10
from oneof.lab.prepared import prepare

SEEDS = (100, 101, 102)


def before(n_rows: int) -> dict[str, int]:
    batch = min(256, max(16, n_rows // 8))
    return {"batch_size": batch, "epochs": min(100, max(4, round(3000 / max(1, n_rows // batch))))}


def accuracy(data: Any, method: str, net: str, clean: bool, rule: str, seed: int) -> float:
    names = np.array(data.candidates.classes)
    split = split_80_10_10(len(data.x), seed, labels=data.truth)
    settings = before(len(split.train)) if rule == "before" else {}
    model = PartialLabelClassifier(method, net=net, random_state=seed, device="cpu", **settings)
    known = (data.x[split.validation], names[data.truth[split.validation]]) if clean else None
    model.fit(data.x[split.train], data.candidates.take(split.train), clean=known)
    return float((model.predict(data.x[split.test]) == names[data.truth[split.test]]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["lost", "msrcv2", "digits", "birdsong"])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in parser.parse_args().data:
        data = prepare(name)
        rows = product((False, True), ("mlp", "linear"), ("proden", "rplg+"), ("before", "now"))
        for clean, net, method, rule in rows:
            found = [round(accuracy(data, method, net, clean, rule, seed), 3) for seed in SEEDS]
            row = {"data": name, "clean": clean, "net": net, "method": method, "rule": rule, "test": found}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
