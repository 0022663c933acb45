"""Text from templates, the lab's own or another folder's; jinja2 is the extra `report`."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Any

from oneof.lab import LabError

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, folder: Path = TEMPLATES, /, **values: Any) -> str:
    """A template with its values. Everything that comes from outside is escaped."""
    markup = template.endswith((".html", ".svg"))
    return _environment(folder, markup).get_template(template).render(**values)


@cache
def _environment(folder: Path, markup: bool) -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise LabError("reports need jinja2: pip install 'oneof[report]'.") from None
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=markup,
        finalize=None if markup else without_tags,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {"tuple": tuple}
    made.filters["percent"] = lambda v: "–" if math.isnan(v) else f"{v:.1%}"
    return made


def without_tags(value: Any) -> Any:
    """A value for Markdown, in which a name from a file must not be HTML; a less-than sign stays one."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", value) if isinstance(value, str) else value
