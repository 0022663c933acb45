"""What a step of every method costs, against PRODEN and against what its passes predict.

    python -m benchmarks.methods_speed [--quick]

A conv net on the CPU, batch 128, one view (every method in its form for tables). All steps go through
the training loop; the last epochs of a short training are timed, when warm-ups are over. The prediction
is F forward passes + B backward passes + extras: F and B are what the method declares, one forward and
one backward pass are measured in the same run, and the extras (decoder, queue, similarity matrix,
branches, tables, optimisers, the loop) are the method's step on a net that costs next to nothing.
Passes over all rows at the end of an epoch are timed apart.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import torch
from torch import nn

from benchmarks.common import peak_memory_mb, print_json, print_table, random_fit
from oneof.methods import list_methods, make_method
from oneof.nets import Net
from oneof.training.ongoing import OngoingTraining

BATCH, CLASSES, STEPS, EPOCHS, TIMED, FEATURES = 128, 10, 3, 8, 3, 96
SHAPE = (3, 16, 16)
SKIPPED = {"average", "oracle"}
"""Baselines that cost what PRODEN costs."""


def conv_net() -> Net:
    layers: list[nn.Module] = []
    width = SHAPE[0]
    for size, stride in ((24, 1), (48, 1), (96, 2), (FEATURES, 1)):
        layers += [nn.Conv2d(width, size, 3, stride, padding=1, bias=False), nn.BatchNorm2d(size), nn.ReLU()]
        width = size
    return Net(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(FEATURES, CLASSES))


def free_net() -> Net:
    """The same input and feature size, next to no arithmetic: what remains is everything but the net."""
    features = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(12, FEATURES), nn.BatchNorm1d(FEATURES))
    return Net(features, nn.Linear(FEATURES, CLASSES))


NETS = {"conv": conv_net, "free": free_net}


def make_fit(name: str, net: str) -> OngoingTraining:
    sizes = {"batch": BATCH, "steps": STEPS, "classes": CLASSES, "epochs": EPOCHS}
    return random_fit(make_method(name), NETS[net], SHAPE, **sizes)


def measure(name: str, net: str) -> tuple[list[float], float]:
    """Milliseconds per step of the timed epochs, and of the passes at an epoch's end."""
    fit = make_fit(name, net)
    ends: list[float] = []
    for part in ("end_epoch", "_log"):
        setattr(fit, part, _timed(getattr(fit, part), ends))
    times = []
    for epoch in range(EPOCHS):
        ends.clear()
        began = time.perf_counter()
        fit.run_epoch()
        spent = time.perf_counter() - began
        if epoch >= EPOCHS - TIMED:
            times.append((spent - sum(ends)) * 1000 / STEPS)
    return times, sum(ends) * 1000


def _timed(function, ends):
    def wrapper(*args):
        began = time.perf_counter()
        try:
            return function(*args)
        finally:
            ends.append(time.perf_counter() - began)

    return wrapper


def passes(rounds: int) -> tuple[float, float]:
    """One forward pass with its graph, and one backward pass, in milliseconds."""
    net = conv_net()
    x = torch.randn(BATCH, *SHAPE)
    forward, backward = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        loss = net(x).logsumexp(1).mean()
        middle = time.perf_counter()
        loss.backward()
        forward.append(middle - began)
        backward.append(time.perf_counter() - middle)
        net.zero_grad()
    return tuple(statistics.median(v[rounds // 4 :]) * 1000 for v in (forward, backward))  # type: ignore[return-value]


def main() -> None:
    if "--memory" in sys.argv:
        torch.set_num_threads(1)
        print(peak_memory_mb(make_fit(sys.argv[-1], "conv"), EPOCHS))
        return
    torch.set_num_threads(1)  # a busy machine disturbs one thread least
    rounds = 1 if "--quick" in sys.argv else 3
    names = [info.name for info in list_methods() if info.name not in SKIPPED]
    names.sort(key=lambda n: n != "proden")
    steps: dict[tuple[str, str], list[float]] = {(n, net): [] for n in names for net in NETS}
    ends: dict[str, float] = {}
    forward, backward = [], []
    for _ in range(rounds):
        f, b = passes(12)
        forward.append(f)
        backward.append(b)
        for name in names:
            for net in NETS:
                times, end = measure(name, net)
                steps[name, net] += times
                if net == "conv":
                    ends[name] = end
    f, b = statistics.median(forward), statistics.median(backward)
    command = [sys.executable, "-m", "benchmarks.methods_speed", "--memory"]
    figures, rows = {}, []
    base = None
    for name in names:
        info = make_method(name).info
        ms, extra = (statistics.median(steps[name, net]) for net in ("conv", "free"))
        mb = float(subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout)
        predicted = info.forwards * f + info.backwards * b + extra
        base = base or (ms, mb)
        rows.append(
            [
                name,
                f"{info.forwards:g}F {info.backwards:g}B",
                ms,
                ms / base[0],
                extra,
                predicted,
                ms / predicted,
                mb,
                mb / base[1],
                ends[name],
            ]
        )
        figures[name] = {
            "ms": round(ms, 3),
            "of_proden": round(ms / base[0], 3),
            "extra_ms": round(extra, 3),
            "predicted_ms": round(predicted, 3),
            "of_predicted": round(ms / predicted, 3),
            "peak_mb": round(mb, 1),
            "epoch_end_ms": round(ends[name], 2),
        }
    print(f"one forward pass {f:.1f} ms, one backward pass {b:.1f} ms; conv net, batch {BATCH}, one thread")
    print_table(
        "a step of every method",
        [
            "method",
            "passes",
            "ms",
            "x proden",
            "extras",
            "predicted",
            "x predicted",
            "peak MB",
            "x proden",
            "epoch end",
        ],
        rows,
    )
    print_json({"forward_ms": round(f, 3), "backward_ms": round(b, 3), "methods": figures})


if __name__ == "__main__":
    main()
