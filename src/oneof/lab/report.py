"""`oneof report`: what a folder of records says, as text, Markdown, LaTeX and one HTML page."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from oneof.lab.candidate_pictures import save_sizes_by_data
from oneof.lab.panels import DPI
from oneof.lab.paper import published
from oneof.lab.plots import PLOTS
from oneof.lab.protocol import NET_OF_IMAGES
from oneof.lab.rendering import render
from oneof.lab.statistics import LEVEL, holm
from oneof.lab.summary import Result, read_folder, write_summary
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
    values = _compose(folder, results, folder / "figures" if figures else None)
    parts = [part for section in values["sections"] for part in section["nets"]]
    tables = [f"{as_comment(part['head'])}\n{as_latex(part['table'])}" for part in parts]
    made = {"tables.tex": "\n\n".join(tables) + "\n"}
    made |= {name: render(name, **values) for name in ("report.md", "report.html")}
    for name, text in made.items():
        write_text(folder / name, text)
    return results, [write_summary(folder, results), *(folder / name for name in made)]


def drawn_report(folder: Path, figures: Path) -> str:
    """The text of `report.md`, with its pictures drawn into another folder than that of the records."""
    return render("report.md", **_compose(folder, read_folder(folder), figures))


def _compose(folder: Path, results: list[Result], figures: Path | None) -> dict[str, Any]:
    """What the pages say."""
    facts = {name: known for result in results for name, known in result.plan["data"].items()}
    drawn = None if figures is None else save_sizes_by_data(facts, figures / "sizes.png")
    return {
        "sections": [make_section(result, figures) for result in results],
        "facts": data_facts(facts),
        "sizes": drawn and Figure(drawn, "sizes", "Sizes of the candidate sets."),
        "name": folder.resolve().name,
        "as_markdown": as_markdown,
        "net_names": NET_NAMES,
        "level": LEVEL,
    }


def make_section(result: Result, figures: Path | None) -> dict[str, Any]:
    """Everything a page says about one protocol."""
    failed = [
        f"{method_title(label)} on {title(data)} with {net}: {cell.failed} of {cell.planned}"
        for (net, data, label), cell in result.cells.items()
        if cell.failed
    ]
    nets = []
    for net in result.nets:
        part: dict[str, Any] = {"name": net, "table": grid(result, net), "verdict": verdict(result, net)}
        part["head"] = f"{result.protocol.name}, {net}: {result.protocol.title}"
        for details in (comparisons, cost, chosen, tried):
            part[details.__name__] = details(result, net)
        part["figures"] = draw_figures(result, net, figures) if figures is not None else []
        nets.append(part)
    return {
        "result": result,
        "rules": result.protocol.rules(),
        "nets": nets,
        "over_cells": over_cells(result),
        "failures": failed,
    }


def draw_figures(result: Result, net: str, folder: Path) -> list[Figure]:
    found = []
    where = NET_NAMES.get(net, f"Net {net}")
    one_split = all(len(cell.records) <= 1 for cell in result.cells.values())
    kinds = dict.fromkeys(result.protocol.figures)
    if result.protocol.on_images:  # there a training has its price
        kinds["cost"] = None
    for kind in kinds:
        draw, caption = PLOTS[kind]
        file = re.sub(r"[^\w.+-]", "-", f"{result.protocol.name}-{net}-{kind}.png")  # a plan may say ../x
        path = draw(result, net, folder / file)
        if one_split:  # it has no spread to show
            for words in (" with the 95 % interval of the mean over splits", ", mean over splits"):
                caption = caption.replace(words, "")
        if path is not None:
            found.append(Figure(path, kind, f"{caption} {where}."))
    return found


def verdict(result: Result, net: str) -> list[str]:
    """The table in sentences: where the reference row stands."""
    reference = result.protocol.reference
    if reference not in result.labels:
        return []
    name, lines = method_title(reference), []
    for data in result.data:
        cell, rivals = result.cell(net, data, reference), result.ranked(net, data)
        rivals.pop(reference, None)
        if cell is None or not rivals:
            continue
        tests = [t for label in rivals if (t := result.comparison(net, data, label)) is not None]
        above, alone = sum(rival.mean > cell.mean for rival in rivals.values()), len(cell.records) == 1
        better, worse = (sum(t.mark == mark for t in tests) for mark in "•◦")
        certain = [t.difference for t in tests if t.n > 2 and t.p_corrected < LEVEL]
        first = "is first" if alone else "has the best mean"
        place = f"is number {above + 1} of {len(rivals) + 1}" if above else first
        ahead, behind = sum(d > 0 for d in certain), sum(d < 0 for d in certain)
        tested = (
            f"; of {len(rivals)} rivals it is significantly better than {better} and worse than {worse} "
            f"(corrected for overlapping splits: {ahead} and {behind})."
        )
        more = ", on one split: no test." if alone else tested
        lines.append(f"{title(data)}: {name} {place} ({cell.mean:.2f} %){more}")
    found = result.ranking(net)
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
    p, rows = result.protocol, []
    for data, label, _ in result.placed(net):
        test = result.comparison(net, data, label)
        if test is None:
            continue
        theirs, other = (published(p.paper_table, row, data) for row in (p.reference, label))
        paper = f"{theirs[0] - other[0]:+.2f}" if theirs and other else "–"
        tests = [f"{value:.2g}" for value in (test.p, test.p_corrected, test.p_wilcoxon)]
        difference = f"{test.difference:+.2f} ± {test.error:.2f}"
        rows.append([title(data), method_title(label), difference, paper, str(test.n), *tests, test.mark])
    columns = ["data set", "against", f"{method_title(p.reference)} minus it ± SE", "in the paper", "n",
               "p (t-test)", "p (corrected)", "p (Wilcoxon)", "mark"]  # fmt: skip
    return Grid.of(columns, rows)


def over_cells(result: Result) -> Grid:
    """In how many cells (nets and data sets) the reference is ahead of each other row, all tests counted."""
    rows = []
    for label in result.labels:
        places = product(result.nets, result.data)
        tests = [t for net, data in places if (t := result.comparison(net, data, label))]
        if len(tests) < 2 or any(t.n < 3 for t in tests):
            continue
        adjusted = holm([t.p_corrected for t in tests])
        certain = [t.difference for t, p in zip(tests, adjusted) if p < LEVEL]
        ahead, behind = sum(d > 0 for d in certain), sum(d < 0 for d in certain)
        least = min(t.difference for t in tests)
        rows.append([method_title(label), f"{len(tests)}", f"{ahead}", f"{behind}", f"{least:+.2f}"])
    name = method_title(result.protocol.reference)
    return Grid.of(["against", "cells", f"{name} ahead", f"{name} behind", "smallest difference"], rows)


def cost(result: Result, net: str) -> Grid:
    """Seconds of a training and of an epoch by the clock, and the latter relative to PRODEN.

    Trainings that ran side by side slowed one another down; `benchmarks/` compares costs properly.
    """
    rows = []
    for data in result.data:
        cells = result.rows(net, data)
        seconds = {n: c.mean_of("train_seconds") for n, c in cells.items()}
        epochs = {n: c.mean_of("epochs") for n, c in cells.items()}
        base = seconds["proden"] / epochs["proden"] if "proden" in cells else None
        for label, cell in cells.items():
            one = seconds[label] / epochs[label]
            values = [number(seconds[label], ".2f"), number(epochs[label], ".0f"), number(1000 * one, ".1f")]
            values += [number(one / base if base else None, ".1f"), points(cell.selection_minus_test)]
            rows.append([title(data), method_title(label), *values])
    return Grid.of(
        ["data set", "method", "seconds (clock)", "epochs", "ms per epoch", "relative to PRODEN", SELECTION],
        rows,
    )


def chosen(result: Result, net: str) -> Grid:
    """The configuration that every row was reported with."""
    rows = []
    for data, label, cell in result.placed(net):
        if (c := cell.configuration) is not None:
            scaling = "pixels" if data in NET_OF_IMAGES else c["scaling"]
            shared = [f"{c['lr']:g}", f"{c['weight_decay']:g}", scaling]
            rows.append([title(data), method_title(label), *shared, _own(c)])
    return Grid.of(["data set", "method", "lr", "weight decay", "scaling", "own"], rows)


def tried(result: Result, net: str) -> Grid:
    """What a declared grid found on the validation rows. (A random search has too many rows to read.)"""
    search, rows = result.protocol.search, []
    for data, label, cell in result.placed(net) if search is not None and search.grids else ():
        for values, score in cell.tried:
            shown = "failed" if score is None else f"{100 * score:.2f}"
            mark = " (chosen)" if values == cell.configuration else ""
            rows.append([title(data), method_title(label), _own(values), shown + mark])
    return Grid.of(["data set", "method", "settings", "score on the validation rows"], rows)


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
