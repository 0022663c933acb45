"""`oneof report`: what a folder of records says, as text, Markdown, LaTeX and one HTML page."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneof.lab.candidate_pictures import save_sizes_by_data
from oneof.lab.panels import DPI
from oneof.lab.paper import published
from oneof.lab.plots import PLOTS
from oneof.lab.protocol import NET_OF_IMAGES
from oneof.lab.rendering import render
from oneof.lab.statistics import LEVEL, Comparison, holm
from oneof.lab.summary import CellResult, NetResult, Result, mean_of, read_folder, write_summary
from oneof.lab.tables import (
    NET_NAMES,
    SELECTION,
    Grid,
    as_comment,
    as_latex,
    as_markdown,
    grid,
    method_title,
    number,
    points,
    title,
)  # fmt: skip
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


def write_report(folder: Path, figures: bool = True) -> tuple[list[Result], list[Path]]:
    """Write `report.md`, `report.html`, `tables.tex`, `summary.json` and `figures/` into the folder."""
    results = read_folder(folder)
    values = _what_pages_say(folder, results, folder / "figures" if figures else None)
    tables = [
        as_comment(f"{result.protocol.name}, {net}: {result.protocol.title}") + f"\n{as_latex(grid(part))}"
        for result in results
        for net, part in result.nets.items()
    ]
    made = {"tables.tex": "\n\n".join(tables) + "\n"}
    made |= {name: render(name, **values) for name in ("report.md", "report.html")}
    for name, text in made.items():
        write_text(folder / name, text)
    return results, [write_summary(folder, results), *(folder / name for name in made)]


def drawn_report(folder: Path, figures: Path) -> str:
    """The text of `report.md`, with its pictures drawn into another folder than that of the records."""
    return render("report.md", **_what_pages_say(folder, read_folder(folder), figures))


def _what_pages_say(folder: Path, results: list[Result], figures: Path | None) -> dict[str, Any]:
    """Results, what to ask of them, and their pictures."""
    facts = {name: known for result in results for name, known in result.plan["data"].items()}
    asked = (grid, verdict, comparisons, cost, chosen, tried, over_cells, failures, as_markdown)
    drawn = None if figures is None else save_sizes_by_data(facts, figures / "sizes.png")
    return {
        "name": folder.resolve().name,
        "results": results,
        "figures": {
            part: draw_figures(part, figures) if figures is not None else []
            for result in results
            for part in result.nets.values()
        },
        "facts": data_facts(facts),
        "sizes": drawn and Figure(drawn, "sizes", "Sizes of the candidate sets."),
        "net_names": NET_NAMES,
        "level": LEVEL,
    } | {question.__name__: question for question in asked}


def failures(result: Result) -> list[str]:
    """Reported trainings that failed."""
    return [
        f"{method_title(cell.label)} on {title(cell.data)} with {net}: {cell.failed} of {cell.planned}"
        for net, part in result.nets.items()
        for cell in part.cells
        if cell.failed
    ]


def draw_figures(part: NetResult, folder: Path) -> list[Figure]:
    found = []
    where = NET_NAMES.get(part.name, f"Net {part.name}")
    one_split = all(len(cell.records) <= 1 for cell in part.result.cells)
    kinds = dict.fromkeys(part.protocol.figures)
    if part.protocol.on_images:  # there a training has its price
        kinds["cost"] = None
    for kind in kinds:
        draw, caption = PLOTS[kind]
        file = re.sub(r"[^\w.+-]", "-", f"{part.protocol.name}-{part.name}-{kind}.png")  # a plan may say ../x
        path = draw(part, folder / file)
        if one_split:  # it has no spread to show
            for words in (" with the 95 % interval of the mean over splits", ", mean over splits"):
                caption = caption.replace(words, "")
        if path is not None:
            found.append(Figure(path, kind, f"{caption} {where}."))
    return found


def verdict(part: NetResult) -> list[str]:
    """The table in sentences: where the reference row stands."""
    reference = part.protocol.reference
    name, lines = method_title(reference), []
    for data, rows in part.rows.items():
        rivals = [rival for rival in rows.values() if rival.ranked and rival.label != reference]
        if reference not in rows or not rivals:
            continue
        cell = rows[reference]
        tests = [rival.comparison for rival in rivals if rival.comparison is not None]
        ahead_by = [round(rival.mean - cell.mean, 3) for rival in rivals]  # records keep six digits
        above, alone = sum(by > 0 for by in ahead_by), len(cell.records) == 1
        better, worse = (sum(t.mark == mark for t in tests) for mark in "•◦")
        ahead, behind = _ahead_and_behind([t for t in tests if t.n > 2 and t.p_corrected < LEVEL])
        first = "shares the best mean" if 0 in ahead_by else "is first" if alone else "has the best mean"
        place = f"is number {above + 1} of {len(rivals) + 1}" if above else first
        tested = (
            f"; of {len(rivals)} rivals it is significantly better than {better} and worse than {worse} "
            f"(corrected for overlapping splits: {ahead} and {behind})."
        )
        more = ", on one split: no test." if alone else tested
        lines.append(f"{title(data)}: {name} {place} ({cell.mean:.2f} %){more}")
    found = part.ranking() if reference in part.labels else None
    if found is not None:
        lowest = min(found.ranks.values())
        best = [method_title(n) for n, rank in found.ranks.items() if rank == lowest]
        lines.append(
            f"Over {found.n_sets} data sets {' and '.join(best)} {'has' if len(best) == 1 else 'share'} the "
            f"lowest mean rank ({lowest:.2f}); Friedman's test: p = {found.p_friedman:.3g}; ranks that "
            f"differ by less than {found.difference:.2f} cannot be told apart (Nemenyi, 0.05)."
        )
    return lines


def _ahead_and_behind(certain: list[Comparison]) -> tuple[int, int]:
    return sum(t.difference > 0 for t in certain), sum(t.difference < 0 for t in certain)


def comparisons(part: NetResult) -> Grid:
    """The reference minus every other row, with three tests and the published difference."""
    p, rows = part.protocol, []
    for cell in part.cells:
        test = cell.comparison
        if test is None:
            continue
        theirs, other = (published(p.paper_table, row, cell.data) for row in (p.reference, cell.label))
        paper = f"{theirs[0] - other[0]:+.2f}" if theirs and other else "–"
        tests = [f"{value:.2g}" for value in (test.p, test.p_corrected, test.p_wilcoxon)]
        difference = f"{test.difference:+.2f} ± {test.error:.2f}"
        rows.append([*_names(cell), difference, paper, str(test.n), *tests, test.mark])
    columns = ["data set", "against", f"{method_title(p.reference)} minus it ± SE", "in the paper", "n",
               "p (t-test)", "p (corrected)", "p (Wilcoxon)", "mark"]  # fmt: skip
    return Grid.of(columns, rows)


def over_cells(result: Result) -> Grid:
    """In how many cells (nets and data sets) the reference is ahead of each other row, all tests counted."""
    rows = []
    for label in result.labels:
        tests = [c.comparison for c in result.cells if c.label == label and c.comparison is not None]
        if len(tests) < 2 or any(t.n < 3 for t in tests):
            continue
        adjusted = holm([t.p_corrected for t in tests])
        ahead, behind = _ahead_and_behind([t for t, p in zip(tests, adjusted) if p < LEVEL])
        least = min(t.difference for t in tests)
        rows.append([method_title(label), f"{len(tests)}", f"{ahead}", f"{behind}", f"{least:+.2f}"])
    name = method_title(result.protocol.reference)
    return Grid.of(["against", "cells", f"{name} ahead", f"{name} behind", "smallest difference"], rows)


def cost(part: NetResult) -> Grid:
    """Seconds of a training and of an epoch by the clock, and the latter relative to PRODEN.

    Trainings that ran side by side slowed one another down; `benchmarks/` compares costs properly.
    """
    rows = []
    for cells in part.rows.values():
        base = cells["proden"].seconds_per_epoch if "proden" in cells else None
        for cell in cells.values():
            one = cell.seconds_per_epoch
            values = [number(cell.seconds, ".2f"), number(mean_of(cell.records, "epochs"), ".0f")]
            values += [number(1000 * one, ".1f"), number(one / base if base else None, ".1f")]
            rows.append([*_names(cell), *values, points(cell.selection_minus_test)])
    return Grid.of(
        ["data set", "method", "seconds (clock)", "epochs", "ms per epoch", "relative to PRODEN", SELECTION],
        rows,
    )


def chosen(part: NetResult) -> Grid:
    """The configuration that every row was reported with."""
    rows = []
    for cell in part.cells:
        if (c := cell.configuration) is not None:
            scaling = "pixels" if cell.data in NET_OF_IMAGES else c["scaling"]
            rows.append([*_names(cell), f"{c['lr']:g}", f"{c['weight_decay']:g}", scaling, _own(c)])
    return Grid.of(["data set", "method", "lr", "weight decay", "scaling", "own"], rows)


def tried(part: NetResult) -> Grid:
    """What a declared grid found on the validation rows. (A random search has too many rows to read.)"""
    search, rows = part.protocol.search, []
    for cell in part.cells if search is not None and search.grids else ():
        for values, score in cell.tried:
            shown = "failed" if score is None else f"{100 * score:.2f}"
            mark = " (chosen)" if values == cell.configuration else ""
            rows.append([*_names(cell), _own(values), shown + mark])
    return Grid.of(["data set", "method", "settings", "score on the validation rows"], rows)


def _names(cell: CellResult) -> list[str]:
    return [title(cell.data), method_title(cell.label)]


def _own(configuration: dict[str, Any]) -> str:
    """A method's own hyper-parameters."""
    given = configuration["params"].items()
    shown = (f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in given)
    return ", ".join(shown) or "defaults"


def data_facts(facts: dict[str, Any]) -> Grid:
    """Sizes of data and candidate sets. Where |S| = 2 RPLG's branches have no say, only the weights."""
    rows = []
    for name, f in facts.items():
        sizes = [f"{f['mean_size']:.2f}", f"{f['singletons']:.1%}", f"{f['pairs']:.1%}", f"{f['largest']}"]
        rows.append([title(name), *(f"{f[n]}" for n in ("rows", "features", "classes")), *sizes, f["hash"]])
    columns = ["data set", "rows", "features", "classes", "mean |S|", "|S| = 1", "|S| = 2", "largest |S|",
               "hash"]  # fmt: skip
    return Grid.of(columns, rows)
