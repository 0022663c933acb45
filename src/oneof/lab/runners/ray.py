"""Jobs on a Ray cluster (extra `cluster`): many machines, of which some may go away.

Every machine needs oneof and the data folder. A job that was on a machine that went away runs again
elsewhere. Records come back to the machine that runs the lab.
"""

from __future__ import annotations

from typing import Any

from oneof.lab.records import Job, Record
from oneof.lab.runners.base import Place, Runner, lost
from oneof.training.cluster import Cluster, ClusterError


class RayRunner(Runner):
    """One job per core of the cluster, or per GPU where jobs train on GPUs."""

    def __init__(self, address: str = "auto", device: str = "cpu", speed: str = "auto") -> None:
        self.cluster = Cluster(address, gpus=device != "cpu")
        self.device, self.speed = device, speed

    def __enter__(self) -> RayRunner:
        self.cluster.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.cluster.__exit__(*failure)

    @property
    def slots(self) -> int:  # type: ignore[override]
        return self.cluster.slots

    @property
    def running(self) -> int:
        return len(self.cluster.waiting)

    def free(self) -> bool:
        return not self.cluster.full

    def start(self, job: Job) -> None:
        self.cluster.call(job, work, dict(job.config), self.device, self.speed)

    def wait(self) -> list[Record]:
        ended = self.cluster.ready()
        return [lost(job, str(made)) if isinstance(made, ClusterError) else made for job, made in ended]


def work(config: dict[str, Any], device: str, speed: str) -> Record:
    """A job on whatever machine Ray chose; data stay loaded in its process for the next one. It keeps no
    checkpoint: the machine may be gone when the job runs again."""
    from oneof.lab.trial import run_job

    return run_job(Job(config), Place(device, speed))
