"""A training step as one CUDA graph: recorded once, replayed with new inputs.

A step of a small network is hundreds of short kernels; started one by one from Python they take longer to
start than to run. A graph starts all of them at once. It replays exactly what was recorded, on the same
memory, so that everything that changes from step to step must be an input or live in a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

WARM_UP = 3
"""Steps that run eagerly before the recording: optimisers and libraries allocate what they need."""


class CapturedStep:
    """A function of tensors with effects on other tensors, replayed from a graph.

    Parameters
    ----------
    function : callable
        Takes tensors of fixed shapes and returns nothing; never waits for the GPU.
    generators : generators
        Random generators that the function draws from, beside torch's default one.
    """

    def __init__(self, function: Callable[..., None], generators: Sequence[torch.Generator] = ()) -> None:
        self.function, self.generators = function, tuple(generators)
        self.stage: Hashable = None
        self.seen = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs: list[Tensor] = []
        self.side = torch.cuda.Stream()

    def __call__(self, stage: Hashable, *inputs: Tensor) -> None:
        """Run the function once. Another stage is another recording."""
        if stage != self.stage:
            self.stage, self.seen, self.graph = stage, 0, None
        if self.graph is None and self.seen < WARM_UP:
            self.seen += 1
            current = torch.cuda.current_stream()
            self.side.wait_stream(current)
            with torch.cuda.stream(self.side):
                self.function(*inputs)
            current.wait_stream(self.side)
            return
        if self.graph is None:
            self._record(inputs)
        else:
            for place, value in zip(self.inputs, inputs):
                place.copy_(value, non_blocking=True)
        assert self.graph is not None
        self.graph.replay()

    def _record(self, inputs: Sequence[Tensor]) -> None:
        self.inputs = [value.clone() for value in inputs]
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        # other threads (a progress display) may go on working meanwhile
        # a stream of its own: work space of matrix products belongs to a stream, and two recordings that
        # shared one could not run side by side
        with torch.cuda.graph(graph, stream=self.side, capture_error_mode="thread_local"):
            self.function(*self.inputs)
        self.graph = graph
