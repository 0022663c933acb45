"""A small lab of the campaign, and runners whose workers are killed."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign import Attempt, Failed
from oneof.lab.protocol import PAPER_RECIPE, Protocol
from oneof.lab.protocols import default_rows
from oneof.lab.records import Record, Records, read
from oneof.lab.run import run_lab
from oneof.lab.runners import Runner

TIMES = ("seconds", "train_seconds", "place")


class Inline(Runner):
    """A runner without processes; tells when a record is on the disk."""

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.ran, self.tell = 0, tell

    def __exit__(self, *_: object) -> None:
        if self.ran:
            self.tell()

    def wait(self) -> list[Record]:
        if self.ran:
            self.tell()
        self.ran += 1
        return super().wait()


def toy(templates: Path, seeds: int = 3) -> Protocol:
    recipe = {**PAPER_RECIPE, "epochs": 2, "batch_size": 32}
    return Protocol(
        name="toy",
        title="a campaign",
        entries=default_rows("rplg-nm", "proden"),
        data=(str(templates / "toy.mat"),),
        nets=("linear",),
        recipe=recipe,
        search=None,
        seeds=tuple(range(seeds)),
        reference="rplg-nm",
    )


def lab_results(folder: Path, protocol: Protocol, runner: Any) -> list[str]:
    """Run to the end: all lines of the records, without times."""
    run_lab(protocol, folder, runner, stream=io.StringIO())
    made = []
    for record in read(folder / "records.jsonl"):
        result = {k: v for k, v in record.get("result", {}).items() if k not in TIMES}
        kept = {k: v for k, v in record.items() if k not in TIMES} | {"result": result}
        made.append(json.dumps(kept, sort_keys=True))
    return sorted(made)


# ---- workers of runners, in a process of its own --------------------------------------------------


def local_worker(templates: Path) -> Attempt:
    from oneof.lab.runners.local import LocalRunner

    def victims() -> list[int]:
        return [pid for pid in descendants() if "spawn_main" in command(pid)]

    return worker_attempt(templates, lambda: LocalRunner(workers=1), victims, "local worker")


def ray_worker(templates: Path) -> Attempt:
    import ray

    from oneof.lab.runners.ray import RayRunner

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

    def victims() -> list[int]:
        return [pid for pid in descendants() if command(pid).startswith("ray::work")]

    return worker_attempt(templates, RayRunner, victims, "ray worker")


def worker_attempt(
    templates: Path, runner: Callable[[], Any], victims: Callable[[], list[int]], kind: str
) -> Attempt:
    protocol = toy(templates, seeds=4)
    undisturbed = lab_results(templates / f"{kind} lab", protocol, Inline())

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        hits, ended = 0, threading.Event()
        wanted = set(np.sort(rng.choice(np.arange(1, 7), 2, replace=False)).tolist())

        def kill() -> None:
            nonlocal hits
            while not ended.is_set():
                there = len(Records(folder / "lab"))
                if there in wanted and (found := victims()):
                    wanted.discard(there)  # both may hit one job, which is tried three times
                    os.kill(found[0], signal.SIGKILL)
                    hits += 1
                time.sleep(0.01)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            found = lab_results(folder / "lab", protocol, runner())
        finally:
            ended.set()
            thread.join()
        if found != undisturbed:
            raise Failed("the records are not those of an undisturbed lab")
        return kind, hits

    return attempt


def descendants() -> list[int]:
    """Processes that this one has started, and those that they have started."""
    parents: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
