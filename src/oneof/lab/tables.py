"""Tables of results: for the terminal, Markdown and LaTeX. One row per method, one column per data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

from oneof.datasets.registry import entries
from oneof.lab.paper import published
from oneof.lab.protocol import NET_OF_IMAGES
from oneof.lab.protocols import PROTOCOLS
from oneof.lab.summary import NetResult, Result
from oneof.methods import list_methods

NAMES = {
    "rplg": "RPLG", "rplg-nm": "RPLG-NM", "dirk": "DIRK", "dirk-ref": "DIRK-REF", "sdct": "SDCT",
    "pop": "POP", "idgp": "IDGP", "able": "ABLE", "valen": "VALEN", "plcr": "PLCR", "pico": "PiCO",
    "cavl": "CAVL", "lws": "LWS", "rc": "RC", "cc": "CC", "proden": "PRODEN", "average": "Average",
    "oracle": "Oracle", "rplg+": "RPLG+", "rplg-prior": "RPLG with the prior",
    "rplg-nm-prior": "RPLG-NM with the prior", "clean-only": "Clean rows alone",
}  # fmt: skip
NET_NAMES = {"linear": "Linear model", "mlp": "MLP, 2 × 300, batch normalisation",
             "by data": "The net of each data set"}  # fmt: skip

SELECTION = "selection − test"


@dataclass(frozen=True)
class Shown:
    """A cell of a table."""

    text: str
    best: bool = False
    mark: str = ""


@dataclass
class Grid:
    """A table before it is written in some language."""

    columns: list[str]
    rows: list[list[Shown]]
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, columns: list[str], rows: list[list[str]]) -> Grid:
        return cls(columns, [[Shown(cell) for cell in row] for row in rows])


def title(data: str) -> str:
    """A data set's name as it is written; files of the user by their name."""
    known = {"digits": "Digits", "labelme": "LabelMe"}  # their titles are long
    return known.get(data) or (entries()[data].title if data in entries() else PurePath(data).stem)


def method_title(label: str) -> str:
    method, comma, how = label.partition(",")
    return NAMES.get(method, method) + comma + how


def grid(part: NetResult) -> Grid:
    """Mean ± std, the mark of the paired test, mean rank; the paper's number and the difference beside it."""
    ranks, gaps, adapted = part.mean_ranks(), _gaps(part), _adapted(part)

    def name(label: str) -> Shown:
        return Shown(method_title(label) + (" (adapted)" if label in adapted else ""))

    columns: list[tuple[str, Callable[[str], Shown]]] = [("method", name)]
    for data in part.rows:
        columns.append((title(data), partial(_cell, part, data)))
        if any(published(part.protocol.paper_table, label, data) for label in part.labels):
            columns.append(("paper", partial(_paper_cell, part, data)))
    columns.append(("mean rank", lambda label: Shown(number(ranks.get(label), ".2f"))))
    if gaps:
        columns.append((SELECTION, lambda label: Shown(points(gaps.get(label)))))
    rows = [[shown(label) for _, shown in columns] for label in part.labels]
    return Grid([heading for heading, _ in columns], rows, notes(part))


def _adapted(part: NetResult) -> set[str]:
    """On feature vectors: rows of methods that need augmentation."""
    if all(data in NET_OF_IMAGES for data in part.result.data):
        return set()
    known = {info.name for info in list_methods() if info.note.startswith("adapted")}
    return {entry.label for entry in part.protocol.entries if entry.method in known}


def _gaps(part: NetResult) -> dict[str, float]:
    """By row, selection minus test, mean over the data sets in points; only where both are recorded."""
    found: dict[str, list[float]] = {}
    for cell in part.cells:
        if cell.selection_minus_test is not None:
            found.setdefault(cell.label, []).append(cell.selection_minus_test)
    return {label: sum(gaps) / len(gaps) for label, gaps in found.items()}


def number(value: float | None, form: str) -> str:
    """A number, or a dash where it is not known."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def points(value: float | None) -> str:
    return number(value, "+.1f")


def _cell(part: NetResult, data: str, label: str) -> Shown:
    cell = part.rows[data].get(label)
    if cell is None:
        return Shown("–")
    test, n = cell.comparison, len(cell.records)
    spread = f" ± {cell.std:.2f}" if n > 1 else ""  # one training says nothing about it
    text = f"{cell.mean:.2f}{spread}" + (f" (n={n})" if n < cell.planned else "")
    return Shown(text, cell.best, test.mark if test else "")


def _paper_cell(part: NetResult, data: str, label: str) -> Shown:
    number, cell = published(part.protocol.paper_table, label, data), part.rows[data].get(label)
    if number is None:
        return Shown("–")
    mean, _ = number
    return Shown(f"{mean:.2f}" if cell is None else f"{mean:.2f} ({cell.mean - mean:+.2f})")


def notes(part: NetResult) -> list[str]:
    """What stands below every table."""
    result, p, cells = part.result, part.protocol, part.cells
    counts, failed = sorted({len(c.records) for c in cells if c.records}), sum(c.failed for c in cells)
    among = ", among the rows that all data sets have" if part.rows_differ else ""
    ranked = f"Mean rank: over {{}}{among}; 1 is best."
    if failed and failed == sum(c.planned for c in cells):
        lines = ["No reported training succeeded; --retry-failed runs them again."]
    elif not counts:
        lines = ["No reported split is done yet: the same command goes on."]
        if p.search is not None:
            lines += ["Hyper-parameters are searched first; --configurations 1 takes the defaults instead."]
    elif len({seed for c in cells for seed in c.test}) == 1:
        lines = [f"Test accuracy in % of one split: no spread, no tests. {ranked.format('data sets')}"]
    else:
        n = " or ".join(map(str, counts))
        parts = [f"Test accuracy in %, mean ± standard deviation over n = {n} splits."]
        name = method_title(p.reference)
        if p.reference in result.labels:
            parts.append(f"•/◦: {name} significantly better/worse (paired t-test, 0.05).")
        else:
            parts.append(f"No tests: they compare with {name}, which has no row here (--methods).")
        lines = [" ".join([*parts, ranked.format("splits, then data sets")])]
    if any(c.selection_minus_test is not None for c in cells):
        lines.append(
            f"{SELECTION.capitalize()}: accuracy on the selection rows (the validation rows, from which some "
            "methods learn) minus test accuracy, in points, mean over data sets."
        )
    if any(published(p.paper_table, label, d) for label in result.labels for d in result.data):
        lines.append("Paper: the published mean, in brackets ours minus it.")
    for where in sorted({place for c in cells for place in c.elsewhere}):
        rows = [
            f"{method_title(c.label)} on {title(c.data)} ({c.elsewhere[where]} of {len(c.records)})"
            for c in cells
            if where in c.elsewhere
        ]
        lines.append(f"Trained on another device ({where}) and left out of costs: {', '.join(rows)}.")
    if failed:
        lines.append(f"{failed} reported trainings failed and are not in the means.")
    lines += [f"Left out: {damaged}." for damaged in result.damaged]
    missing = result.plan["left_out"].items()
    return lines + [f"{title(name)} is left out: {reason.splitlines()[0]}" for name, reason in missing]


def as_text(result: Result) -> str:
    """For the terminal; the best mean of a column carries a star."""
    parts = [f"{result.protocol.name}: {result.protocol.title}"]
    for net, part in result.nets.items():
        g = grid(part)
        table = [g.columns] + [
            [first.text, *("*" * c.best + c.text + (c.mark or " ") for c in others)]
            for first, *others in g.rows
        ]
        left, *widths = [max(map(len, column)) for column in zip(*table)]
        lines = ["  ".join([name.ljust(left), *map(str.rjust, cells, widths)]) for name, *cells in table]
        parts.append("\n".join([f"net: {net}", *lines, *g.notes]))
    known = PROTOCOLS.get(result.protocol.name)
    if known is not None and known.search is not None and result.protocol.search is None:
        parts += ["A first look: the methods' defaults in place of the protocol's search, not to be compared "
                  "with the paper."]  # fmt: skip
    return "\n\n".join(parts)


def as_markdown(g: Grid) -> str:
    """The best mean of a column in bold."""
    rows = [[name.replace("|S|", "size") for name in g.columns]]
    rows += [[(f"**{c.text}**" if c.best else c.text) + c.mark for c in row] for row in g.rows]
    lines = ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(g.columns) - 1) + "|")
    return "\n".join([*lines, "", *g.notes] if g.notes else lines)


def as_latex(g: Grid) -> str:
    """A `booktabs` table."""
    lines = [r"\begin{tabular}{l" + "r" * (len(g.columns) - 1) + "}", r"\toprule"]
    lines += [" & ".join(map(_tex, g.columns)) + r" \\", r"\midrule"]
    for row in g.rows:
        cells = [(rf"\textbf{{{_tex(c.text)}}}" if c.best else _tex(c.text)) + _tex(c.mark) for c in row]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *map(as_comment, g.notes)])


def as_comment(text: str) -> str:
    """One line that LaTeX skips."""
    return "% " + _tex(" ".join(text.split()))


TEX = str.maketrans({
    "\\": r"\textbackslash{}", "%": r"\%", "&": r"\&", "_": r"\_", "#": r"\#", "{": r"\{", "}": r"\}",
    "$": r"\$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",  # ^^5c would be a backslash
    "±": r"$\pm$", "−": "$-$", "–": "--", "•": r"$\bullet$", "◦": r"$\circ$",
})  # fmt: skip


def _tex(text: str) -> str:
    return text.translate(TEX)
