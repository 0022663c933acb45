"""What RPLG's meta-learner does where the learning rate falls to zero, and two remedies.

    python benchmarks/meta_scale.py > results/meta_scale/meta_scale.txt

MLP, SGD, cosine schedule, 60 epochs, on splits that no table reports (seeds 1000 to 1003). Entropy of the
branch weights w at the beginning, in the middle and at the end, and accuracies of the last epoch. `rate`: the
look-ahead's slope has the learning rate as a factor, Adam's weight decay wins, w goes back to uniform.
`unit`: without the factor; w runs into a corner. `unit, follow`: and the meta-learner's own rate falls too.
"""

from __future__ import annotations

import numpy as np
import torch

from common import print_json, print_table
from oneof.datasets import Scaling, split_80_10_10
from oneof.lab.prepared import prepare
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train

SEEDS = (1000, 1001, 1002, 1003)


WAYS = {
    "rate": {"meta_scale": "rate", "meta_schedule": "constant"},
    "unit": {"meta_scale": "unit", "meta_schedule": "constant"},
    "unit, follow": {"meta_scale": "unit", "meta_schedule": "follow"},
}


def trained(name: str, way: str, seed: int) -> list[dict[str, float]]:
    data = prepare(name)
    split = split_80_10_10(len(data.x), seed)
    x = Scaling.fit(data.x[split.train], "global").apply(data.x)
    labels = np.eye(data.n_classes, dtype=bool)[data.truth[split.validation]]
    return train(
        make_method("rplg", WAYS[way] | {"alpha": 0.3, "meta_hidden": 128}),
        lambda: build_net("mlp", x.shape[1], data.n_classes),
        x[split.train],
        data.candidates.take(split.train),
        recipe=Recipe(
            epochs=60, batch_size=64, optimiser="sgd", lr=0.05, weight_decay=1e-3, schedule="cosine",
            seed=seed, device="cpu",
        ),
        clean=CleanRows(x[split.validation], labels),
        test=(x[split.test], data.truth[split.test]),
    ).history  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    rows, figures = [], {}
    for name in ("digits", "msrcv2", "lost"):
        for way in WAYS:
            tests = []
            for seed in SEEDS:
                history = trained(name, way, seed)
                last = history[-1]
                entropy = [round(history[i]["w_entropy"], 3) for i in (0, 20, 59)]
                tests.append(100 * last["test"])
                rows.append([name, way, seed, *entropy, 100 * last["q_accuracy"], tests[-1]])
            figures[f"{name}/{way}"] = {"test": round(float(np.mean(tests)), 2), "seeds": len(tests)}
    columns = ["data", "way", "seed", "entropy 0", "20", "59", "q right %", "test %"]
    print_table("RPLG, cosine schedule", columns, rows)
    print_json(figures)


if __name__ == "__main__":
    main()
