"""What a step of RPLG+ and others costs on tables, PRODEN's being 1: an MLP, a linear model, one CPU thread.

    python -m benchmarks.table_steps > results/speed/table_steps.txt

Random rows with 108 features and 16 classes in batches of 64; RPLG and RPLG+ learn from clean rows. Methods
take turns; medians over all rounds. Times are processor time (one thread, all work in this process), so that
neighbours on the machine are not measured.
"""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.common import print_json, print_table, random_fit
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training.ongoing import OngoingTraining

METHODS = ("proden", "rplg+", "rplg", "rplg-nm", "valen", "idgp")
FEATURES, CLASSES, BATCH, STEPS, ROUNDS = 108, 16, 64, 30, 9


def training(name: str, net: str) -> OngoingTraining:
    sizes = {"batch": BATCH, "steps": STEPS, "classes": CLASSES}
    return random_fit(make_method(name), lambda: build_net(net, FEATURES, CLASSES), (FEATURES,), **sizes)


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for net in ("mlp", "linear"):
        fits = {name: training(name, net) for name in METHODS}
        times: dict[str, list[float]] = {name: [] for name in METHODS}
        for _ in range(ROUNDS):
            for name, fit in fits.items():
                began = time.process_time()
                for _ in fit.steps():
                    pass
                times[name].append((time.process_time() - began) * 1000 / STEPS)
        found[net] = {name: statistics.median(each[2:]) for name, each in times.items()}
    rows = []
    for name in METHODS:
        both = [found[net][name] for net in found]
        rows.append([name, *both, *(ms / found[net]["proden"] for ms, net in zip(both, found))])
    print_table("a step", ["method", "mlp, ms", "linear, ms", "mlp, x proden", "linear, x proden"], rows)
    print_json({"ms": found})


if __name__ == "__main__":
    main()
