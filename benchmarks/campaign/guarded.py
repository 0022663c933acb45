"""Attempts in a process of its own, with a limit on time and memory."""

from __future__ import annotations

import atexit
import multiprocessing as mp
import os
import resource
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign import Attempt, Failed

SECONDS, BYTES = 10.0, 10**9
"""Limits; memory is what is resident beyond what the process begins with."""
MOST = 5 * 10**9
"""What is asked for but not used counts to this limit only: scipy asks for whatever a file claims."""
START_SECONDS = 300.0
END = "end"


class Guarded:
    """What `make(templates)` gives, called in another process; a new one is started where it has died."""

    def __init__(self, make: Callable[[Path], Attempt], templates: Path, seconds: float = SECONDS) -> None:
        self.make, self.templates, self.seconds = make, templates, seconds
        self._start()

    def __call__(self, rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        if self.process is None:
            self._start()
        self.pipe.send((rng, folder))
        kind, hits, failure = self._answer(self.seconds, f"no answer within {self.seconds:g} s")
        if kind == END:
            self.process.join()
            self.process = None
        if failure is not None:
            raise Failed(failure)
        return kind, hits

    def _start(self) -> None:
        context = mp.get_context("spawn")  # a fork would inherit threads that are not there any more
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.make, self.templates))
        self.process.start()
        atexit.register(self.pipe.close)  # then it ends
        other.close()
        self._answer(START_SECONDS, "the process did not start")

    def _answer(self, seconds: float, late: str) -> Any:
        try:
            if self.pipe.poll(seconds):
                return self.pipe.recv()
            self.process.kill()
            failure = late
        except EOFError:
            self.process.join()
            failure = f"the process died (exit code {self.process.exitcode})"
        self.process = None
        raise Failed(failure)


def serve(pipe: Connection, make: Callable[[Path], Attempt], templates: Path) -> None:
    """The life of such a process."""
    warnings.simplefilter("ignore")
    attempt = make(templates)
    taken = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MOST, taken + MOST))
    resident = peak()
    pipe.send("ready")
    while True:
        try:
            rng, folder = pipe.recv()
        except EOFError:
            return
        try:
            made = attempt(rng, folder)
            if peak() > resident + BYTES:
                raise Failed(f"it took {(peak() - resident) >> 20} MB")
            pipe.send((*made, None))
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error!s:.300} ({Path(where.filename).name}:{where.lineno})"
            large = peak() > resident + BYTES  # and stays so; a new process begins without
            pipe.send((END if large else "", 1, text))
            if large:
                return


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
