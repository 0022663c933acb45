"""Where jobs run: in this process, in processes of this machine (`local`), on a Ray cluster (`ray`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from oneof.lab.records import Job, Record
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

    def describe(self) -> dict[str, str]:
        """For records."""
        import torch

        gpu = self.device.startswith("cuda") and torch.cuda.is_available()
        name = torch.cuda.get_device_name(self.device) if gpu else self.device
        return {"device": name, "speed": self.speed, "torch": torch.__version__}


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
        log = self.place.scratch / job.hash / METRICS
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def wait(self) -> list[Record]:
        """Records of jobs that have ended; blocks for a while at most, and may come back empty."""
        from oneof.lab.trial import run_job

        return [run_job(self.jobs.pop(), self.place)]


def lost(job: Job, reason: str) -> Record:
    """The record of a job whose process or machine went away for good."""
    return {"job": job.hash, "config": dict(job.config), "status": "failed", "error": reason, "seconds": 0.0}
