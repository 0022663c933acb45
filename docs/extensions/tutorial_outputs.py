"""Below every block of a tutorial: what it printed when it was last recorded (`tutorials/outputs/`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sphinx.util import logging
from tutorial import BLOCK, pages, recorded

log = logging.getLogger(__name__)
LONGEST = 24
"""Lines shown of one output."""


def with_outputs(text: str, outputs: list[str]) -> str:
    """The page with the outputs in their places."""
    remaining = iter(outputs)

    def followed(match: Any) -> str:
        lines = next(remaining).rstrip().splitlines()
        if not lines:
            return match[0]
        if len(lines) > LONGEST:
            lines = [*lines[:LONGEST], "…"]
        shown = "\n".join(lines)
        return f"{match[0]}\n\n```{{code-block}} text\n:class: output\n\n{shown}\n```"

    return BLOCK.sub(followed, text)


def on_source(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.srcdir) / f"{name}.md"
    if page not in pages():
        return
    file = recorded(page)
    outputs = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    if len(outputs) != len(BLOCK.findall(source[0])):
        log.warning("%s: the outputs are of another page; python docs/extensions/tutorial.py --record", name)
        return
    source[0] = with_outputs(source[0], outputs)


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", on_source)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
