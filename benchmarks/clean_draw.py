"""How noisy RPLG's meta-gradient is, by the clean rows of a step: how many, and how they are drawn.

    python benchmarks/clean_draw.py > results/clean_rows/noise.txt

RPLG (head) on Fashion-MNIST with an MLP is trained for some epochs. Then, with everything held fixed, the
gradient of the meta-learner is computed for several batches of training rows and draws of clean rows, and
compared with the one of all clean rows: the size of the difference, relative to that gradient, and the
cosine between the two.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor

from common import print_json, print_table
from oneof.datasets import hold_out
from oneof.lab.prepared import prepare
from oneof.methods import make_method
from oneof.methods.rplg.branches import opinions
from oneof.methods.rplg.meta_gradient import LookAhead, head
from oneof.methods.rplg.rplg import mix, through_mix
from oneof.methods.targets import candidate_softmax
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train
from oneof.training.clean_order import balanced_draw, sorted_by_label
from oneof.views import ImageViews

DRAWS = [("random", 64), ("random", 256), ("balanced", 64), ("balanced", 256)]
BATCHES, REPEATS = 8, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    epochs = parser.parse_args().epochs
    torch.set_num_threads(1)
    data = prepare("fmnist", {"rule": "instance", "rate": 0.4, "seed": 0})
    split = hold_out(len(data.x), 0.1, 0, labels=data.truth)
    assert data.pixels is not None
    views = ImageViews(*data.pixels, policy="none", cutout=16, pad=4, flip=True)
    clean = CleanRows(data.x[split.validation], np.eye(10, dtype=bool)[data.truth[split.validation]])
    trained = train(
        make_method("rplg", {"alpha": 0.3, "meta_hidden": 128}),
        lambda: build_net("mlp", data.x.shape[1:], 10, hidden=(300, 300)),
        data.x[split.train],
        data.candidates.take(split.train),
        recipe=Recipe(
            epochs=epochs, batch_size=256, optimiser="sgd", lr=0.05, weight_decay=1e-3, device="cpu"
        ),
        clean=clean,
        views=views,
    )
    state = trained.state.eval()
    generator = torch.Generator().manual_seed(0)
    x_clean, mask = views.plain(torch.as_tensor(clean.x)), torch.as_tensor(clean.mask)
    by_label = sorted_by_label(mask)

    def gradient(batch: np.ndarray, rows: Tensor) -> Tensor:
        """Of the meta-learner, for training rows `batch` as they are and clean rows `rows`."""
        x = views.plain(torch.as_tensor(data.x[batch]))
        sets = torch.as_tensor(data.candidates.mask[batch])
        with torch.no_grad():
            z = state.net.features(x)
            logits = state.net.head(z)
            u = opinions(state.branches.logits(z), state.branches.reduced_sets(sets), sets)
        w = candidate_softmax(state.meta(z), sets)
        target = mix(w.detach(), u)
        slope = head(LookAhead(state.net, x, z, logits, target, 0.05, x_clean[rows], mask[rows], unit=True))
        slopes = torch.autograd.grad((w * through_mix(slope, u)).sum(), [*state.meta.parameters()])
        return torch.cat([slope.flatten() for slope in slopes])

    order = np.random.default_rng(0).permutation(split.train)
    table, figures = [], {}
    noise: dict[tuple[str, int], list[float]] = {draw: [] for draw in DRAWS}
    cosine: dict[tuple[str, int], list[float]] = {draw: [] for draw in DRAWS}
    for number in range(BATCHES):
        batch = order[256 * number : 256 * (number + 1)]
        all_rows = gradient(batch, torch.arange(len(mask)))
        for way, size in DRAWS:
            for _ in range(REPEATS):
                if way == "balanced":
                    rows = balanced_draw(by_label, size, generator)
                else:
                    rows = torch.randint(len(mask), (size,), generator=generator)
                one = gradient(batch, rows)
                noise[way, size].append(float((one - all_rows).norm() / all_rows.norm()))
                cosine[way, size].append(float(torch.cosine_similarity(one, all_rows, dim=0)))
    for way, size in DRAWS:
        found = {
            "noise": round(float(np.mean(noise[way, size])), 2),
            "cosine": round(float(np.mean(cosine[way, size])), 2),
        }
        figures[f"{way}, {size}"] = found
        table.append([way, size, f"{found['noise']:.2f}", f"{found['cosine']:.2f}"])
    print_table(
        "RPLG's meta-gradient (head), Fashion-MNIST, MLP",
        ["draw", "clean rows", "noise / gradient", "cosine"],
        table,
    )
    print_json({"epochs": epochs, "draws": figures})


if __name__ == "__main__":
    main()
