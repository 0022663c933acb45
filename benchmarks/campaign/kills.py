"""SIGKILL after progress: what is there afterwards, continued, is what an undisturbed process ends with."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

from campaign import Attempt, Failed, begin
from campaign.faults import ROWS, SETS, AfterEpochs, X, model, predictions, run
from campaign.guarded import Guarded
from campaign.killing import killed
from oneof.app.review import ReviewData
from oneof.app.review.decisions import Decisions
from oneof.classifier.persist import ModelError
from oneof.lab.jobs import Job
from oneof.lab.protocol import PAPER_RECIPE, Protocol
from oneof.lab.protocols import default_rows
from oneof.lab.records import Record, Records, read
from oneof.lab.run import run_lab
from oneof.lab.trial import run_job

METHODS = ("proden", "rplg", "rplg+", "pico", "valen", "lws")
TIMES = ("seconds", "train_seconds", "place")
WORKERS = 0.01
"""Share of attempts that kill a worker of a runner: they take seconds."""


def start(templates: Path) -> Attempt:
    templates.mkdir()
    mat = {"data": X.astype(float), "partial_target": SETS.mask.T.astype(float)}
    mat["target"] = np.eye(len(SETS.classes))[SETS.truth].T
    savemat(templates / "toy.mat", mat)
    undisturbed = lab_results(templates / "lab", toy(templates), Inline())
    old, new = model(2), model(1)
    old.save(templates / "old")
    new.save(templates / "new")
    known = {"old": predictions(templates / "old"), "new": predictions(templates / "new")}
    guarded: dict[str, Guarded] = {}

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        kind = begin(folder, rng.choice(["lab", "fit", "fit", "model", "model", "decisions"]))
        if rng.random() < WORKERS:
            runner = "ray" if find_spec("ray") and rng.random() < 0.5 else "local"
            begin(folder, f"{runner} worker")
            if runner not in guarded:
                guarded[runner] = Guarded({"ray": ray_worker, "local": local_worker}[runner], templates, 240.0)
            return guarded[runner](rng, folder)
        if kind == "lab":
            return kind, lab(rng, folder, toy(templates), undisturbed)
        if kind == "fit":
            return kind, fit(rng, folder, METHODS[rng.integers(len(METHODS))])
        return kind, saving(rng, folder, old, new, known) if kind == "model" else decided(rng, folder)

    return attempt


# ---- lab ------------------------------------------------------------------------------------------


class Inline:
    """A runner without processes; tells when a record is on the disk."""

    slots = 1

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        self.jobs: list[Job] = []
        self.ran, self.tell = 0, tell

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        if self.ran:
            self.tell()

    @property
    def running(self) -> int:
        return len(self.jobs)

    def free(self) -> bool:
        return not self.jobs

    def start(self, job: Job) -> None:
        self.jobs.append(job)

    def wait(self) -> list[Record]:
        if self.ran:
            self.tell()
        self.ran += 1
        return [run_job(self.jobs.pop())]


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


def lab(rng: np.random.Generator, folder: Path, protocol: Protocol, undisturbed: list[str]) -> int:
    there, hits = folder / "lab", 0
    for _ in range(int(rng.integers(1, 4))):
        before = len(Records(there))
        work = lambda tell: run_lab(protocol, there, Inline(tell), stream=io.StringIO())  # noqa: E731
        done, hit = killed(rng, work, int(rng.integers(1, 3)))
        hits += hit
        if len(Records(there)) < before + done:
            raise Failed(f"{before + done} records were written, {len(Records(there))} are there")
    if lab_results(there, protocol, Inline()) != undisturbed:
        raise Failed("the records are not those of an undisturbed lab")
    return hits


# ---- fit, model, decisions ------------------------------------------------------------------------


@cache
def whole(method: str) -> list[bytes] | None:
    return run(None, method=method)


def fit(rng: np.random.Generator, folder: Path, method: str) -> int:
    there, hits = folder / "run", 0
    for _ in range(int(rng.integers(1, 3))):
        work = lambda tell: run(there, AfterEpochs(tell), method)  # noqa: E731
        hits += killed(rng, work, int(rng.integers(1, 5)))[1]
    if run(there, method=method) != whole(method):
        raise Failed(f"{method} ends otherwise")
    epochs = [json.loads(line)["epoch"] for line in (there / "metrics.jsonl").read_text().splitlines()]
    if epochs != list(range(6)):
        raise Failed(f"metrics.jsonl has the epochs {epochs}")
    return hits


def saving(rng: np.random.Generator, folder: Path, old: Any, new: Any, known: dict[str, list[bytes]]) -> int:
    there = folder / "model"
    replaced = rng.random() < 0.8
    if replaced:
        old.save(there)
    before = sorted(os.listdir(folder)), sorted(os.listdir(there)) if replaced else []

    def work(tell: Callable[[], None]) -> None:
        tell()
        new.save(there)

    _, hit = killed(rng, work, 1)
    left = sorted(os.listdir(folder)), sorted(os.listdir(there)) if there.exists() else []
    try:
        found = predictions(there) if there.exists() else None
    except ModelError as error:
        if not replaced:
            raise Failed(f"half a new model: {error!s:.200}") from error
        found = None
    if found not in (None, known["new"], *([known["old"]] if replaced else [])):
        raise Failed("a mixture of two models is believed")
    new.save(there)
    if predictions(there) != known["new"]:
        raise Failed("what was saved after the kill is not what was saved")
    return int(hit and (left != before or (replaced and found != known["old"])))


def decided(rng: np.random.Generator, folder: Path) -> int:
    data = ReviewData(SETS, np.full(SETS.shape, 1 / len(SETS.classes)), ids=tuple(map(str, range(ROWS))))
    hits, confirmed = 0, 0
    for _ in range(int(rng.integers(1, 4))):
        first = len(Decisions(folder, data).events)
        if first not in (confirmed, confirmed + 1):
            raise Failed(f"{confirmed} decisions were confirmed, {first} are there")

        def work(tell: Callable[[], None], first: int = first) -> None:
            decisions = Decisions(folder, data)
            for i in range(first, ROWS):
                decisions.append(i, "decide", i % 3)
                tell()

        done, hit = killed(rng, work, int(rng.integers(1, 9)))
        hits, confirmed = hits + hit, first + done
    decisions = Decisions(folder, data)
    decisions.append(0, "skip", None)  # whatever a kill has left, the next line is whole
    events = [(event.row, event.label) for event in Decisions(folder, data).events[:-1]]
    if events != [(i, i % 3) for i in range(len(events))] or len(events) - confirmed not in (0, 1):
        raise Failed(f"{confirmed} decisions were confirmed, there are {events}")
    return hits


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
    protocol = toy(templates, seeds=8)
    undisturbed = lab_results(templates / f"{kind} lab", protocol, Inline())

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        hits, ended = 0, threading.Event()
        wanted = set(np.sort(rng.choice(np.arange(1, 15), 4, replace=False)).tolist())

        def kill() -> None:
            nonlocal hits
            while not ended.is_set():
                there = len(Records(folder / "lab"))
                if there in wanted and (found := victims()):
                    wanted.discard(there)  # at most once between two records: a job may be tried twice
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
