"""When training ends: no more improvement, or the user's Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class EarlyStopping:
    """Remembers the best score and how long ago it was. Equal scores do not count as better."""

    patience: int | None = None
    best: float = float("-inf")
    best_epoch: int = -1

    def improved(self, score: float, epoch: int) -> bool:
        if score <= self.best:
            return False
        self.best, self.best_epoch = score, epoch
        return True

    def exhausted(self, epoch: int) -> bool:
        return self.patience is not None and epoch - self.best_epoch >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.best, self.best_epoch = values["best"], values["best_epoch"]


class Interrupt:
    """Whether Ctrl-C was pressed."""

    pressed = False


@contextmanager
def finish_epoch_on_interrupt(active: bool) -> Iterator[Interrupt]:
    """The first Ctrl-C lets the epoch end and its checkpoint be written, the second stops at once."""
    interrupt = Interrupt()
    if not active or threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def handle(number: int, frame: Any) -> None:
        if interrupt.pressed:
            raise KeyboardInterrupt
        interrupt.pressed = True
        told = "Ctrl-C: finishing this epoch and saving; press again to stop at once."
        try:
            print(told, file=sys.stderr)
        except RuntimeError:  # it came in the middle of a line, and a stream cannot be entered twice
            os.write(2, f"\n{told}\n".encode())

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
