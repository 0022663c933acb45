"""Jobs on a Ray cluster (extra `cluster`): many machines, of which some may go away.

Every machine needs oneof and the data folder. A job that was on a machine that went away runs again
elsewhere: first by Ray's own retries, then by ours. Records come back to the machine that runs the lab.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from oneof.lab.errors import LabError
from oneof.lab.jobs import Job
from oneof.lab.records import Record
from oneof.lab.runners.base import Runner, lost

TRIES = 5
"""How often a job is given to the cluster before it is recorded as failed."""


class RayRunner(Runner):
    """One job per core of the cluster, or per GPU where jobs train on GPUs."""

    def __init__(self, address: str = "auto", device: str = "cpu", speed: str = "auto") -> None:
        try:
            self.ray: Any = import_module("ray")
        except ImportError:
            raise LabError("--runner ray needs Ray: pip install 'oneof[cluster]'") from None
        self.address, self.device, self.speed = address, device, speed
        self.waiting: dict[Any, tuple[Job, int]] = {}

    def __enter__(self) -> RayRunner:
        self.own = not self.ray.is_initialized()
        if self.own:
            address = None if self.address == "local" else self.address
            try:
                self.ray.init(address=address, log_to_driver=False, **({} if address else _ALONE))
            except ConnectionError as error:
                raise LabError(
                    f"no Ray cluster at {self.address!r}: {error}\n"
                    "  Start one with `ray start --head`, or give --address local."
                ) from None
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": TRIES, "scheduling_strategy": "SPREAD"}
        if self.device != "cpu":
            options["num_gpus"] = 1
        if "ONEOF_DATA" in os.environ:
            options["runtime_env"] = {"env_vars": {"ONEOF_DATA": os.environ["ONEOF_DATA"]}}
        self.task = self.ray.remote(**options)(work)
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self.waiting:
            self.ray.cancel(reference, force=True)
        self.waiting.clear()
        if self.own:
            self.ray.shutdown()

    @property
    def slots(self) -> int:  # type: ignore[override]
        return max(1, int(self.ray.cluster_resources().get("CPU" if self.device == "cpu" else "GPU", 1)))

    @property
    def running(self) -> int:
        return len(self.waiting)

    def free(self) -> bool:
        # one job per slot in reserve, so that no machine waits for the lab
        return self.running < 2 * self.slots

    def start(self, job: Job, tries: int = 1) -> None:
        self.waiting[self.task.remote(dict(job.config), self.device, self.speed)] = (job, tries)

    def wait(self) -> list[Record]:
        ready, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=1.0)
        records = []
        for reference in ready:
            job, tries = self.waiting.pop(reference)
            try:
                records.append(self.ray.get(reference))
            except self.ray.exceptions.RayError as error:
                if tries < TRIES:
                    self.start(job, tries + 1)
                else:
                    reason = str(error).strip().splitlines()[0]
                    records.append(lost(job, f"the cluster lost the job {tries} times: {reason}"))
        return records


_ALONE = {"include_dashboard": False}


def work(config: dict[str, Any], device: str, speed: str) -> Record:
    """A job on whatever machine Ray chose; data stay loaded in its process for the next one.

    It keeps no checkpoint: the machine may be gone when the job runs again.
    """
    import torch

    from oneof.lab.runners.base import Place
    from oneof.lab.trial import run_job

    torch.set_num_threads(1)
    return run_job(Job(config), Place(device, speed))
