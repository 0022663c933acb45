"""How much the training loop adds to the arithmetic: five methods on a small table, one core.

    python -m benchmarks.tabular_speed

MLP 108-500-16, batch 128, Adam, float32. Each method runs beside a bare loop of its own, written out below
with the same mathematics and the same fused optimiser; rounds of all alternate. A step's time is processor
time (one thread, all work in this process), so that neighbours on the machine are not measured. Also: how
long `import oneof` takes on top of `import torch`, by the clock.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common import print_json, print_table
from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import Recipe
from oneof.training.ongoing import Given, OngoingTraining

N, D, HIDDEN, C, BATCH = 128 * 40, 108, 500, 16, 128


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = rng.random((N, C)) < 0.15
    mask[np.arange(N), rng.integers(C, size=N)] = True
    return rng.standard_normal((N, D), dtype=np.float32), mask


class Ours:
    def __init__(self, method: str) -> None:
        x, mask = data()
        recipe = Recipe(epochs=10**6, batch_size=BATCH, lr=1e-3, schedule="constant", device="cpu")
        self.fit = OngoingTraining(
            make_method(method),
            lambda: build_net("mlp", D, C, hidden=(HIDDEN,), batch_norm=False),
            Given(x, Candidates.from_mask(mask)),
            recipe,
            torch.device("cpu"),
        )
        self.fit.step.epoch = 0

    def epoch(self) -> None:
        self.fit.run_epoch()


class Bare:
    """A method as one would write it in a notebook; this one is PRODEN."""

    def __init__(self) -> None:
        x, mask = data()
        self.x, self.mask = torch.from_numpy(x), torch.from_numpy(mask)
        self.target = self.mask.float() / self.mask.sum(1, keepdim=True)
        self.net = nn.Sequential(nn.Linear(D, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, C))
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)

    def epoch(self) -> None:
        for index in torch.randperm(N).split(BATCH):
            x, mask = self.x[index], self.mask[index]
            loss = self.loss(self.net(x), mask, index)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            with torch.no_grad():
                self.after(x, mask, index)

    def loss(self, logits: Tensor, mask: Tensor, index: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        loss = -(self.target[index] * log_p).sum(1).mean()
        with torch.no_grad():
            kept = log_p.exp() * mask
            self.target[index] = kept / kept.sum(1, keepdim=True)
        return loss

    def after(self, x: Tensor, mask: Tensor, index: Tensor) -> None:
        """What is done after the step of the optimiser."""


class BareRc(Bare):
    def loss(self, logits: Tensor, mask: Tensor, index: Tensor) -> Tensor:
        return -(self.target[index] * logits.log_softmax(1)).sum(1).mean()

    def after(self, x: Tensor, mask: Tensor, index: Tensor) -> None:
        self.target[index] = self.net(x).masked_fill(~mask, -torch.inf).softmax(1)


class BareCc(Bare):
    def loss(self, logits: Tensor, mask: Tensor, index: Tensor) -> Tensor:
        return -logits.log_softmax(1).masked_fill(~mask, -torch.inf).logsumexp(1).mean()


class BareLws(Bare):
    def __init__(self) -> None:
        super().__init__()
        self.target.fill_(1 / C)

    def loss(self, logits: Tensor, mask: Tensor, index: Tensor) -> Tensor:
        return (self.target[index] * torch.sigmoid(torch.where(mask, -logits, logits))).sum(1).mean()

    def after(self, x: Tensor, mask: Tensor, index: Tensor) -> None:
        logits = self.net(x)
        inside, outside = (logits.masked_fill(~part, -torch.inf).softmax(1) for part in (mask, ~mask))
        self.target[index] = torch.where(mask, inside, outside)


class BareCavl(BareRc):
    def after(self, x: Tensor, mask: Tensor, index: Tensor) -> None:
        logits = self.net(x)
        value = (logits * (1 - logits).abs()).masked_fill(~mask, -torch.inf)
        self.target[index] = torch.zeros_like(logits).scatter_(1, value.argmax(1, keepdim=True), 1)


BARE = {"proden": Bare, "rc": BareRc, "cc": BareCc, "lws": BareLws, "cavl": BareCavl}


def import_seconds(code: str) -> float:
    """Fastest of several fresh interpreters."""
    script = f"import torch, time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    torch.set_num_threads(1)
    loops: dict[tuple[str, str], Ours | Bare] = {}
    for name, bare in BARE.items():
        loops |= {(name, "oneof"): Ours(name), (name, "bare"): bare()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in loops}
    for round_ in range(45):
        for key, loop in loops.items():
            began = time.process_time()
            loop.epoch()
            if round_ >= 5:
                times[key].append((time.process_time() - began) * 1000 / (N // BATCH))
    ms = {key: statistics.median(values) for key, values in times.items()}
    imports = {
        "import oneof": import_seconds("import oneof"),
        "… and the estimator": import_seconds("from oneof import PartialLabelClassifier"),
    }
    rows = {name: (ms[name, "oneof"], ms[name, "bare"]) for name in BARE}
    print_table(
        "MLP 108-500-16, batch 128, Adam, one core, evaluation excluded: ms per step",
        ["method", "oneof", "bare loop", "x bare"],
        [[name, ours, bare, ours / bare] for name, (ours, bare) in rows.items()],
    )
    print_table("seconds on top of `import torch`", ["import", "s"], [[k, v] for k, v in imports.items()])
    print_json(
        {
            "methods": {
                name: {"oneof_ms": round(ours, 4), "bare_ms": round(bare, 4), "ratio": round(ours / bare, 4)}
                for name, (ours, bare) in rows.items()
            },
            "import_s": round(imports["import oneof"], 4),
            "import_estimator_s": round(imports["… and the estimator"], 4),
        }
    )


if __name__ == "__main__":
    main()
