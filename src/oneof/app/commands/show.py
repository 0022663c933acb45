"""What commands print: tables, as wide as the terminal or whole in a file or a pipe, progress bars, pages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager


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
        table.add_row(*map(str, row))
    width = None if sys.stdout.isatty() else 160
    # cells are plain text: a label or a default in square brackets is no markup
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


@contextmanager
def bars(*columns: object) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar per name in a terminal, silence elsewhere; tell it the name, how much is done and the total."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn

    tasks: dict[str, TaskID] = {}
    console = Console(stderr=True)
    shown = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,  # type: ignore[arg-type]
        console=console,
        disable=not sys.stderr.isatty(),
    )

    def update(name: str, done: int, total: int | None) -> None:
        if name not in tasks:
            tasks[name] = shown.add_task(name, total=total)
        shown.update(tasks[name], completed=done, total=total)

    with shown:
        yield update


def open_page(address: str) -> None:
    """Show the page in the user's browser, where there is a screen to show it on."""
    import os
    import webbrowser

    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        return  # a browser inside this terminal would take it away
    webbrowser.open(address)
