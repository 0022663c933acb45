"""Links of our pages into `results/` lead to the copies of these pages in the documentation."""

from __future__ import annotations

import re
from typing import Any

LINK = re.compile(r"\]\((?:\.\./)+results/([^)#]*)(#[^)]*)?\)")


def inside(text: str) -> str:
    """`](../results/crowd/)` as a link to the page that `generated_pages` makes of it."""

    def replaced(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        if not path or path.endswith("/"):
            path += "README.md"
        return f"](/generated/results/{path}{anchor})"

    return LINK.sub(replaced, text)


def on_source(app: Any, name: str, source: list[str]) -> None:
    source[0] = inside(source[0])


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", on_source)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
