"""Where jobs run: in this process, in processes of this machine (`local`), on a Ray cluster (`ray`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from oneof.lab.records import Job, Record
from oneof.training.recipe import choose_device, multiplies_bf16
from oneof.training.run import METRICS


@dataclass(frozen=True)
class Place:
    """Where and how a job runs, which is no part of what it is."""

    device: str = "cpu"
    speed: str = "auto"
    """See `Recipe.speed`."""
    scratch: Path | None = None
    """Long jobs (images) keep a checkpoint in a folder of their own here and continue from it."""
    until: float | None = None
    """They stop at their first checkpoint after this time (seconds since 1970)."""

    @property
    def device_name(self) -> str | None:
        """As records have it; None: it is a GPU of another machine."""
        try:
            device = choose_device(self.device)
        except ValueError:
            return None
        return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)

    def describe(self) -> dict[str, Any]:
        """For records, on the machine where the job runs."""
        place = {"device": self.device_name or self.device, "speed": self.speed, "torch": torch.__version__}
        return {**place, "bf16": multiplies_bf16(choose_device(self.device))}


HERE = Place()


class Runner:
    """Runs jobs: this one in this process, one after the other, others elsewhere. Leaving the context ends
    everything that it started."""

    place = HERE
    slots: int = 1
    """How many jobs can run at once."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def keep_checkpoints(self, scratch: Path, until: float | None) -> None:
        """Where long jobs keep their checkpoints, and when they stop."""
        self.place = replace(self.place, scratch=scratch, until=until)

    @property
    def running(self) -> int:
        return len(self.jobs)

    def free(self) -> bool:
        """Whether another job may start now."""
        return not self.jobs

    def start(self, job: Job) -> None:
        self.jobs.append(job)

    def epochs_of(self, job: Job) -> int:
        """How many epochs a running job has logged: none if it is short and keeps no log."""
        if self.place.scratch is None:
            return 0
        try:
            return (self.place.scratch / job.hash / METRICS).read_bytes().count(b"\n")
        except OSError:  # it has not begun, or has just ended
            return 0

    def wait(self) -> list[Record]:
        """Records of jobs that have ended; blocks for a while at most, and may come back empty."""
        from oneof.lab.trial import run_job

        return [run_job(self.jobs.pop(), self.place)]


def lost(job: Job, reason: str) -> Record:
    """The record of a job whose process or machine went away for good."""
    return {"job": job.hash, "config": dict(job.config), "status": "failed", "error": reason, "seconds": 0.0}
