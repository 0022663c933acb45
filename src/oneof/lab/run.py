"""Running a protocol: jobs to the runner, records to the folder, until nothing is left."""

from __future__ import annotations

import platform
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

import oneof
from oneof.lab import LAB_VERSION
from oneof.lab.plan import Plan
from oneof.lab.progress import LabProgress
from oneof.lab.protocol import Protocol
from oneof.lab.records import Lock, Record, Records
from oneof.lab.runners.base import Runner


@dataclass
class Outcome:
    """What a lab did."""

    plan: Plan
    ran: int
    """Jobs that this call ran; the others were there."""
    failed: list[Record]


def run_lab(
    protocol: Protocol,
    folder: Path,
    runner: Runner,
    *,
    command: str = "",
    reuse: Sequence[Path] = (),
    retry_failed: bool = False,
    strict: bool = False,
    stream: TextIO | None = None,
) -> Outcome:
    """Run what the folder does not hold yet.

    Parameters
    ----------
    protocol : Protocol
        With its overrides.
    folder : path
        `records.jsonl` and `plan-<protocol>.json` go here. A lab that was killed continues from them.
    runner : Runner
        Where jobs run.
    command : str
        The command line, for the record.
    reuse : folders
        Records of other labs; those of jobs that are needed here are copied instead of run again.
    retry_failed : bool
        Run jobs again that are recorded as failed.
    strict : bool
        Stop when a data set is missing instead of leaving it out.
    """
    Plan(protocol, Records(folder), strict)  # what cannot run is refused before the folder is touched
    with Lock(folder):
        records = Records(folder)
        if retry_failed:
            records.by_job = {job: r for job, r in records.by_job.items() if r["status"] != "failed"}
        plan = Plan(protocol, records, strict)
        for name, reason in plan.left_out.items():
            print(f"{name} is left out: {reason}", file=stream or sys.stderr)
        if gone := plan.no_longer_in(folder):
            print(
                f"{folder} had {len(gone)} other rows of {protocol.name}, such as {gone[0]}: their records "
                "stay, but reports will show this command's rows only",
                file=stream or sys.stderr,
            )
        facts = {"command": command, "versions": versions(getattr(runner, "device", "cpu"))}
        others = [Records(other) for other in reuse]
        queue = _ready(plan, records, others)
        if not queue and plan.complete:
            # looked at, not run: the versions stay those that the numbers were made with
            plan.save(folder, facts | {"versions": plan.versions_in(folder) or facts["versions"]})
            return Outcome(plan, 0, plan.failed())
        plan.save(folder, facts)
        ran = 0
        if hasattr(runner, "scratch"):
            runner.scratch = folder / "running"
        with runner, LabProgress(plan, runner.slots, stream) as progress:
            while True:
                while queue and runner.free():
                    runner.start(queue.popleft())
                if not runner.running:
                    break
                arrived = runner.wait()
                for record in arrived:
                    records.add(record)
                ran += len(arrived)
                progress.update(arrived, runner.running)
                if arrived and (more := _ready(plan, records, others)):
                    # a search has ended: reports of the unfinished lab see its choice
                    queue.extend(more)
                    plan.save(folder, facts)
        plan.save(folder, facts)
        return Outcome(plan, ran, plan.failed())


def _ready(plan: Plan, records: Records, others: list[Records]) -> deque[Any]:
    """Jobs to run now. What another lab has done is copied, which may make further jobs ready."""
    queue: deque[Any] = deque()
    copied = True
    while copied:
        copied = False
        for job in list(plan.ready()):
            done = next((r for other in others if (r := other.get(job.hash)) and r["status"] == "ok"), None)
            if done is None:
                queue.append(job)
            else:
                records.add(done)
                copied = True
    # split by split: whatever ends a lab early leaves whole columns of paired trainings
    return deque(sorted(queue, key=lambda job: job.config["split"]["seed"]))


def versions(device: str = "cpu") -> dict[str, str]:
    """What the numbers were made with."""
    gpu = device.startswith("cuda") and torch.cuda.is_available()
    return ({"gpu": torch.cuda.get_device_name()} if gpu else {}) | {
        "oneof": oneof.__version__,
        "lab": str(LAB_VERSION),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
    }
