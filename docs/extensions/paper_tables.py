"""The paper's numbers beside ours, for its tables 1 to 3, from our records."""

from __future__ import annotations

from method_pages import title_of
from records import RecordError, lookup

from oneof.lab.paper import TABLES, published
from oneof.lab.protocols import BENCHMARKS, REAL_WORLD
from oneof.lab.tables import title
from oneof.methods import make_method

Source = tuple[str, str]
"""A summary with protocol and net, and what stands above its column."""
SHORT = "images/by data"
ON_IMAGES: dict[str, list[Source]] = {
    "cifar10": [(f"results/table1/summary.json:{SHORT}", "ours")],
    "cifar100": [(f"results/table1/summary.json:{SHORT}", "ours")],
    "tiny-imagenet": [("results/table1/summary.json:images-tiny/by data", "ours, 30 epochs")],
}


def on_tables(table: str) -> dict[str, list[Source]]:
    nets = {"linear": "ours, linear", "mlp": "ours, MLP"}
    address = f"results/{table}/summary.json:{table}"
    return {data: [(f"{address}/{net}", words) for net, words in nets.items()] for data in REAL_WORLD}


SHOWS = {"table1": "images", "table2": "real-world sets", "table3": "RPLG with and without its meta-learner"}
OURS = {"table1": ON_IMAGES, "table2": on_tables("table2"), "table3": ON_IMAGES | on_tables("table3")}


def paper_tables() -> str:
    """A section per table; a data set that we have not run has the paper's column alone."""
    parts = ["---\norphan: true\n---", "# Tables of the paper"]
    for number, table in enumerate(OURS, start=1):
        parts.append(f"## Table {number}: {SHOWS[table]}")
        blocks = {"table1": [BENCHMARKS], "table2": [REAL_WORLD[:2], REAL_WORLD[2:]]}
        blocks["table3"] = [BENCHMARKS, *blocks["table2"]]
        parts += [grid(table, data) for data in blocks[table]]
    return "\n\n".join(parts) + "\n"


def grid(table: str, data: tuple[str, ...]) -> str:
    """The table in Markdown."""
    sources = {name: [s for s in OURS[table][name] if measured(s[0], name)] for name in data}
    heads = [
        f"{title(name)}, {words}" for name in data for words in ("paper", *(w for _, w in sources[name]))
    ]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for method in methods_of(table):
        cells = []
        for name in data:
            cells.append(number_of(published(table, method, name)))
            cells += [number_of(ours(address, name, method)) for address, _ in sources[name]]
        if any(cells):
            lines.append(f"| {title_of(make_method(method).info)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def methods_of(table: str) -> list[str]:
    """The paper's rows, RPLG+ after RPLG where we have run it."""
    names = [name for name in TABLES[table] if table == "table3" or name != "rplg-nm"]
    return [names[0], *(["rplg+"] if table == "table1" else []), *names[1:]]


def measured(address: str, data: str) -> bool:
    return data in lookup(address)


def ours(address: str, data: str, method: str) -> tuple[float, float | None] | None:
    try:
        cell = lookup(f"{address}/{data}/{method}")
    except RecordError:
        return None
    return cell["mean"], cell["std"] if cell["n"] > 1 else None


def number_of(number: tuple[float, float | None] | None) -> str:
    if number is None:
        return ""
    mean, std = number
    return f"{mean:.2f}" if std is None else f"{mean:.2f}\u00a0±\u00a0{std:.2f}"  # stays on one line
