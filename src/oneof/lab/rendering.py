"""Text from the templates beside this file; jinja2 is the extra `report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oneof.lab import LabError


def render(template: str, **values: Any) -> str:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise LabError("reports need jinja2: pip install 'oneof[report]'") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=template.endswith(".html"),
        finalize=None if template.endswith(".html") else without_tags,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"tuple": tuple}
    return environment.get_template(template).render(**values)


def without_tags(value: Any) -> Any:
    """A value for Markdown, in which a name from a file must not be HTML; a less-than sign stays one."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", value) if isinstance(value, str) else value
