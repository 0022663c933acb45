"""How far the lab is: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from typing import Any, TextIO

from oneof.lab.plan import Plan
from oneof.lab.records import Record

EVERY_SECONDS = 30.0


def group(config: dict[str, Any]) -> tuple[str, str, str]:
    """Jobs that take about the same time."""
    return config["data"]["name"], config["net"]["name"], config["method"]["name"]


class TimeLeft:
    """Mean seconds of finished jobs by group; groups without any take the mean of the others."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for job in plan.known():
            record = plan.records.get(job.hash)
            if record is not None:
                self.add(record)

    def add(self, record: Record) -> None:
        if record["status"] == "ok":
            self.seconds[group(record["config"])].append(record["seconds"])

    def estimate(self, slots: int) -> float | None:
        if not self.seconds:
            return None
        mean = {key: sum(values) / len(values) for key, values in self.seconds.items()}
        overall = sum(mean.values()) / len(mean)
        left = 0.0
        for cell in self.plan.cells:
            jobs = [job for jobs in cell.search for job in jobs] + cell.report
            missing = sum(self.plan.records.get(job.hash) is None for job in jobs)
            if not cell.report and cell.entry.reported and not cell.dead:
                missing += len(self.plan.protocol.seeds)
            left += missing * mean.get((cell.data, cell.net, cell.entry.method), overall)
        return left / max(1, slots)


class LabProgress:
    """Jobs done, running and failed, and the time left."""

    def __init__(self, plan: Plan, slots: int, stream: TextIO | None = None) -> None:
        self.plan, self.slots = plan, slots
        self.stream = stream or sys.stderr
        self.time_left = TimeLeft(plan)
        self.began = self.shown = time.monotonic()
        self.failures = 0
        self.total = plan.total
        self.done = plan.done
        self.bar: Any = None

    def __enter__(self) -> LabProgress:
        if self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TextColumn("{task.fields[facts]}"),
                TimeElapsedColumn(),
                console=Console(file=self.stream),
            )
            self.bar.start()
            self.task = self.bar.add_task(
                self.plan.protocol.name, total=self.total, completed=self.done, facts=""
            )
        else:
            self._line(0)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
        else:
            self._line(0)

    def update(self, records: list[Record], running: int) -> None:
        for record in records:
            self.done += 1
            self.time_left.add(record)
            if record["status"] == "failed":
                self.failures += 1
                self._say(f"failed: {describe(record)}")
        if self.bar is not None:
            self.total = self.plan.total
            self.bar.update(self.task, total=self.total, completed=self.done, facts=self._facts(running))
        elif records and time.monotonic() - self.shown > EVERY_SECONDS:
            self._line(running)

    def _facts(self, running: int) -> str:
        left = self.time_left.estimate(self.slots)
        parts = [f"{running} running", f"{self.failures} failed"]
        if left is not None:
            parts.append(f"{clock(left)} left")
        return "  ".join(parts)

    def _line(self, running: int) -> None:
        self.shown = time.monotonic()
        self.total = self.plan.total
        text = f"{self.plan.protocol.name}  {self.done}/{self.total} done  {self._facts(running)}"
        self._say(f"{text}  {clock(time.monotonic() - self.began)} elapsed")

    def _say(self, text: str) -> None:
        if self.bar is not None:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self.stream, flush=True)


def describe(record: Record) -> str:
    config = record["config"]
    where = "  ".join(group(config))
    return f"{where}  split {config['split']['seed']}  {record['error'].splitlines()[0]}"


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
