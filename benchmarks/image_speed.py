"""Steps on images on a GPU: PRODEN and RPLG with its meta-gradients, eager and fast.

    python -m benchmarks.image_speed [--parts steps epochs views agreement growth together] [--to FILE.json]
                                     [--sets cifar10 cifar100 tiny] [--variants head ...] [--seconds 240]

`steps`: milliseconds and peak memory of a training step through the library's loop, on random images of
the data set's form, one view, no augmentation, batch 256. `eager` is float32 as written, `graph` a CUDA
graph in bf16 with channels-last memory, `compiled` the same with compiled features. The look-ahead sees
256 clean rows, or 64 where the line says so. `epochs`: CIFAR-10's size with weak and strong view,
augmentation included, over five epochs. `views`: what the strong view takes of a step with both.
`agreement`: how well the forms of the meta-gradient in bf16 agree with the exact one in float32. `growth`:
time and memory of RPLG's own work by the number of classes. `together`: several trainings in processes of
their own: without NVIDIA's MPS, with it, and with it and at most half of the GPU for each. Without a GPU
the same code runs at small size (`--tiny`), and `--speeds eager "eager, bf16"` says what bf16 gains on a
processor.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import print_json, print_table, versions
from oneof.candidates import Candidates
from oneof.lab.runners.sharing import shared_gpu
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe
from oneof.training.ongoing import Given, OngoingTraining
from oneof.views import ImageViews, RowItself

MEAN, STD = (0.491, 0.482, 0.447), (0.247, 0.243, 0.262)


@dataclass(frozen=True)
class Set:
    net: str
    shape: tuple[int, int, int]
    classes: int


SETS = {
    "cifar10": Set("wrn-28-2", (3, 32, 32), 10),
    "cifar100": Set("wrn-28-2", (3, 32, 32), 100),
    "tiny": Set("resnet18", (3, 64, 64), 200),
    "lenet": Set("lenet", (3, 32, 32), 10),
}
SPEEDS = {
    "eager": {"speed": "eager", "precision": "float32"},
    "eager, bf16": {"speed": "eager", "precision": "bf16"},
    "graph": {"speed": "graph", "precision": "bf16"},
    "compiled": {"speed": "compiled", "precision": "bf16"},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "proden": ("proden", {}),
    "head": ("rplg", {"meta_gradient": "head"}),
    "head, 64": ("rplg", {"meta_gradient": "head", "clean_batch": 64}),
    "exact": ("rplg", {"meta_gradient": "exact"}),
    "exact, 64": ("rplg", {"meta_gradient": "exact", "clean_batch": 64}),
    "difference": ("rplg", {"meta_gradient": "difference"}),
    "difference, 64": ("rplg", {"meta_gradient": "difference", "clean_batch": 64}),
    "unrolled": ("rplg", {"meta_gradient": "unrolled"}),
    "rplg+": ("rplg+", {}),
}
PLAN = {
    "eager": ("proden", "rplg+", "head", "difference", "exact", "unrolled"),
    "eager, bf16": ("proden", "rplg+", "head"),
    "graph": ("proden", "rplg+", "head", "head, 64", "difference, 64", "exact, 64"),
    "compiled": ("proden", "rplg+", "head", "head, 64", "difference", "difference, 64", "exact, 64"),
}


def make_fit(
    variant: str,
    data: Set,
    rows: int,
    batch: int,
    device: str,
    speed: dict[str, Any],
    views: ImageViews | None = None,
) -> OngoingTraining:
    """A training on random images, ready for its first epoch."""
    rng = np.random.default_rng(0)
    y = rng.integers(data.classes, size=rows)
    wrong = rng.integers(data.classes, size=(rows, 3))
    mask = np.zeros((rows, data.classes), dtype=bool)
    mask[np.arange(rows)[:, None], wrong] = True
    mask[np.arange(rows), y] = True
    x = rng.integers(0, 256, size=(rows, *data.shape), dtype=np.uint8)
    clean = rng.integers(0, 256, size=(4 * batch, *data.shape), dtype=np.uint8)
    if views is None:  # numbers as the net takes them
        x, clean = (((a / 255).astype(np.float32) - 0.47) / 0.25 for a in (x, clean))
    labels = np.eye(data.classes, dtype=bool)[rng.integers(data.classes, size=4 * batch)]
    name, params = VARIANTS[variant]
    recipe = Recipe(
        epochs=10**6, batch_size=batch, optimiser="sgd", lr=0.01, weight_decay=1e-3,
        schedule="constant", device=device, **speed,
    )  # fmt: skip
    given = Given(
        x,
        Candidates.from_mask(mask, truth=y),
        CleanRows(clean, labels),
        views=views or RowItself(),
    )
    fit = OngoingTraining(
        make_method(name, params),
        lambda: build_net(data.net, data.shape, data.classes),
        given,
        recipe,
        torch.device(device),
    )
    fit.selection = None
    fit.end_epoch()
    fit.step.epoch = 0
    return fit


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def steps(
    variant: str, data: Set, options: argparse.Namespace, speed: str, views: ImageViews | None = None
) -> dict[str, float]:
    """Milliseconds of a step and the peak memory beyond the data."""
    device, batch = options.device, options.batch
    free(device)
    began = time.perf_counter()
    fit = make_fit(variant, data, options.steps * batch, batch, device, SPEEDS[speed], views)
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    fit.run_epoch()  # the second epoch may be another stage, and is recorded again
    fit.run_epoch()
    wait(device)
    ready = time.perf_counter() - began
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in fit.steps():
            pass
        wait(device)
        times.append((time.perf_counter() - start) / options.steps * 1000)
        fit.close_epoch()
    peak = (torch.cuda.max_memory_allocated() - before) / 1e9 if device == "cuda" else 0.0
    return {"ms": round(min(times), 3), "gb": round(peak, 3), "ready_s": round(ready, 1)}


class NoStrongView(ImageViews):
    """The strong view is the image as it is."""

    def _view(self, x: torch.Tensor, role: str, generator: torch.Generator) -> torch.Tensor:
        return super()._view(x, "weak" if role == "weak" else "plain", generator)


def share_of_view(variant: str, data: Set, options: argparse.Namespace, speed: str) -> dict[str, float]:
    """What the strong view takes of a step with a weak and a strong one."""
    with_it, without = (
        steps(variant, data, options, speed, made(MEAN, STD))["ms"] for made in (ImageViews, NoStrongView)
    )
    return {"ms": with_it, "without_ms": without, "share": round(1 - without / with_it, 4)}


def epochs(variant: str, options: argparse.Namespace, speed: str) -> dict[str, float]:
    """Seconds of an epoch of CIFAR-10's size with both views, and of 250 of them."""
    rows = 45000 if not options.tiny else 4 * options.batch
    both = ImageViews(MEAN, STD)
    fit = make_fit(variant, SETS["cifar10"], rows, options.batch, options.device, SPEEDS[speed], both)
    fit.run_epoch()
    fit.run_epoch()
    wait(options.device)
    start = time.perf_counter()
    for _ in range(5):
        fit.run_epoch()
    wait(options.device)
    seconds = (time.perf_counter() - start) / 5
    return {"epoch_s": round(seconds, 3), "minutes_for_250": round(seconds * 250 / 60, 2)}


def growth(classes: int, options: argparse.Namespace, form: str, width: int = 2048) -> dict[str, float]:
    """RPLG-NM's step beyond PRODEN's on ready features of size `width`: the branches alone."""
    from torch import nn

    from oneof.methods.rplg import branches
    from oneof.nets import Net

    device, batch = options.device, options.batch
    need = 4 * 4 * classes**2 * width / 1e9  # weight, velocity, gradient and room
    if form == "full" and need > (100 if device == "cuda" else 4):
        return {"left_out": f"the full form needs about {need:.0f} GB"}  # type: ignore[dict-item]
    found = {}
    limit = 2**62 if form == "full" else 0  # which form is taken is a matter of cost alone
    branches.WHOLE_CLASSES, branches.WHOLE_COST = 0, limit
    for name in ("proden", "rplg-nm"):
        free(device)
        rng = np.random.default_rng(0)
        rows = options.steps * batch
        mask = np.zeros((rows, classes), dtype=bool)
        mask[np.arange(rows)[:, None], rng.integers(classes, size=(rows, 5))] = True
        x = rng.standard_normal((rows, width), dtype=np.float32)
        recipe = Recipe(
            epochs=10**6, batch_size=batch, optimiser="sgd", lr=0.01, schedule="constant",
            device=device, speed="graph",
        )  # fmt: skip
        before = torch.cuda.memory_allocated() if device == "cuda" else 0
        fit = OngoingTraining(
            make_method(name),
            lambda: Net(nn.Identity(), nn.Linear(width, classes)),
            Given(x, Candidates.from_mask(mask)),
            recipe,
            torch.device(device),
        )
        fit.end_epoch()
        fit.step.epoch = 0
        fit.run_epoch()
        fit.run_epoch()
        wait(device)
        start = time.perf_counter()
        for _ in fit.steps():
            pass
        wait(device)
        found[f"{name}_ms"] = round((time.perf_counter() - start) / options.steps * 1000, 3)
        peak = (torch.cuda.max_memory_allocated() - before) / 1e9 if device == "cuda" else 0.0
        found[f"{name}_gb"] = round(peak, 3)
        del fit
    return found


def agreement(options: argparse.Namespace) -> dict[str, Any]:
    """How well the forms in bf16 agree with the exact one in float32: cosine of the slopes."""
    from oneof.methods.rplg import meta_gradient
    from oneof.methods.rplg.meta_gradient import META_GRADIENTS, LookAhead
    from oneof.nets.fast import with_fast_features

    data, device, batch = SETS["cifar10"], options.device, options.batch
    fit = make_fit("proden", data, options.steps * batch, batch, device, SPEEDS["eager"])
    for _ in range(3):
        fit.run_epoch()
    net, x, mask = fit.state.net, fit.rows.x[:batch], fit.candidates.dense()[:batch]  # type: ignore[attr-defined]
    assert fit.clean.x is not None
    assert fit.clean.mask is not None
    target = mask / mask.sum(dim=1, keepdim=True)

    def slopes(form: str, size: float) -> torch.Tensor:
        features = net.features(x)
        ahead = LookAhead(
            net, x, features, net.head(features), target, 0.05, fit.clean.x[:64], fit.clean.mask[:64]
        )
        meta_gradient.DIFFERENCE = size
        found = META_GRADIENTS[form](ahead).double()
        return ((found - (found * target).sum(dim=1, keepdim=True)) * mask).flatten()

    reference = slopes("exact", 0.01)
    result: dict[str, Any] = {}

    def compare(name: str, form: str, size: float = 0.01) -> None:
        cosine = torch.nn.functional.cosine_similarity(slopes(form, size), reference, dim=0)
        result[name] = round(float(cosine), 4)

    compare("float32 head", "head")
    for size in (0.01, 0.1):
        compare(f"float32 difference {size}", "difference", size)
    with_fast_features(net, torch.bfloat16, True)
    compare("bf16 exact", "exact")
    compare("bf16 head", "head")
    for size in (0.01, 0.03, 0.1, 0.3, 1.0):
        compare(f"bf16 difference {size}", "difference", size)
    return result


def lane(folder: Path, name: str, number: int, options: argparse.Namespace, speed: str) -> None:
    """One of several trainings side by side: get ready, wait for the others, train, write the seconds."""
    rows = 64 * options.batch if not options.tiny else 2 * options.batch
    both = ImageViews(MEAN, STD)
    fit = make_fit("head, 64", SETS["cifar10"], rows, options.batch, options.device, SPEEDS[speed], both)
    fit.run_epoch()
    fit.run_epoch()
    wait(options.device)
    (folder / f"{name}.ready").touch()
    while len(list(folder.glob("*.ready"))) < number:
        time.sleep(0.01)
    start = time.perf_counter()
    for _ in range(6):
        fit.run_epoch()
    wait(options.device)
    seconds = time.perf_counter() - start
    (folder / f"{name}.json").write_text(json.dumps({"s": seconds, "steps": 6 * rows // options.batch}))


def together(
    number: int, options: argparse.Namespace, speed: str, shared: bool, percent: int = 100
) -> dict[str, Any]:
    """Steps per second of RPLG `head` in several processes at once.

    Processes take turns on a GPU; with `shared` they go through NVIDIA's multi-process service (MPS), which
    lets their kernels run at the same time, each on at most `percent` of the GPU.
    """
    with tempfile.TemporaryDirectory() as place, shared_gpu() if shared else nullcontext({}) as environment:
        if environment is None:
            return {"left_out": "there is no multi-process service"}
        folder = Path(place)
        lanes: list[subprocess.Popen[bytes]] = []
        try:
            command = [sys.executable, "-m", "benchmarks.image_speed", "--lane", place, str(number), speed]
            tiny = ["--tiny"] if options.tiny else []
            for i in range(number):
                part = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)} if shared else {}
                arguments, surroundings = [*command, str(i), *tiny], {**os.environ, **environment, **part}
                lanes.append(subprocess.Popen(arguments, env=surroundings, stderr=subprocess.PIPE))
            for process in lanes:
                _, error = process.communicate(timeout=90)
                if process.returncode:
                    raise RuntimeError(error.decode()[-300:])
        finally:
            for process in lanes:
                process.kill()
        done = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return {"steps_per_s": round(sum(d["steps"] for d in done) / max(d["s"] for d in done), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["cifar10", "cifar100", "tiny"], choices=SETS)
    parser.add_argument("--parts", nargs="+", default=["steps", "epochs", "agreement", "growth"])
    parser.add_argument("--speeds", nargs="+", default=["eager", "graph", "compiled"], choices=SPEEDS)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, metavar="VARIANT")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so long")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--tiny", action="store_true", help="a trial of the code, not of the speed")
    parser.add_argument("--to", type=Path)
    parser.add_argument("--lane", nargs=4, help=argparse.SUPPRESS)  # together's own processes
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.tiny:
        options.batch, options.steps = 8, 2
    torch.backends.cudnn.benchmark = True
    if options.lane:
        folder, number, speed, name = options.lane
        lane(Path(folder), name, int(number), options, speed)
        return
    began = time.perf_counter()
    figures: dict[str, Any] = {}

    def measured(key: str, function: Any, *arguments: Any) -> None:
        if time.perf_counter() - began > options.seconds:
            figures[key] = {"left_out": "no time left"}
            return
        try:
            figures[key] = function(*arguments)
        except Exception as error:
            figures[key] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
        print(key, figures[key], flush=True)
        if options.to:
            options.to.write_text(json.dumps({**figures, "versions": versions()}, indent=1) + "\n")

    for name in options.sets:
        for speed in options.speeds:
            for variant in (v for v in PLAN[speed] if v in (options.variants or VARIANTS)):
                if "steps" in options.parts:
                    measured(f"steps/{name}/{speed}/{variant}", steps, variant, SETS[name], options, speed)
        if "views" in options.parts:
            for speed in options.speeds:
                for variant in options.variants or ("proden", "rplg+"):
                    measured(
                        f"views/{name}/{speed}/{variant}", share_of_view, variant, SETS[name], options, speed
                    )
        if name == "cifar10":
            for speed in (s for s in options.speeds if s != "eager"):
                if "epochs" in options.parts:
                    for variant in ("head, 64", "difference, 64", "proden"):
                        measured(f"epochs/{speed}/{variant}", epochs, variant, options, speed)
                if "together" in options.parts:
                    for number, way, *how in (
                        (1, "", False),
                        (3, "", False),
                        (3, " with MPS", True),
                        (3, " with MPS, 50 %", True, 50),
                    ):
                        measured(f"together/{speed}/{number}{way}", together, number, options, speed, *how)
    if "agreement" in options.parts:
        measured("agreement", agreement, options)
    if "growth" in options.parts:
        for classes in (10, 100, 200, 1000):
            for form in ("full", "candidates"):
                measured(f"growth/{form}/{classes}", growth, classes, options, form)
    rows = [[key, *(f"{k} {v}" for k, v in value.items())] for key, value in figures.items()]
    width = max(map(len, rows))
    print_table("image speed", ["what", *[""] * (width - 1)], [r + [""] * (width - len(r)) for r in rows])
    print_json(figures)


if __name__ == "__main__":
    main()
