"""Tables of results: for the terminal, Markdown and LaTeX. One row per method, one column per data set."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import PurePath

from oneof.datasets.registry import entries
from oneof.lab.paper import published
from oneof.lab.protocol import NET_OF_IMAGES
from oneof.lab.protocols import PROTOCOLS
from oneof.lab.summary import Result
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
    return NAMES.get(label, label)


def grid(result: Result, net: str) -> Grid:
    """Mean ± std, the mark of the paired test, mean rank; the paper's number and the difference beside it."""
    table, data = result.protocol.paper_table, result.data_with(net)
    with_paper = {d for d in data if any(published(table, n, d) for n in result.labels)}
    ranks = result.mean_ranks(net)
    gaps = {label: selection_minus_test(result, net, label) for label in result.labels}
    adapted: set[str] = set()
    if any(d not in NET_OF_IMAGES for d in result.data):  # methods that need augmentation, on feature vectors
        known = {info.name for info in list_methods() if info.note.startswith("adapted")}
        adapted = {entry.label for entry in result.protocol.entries if entry.method in known}
    columns, rows = ["method"], []
    for d in data:
        columns += [title(d), "paper"] if d in with_paper else [title(d)]
    columns.append("mean rank")
    if any(gap is not None for gap in gaps.values()):
        columns.append(SELECTION)
    for label in result.labels:
        row = [Shown(method_title(label) + (" (adapted)" if label in adapted else ""))]
        for d in data:
            row.append(_cell(result, net, d, label))
            if d in with_paper:
                row.append(_paper_cell(result, net, d, label))
        row.append(Shown(f"{ranks[label]:.2f}" if label in ranks else "–"))
        if columns[-1] == SELECTION:
            row.append(Shown(points(gaps[label])))
        rows.append(row)
    return Grid(columns, rows, notes(result, net))


def selection_minus_test(result: Result, net: str, label: str) -> float | None:
    """Mean over the data sets in points; None where no selection accuracy is recorded."""
    cells = [cell for data in result.data if (cell := result.cell(net, data, label)) is not None]
    found = [gap for cell in cells if (gap := cell.selection_minus_test) is not None]
    return sum(found) / len(found) if found else None


def number(value: float | None, form: str) -> str:
    """A number, or a dash where it is not known."""
    return "–" if value is None or math.isnan(value) else format(value, form)


def points(value: float | None) -> str:
    return number(value, "+.1f")


def _cell(result: Result, net: str, data: str, label: str) -> Shown:
    cell = result.cell(net, data, label)
    if cell is None:
        return Shown("–")
    test, n = result.comparison(net, data, label), len(cell.records)
    spread = f" ± {cell.std:.2f}" if n > 1 else ""  # one training says nothing about it
    text = f"{cell.mean:.2f}{spread}" + (f" (n={n})" if n < cell.planned else "")
    return Shown(text, label in result.best(net, data), test.mark if test else "")


def _paper_cell(result: Result, net: str, data: str, label: str) -> Shown:
    number, cell = published(result.protocol.paper_table, label, data), result.cell(net, data, label)
    if number is None:
        return Shown("–")
    mean, _ = number
    return Shown(f"{mean:.2f}" if cell is None else f"{mean:.2f} ({cell.mean - mean:+.2f})")


def notes(result: Result, net: str) -> list[str]:
    """What stands below every table."""
    p, cells = result.protocol, [c for (n, _, _), c in result.cells.items() if n == net]
    counts = sorted({len(c.records) for c in cells if c.records})
    if not counts:
        lines = ["No reported split is done yet: the same command goes on."]
        if p.search is not None:
            lines += ["Hyper-parameters are searched first; --configurations 1 takes the defaults instead."]
    elif len({seed for c in cells for seed in c.test}) == 1:
        lines = [
            "Test accuracy in % of one split: no spread, no tests. Mean rank: over data sets; 1 is best."
        ]
    else:
        n = " or ".join(map(str, counts))
        parts = [f"Test accuracy in %, mean ± standard deviation over n = {n} splits."]
        name = method_title(p.reference)
        if p.reference in result.labels:
            parts.append(f"•/◦: {name} significantly better/worse (paired t-test, 0.05).")
        else:
            parts.append(f"No tests: they compare with {name}, which has no row here (--methods).")
        lines = [" ".join([*parts, "Mean rank: over splits, then data sets; 1 is best."])]
    if any(c.selection_minus_test is not None for c in cells):
        lines.append(
            f"{SELECTION.capitalize()}: accuracy on the selection rows (the validation rows, from which some "
            "methods learn) minus test accuracy, in points, mean over data sets."
        )
    if any(published(p.paper_table, label, d) for label in result.labels for d in result.data):
        lines.append("Paper: the published mean, in brackets ours minus it.")
    failed = sum(c.failed for c in cells)
    if failed:
        lines.append(f"{failed} reported trainings failed and are not in the means.")
    lines += [f"Left out: {damaged}." for damaged in result.damaged]
    missing = result.plan["left_out"].items()
    return lines + [f"{title(name)} is left out: {reason.splitlines()[0]}" for name, reason in missing]


def as_text(result: Result) -> str:
    """For the terminal; the best mean of a column carries a star."""
    parts = [f"{result.protocol.name}: {result.protocol.title}"]
    for net in result.nets:
        g = grid(result, net)
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
    columns = [name.replace("|S|", "size") for name in g.columns]
    lines = ["| " + " | ".join(columns) + " |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    for row in g.rows:
        cells = [(f"**{c.text}**" if c.best else c.text) + c.mark for c in row]
        lines.append("| " + " | ".join(cells) + " |")
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
