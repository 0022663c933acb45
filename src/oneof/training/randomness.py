"""What a training draws from torch's default generators, in threads too.

Torch initialises layers and drops out from generators that the whole process shares, and lets nobody pass
others. So every training has a stream of its own, and lends it to the default generators while it draws:
one training at a time, and what was there before comes back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from oneof.methods.base import Method
from oneof.nets.base import foreign, may_draw_forward

LENDING = threading.RLock()
"""Held while a training draws from the default generators; a net's maker may train something itself."""


class DefaultGenerators:
    """One training's stream of torch's default generators: that of the CPU and that of its device."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self._lent = False
        self._generators = {"default": torch.default_generator}
        if device.type == "cuda":
            torch.cuda.init()
            index = torch.cuda.current_device() if device.index is None else device.index
            self._generators["cuda"] = torch.cuda.default_generators[index]
        with LENDING:
            self._states = self._now()
        self.seed(seed)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Inside, torch's default generators give this training's stream; other trainings wait."""
        with LENDING:
            if self._lent:  # by an outer block of the same training
                yield
                return
            before = self._now()
            self._set(self._states)
            self._lent = True
            try:
                yield
            finally:
                self._lent = False
                self._states = self._now()
                self._set(before)

    def seed(self, seed: int) -> None:
        with self.lent():
            for generator in self._generators.values():
                generator.manual_seed(seed)

    def states(self) -> dict[str, Tensor]:
        """Where the stream stands, for a checkpoint."""
        return self._now() if self._lent else dict(self._states)

    def load(self, states: dict[str, Tensor]) -> None:
        """Continue as a checkpoint says; on another device its stream goes on as it is."""
        with self.lent():
            self._set({name: state for name, state in states.items() if name in self._generators})

    def _now(self) -> dict[str, Tensor]:
        return {name: generator.get_state() for name, generator in self._generators.items()}

    def _set(self, states: dict[str, Tensor]) -> None:
        for name, state in states.items():
            self._generators[name].set_state(state)


def may_draw(method: Method, state: nn.Module, *others: object) -> bool:
    """Whether steps may draw from the default generators; `others` take part in them, such as views. What is
    not ours may: it is not known."""
    return (
        method.uses_default_generator
        or any(foreign(part) for part in (method, *others))
        or may_draw_forward(state)
    )
