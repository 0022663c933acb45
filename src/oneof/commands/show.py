"""Printing tables: as wide as the terminal, and whole where the output is a file or a pipe."""

from __future__ import annotations

import sys
from typing import Any


def show(renderable: Any) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False).print(renderable)
