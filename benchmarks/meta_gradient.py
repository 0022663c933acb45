"""What one step of RPLG costs, with each of its meta-gradients, against a plain step.

    python -m benchmarks.meta_gradient [--quick]

All steps go through the training loop of the library. Every variant takes its turn in each round, and the
fastest round counts: a busy machine only ever adds to a time. Batch 256, 10 classes, 256 clean rows per
look-ahead.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch import nn

from benchmarks.common import peak_memory_mb, print_json, print_table, random_fit
from oneof.methods import Method, make_method
from oneof.methods.rplg import Rplg, meta_gradient
from oneof.nets import Net, build_net
from oneof.training.ongoing import OngoingTraining

BATCH, CLASSES, STEPS = 256, 10, 4
FORMS = ("exact", "difference", "head", "unrolled")
VARIANTS = {
    "plain": make_method("average"),
    "proden": make_method("proden"),
    **{form: make_method("rplg", {"meta_gradient": form}) for form in FORMS},
}


def conv_net() -> Net:
    """Four convolutions with BatchNorm: small, but its step is arithmetic and not overhead."""
    layers: list[nn.Module] = []
    width = 3
    for size, stride in ((24, 1), (48, 2), (96, 2), (96, 1)):
        layers += [nn.Conv2d(width, size, 3, stride, padding=1, bias=False), nn.BatchNorm2d(size), nn.ReLU()]
        width = size
    return Net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(width, CLASSES))


NETS: dict[str, tuple[Callable[[], Net], tuple[int, ...]]] = {
    "mlp": (lambda: build_net("mlp", 100, CLASSES, hidden=(300, 300, 300)), (100,)),
    "conv": (conv_net, (3, 24, 24)),
}


def make_fit(method: Method, net: str, device: str) -> OngoingTraining:
    factory, shape = NETS[net]
    return random_fit(method, factory, shape, batch=BATCH, steps=STEPS, classes=CLASSES, device=device)


def steps(fit: OngoingTraining) -> float:
    """Milliseconds per step over one epoch of the loop."""
    if fit.device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    fit.run_epoch()
    if fit.device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1000 / STEPS


def measure(net: str, device: str, rounds: int) -> dict[str, float]:
    fits = {name: make_fit(method, net, device) for name, method in VARIANTS.items()}
    for fit in fits.values():
        for _ in range(3):
            steps(fit)
    times: dict[str, list[float]] = {name: [] for name in fits}
    for _ in range(rounds):
        for name, fit in fits.items():
            times[name].append(steps(fit))
    return {name: min(values) for name, values in times.items()}


def peak_memory(net: str, device: str) -> dict[str, float]:
    """MB on top of net and data, each variant on its own; on the CPU in a process of its own."""
    if device == "cpu":
        command = [sys.executable, "-m", "benchmarks.meta_gradient", "--memory", net]
        return {
            name: float(subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout)
            for name in VARIANTS
        }
    found = {}
    for name, method in VARIANTS.items():
        fit = make_fit(method, net, device)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        fit.run_epoch()
        found[name] = (torch.cuda.max_memory_allocated() - before) / 1e6
    return found


@contextmanager
def timed(owner: object, name: str, key: str, spent: dict[str, float]):
    """Add the time spent in a function to `spent[key]`."""
    original = getattr(owner, name)

    def wrapper(*args, **more):
        began = time.perf_counter()
        try:
            return original(*args, **more)
        finally:
            spent[key] += time.perf_counter() - began

    setattr(owner, name, wrapper)
    try:
        yield
    finally:
        setattr(owner, name, original)


def breakdown(net: str, form: str, rounds: int) -> dict[str, float]:
    """Milliseconds per step of RPLG spent in its parts, on the CPU."""
    fit = make_fit(VARIANTS[form], net, "cpu")
    keys = ("branches", "meta-gradient", "g: meta step", "g: weights", "backward", "optimiser", "total")
    spent = dict.fromkeys(keys, 0.0)
    forms = meta_gradient.META_GRADIENTS
    plain_form = forms[form]

    def timed_form(ahead):
        began = time.perf_counter()
        try:
            return plain_form(ahead)
        finally:
            spent["meta-gradient"] += time.perf_counter() - began

    forms[form] = timed_form
    try:
        with (
            timed(Rplg, "branch_step", "branches", spent),
            timed(Rplg, "meta_step", "g: meta step", spent),
            timed(Rplg, "branch_weights", "g: weights", spent),
            timed(fit.main.optimiser, "step", "optimiser", spent),
            timed(torch.Tensor, "backward", "backward", spent),
            timed(fit, "run_epoch", "total", spent),
        ):
            for _ in range(3):
                fit.run_epoch()
            spent.update(dict.fromkeys(keys, 0.0))
            for _ in range(rounds):
                fit.run_epoch()
    finally:
        forms[form] = plain_form
    ms = {key: value * 1000 / (rounds * STEPS) for key, value in spent.items()}
    ms["g: meta step"] -= ms["meta-gradient"]  # it runs inside
    ms["forward and rest"] = ms["total"] - sum(v for k, v in ms.items() if k != "total")
    return ms


def main() -> None:
    if "--memory" in sys.argv:
        torch.set_num_threads(1)
        net, name = sys.argv[-2:]
        print(peak_memory_mb(make_fit(VARIANTS[name], net, "cpu")))
        return
    quick = "--quick" in sys.argv
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for device in ("cpu", *(("cuda",) if torch.cuda.is_available() else ())):
        figures[device] = {}
        for net in NETS:
            ms = measure(net, device, rounds=(5 if quick else {"mlp": 60, "conv": 10}[net]))
            mb = peak_memory(net, device)
            print_table(
                f"{net} on {device}: one step, batch {BATCH}, {CLASSES} classes",
                ["variant", "ms", "x plain", "peak MB", "x plain"],
                [[n, ms[n], ms[n] / ms["plain"], mb[n], mb[n] / max(mb["plain"], 1e-9)] for n in ms],
            )
            figures[device][net] = {f"{n}_ms": round(v, 4) for n, v in ms.items()}
            figures[device][net] |= {f"{n}_mb": round(v, 1) for n, v in mb.items()}
    parts = {form: breakdown("mlp", form, rounds=5 if quick else 40) for form in ("head", "difference")}
    print_table(
        "mlp on cpu: where the time of a step goes (ms)",
        ["part", *parts],
        [[key, *(parts[form][key] for form in parts)] for key in parts["head"]],
    )
    print_json({**figures, "breakdown": parts})


if __name__ == "__main__":
    main()
