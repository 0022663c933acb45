"""Printing tables: as wide as the terminal, and whole where the output is a file or a pipe."""

from __future__ import annotations

import sys
from typing import Any


def show(renderable: Any) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    # cells are plain text: a label or a default in square brackets is no markup
    Console(width=width, highlight=False, markup=False, emoji=False).print(renderable)
