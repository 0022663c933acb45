"""RPLG's look-ahead with and without the learning rate as a factor, where the learning rate falls to zero.

    python benchmarks/meta_scale.py > results/meta_scale/meta_scale.txt

MLP, SGD, cosine schedule, 60 epochs, on splits that no table reports (seeds 1000 to 1003). Entropy of the
branch weights w at the beginning, in the middle and at the end (with `rate` they go back to uniform), and
accuracies of the last epoch.
"""

from __future__ import annotations

import numpy as np
import torch

from common import print_json, print_table
from oneof.bench.datasets import prepare
from oneof.data import Scaling, split_80_10_10
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train

SEEDS = (1000, 1001, 1002, 1003)


def trained(name: str, scale: str, seed: int) -> list[dict[str, float]]:
    data = prepare(name)
    split = split_80_10_10(len(data.x), seed)
    x = Scaling.fit(data.x[split.train], "global").apply(data.x)
    labels = np.eye(data.n_classes, dtype=bool)[data.truth[split.validation]]
    return train(
        make_method("rplg", {"meta_scale": scale, "alpha": 0.3, "meta_hidden": 128}),
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
        for scale in ("rate", "unit"):
            tests = []
            for seed in SEEDS:
                history = trained(name, scale, seed)
                last = history[-1]
                entropy = [round(history[i]["w_entropy"], 3) for i in (0, 20, 59)]
                tests.append(100 * last["test"])
                rows.append([name, scale, seed, *entropy, 100 * last["q_accuracy"], tests[-1]])
            figures[f"{name}/{scale}"] = {"test": round(float(np.mean(tests)), 2), "seeds": len(tests)}
    columns = ["data", "scale", "seed", "entropy 0", "20", "59", "q right %", "test %"]
    print_table("RPLG, cosine schedule", columns, rows)
    print_json(figures)


if __name__ == "__main__":
    main()
