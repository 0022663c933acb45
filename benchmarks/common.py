"""What the benchmark scripts share: a training on random data, its memory, tables and the JSON line."""

from __future__ import annotations

import gc
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oneof
from oneof.candidates import Candidates
from oneof.methods import Method
from oneof.nets import Net
from oneof.training import CleanRows, Recipe
from oneof.training.ongoing import Given, OngoingTraining


def versions() -> dict[str, str]:
    found = {
        "oneof": oneof.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in texts)) for i, name in enumerate(columns)]
    print(f"\n{title}")
    for line in (columns, *texts):
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        cells[0] = line[0].ljust(widths[0])
        print("  ".join(cells))


def _text(cell: Any) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def print_json(figures: dict[str, Any]) -> None:
    """The last line of every benchmark: its figures and the versions they were measured with."""
    print()
    print(json.dumps({**figures, "versions": versions()}))


def random_fit(
    method: Method,
    net: Callable[[], Net],
    shape: tuple[int, ...],
    *,
    batch: int,
    steps: int,
    classes: int = 10,
    epochs: int = 10**6,
    device: str = "cpu",
) -> OngoingTraining:
    """A training on random inputs with random candidates, `steps` batches long, ready for its first epoch."""
    rng = np.random.default_rng(0)
    n = batch * steps
    y = rng.integers(classes, size=n)
    mask = rng.random((n, classes)) < 0.3
    mask[np.arange(n), y] = True
    x, x_clean = (rng.standard_normal((size, *shape), dtype=np.float32) for size in (n, batch))
    clean = CleanRows(x_clean, np.eye(classes, dtype=bool)[y[:batch]])
    recipe = Recipe(
        epochs=epochs, batch_size=batch, optimiser="sgd", lr=0.01, schedule="constant", device=device
    )
    sets = Candidates.from_mask(mask, truth=y)
    fit = OngoingTraining(method, net, Given(x, sets, clean), recipe, torch.device(device))
    fit.selection = None  # no evaluation between the steps
    fit.end_epoch()
    fit.step.epoch = 0
    return fit


def peak_memory_mb(fit: OngoingTraining, epochs: int = 1) -> float:
    """Peak resident memory of some epochs beyond what was resident before (Linux, a process of its own)."""
    fit.predict(fit.task.example)  # what the first forward pass of any net allocates once
    before = forget_peak()
    for _ in range(epochs):
        fit.run_epoch()
    return peak_mb(before)


def forget_peak() -> float:
    """Start to look for a peak: what is resident now (kB)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_mb(before: float) -> float:
    """Peak resident memory since `forget_peak`, beyond what it gave."""
    return (_status("VmHWM") - before) / 1000


def _status(key: str) -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(key))
    return float(line.split()[1])  # kB
