"""`oneof report`: what a folder of records says, as text, Markdown, LaTeX and one HTML page."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneof.lab.errors import LabError
from oneof.lab.paper import published
from oneof.lab.plots import DPI, PLOTS, ranking, set_sizes
from oneof.lab.protocol import NET_OF_IMAGES
from oneof.lab.statistics import LEVEL
from oneof.lab.summary import Result, read_folder, write_summary
from oneof.lab.tables import Grid, Shown, as_latex, as_markdown, grid, method_title, title
from oneof.tables.files import write_text


@dataclass
class Figure:
    """A picture and what it shows."""

    path: Path
    name: str
    caption: str

    @property
    def file(self) -> str:
        return f"figures/{self.path.name}"

    @property
    def width(self) -> int:
        """In pixels of the page: letters in figures then have the size of the small print."""
        pixels = int.from_bytes(self.path.read_bytes()[16:20], "big")  # of the PNG's header
        return round(pixels * 120 / DPI)

    @property
    def data_uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode()


@dataclass
class NetPart:
    """What a protocol found with one net."""

    name: str
    table: Grid
    markdown: str
    verdict: list[str]
    comparisons: Grid
    cost: Grid
    chosen: Grid
    tried: Grid
    figures: list[Figure] = field(default_factory=list)


@dataclass
class Section:
    """A protocol in the report."""

    result: Result
    rules: list[str]
    nets: list[NetPart]
    failures: list[str]
    """Rows whose reported trainings failed."""


def write_report(folder: Path, figures: bool = True) -> tuple[list[Result], list[Path]]:
    """Write `report.md`, `report.html`, `tables.tex`, `summary.json` and `figures/` into the folder."""
    results = read_folder(folder)
    sections = [make_section(result, folder / "figures", figures) for result in results]
    facts = {name: known for result in results for name, known in result.plan["data"].items()}
    drawn = set_sizes(facts, folder / "figures" / "sizes.png") if figures else None
    values = {
        "sections": sections,
        "facts": data_facts(facts),
        "sizes": drawn and Figure(drawn, "sizes", "Sizes of the candidate sets."),
        "name": folder.resolve().name,
    }
    written = [write_summary(folder, results)]
    tex = "\n\n".join(
        f"% {r.protocol.name}, {net}: {r.protocol.title}\n{as_latex(r, net)}"
        for r in results
        for net in r.nets
    )
    write_text(folder / "tables.tex", tex + "\n")
    written.append(folder / "tables.tex")
    for name in ("report.md", "report.html"):
        write_text(folder / name, _render(name, **values))
        written.append(folder / name)
    return results, written


def _render(template: str, **values: Any) -> str:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise LabError("reports need jinja2: pip install 'oneof[report]'") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=template.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"method_title": method_title, "data_title": title}
    return environment.get_template(template).render(**values)


def make_section(result: Result, folder: Path, figures: bool) -> Section:
    """Everything a page says about one protocol."""
    name = result.protocol.name
    nets = []
    for net in result.nets:
        part = NetPart(
            net,
            grid(result, net),
            as_markdown(result, net),
            verdict(result, net),
            comparisons(result, net),
            cost(result, net),
            chosen(result, net),
            tried(result, net),
        )
        for kind in result.protocol.figures if figures else ():
            draw, caption = PLOTS[kind]
            path = draw(result, net, folder / f"{name}-{net}-{kind}.png".replace(" ", "-"))
            if path is not None:
                part.figures.append(Figure(path, kind, f"{_caption(caption, result)} {_where(net)}"))
        nets.append(part)
    failed = [
        f"{method_title(label)} on {title(data)} with {net}: {cell.failed} of {cell.planned}"
        for (net, data, label), cell in result.cells.items()
        if cell.failed
    ]
    return Section(result, result.protocol.rules(), nets, failed)


def _caption(caption: str, result: Result) -> str:
    """Without what one split cannot show."""
    if all(len(cell.records) <= 1 for cell in result.cells.values()):
        for words in (" with the 95 % interval of the mean over splits", ", mean over splits"):
            caption = caption.replace(words, "")
    return caption


def _where(net: str) -> str:
    names = {
        "linear": "Linear model.",
        "mlp": "MLP, 2 × 300, batch normalisation.",
        "by data": "The net of each data set.",
    }
    return names.get(net, f"Net {net}.")


def verdict(result: Result, net: str) -> list[str]:
    """The table in sentences: where the reference row stands."""
    reference = result.protocol.reference
    if reference not in result.labels:
        return []
    name, lines = method_title(reference), []
    for data in result.data:
        cell = result.cell(net, data, reference)
        rivals = [n for n in result.ranked() if n != reference and result.cell(net, data, n)]
        if cell is None or not rivals:
            continue
        tests = {n: t for n in rivals if (t := result.comparison(net, data, n)) is not None}
        above = [n for n in rivals if (c := result.cell(net, data, n)) is not None and c.mean > cell.mean]
        better = sum(t.mark == "•" for t in tests.values())
        worse = sum(t.mark == "◦" for t in tests.values())
        certain = [t for t in tests.values() if t.n > 2 and t.p_corrected < LEVEL]
        place = "has the best mean" if not above else f"is number {len(above) + 1} of {len(rivals) + 1}"
        if len(cell.records) == 1:
            place = place.replace("has the best mean", "is first")
            lines.append(f"{title(data)}: {name} {place} ({cell.mean:.2f} %), on one split: no test.")
            continue
        lines.append(
            f"{title(data)}: {name} {place} ({cell.mean:.2f} %); of {len(rivals)} rivals it is significantly "
            f"better than {better} and worse than {worse} (corrected for overlapping splits: "
            f"{sum(t.difference > 0 for t in certain)} and {sum(t.difference < 0 for t in certain)})."
        )
    found = ranking(result, net)
    if found is not None and len(found.ranks) >= 3:
        lowest = min(found.ranks.values())
        best = [method_title(n) for n, rank in found.ranks.items() if rank == lowest]
        lines.append(
            f"Over {found.n_sets} data sets {' and '.join(best)} {'has' if len(best) == 1 else 'share'} the "
            f"lowest mean rank ({lowest:.2f}); Friedman's test: p = {found.p_friedman:.3g}; ranks that "
            f"differ by less than {found.difference:.2f} cannot be told apart (Nemenyi, 0.05)."
        )
    return lines


def comparisons(result: Result, net: str) -> Grid:
    """The reference minus every other row, with three tests and the published difference."""
    p = result.protocol
    rows = []
    for data in result.data:
        theirs = published(p.paper_table, p.reference, data)
        for label in result.labels:
            test = result.comparison(net, data, label)
            if test is None:
                continue
            other = published(p.paper_table, label, data)
            paper = f"{theirs[0] - other[0]:+.2f}" if theirs and other else "–"
            rows.append(
                [
                    title(data),
                    method_title(label),
                    f"{test.difference:+.2f} ± {test.error:.2f}",
                    paper,
                    str(test.n),
                    f"{test.p:.2g}",
                    f"{test.p_corrected:.2g}",
                    f"{test.p_wilcoxon:.2g}",
                    test.mark,
                ]
            )
    columns = [
        "data set",
        "against",
        f"{method_title(p.reference)} minus it ± SE",
        "in the paper",
        "n",
        "p (t-test)",
        "p (corrected)",
        "p (Wilcoxon)",
        "mark",
    ]
    return _plain(columns, rows)


def cost(result: Result, net: str) -> Grid:
    """Seconds of a training and of an epoch by the clock, and the latter relative to PRODEN.

    Trainings that ran side by side slowed one another down; `benchmarks/` compares costs properly.
    """
    rows = []
    for data in result.data:
        cells = {n: c for n in result.labels if (c := result.cell(net, data, n)) is not None}
        base = cells.get("proden")
        for label, cell in cells.items():
            per_epoch = cell.seconds / cell.epochs
            relative = f"{per_epoch / (base.seconds / base.epochs):.1f}" if base else "–"
            rows.append(
                [
                    title(data),
                    method_title(label),
                    f"{cell.seconds:.2f}",
                    f"{cell.epochs:.0f}",
                    f"{1000 * per_epoch:.1f}",
                    relative,
                ]
            )
    columns = ["data set", "method", "seconds (clock)", "epochs", "ms per epoch", "relative to PRODEN"]
    return _plain(columns, rows)


def chosen(result: Result, net: str) -> Grid:
    """The configuration that every row was reported with."""
    rows = []
    for data in result.data:
        for label in result.labels:
            found = result.cells.get((net, data, label))
            if found is None or found.configuration is None:
                continue
            c = found.configuration
            own = ", ".join(f"{name} {_value(value)}" for name, value in c["params"].items())
            rows.append(
                [
                    title(data),
                    method_title(label),
                    f"{c['lr']:g}",
                    f"{c['weight_decay']:g}",
                    "pixels" if data in NET_OF_IMAGES else c["scaling"],
                    own or "defaults",
                ]
            )
    return _plain(["data set", "method", "lr", "weight decay", "scaling", "own"], rows)


def tried(result: Result, net: str) -> Grid:
    """What a declared grid found on the validation rows. (A random search has too many rows to read.)"""
    search = result.protocol.search
    rows = []
    for data in result.data if search is not None and search.grids else ():
        for label in result.labels:
            found = result.cells.get((net, data, label))
            if found is None:
                continue
            for values, score in found.tried:
                own = ", ".join(f"{name} {_value(value)}" for name, value in values["params"].items())
                mark = " (chosen)" if values == found.configuration else ""
                shown = "failed" if score is None else f"{100 * score:.2f}"
                rows.append([title(data), method_title(label), own or "defaults", f"{shown}{mark}"])
    return _plain(["data set", "method", "settings", "score on the validation rows"], rows)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def data_facts(facts: dict[str, Any]) -> Grid:
    """Sizes of data and candidate sets. Where |S| = 2 RPLG's branches have no say, only the weights."""
    rows = [
        [
            title(name),
            f"{f['rows']}",
            f"{f['features']}",
            f"{f['classes']}",
            f"{f['mean_size']:.2f}",
            f"{f['singletons']:.1%}",
            f"{f['pairs']:.1%}",
            f"{f['largest']}",
            f["hash"],
        ]
        for name, f in facts.items()
    ]
    columns = [
        "data set",
        "rows",
        "features",
        "classes",
        "mean |S|",
        "|S| = 1",
        "|S| = 2",
        "largest |S|",
        "hash",
    ]
    return _plain(columns, rows)


def _plain(columns: list[str], rows: Sequence[Sequence[str]]) -> Grid:
    return Grid(columns, [[Shown(cell) for cell in row] for row in rows], [])
