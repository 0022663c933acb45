"""What commands print: tables, as wide as the terminal or whole in a file or a pipe, progress bars, pages."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

OBEYED = [*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
"""Characters that a terminal obeys instead of showing them: control characters, and turns of direction."""
VISIBLE = {code: ascii(chr(code))[1:-1] for code in OBEYED if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """Text from a file as it may be shown in a terminal: a class can be called ESC ] 0 ; ..."""
    return text.translate(VISIBLE)


class ReadableStream:
    """A stream for people, to which texts are written as `visible` shows them."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich, which moves the cursor, writes there
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def readable_output() -> Iterator[None]:
    """Nothing that is printed inside commands the terminal."""
    out, err = ReadableStream(sys.stdout), ReadableStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        yield


class CommandGroup:
    """A command that only has others below it."""

    command: Any

    def run(self) -> int:
        return self.command.run()


def show_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> None:
    """Print rows below their headings; columns named in `right` are aligned there, in `whole` not wrapped."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        justify = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, no_wrap=heading in whole)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(visible(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 160
    # cells are plain text: a label or a default in square brackets is no markup
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


@contextmanager
def bars(*columns: object) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar per name in a terminal, silence elsewhere; tell it the name, how much is done and the total."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True)
    shown = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,  # type: ignore[arg-type]
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
        disable=not sys.stderr.isatty(),
    )

    def update(name: str, done: int, total: int | None) -> None:
        if name not in tasks:
            tasks[name] = shown.add_task(visible(name), total=total)
        shown.update(tasks[name], completed=done, total=total)

    with shown:
        yield update


def has_screen() -> bool:
    """Whether a browser has a screen to show a page on; one inside this terminal would take it away."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(screen) or not sys.platform.startswith("linux")


def open_page(address: str) -> None:
    """Show the page in the user's browser, where there is a screen to show it on."""
    if has_screen():
        webbrowser.open(address)
