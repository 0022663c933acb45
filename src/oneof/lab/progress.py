"""How far the lab is and how long it will take: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import heapq
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

import numpy as np

from oneof.lab.plan import Plan
from oneof.lab.protocols import net_for
from oneof.lab.records import Job, Record, device_of
from oneof.lab.runners import Runner
from oneof.training.progress import rich_bars

EVERY_SECONDS = 30.0
Behind = Sequence[tuple[Job, int]]
"""Running jobs with the epochs that they have logged."""


def group(config: Mapping[str, Any]) -> tuple[str, str, str]:
    """Jobs whose epochs take about the same time."""
    return config["data"]["name"], config["net"]["name"], config["method"]["name"]


class JobTimes:
    """How long jobs take, by the epochs they may have and the seconds of finished ones: of the same data set,
    net and method; else of the method, else of all. And which of them end within some minutes from now.

    `device`: where jobs run, if that is known; those that ran on another one say nothing of it.
    """

    def __init__(
        self, records: Iterable[Record] = (), minutes: float | None = None, device: str | None = None
    ) -> None:
        self.until = None if minutes is None else time.time() + 60 * minutes
        self.device = device
        self.per_epoch: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        where = device_of(record)
        if record["status"] == "ok" and (None in (where, self.device) or where == self.device):
            key, epochs = group(record["config"]), record["config"]["recipe"]["epochs"]
            for kind in (key, key[2:], ()):
                self.per_epoch[kind].append(record["seconds"] / epochs)

    def expected(self, config: Mapping[str, Any]) -> float | None:
        """Seconds of a job; None: nothing like it was ever run."""
        one = self._per_epoch(group(config))
        return None if one is None else one * config["recipe"]["epochs"]

    def _per_epoch(self, key: tuple[str, ...]) -> float | None:
        found = next((self.per_epoch[kind] for kind in (key, key[2:], ()) if kind in self.per_epoch), None)
        return None if found is None else float(np.mean(found))

    def left(self, plan: Plan, slots: int, behind: Behind = ()) -> float | None:
        """Of the whole protocol; reported jobs are counted before they are known, and running ones have
        some epochs behind them."""
        if not self.per_epoch:
            return None
        left, epochs = 0.0, plan.protocol.recipe["epochs"]
        for cell in plan.cells:
            key = (cell.data, net_for(cell.net, cell.data)["name"], cell.entry.method)
            left += (plan.open_jobs(cell) + plan.to_come(cell)) * epochs * (self._per_epoch(key) or 0.0)
        for job, done in behind:
            left -= done * (self._per_epoch(group(job.config)) or 0.0)
        return max(0.0, left / max(1, slots))

    @property
    def seconds(self) -> float:
        """Until then."""
        return float("inf") if self.until is None else self.until - time.time()

    def allow(self, job: Job, begun: bool) -> bool:
        """A job that was begun before continues; one of a kind that was never run is tried."""
        return self.seconds > 0 and (begun or (self.expected(job.config) or 0.0) <= self.seconds)

    def announce(self, jobs: Sequence[Job], slots: int) -> list[str]:
        """How many jobs wait, what each is expected to take, and how many of them end in time."""
        free, lines = [0.0] * slots, []
        ends: dict[tuple[str, str, str], list[bool]] = defaultdict(list)  # of every job, whether in time
        expected = {group(job.config): self.expected(job.config) for job in jobs}
        for key in (group(job.config) for job in jobs):
            end = free[0] + (expected[key] or 0.0)
            ends[key].append(end <= self.seconds)
            if end <= self.seconds:
                heapq.heapreplace(free, end)
        for key, in_time in ends.items():
            one = expected[key]
            takes = "of unknown length" if one is None else f"about {clock(one)} each, {sum(in_time)} in time"
            lines.append(f"  {'  '.join(key)}: {len(in_time)} jobs, {takes}")
        ending = f"{sum(map(sum, ends.values()))} are expected to end in time"
        if None in expected.values():
            ending = "how many end in time is not known before one of each kind has run"
        return [f"{len(jobs)} jobs can start, {slots} at a time; {ending}", *lines]


class LabProgress:
    """Jobs done, running and failed, how far the long ones are, and the time left."""

    def __init__(self, plan: Plan, runner: Runner, times: JobTimes, stream: TextIO | None = None) -> None:
        self.plan, self.runner, self.times = plan, runner, times
        self.stream = stream or sys.stderr
        self.began = self.shown = time.monotonic()
        self.running: dict[str, Job] = {}
        self.behind: Behind = []
        self.failures = 0
        self.bar: Any = None

    def __enter__(self) -> LabProgress:
        if self.stream.isatty():
            with suppress(ImportError):  # without rich there are lines
                self.bar = rich_bars(30, self.stream)
                self.bar.start()
                self.task = self.bar.add_task(self.plan.protocol.name, facts="")
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        self._show()
        if self.bar is not None:
            self.bar.stop()

    def started(self, job: Job) -> None:
        self.running[job.hash] = job

    def update(self, records: list[Record]) -> None:
        """To be called every second or so, with the jobs that have ended."""
        for record in records:
            self.running.pop(record["job"], None)
            self.times.add(record)
            if record["status"] == "failed":
                self.failures += 1
                self._say(f"failed: {describe(record)}")
        due = time.monotonic() - self.shown > EVERY_SECONDS
        if self.bar is not None or (due and (records or self._epochs() != self.behind)):
            self._show()

    def _epochs(self) -> Behind:
        logged = [(job, self.runner.epochs_of(job)) for job in self.running.values()]
        return [(job, epochs) for job, epochs in logged if epochs]

    def _show(self) -> None:
        self.behind = self._epochs()
        left = self.times.left(self.plan, self.runner.slots, self.behind)
        done, total = self.plan.done, self.plan.total
        ending = "" if left is None else f"  {clock(left)} left"
        far = ", ".join(f"{epochs}/{job.config['recipe']['epochs']}" for job, epochs in self.behind)
        running = f"{len(self.running)} running" + (f" (epoch {far})" if far else "")
        facts = f"{running}  {self.failures} failed{ending}"
        if self.bar is not None:
            self.bar.update(self.task, total=total, completed=done, facts=facts)
        else:
            self.shown = time.monotonic()
            elapsed = clock(self.shown - self.began)
            self._say(f"{self.plan.protocol.name}  {done}/{total} done  {facts}  {elapsed} elapsed")

    def _say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.stream, flush=True)


def describe(record: Record) -> str:
    where, split = "  ".join(group(record["config"])), record["config"]["split"]["seed"]
    return f"{where}  split {split}  {record['error'].splitlines()[0]}"


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
