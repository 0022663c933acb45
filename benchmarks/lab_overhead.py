"""What the lab costs beside the trainings, and how much a second core brings, on the protocol `quick`.

Overhead: with one worker, from the first record to the last, the share of the time that is not spent
inside `train` (data, splits, scaling, evaluation, pipes, records, planning). Start-up is shown apart: the
worker imports torch and loads the data once, however many jobs follow. Speed-up: records per second with
two workers against one, from the first record to the last. Busy: the share of the workers' time after
start-up that is spent in training, which other work on the machine does not spoil as it does the speed-up;
the load average is printed.

    python -m benchmarks.lab_overhead [--splits 5] [--epochs 60]
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import print_json, print_table
from oneof.lab.bench import BenchOptions
from oneof.lab.overrides import override
from oneof.lab.prepared import prepare
from oneof.lab.protocol import Protocol
from oneof.lab.protocols import PROTOCOLS
from oneof.lab.records import Record
from oneof.lab.run import run_lab
from oneof.lab.runners.local import LocalRunner


class Watched(LocalRunner):
    """Notes when records arrive."""

    def __enter__(self) -> Watched:
        self.began = time.perf_counter()
        self.arrived: list[tuple[float, Record]] = []
        super().__enter__()
        return self

    def wait(self) -> list[Record]:
        records = super().wait()
        self.arrived += [(time.perf_counter() - self.began, record) for record in records]
        return records


@dataclass
class Measured:
    workers: int
    jobs: int
    seconds: float
    """From the first record to the last."""
    training: float
    """Seconds inside `train` of the jobs whose record arrived in that time."""
    start_up: float
    """Until the first record, less its training."""
    busy: float
    """Share of the workers' time, from start-up to the last record, that is training."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


def measure(protocol: Protocol, workers: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        runner = Watched(workers)
        outcome = run_lab(protocol, Path(folder), runner, stream=io.StringIO())
    if outcome.failed:
        raise SystemExit(f"{len(outcome.failed)} jobs failed: {outcome.failed[0]['error']}")
    times = [record["result"]["train_seconds"] for _, record in runner.arrived]
    first, last = runner.arrived[0][0], runner.arrived[-1][0]
    start_up = first - times[0]
    return Measured(
        workers,
        jobs=len(times) - 1,
        seconds=last - first,
        training=sum(times[1:]),
        start_up=start_up,
        busy=sum(times) / (workers * (last - start_up)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=60)
    options = parser.parse_args()
    protocol = override(PROTOCOLS["quick"], BenchOptions(splits=options.splits, epochs=options.epochs))
    prepare("digits")  # the generator of the candidate sets is trained once per data folder
    load_before = os.getloadavg()[0]
    one, two = measure(protocol, 1), measure(protocol, 2)
    overhead = 1 - one.training / one.seconds
    speed_up = two.rate / one.rate
    print_table(
        f"quick, {options.splits} splits, at most {options.epochs} epochs",
        ["workers", "jobs", "seconds", "in training", "jobs/s", "start-up s", "busy"],
        [[m.workers, m.jobs, m.seconds, m.training, m.rate, m.start_up, m.busy] for m in (one, two)],
    )
    print(f"\noverhead of the lab {overhead:.1%}, speed-up from one to two workers {speed_up:.2f}")
    print(f"load average before {load_before:.2f}, cores {os.cpu_count()}")
    print_json(
        {
            "overhead": round(overhead, 4),
            "speed_up": round(speed_up, 3),
            "busy_two_workers": round(two.busy, 4),
            "start_up_seconds": round(one.start_up, 2),
            "jobs": one.jobs + 1,
            "load_before": round(load_before, 2),
        }
    )


if __name__ == "__main__":
    main()
