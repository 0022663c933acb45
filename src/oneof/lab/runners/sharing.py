"""One GPU for several processes at the same time, by NVIDIA's multi-process service (MPS).

Without it processes take turns on a GPU, and several trainings side by side gain nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SERVICE = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
USUAL = Path("/tmp/nvidia-mps")
"""Where a service has its pipes if nobody said where."""
PATIENCE = 30.0
"""Seconds that it may take to start, or to end."""


@contextmanager
def shared_gpu() -> Iterator[dict[str, str] | None]:
    """Variables that a process needs in its environment to share the GPU with others that have them; None
    where they have to take turns.

    The service ends with the context. One that runs already is used and left alone.
    """
    if PIPES in os.environ or (USUAL / "control").exists():
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="oneof-mps-")
    environment = {PIPES: folder, LOGS: folder}
    try:
        problem = _order(["-d"], environment)
        if problem:
            print(f"trainings take turns on the GPU: {problem}", file=sys.stderr)
            yield None
            return
        try:
            yield environment
        finally:
            _order([], environment, b"quit\n")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _order(arguments: list[str], environment: dict[str, str], text: bytes = b"") -> str:
    """Run the service's program; what went wrong, or nothing."""
    if shutil.which(SERVICE) is None:
        return f"{SERVICE} is not installed"
    try:
        done = subprocess.run(
            [SERVICE, *arguments],
            input=text,
            # the service lives on with what it is given here: a pipe would never end
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            timeout=PATIENCE,
            start_new_session=True,  # Ctrl-C is the lab's business
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{SERVICE} did not start ({error})"
    return "" if done.returncode == 0 else f"{SERVICE} did not start (exit code {done.returncode})"
