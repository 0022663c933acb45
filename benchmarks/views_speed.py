"""Views of a batch of 256 images of CIFAR's size, against kornia's.

    python -m benchmarks.views_speed [--rounds 5] [--batches 20]

Bytes in, normalised float32 out. `weak`: mirrored, padded by reflection, cropped. `autoaugment` and
`randaugment`: the same, then the policy for CIFAR-10 or two random operations, and a square hole of 16
pixels. oneof draws other operations for every image. kornia draws the same for the whole batch, so that
its cost depends on the draw (all rounds have the same draws); `image by image` is what a draw per image
takes there. Rounds of all alternate and the fastest of each counts. One CPU thread; the GPU as well, where
there is one. kornia is not needed: without it only oneof's lines are there.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import print_json, print_table
from oneof.views import ImageViews

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
IMAGES, SIZE, HOLE = 256, 32, 16
View = Callable[[Tensor], Tensor]


def ours(device: torch.device) -> dict[str, View]:
    generator = torch.Generator(device).manual_seed(0)

    def view(policy: str, role: str) -> View:
        views = ImageViews(MEAN, STD, policy, cutout=HOLE)
        return lambda x: views.train(x, (role,), generator)[0]

    strong = {policy: view(policy, "strong") for policy in ("autoaugment", "randaugment")}
    return {"weak": view("none", "weak"), **strong}


def kornias(device: torch.device) -> dict[str, View]:
    """Its pipelines; nothing where it is not installed."""
    try:
        from kornia import augmentation as k
    except ImportError:
        return {}
    weak = [k.RandomHorizontalFlip(p=0.5), k.RandomCrop((SIZE, SIZE), padding=4, padding_mode="reflect")]
    normal = k.Normalize(torch.tensor(MEAN), torch.tensor(STD))
    share = (HOLE / SIZE) ** 2
    hole = k.RandomErasing(p=1.0, scale=(share, share), ratio=(1.0, 1.0), value=0.0)
    policies = {"autoaugment": k.auto.AutoAugment("cifar10"), "randaugment": k.auto.RandAugment(n=2, m=15)}
    pipelines = {
        "weak": torch.nn.Sequential(*weak, normal),
        **{name: torch.nn.Sequential(*weak, policy, normal, hole) for name, policy in policies.items()},
    }

    def view(pipeline: torch.nn.Module) -> View:
        return lambda x: pipeline(x.float() / 255)

    return {name: view(pipeline.to(device)) for name, pipeline in pipelines.items()}


def image_by_image(view: View) -> View:
    return lambda x: torch.cat([view(x[i : i + 1]) for i in range(len(x))])


def seconds(view: View, x: Tensor, batches: int) -> float:
    """Of one batch, in the mean over a round; every round has the same random numbers."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        start = time.perf_counter()
        for _ in range(batches):
            made = view(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        assert made.shape == x.shape
        return (time.perf_counter() - start) / batches


def measured(device: torch.device, rounds: int, batches: int) -> dict[str, float]:
    """Milliseconds per batch in the fastest round."""
    x = torch.randint(0, 256, (IMAGES, 3, SIZE, SIZE), dtype=torch.uint8, device=device)
    theirs = kornias(device)
    runs: dict[str, tuple[View, int]] = {}
    for role, view in ours(device).items():
        runs[f"{role}, oneof"] = (view, batches)
        if role in theirs:
            runs[f"{role}, kornia"] = (theirs[role], batches)
    for role in list(theirs)[1:]:
        runs[f"{role}, kornia, image by image"] = (image_by_image(theirs[role]), 1)
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds + 1):
        for name, (view, several) in runs.items():
            took = seconds(view, x, several)
            if number:  # the first round warms up
                best[name] = min(best[name], took)
    return {name: round(1000 * value, 3) for name, value in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for kind in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        best = figures[kind] = measured(torch.device(kind), options.rounds, options.batches)
        rows = [[name, ms, ms / best[f"{name.partition(',')[0]}, oneof"]] for name, ms in best.items()]
        title = f"views of {IMAGES} images on the {kind}: ms per batch, and as a multiple of oneof's"
        print_table(title, ["view", "ms", "times oneof"], rows)
    if kornias(torch.device("cpu")):
        import kornia

        figures["kornia"] = kornia.__version__
    else:
        print("\nkornia is not installed: there is nothing to compare with (pip install kornia).")
    print_json(figures)


if __name__ == "__main__":
    main()
