"""Jobs on a Ray cluster (extra `cluster`): many machines, of which some may go away.

Every machine needs oneof and the data folder. A job that was on a machine that went away runs again
elsewhere. Records come back to the machine that runs the lab.
"""

from __future__ import annotations

from pathlib import Path

from oneof.lab.records import Job, Record
from oneof.lab.runners import Place, Runner, lost
from oneof.lab.trial import run_job
from oneof.training.cluster import Cluster, ClusterError


class RayRunner(Cluster, Runner):  # type: ignore[override]  # slots may change
    """One job per core of the cluster, or per GPU where jobs train on GPUs."""

    def __init__(self, address: str = "auto", device: str = "cpu", speed: str = "auto") -> None:
        super().__init__(address, gpus=device != "cpu")
        self.place = Place(device, speed)

    @property
    def running(self) -> int:
        return len(self.waiting)

    def free(self) -> bool:
        return not self.full

    def start(self, job: Job) -> None:
        self.call(job, run_job, job, self.place)

    def keep_checkpoints(self, scratch: Path, until: float | None) -> None:
        """None: the machine may be gone when the job runs again."""

    def wait(self) -> list[Record]:
        ended = self.ready()
        return [lost(job, str(made)) if isinstance(made, ClusterError) else made for job, made in ended]
