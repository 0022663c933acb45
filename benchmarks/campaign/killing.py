"""Processes that are killed after some progress, at a moment drawn or in the midst of a system call."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.campaign import Failed

SECONDS = 60.0
CALLS = ("replace", "fsync", "write", "open", "rename", "unlink", "truncate", "ftruncate", "mkdir")
Work = Callable[[Callable[[], None]], object]
"""What the process does; it calls what it is given after every step that it believes to be done."""


def killed(rng: np.random.Generator, work: Work, wanted: int, most_calls: int = 24) -> tuple[int, bool]:
    """Fork, work, and kill after `wanted` steps: how many were done, and whether the kill hit.

    Half of them are killed from outside within 5 ms, the others by themselves at one of the next
    calls of the system, before it or after it.
    """
    at_call = int(rng.integers(1, most_calls + 1)) if rng.random() < 0.5 else 0
    after, delay = bool(rng.random() < 0.5), 0.005 * rng.random()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _run(work, writer, wanted, at_call, after)
    os.close(writer)
    done, failure, until = 0, b"", time.monotonic() + SECONDS
    while True:
        if not select.select([reader], [], [], max(0, until - time.monotonic()))[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Failed(f"the process does not go on after {done} steps")
        told = os.read(reader, 4096)
        if not told:
            break
        told, failed, text = told.partition(b"!")
        failure += failed + text
        before, done = done, done + len(told)
        if not at_call and before < wanted <= done:
            time.sleep(delay)
            os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if failure:
        raise Failed(f"the process to be killed failed: {failure.decode(errors='replace')}")
    return done, os.WIFSIGNALED(status)


def _run(work: Work, writer: int, wanted: int, at_call: int, after: bool) -> None:
    """In the child; never returns."""
    steps, write = 0, os.write
    try:

        def tell() -> None:
            nonlocal steps
            write(writer, b".")
            steps += 1
            if steps == wanted and at_call:
                _trap(at_call, after)

        work(tell)
    except BaseException:
        write(writer, b"!" + traceback.format_exc()[-600:].encode(errors="replace"))
    finally:
        os._exit(0)


def _trap(at_call: int, after: bool) -> None:
    """From now on count calls of the system, and die at one of them."""
    left = at_call

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if not left and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            if not left and call.__name__ == "write":  # half of it
                arguments = (arguments[0], arguments[1][: len(arguments[1]) // 2])
            result = call(*arguments, **named)
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return instead

    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))
