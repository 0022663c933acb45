"""Jobs in processes of this machine: one per core, one thread each, no more than the memory allows."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import MappingProxyType
from typing import Any

from oneof.lab.records import Job, Record
from oneof.lab.runners import Place, Runner, lost
from oneof.lab.runners.sharing import shared_gpu
from oneof.tables.files import free_memory

WORKER_BYTES = 700 * 2**20
"""Memory a worker is expected to take: torch, the data, a small net."""
TRIES = 3
"""A worker that dies (the system killed it for memory, say) has its job tried again so many times in all."""
SAFE_PATH = "PYTHONSAFEPATH"


class LocalRunner(Runner):
    """Worker processes that live as long as the lab and keep their data loaded; several share a GPU."""

    def __init__(self, workers: int | None = None, device: str = "cpu", speed: str = "auto") -> None:
        self.slots = workers or default_workers()
        self.place = Place(device, speed)
        self.workers: list[Worker] = []
        self.environment: Mapping[str, str] = {}
        self.around = ExitStack()

    def __enter__(self) -> LocalRunner:
        if self.place.device.startswith("cuda") and self.slots > 1:
            sharing = self.around.enter_context(shared_gpu())
            self.environment = sharing or {}
        self.workers = [Worker(self.place, self.environment) for _ in range(self.slots)]
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
        self.around.close()

    @property
    def running(self) -> int:
        return sum(worker.job is not None for worker in self.workers)

    def free(self) -> bool:
        if self.running == self.slots:
            return False
        # a worker that waits for memory is better than one that is killed for it
        return self.running == 0 or free_memory() > WORKER_BYTES // 4

    def start(self, job: Job) -> None:
        next(worker for worker in self.workers if worker.job is None).give(job, tries=1)

    def wait(self) -> list[Record]:
        busy: dict[Any, tuple[int, Worker, Job]] = {
            worker.pipe: (i, worker, worker.job) for i, worker in enumerate(self.workers) if worker.job
        }
        records: list[Record] = []
        for pipe in wait(list(busy), timeout=1.0):
            i, worker, job = busy[pipe]
            try:
                record = worker.pipe.recv()
                records.append(record)
                worker.job = None
                if record["status"] == "failed" and self.place.device != "cpu":
                    # a fault on a GPU spoils it for the process in which it happened
                    worker.stop()
                    self.workers[i] = Worker(self.place, self.environment)
            except (EOFError, OSError):
                code, tries = worker.stop(), worker.tries
                self.workers[i] = Worker(self.place, self.environment)
                if tries < TRIES:
                    self.workers[i].give(job, tries + 1)
                else:
                    records.append(lost(job, f"the worker process died {tries} times (exit code {code})"))
        return records


class Worker:
    """A process and the pipe to it."""

    def __init__(self, place: Place, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        context = mp.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=work, args=(other, place), daemon=True)
        # a new Python looks for its first modules where it is started; then it gets the path of this process
        with _in_environment({SAFE_PATH: "1", **environment}):
            self.process.start()
        other.close()
        self.job: Job | None = None
        self.tries = 0

    def give(self, job: Job, tries: int) -> None:
        self.job, self.tries = job, tries
        with suppress(OSError):  # if it has died, `wait` finds out and starts another
            self.pipe.send(dict(job.config))

    def stop(self) -> int | None:
        self.pipe.close()
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()
        return self.process.exitcode


@contextmanager
def _in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """With these variables; afterwards each is what it was."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def work(pipe: Connection, place: Place) -> None:
    """The life of a worker: take a configuration, train, send the record; end with the lab."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the lab's business
    if hasattr(signal, "pthread_sigmask"):  # a training with checkpoints would listen for it again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    import torch

    from oneof.lab.trial import run_job

    torch.set_num_threads(1)
    while True:
        try:
            config = pipe.recv()
            pipe.send(run_job(Job(config), place))
        except (EOFError, OSError):
            return


def _end_with_parent() -> None:
    """A worker whose lab was killed must not go on training for nobody."""
    parent = mp.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def default_workers() -> int:
    """One per core this process may use, as far as the memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, free_memory() // WORKER_BYTES))
