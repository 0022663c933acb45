"""Progress: a bar in a terminal, a few plain lines elsewhere, nothing where nobody asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """What the loop reports to."""

    def start(self, title: str, epochs: int, done: int) -> None:
        """A training begins, or goes on after so many epochs."""
        return

    def epoch(self, row: dict[str, Any]) -> None:
        """The numbers of an epoch."""
        return

    def finish(self) -> None:
        """Training is over, well or not."""
        return


class Silent(Progress):
    """For those who want to hear nothing."""


@contextmanager
def showing(progress: Progress, title: str, epochs: int, done: int = 0) -> Iterator[None]:
    """From start to finish; the terminal is left in order, whatever happens at the start or inside."""
    try:
        progress.start(title, epochs, done)
        yield
    finally:
        progress.finish()


class PlainLines(Progress):
    """About ten lines for a whole training; for log files and pipes."""

    def start(self, title: str, epochs: int, done: int) -> None:
        self.title, self.epochs = title, epochs
        self.every = max(1, epochs // 10)

    def epoch(self, row: dict[str, Any]) -> None:
        number = row["epoch"] + 1
        if number % self.every == 0 or number == self.epochs:
            print(f"{self.title}  {number}/{self.epochs}  {facts(row)}", file=sys.stderr, flush=True)


def rich_bars(width: int, stream: TextIO | None = None) -> Any:
    """Rows of: what, a bar of some width, how many of how many, facts, the time it took."""
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=width),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[facts]}"),
        progress.TimeElapsedColumn(),
        console=Console(file=stream or sys.stderr),
    )


class Bar(Progress):
    """A rich progress bar."""

    def __init__(self) -> None:
        self.bars = rich_bars(20)
        self.task: Any = None

    def start(self, title: str, epochs: int, done: int) -> None:
        self.bars.start()
        self.task = self.bars.add_task(title, total=epochs, completed=done, facts="")

    def epoch(self, row: dict[str, Any]) -> None:
        self.bars.update(self.task, completed=row["epoch"] + 1, facts=facts(row))

    def finish(self) -> None:
        if self.task is not None:
            self.bars.stop_task(self.task)
        self.bars.stop()


SHOWN = {
    "q_accuracy": "pseudo-labels",
    "target_accuracy": "pseudo-labels",
    "selection": "clean",
    "test": "test",
}


def facts(row: dict[str, Any]) -> str:
    """The numbers of an epoch worth a glance; of a comparison, who was judged and how."""
    if "contender" in row:
        return f"{row['contender']}: {row['score']:.1%}"
    parts = [f"loss {row['loss']:.3f}"]
    parts += [f"{text} {row[name]:.1%}" for name, text in SHOWN.items() if row.get(name) is not None]
    return "  ".join(parts)


def default_progress() -> Progress:
    """A bar in a terminal where rich is installed, plain lines otherwise."""
    if sys.stderr.isatty():
        try:
            return Bar()
        except ImportError:
            pass
    return PlainLines()
