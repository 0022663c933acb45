"""Printing tables: as wide as the terminal, and whole where the output is a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


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
