"""Calls on a Ray cluster (extra `cluster`): many machines, of which some may go away.

Every machine needs oneof, and the files that are read or written under the same path. A call that was on a
machine that went away is made again elsewhere: first by Ray's own retries, then by ours.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Self

TRIES = 5
"""How often a call is given to the cluster before it counts as lost."""
_ALONE = {"include_dashboard": False}


class ClusterError(ValueError):
    """There is no cluster, or it lost a call again and again."""


class Cluster:
    """One call at a time per core of the cluster, or per GPU; the results come as they are ready.

    The address "auto" finds the cluster that this machine belongs to, "local" starts one here.
    """

    def __init__(self, address: str = "auto", gpus: bool = False) -> None:
        try:
            self.ray: Any = import_module("ray")
        except ImportError:
            raise ClusterError("a cluster needs Ray: pip install 'oneof[cluster]'") from None
        self.address, self.kind = address, "GPU" if gpus else "CPU"
        self.waiting: dict[Any, tuple[Any, int, Callable[..., Any], tuple[Any, ...]]] = {}

    def __enter__(self) -> Self:
        self.own = not self.ray.is_initialized()
        if self.own:
            address = None if self.address == "local" else self.address
            try:
                self.ray.init(address=address, log_to_driver=False, **({} if address else _ALONE))
            except ConnectionError as error:
                raise ClusterError(
                    f"no Ray cluster at {self.address!r}: {error}\n"
                    "  Start one with `ray start --head`, or give the address local."
                ) from None
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": TRIES, "scheduling_strategy": "SPREAD"}
        if self.kind == "GPU":
            options["num_gpus"] = 1
        if "ONEOF_DATA" in os.environ:
            options["runtime_env"] = {"env_vars": {"ONEOF_DATA": os.environ["ONEOF_DATA"]}}
        self.task = self.ray.remote(**options)(work_alone)
        return self

    def __exit__(self, *_: object) -> None:
        for reference in self.waiting:
            self.ray.cancel(reference, force=True)
        self.waiting.clear()
        if self.own:
            self.ray.shutdown()

    @property
    def slots(self) -> int:
        return max(1, int(self.ray.cluster_resources().get(self.kind, 1)))

    @property
    def full(self) -> bool:
        """Whether further calls would only wait: one per slot is in reserve, so that no machine idles."""
        return len(self.waiting) >= 2 * self.slots

    def share(self, value: Any) -> Any:
        """A large argument of many calls, sent to every machine once."""
        return self.ray.put(value)

    def call(self, name: Any, function: Callable[..., Any], *arguments: Any, tries: int = 1) -> None:
        """Begin a call; `ready` returns what it gave under this name."""
        self.waiting[self.task.remote(function, *arguments)] = (name, tries, function, arguments)

    def results(self, calls: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
        """Make many calls, given as the arguments of `call`: what `ready` returns of each, as they end."""
        left = deque(calls)
        while left or self.waiting:
            while left and not self.full:
                self.call(*left.popleft())
            yield from self.ready()

    def ready(self, seconds: float = 1.0) -> list[tuple[Any, Any]]:
        """Names and results of calls that have ended; a `ClusterError` as the result of one that was lost.

        What the function itself raised is raised here.
        """
        done, _ = self.ray.wait(list(self.waiting), num_returns=1, timeout=seconds)
        ended = []
        for reference in done:
            name, tries, function, arguments = self.waiting.pop(reference)
            try:
                ended.append((name, self.ray.get(reference)))
            except self.ray.exceptions.RayTaskError as error:
                raise (error.cause or error) from None
            except self.ray.exceptions.RayError as error:
                if tries < TRIES:
                    self.call(name, function, *arguments, tries=tries + 1)
                    continue
                reason = str(error).strip().splitlines()[0]
                ended.append((name, ClusterError(f"the cluster lost it {tries} times: {reason}")))
        return ended


def work_alone(function: Callable[..., Any], *arguments: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return function(*arguments)
