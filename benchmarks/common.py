"""What the benchmark scripts share: versions, and a readable table with JSON as the last line."""

from __future__ import annotations

import json
import platform
from typing import Any

import numpy as np
import torch

import oneof


def versions() -> dict[str, str]:
    found = {
        "oneof": oneof.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def print_table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(name), *(len(row[i]) for row in texts)) for i, name in enumerate(columns)]
    print(f"\n{title}")
    for line in (columns, *texts):
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        cells[0] = line[0].ljust(widths[0])
        print("  ".join(cells))


def _text(cell: Any) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def print_json(figures: dict[str, Any]) -> None:
    """The last line of every benchmark: its figures and the versions they were measured with."""
    print()
    print(json.dumps({**figures, "versions": versions()}))
