"""How much the training loop adds to the arithmetic: PRODEN on a small table, one core.

    python benchmarks/tabular_speed.py

MLP 108-500-16, batch 128, Adam, float32. The bare loop is written out below with the same
mathematics and the same fused optimiser; rounds of both alternate. Also: how long `import oneof`
takes on top of `import torch`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from torch import nn

from common import print_json, print_table
from oneof.candidates import Candidates
from oneof.methods.proden import Proden
from oneof.nets import build_net
from oneof.training import Recipe
from oneof.training.given import Given
from oneof.training.ongoing import OngoingTraining

N, D, HIDDEN, C, BATCH = 128 * 40, 108, 500, 16, 128


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = rng.random((N, C)) < 0.15
    mask[np.arange(N), rng.integers(C, size=N)] = True
    return rng.standard_normal((N, D), dtype=np.float32), mask


class Ours:
    def __init__(self) -> None:
        x, mask = data()
        recipe = Recipe(epochs=10**6, batch_size=BATCH, lr=1e-3, schedule="constant", device="cpu")
        self.fit = OngoingTraining(
            Proden(),
            lambda: build_net("mlp", D, C, hidden=(HIDDEN,), batch_norm=False),
            Given(x, Candidates.from_mask(mask)),
            recipe,
            torch.device("cpu"),
        )
        self.fit.step.epoch = 0

    def epoch(self) -> None:
        self.fit.run_epoch()


class Bare:
    """PRODEN as one would write it in a notebook."""

    def __init__(self) -> None:
        x, mask = data()
        self.x, self.mask = torch.from_numpy(x), torch.from_numpy(mask)
        self.target = self.mask.float() / self.mask.sum(1, keepdim=True)
        self.net = nn.Sequential(nn.Linear(D, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, C))
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)

    def epoch(self) -> None:
        for index in torch.randperm(N).split(BATCH):
            logits = self.net(self.x[index])
            log_p = logits.log_softmax(1)
            loss = -(self.target[index] * log_p).sum(1).mean()
            with torch.no_grad():
                kept = log_p.exp() * self.mask[index]
                self.target[index] = kept / kept.sum(1, keepdim=True)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()


def import_seconds(code: str) -> float:
    """Fastest of several fresh interpreters."""
    script = f"import torch, time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    torch.set_num_threads(1)
    loops = {"oneof": Ours(), "bare torch loop": Bare()}
    times: dict[str, list[float]] = {name: [] for name in loops}
    for round_ in range(25):
        for name, loop in loops.items():
            began = time.perf_counter()
            loop.epoch()
            if round_ >= 5:
                times[name].append((time.perf_counter() - began) * 1000 / (N // BATCH))
    ms = {name: statistics.median(values) for name, values in times.items()}
    ratio = ms["oneof"] / ms["bare torch loop"]
    imports = {
        "import oneof": import_seconds("import oneof"),
        "… and the estimator": import_seconds("from oneof import PartialLabelClassifier"),
    }
    print_table(
        "PRODEN, MLP 108-500-16, batch 128, Adam, one core, evaluation excluded",
        ["loop", "ms per step", "x bare"],
        [[name, value, value / ms["bare torch loop"]] for name, value in ms.items()],
    )
    print_table("seconds on top of `import torch`", ["import", "s"], [[k, v] for k, v in imports.items()])
    print_json(
        {
            "oneof_ms": round(ms["oneof"], 4),
            "bare_ms": round(ms["bare torch loop"], 4),
            "ratio": round(ratio, 4),
            "import_s": round(imports["import oneof"], 4),
            "import_estimator_s": round(imports["… and the estimator"], 4),
        }
    )


if __name__ == "__main__":
    main()
