"""A training step as one CUDA graph: recorded once, replayed with new inputs.

A step of a small network is hundreds of short kernels; started one by one from Python they take longer to
start than to run. A graph starts all of them at once. It replays exactly what was recorded, on the same
memory, so that everything that changes from step to step must be an input or live in a tensor.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

WARM_UP = 3
"""Steps that run eagerly before the recording: optimisers and libraries allocate what they need."""
KEPT = 2
"""Recordings that are kept: as many as stages may alternate. Each holds the memory of a step."""


@dataclass
class Recording:
    """A stage's steps so far, its graph once there is one, and where the graph reads its inputs."""

    seen: int = 0
    graph: torch.cuda.CUDAGraph | None = None
    inputs: list[Tensor] = field(default_factory=list)


class CapturedStep:
    """A function of tensors of fixed shapes with effects on other tensors, replayed from a graph.

    It never waits for the GPU. `generators`: those it draws from, beside torch's default one.
    """

    def __init__(self, function: Callable[..., None], generators: Sequence[torch.Generator] = ()) -> None:
        self.function, self.generators = function, tuple(generators)
        self.recordings: dict[Hashable, Recording] = {}
        self.side = torch.cuda.Stream()

    def __call__(self, stage: Hashable, *inputs: Tensor) -> None:
        """Run the function once. Another stage is another recording."""
        recording = self._of(stage)
        if recording.graph is None and recording.seen < WARM_UP:
            recording.seen += 1
            current = torch.cuda.current_stream()
            self.side.wait_stream(current)
            with torch.cuda.stream(self.side):
                self.function(*inputs)
            current.wait_stream(self.side)
            return
        if recording.graph is None:
            self._record(recording, inputs)
        else:
            for place, value in zip(recording.inputs, inputs):
                place.copy_(value, non_blocking=True)
        assert recording.graph is not None
        recording.graph.replay()

    def _of(self, stage: Hashable) -> Recording:
        """The recording of a stage, which becomes the latest; the oldest beyond `KEPT` is given up."""
        recording = self.recordings.pop(stage, None) or Recording()
        while len(self.recordings) >= KEPT:
            del self.recordings[next(iter(self.recordings))]
        self.recordings[stage] = recording
        return recording

    def _record(self, recording: Recording, inputs: Sequence[Tensor]) -> None:
        recording.inputs = [value.clone() for value in inputs]
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # other threads (a progress display) may go on working meanwhile
        with no_garbage(), torch.cuda.graph(graph, stream=self.side, capture_error_mode="thread_local"):
            self.function(*recording.inputs)
        recording.graph = graph


@contextmanager
def no_garbage() -> Iterator[None]:
    """Graphs of earlier trainings are given up now: CUDA fails when that happens during a recording."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
