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
from contextlib import contextmanager, suppress
from pathlib import Path

SERVICE = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
USUAL = Path("/tmp/nvidia-mps")
"""Where a service has its pipes if nobody said where."""
PATIENCE = 30.0
"""Seconds that it may take to start, or to end."""


KEEPER = """
import shutil, subprocess, sys
sys.stdin.read()
subprocess.run([sys.argv[1]], input=b"quit\\n", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
shutil.rmtree(sys.argv[2], ignore_errors=True)
"""
"""A process that waits until its input ends, which it does with the lab, even one that is killed. Then it
ends the service."""


@contextmanager
def shared_gpu() -> Iterator[dict[str, str] | None]:
    """Variables that a process needs in its environment to share the GPU with others that have them; None
    where they have to take turns.

    The service ends with the context or with this process. One that runs already is used and left alone.
    """
    if PIPES in os.environ or (USUAL / "control").exists():
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="oneof-mps-")
    variables = {PIPES: folder, LOGS: folder}
    # the service numbers the GPUs that it sees anew: it has to see all, those who train choose among them
    environment = {name: v for name, v in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"} | variables
    if problem := _started(environment):
        shutil.rmtree(folder, ignore_errors=True)
        print(f"trainings take turns on the GPU: {problem}", file=sys.stderr)
        yield None
        return
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-c", KEEPER, SERVICE, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # Ctrl-C is the lab's business
    )
    try:
        yield variables
    finally:
        with suppress(subprocess.TimeoutExpired):
            keeper.communicate(timeout=PATIENCE)


def _started(environment: dict[str, str]) -> str:
    """Start the service; what went wrong, or nothing."""
    if shutil.which(SERVICE) is None:
        return f"{SERVICE} is not installed"
    try:
        done = subprocess.run(
            [SERVICE, "-d"],
            # it lives on with what it is given here: a pipe would never end
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=PATIENCE,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{SERVICE} did not start ({error})"
    return "" if done.returncode == 0 else f"{SERVICE} did not start (exit code {done.returncode})"
