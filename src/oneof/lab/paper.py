"""The published numbers, `paper.toml`.

The published standard deviations are smaller than the sampling error of a single split of the small sets, so
those trials share one split and differ in the training seed: absolute numbers there depend on the split.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

Number = tuple[float, float | None]


def _number(cell: str) -> Number:
    mean, _, std = cell.partition("±")
    return float(mean), float(std) if std else None


def _rows(data: list[str], **rows: str) -> dict[str, dict[str, Number]]:
    return {label: dict(zip(data, map(_number, cells.split()))) for label, cells in rows.items()}


_TEXT = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
TABLES = {name: _rows(**table) for name, table in tomllib.loads(_TEXT).items()}
"""Table, row, data set: mean and standard deviation."""


def published(table: str | None, label: str, data: str) -> Number | None:
    """Mean and standard deviation, where the paper has them."""
    return TABLES.get(table or "", {}).get(label, {}).get(data)
