"""Numbers on a page come from a record.

A single one, after the bar as Python's `format` takes it, with a unit; pointing at it shows its source:

    {record}`results/table2/summary.json:table2/mlp/lost/rplg/mean | .2f %`

Steps of the path are keys; `name=value` picks the entry of a list, a whole number counts. A table of the
lab, with the best mean of every column in bold:

    ```{accuracy-table} results/table2/summary.json:table2/mlp
    ```
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from oneof.lab.tables import method_title, title

ROOT = Path(__file__).parents[2]


class RecordError(KeyError):
    """A record that is not there. The message says which step of the path fails and what there is."""

    def __str__(self) -> str:
        return str(self.args[0])


@lru_cache
def read(file: str) -> Any:
    path = ROOT / file
    if not path.is_file():
        raise RecordError(f"there is no record {file}")
    return json.loads(path.read_text(encoding="utf-8"))


def lookup(address: str) -> Any:
    """The value at `FILE:step/step/…`."""
    file, _, steps = address.partition(":")
    value = read(file.strip())
    for step in filter(None, steps.strip().split("/")):
        value = one_step(value, step, address)
    return value


def one_step(value: Any, step: str, address: str) -> Any:
    if isinstance(value, dict) and step in value:
        return value[step]
    if isinstance(value, list):
        if step.isdigit() and int(step) < len(value):
            return value[int(step)]
        name, _, wanted = step.partition("=")
        for entry in value:
            if isinstance(entry, dict) and str(entry.get(name)) == wanted:
                return entry
    there = ", ".join(map(str, value)) if isinstance(value, dict) else type(value).__name__
    raise RecordError(f"{address}: there is no {step!r}; there is {there}")


def formatted(text: str) -> tuple[str, str]:
    """(number, source) of the role's text `ADDRESS | FORMAT UNIT`; the unit stays on the number's line."""
    address, _, pattern = text.partition("|")
    pattern, _, unit = pattern.strip().partition(" ")
    value = lookup(address.strip())
    if isinstance(value, dict | list):
        raise RecordError(f"{address.strip()} is no single value")
    return format(value, pattern) + (f"\u00a0{unit}" if unit else ""), address.strip()


def record_role(name, rawtext, text, lineno, inliner, options=None, content=None):  # type: ignore[no-untyped-def]
    try:
        number, source = formatted(text)
    except (RecordError, ValueError) as error:
        message = inliner.reporter.error(f"record: {error}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, message)], [message]
    return [Number(number, number, source=source)], []


class Number(nodes.inline):
    """A number with its source."""


def visit_html(self: Any, node: Number) -> None:
    self.body.append(self.starttag(node, "span", "", CLASS="record", title=f"from {node['source']}"))


def depart_html(self: Any, node: Number) -> None:
    self.body.append("</span>")


def nothing(self: Any, node: Number) -> None:
    pass


def accuracy_rows(address: str) -> tuple[list[str], list[tuple[str, list[str], int]]]:
    """Headings, and for every method its name, its cells and which of them are the best (as bits)."""
    data = lookup(address)
    file, _, steps = address.partition(":")
    ranks = lookup(f"{file}:mean_rank/{steps}")
    best = [max(cell["mean"] for cell in cells.values()) for cells in data.values()]
    rows = []
    for method in next(iter(data.values())):
        own = [cells[method] for cells in data.values()]
        cells = [f"{cell['mean']:.2f} ± {cell['std']:.2f}" for cell in own]
        bits = sum(1 << k for k, cell in enumerate(own) if cell["mean"] == best[k])
        bits |= (ranks.get(method) == min(ranks.values())) << len(best)
        rows.append((method, [*cells, f"{ranks[method]:.2f}" if method in ranks else ""], bits))
    return [*(title(name) for name in data), "mean rank"], rows


class AccuracyTable(Directive):
    """A table of means from a lab's summary; see the module."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        try:
            headings, rows = accuracy_rows(self.arguments[0])
        except RecordError as error:
            return [self.state.document.reporter.error(f"accuracy-table: {error}", line=self.lineno)]
        group = nodes.tgroup(cols=len(headings) + 1)
        group += [nodes.colspec(colwidth=1) for _ in range(len(headings) + 1)]
        group += nodes.thead("", line_of([nodes.Text(text) for text in ["method", *headings]]))
        body = nodes.tbody()
        for method, cells, best in rows:
            page: nodes.Node = nodes.Text(method_title(method))
            marked = [
                nodes.strong(text, text) if best >> k & 1 else nodes.Text(text)
                for k, text in enumerate(cells)
            ]
            body += line_of([page, *marked])
        group += body
        source = nodes.paragraph("", f"From {self.arguments[0].partition(':')[0]}.", classes=["source"])
        return [nodes.table("", group, classes=["accuracy"]), source]


def line_of(cells: list[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def setup(app: Any) -> dict[str, Any]:
    app.add_node(
        Number,
        html=(visit_html, depart_html),
        latex=(nothing, nothing),
        text=(nothing, nothing),
    )
    app.add_role("record", record_role)
    app.add_directive("accuracy-table", AccuracyTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
