"""Running a protocol: jobs to the runner, records to the folder, until nothing is left."""

from __future__ import annotations

import platform
import shutil
import sys
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

import oneof
from oneof.lab import LAB_VERSION, LabError
from oneof.lab.plan import Plan, joined
from oneof.lab.progress import JobTimes, LabProgress
from oneof.lab.protocol import Protocol
from oneof.lab.records import Job, Record, Records, alone
from oneof.lab.runners import Runner


@dataclass
class Outcome:
    """What a lab did."""

    plan: Plan
    ran: int
    """Jobs that this call ran; the others were there."""
    failed: list[Record]
    left: int = 0
    """Jobs that did not fit into the time."""


def run_lab(
    protocol: Protocol,
    folder: Path,
    runner: Runner,
    *,
    command: str = "",
    reuse: Sequence[Path] = (),
    retry_failed: bool = False,
    strict: bool = False,
    minutes: float | None = None,
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
    minutes : float, optional
        Start no job that, by the time that such jobs took before, would end later than this; trainings of
        images stop at their next checkpoint then. The same call continues.
    """

    def say(text: str) -> None:
        print(text, file=stream or sys.stderr)

    others = [Records(other) for other in reuse]
    for other in others:
        if not len(other):
            raise LabError(f"--reuse {other.folder}: there are no records; give the folder of a lab.")
    plan = Plan(protocol, Records(folder), strict)  # what cannot run is refused before the folder is touched
    with alone(folder):
        records = plan.records = Records(folder)  # another lab may have written until now
        for line in records.damaged:
            say(f"{folder}: {line}; it is left out, and a job that has no other record runs again")
        if retry_failed:
            records.by_job = {job: r for job, r in records.by_job.items() if r["status"] != "failed"}
        for name, reason in plan.left_out.items():
            say(f"{name} is left out: {reason}")
        earlier = plan.earlier(folder)
        if gone := plan.without(earlier):
            say(
                f"{folder} had {len(gone)} other rows of {protocol.name}, such as {gone[0]}: their records "
                "stay, but reports will show this command's rows only"
            )
        running = folder / "running"
        known_before = set(records.by_job)
        makers: list[Mapping[str, str]] = []  # who only looks or copies does not sign
        queue = _ready(plan, records, others, running, makers)
        makers[:0] = plan.makers(folder, known_before & plan.needed(earlier))
        here = versions(runner.place.device)
        facts = {"command": command, "versions": all_versions(*makers) or here}
        plan.save(folder, facts)
        if not queue and plan.complete:
            return Outcome(plan, 0, plan.failed())
        known = (record for found in (records, *others) for record in found)
        times = JobTimes(known, minutes, runner.place.device_name)
        runner.keep_checkpoints(running, times.until)
        ran = left = 0
        with runner, LabProgress(plan, runner, times, stream) as progress:
            if minutes is not None:
                say("\n".join(times.announce(queue, runner.slots)))
            while True:
                while queue and runner.free():
                    job = queue.popleft()
                    if times.allow(job, (running / job.hash).exists()):
                        runner.start(job)
                        progress.started(job)
                    else:
                        left += 1
                if not runner.running:
                    break
                arrived = runner.wait()
                ended = [record for record in arrived if record["status"] != "stopped"]
                for record in ended:
                    records.add(record)
                    if record["status"] == "ok":  # now that it is on the disk
                        shutil.rmtree(running / record["job"], ignore_errors=True)
                ran, left = ran + len(ended), left + len(arrived) - len(ended)
                progress.update(arrived)
                if not ended:
                    continue
                more = _ready(plan, records, others, running, makers)
                signed = all_versions(*makers, here)
                if more or facts["versions"] != signed:
                    # a search has ended: reports of the unfinished lab see its choice
                    facts["versions"] = signed
                    queue.extend(more)
                    plan.save(folder, facts)
        plan.save(folder, facts)
        if left:
            say(f"{left} jobs did not fit into {minutes:g} minutes; the same command continues")
        return Outcome(plan, ran, plan.failed(), left)


def _ready(
    plan: Plan, records: Records, others: list[Records], running: Path, makers: list[Mapping[str, str]]
) -> deque[Job]:
    """Jobs to run now. What another lab has done is copied, which may make further jobs ready; the versions
    that it was made with join `makers`."""
    queue: list[Job] = []
    copied: dict[Path, set[str]] = defaultdict(set)
    while jobs := list(plan.ready()):
        for job in jobs:
            done = (other for other in others if (r := other.get(job.hash)) and r["status"] == "ok")
            if (other := next(done, None)) is None:
                queue.append(job)
            else:
                records.add(other.by_job[job.hash])
                copied[other.folder].add(job.hash)
    for folder, theirs in copied.items():
        makers += plan.makers(folder, theirs)
    # what was begun comes first, then split by split: a lab that ends early leaves whole columns
    queue.sort(key=lambda job: (not (running / job.hash).exists(), job.config["split"]["seed"]))
    return deque(queue)


def all_versions(*several: Mapping[str, str]) -> dict[str, str]:
    """The versions of several labs, each of them once."""
    found: dict[str, str] = {}
    for one in several:
        found |= {name: joined(found.get(name, ""), version, ", ") for name, version in one.items()}
    return found


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
