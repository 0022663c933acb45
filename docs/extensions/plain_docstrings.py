"""Our docstrings are plain English with a little Markdown; reStructuredText wants a few things otherwise."""

from __future__ import annotations

import re
from typing import Any

SIZE = re.compile(r"\|(\w+)\|")


def as_rst(lines: list[str]) -> list[str]:
    """Indented lines after a paragraph are formulas, not a quotation; |S| is a size, not a substitution.

    Sections of numpydoc (`Parameters`, underlined) indent for another reason and are left alone.
    """
    out: list[str] = []
    formula = False
    for k, line in enumerate(lines):
        if line.strip() and not line.startswith("    "):
            formula = False
        elif line.strip() and not lines[k - 1].strip() and opens_block(lines, k):
            formula = True
            out += ["::", ""]
        out.append(line if formula else SIZE.sub(r"\\|\1\\|", line))
    return out


def opens_block(lines: list[str], k: int) -> bool:
    """Whether the indented line k begins a block below plain text, and not below a field or an item."""
    before = next((line for line in reversed(lines[:k]) if line.strip()), "")
    markers = (":", ".. ", "- ", "* ", ">>>")
    return bool(before) and not before.startswith((" ", *markers)) and not before.endswith("::")


class Docstrings:
    """Before napoleon: keep lines about attributes, of which it reads `Whether …: it` as type and text.
    After it: those as they were, and the rest as reStructuredText.
    """

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}

    def before(self, app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        if what in ("attribute", "data", "property"):
            self.kept[name] = list(lines)

    def after(self, app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
        lines[:] = as_rst(self.kept.pop(name, lines))


def setup(app: Any) -> dict[str, Any]:
    docstrings = Docstrings()
    app.connect("autodoc-process-docstring", docstrings.before, priority=100)
    app.connect("autodoc-process-docstring", docstrings.after, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
