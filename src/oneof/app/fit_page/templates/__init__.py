"""The page and its figures as templates. Everything that comes from outside is escaped."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

from oneof.tables.errors import DataError


def fill(name: str, **values: Any) -> str:
    """A template with its values."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise DataError("the report needs jinja2: pip install 'oneof[report]'.") from None
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = lambda v: "–" if math.isnan(v) else f"{v:.1%}"
    return made
