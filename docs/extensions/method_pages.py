"""One page per method, from the registry: its docstring, its hyper-parameters, its cost and its records."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from records import lookup

from oneof.app.commands.methods import bibtex, hyper_parameters, searched, state_per_row
from oneof.lab.tables import method_title, title
from oneof.methods import MethodInfo

PLACES = (
    ("results/table1/summary.json", "images", "by data", "the paper's protocol, images, 70 epochs"),
    ("results/table2/summary.json", "table2", "linear", "the paper's protocol, linear model"),
    ("results/table2/summary.json", "table2", "mlp", "the paper's protocol, MLP"),
    ("results/table2/summary.json", "equal-information", "mlp", "clean rows in every loss, MLP"),
    ("results/rplg_plus/summary.json", "plus-none", "mlp", "one recipe, no clean rows, MLP"),
    ("results/rplg_plus/summary.json", "plus-paper", "mlp", "one recipe, clean rows for meta-learners, MLP"),
    ("results/rplg_plus/summary.json", "plus-equal", "mlp", "one recipe, clean rows in every loss, MLP"),
    ("results/digits/summary.json", "quick", "mlp", "digits, defaults, MLP"),
)


def title_of(info: MethodInfo) -> str:
    """As the paper writes it where the module says so: `PiCO: contrastive …`."""
    first = module_text(info).splitlines()[0].partition(":")[0]
    return first if first.casefold() == info.name else method_title(info.name)


def module_text(info: MethodInfo) -> str:
    return (inspect.getmodule(info.cls).__doc__ or "").strip()  # type: ignore[union-attr]


def as_markdown(text: str) -> str:
    """A docstring as Markdown: indented formulas are text blocks, letters that Markdown reads are kept."""
    out, block = [], False
    for line in text.splitlines():
        if line.startswith("    "):
            if not block:
                out.append("```{code-block} text\n:class: formula\n")
            block = True
            out.append(line[4:])
            continue
        if block and line.strip():
            while not out[-1].strip():
                out.pop()
            out.append("```\n")
            block = False
        out.append(line if block else escaped(line))
    return "\n".join([*out, "```"] if block else out)


def escaped(line: str) -> str:
    parts = re.split(r"(`[^`]*`)", line)
    parts[::2] = [re.sub(r"([_<|\[\]])", r"\\\1", part) for part in parts[::2]]
    line = "".join(parts)
    return re.sub(r"^([+#-])", r"\\\1", line)


NEEDS = {
    "oracle": "the true labels: it is the upper end of a comparison, not a method to use",
    "clean-only": "clean rows alone",
    "crowd": "answers and who gave them: without these, candidate sets",
}
SAYS = {
    "clean-only": "--candidates labels --clean checked.csv",
    "crowd": "--candidates candidates.npz --id task",
}
"""What a method needs to be told on the command line, where it is not `--candidates labels`."""


def needs(info: MethodInfo) -> str:
    sets = "sets, clean rows if any" if info.cls().clean_rows(1) else "candidate sets only"
    return NEEDS.get(info.name, sets)


def method_page(info: MethodInfo) -> str:
    method, text = info.cls(), module_text(info)
    _, _, rest = text.partition("\n")
    facts = {
        "name": f"`{info.name}`",
        "published": f"{info.venue} {info.year}" if info.year else info.venue,
        "learns from": needs(info),
        "views": ", ".join(f"`{role}`" for role in method.views) + " (on tables all are the row itself)",
        "cost of a step": f"forward passes per row: {info.forwards:g}, backward: {info.backwards:g}",
        "kept per training row": f"{state_per_row(method)} numbers (c classes)".replace(
            "nothing numbers", "nothing"
        ),
        "steps as a CUDA graph": "yes" if method.capturable else "no",
        "source": f"`src/{info.cls.__module__.replace('.', '/')}.py`",
    }
    if info.note:
        facts["note"] = info.note
    lines = [f"# {title_of(info)}", "", escaped(info.summary), "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts.items()]
    call = f'PartialLabelClassifier("{info.name}")'
    given = "candidates, clean=checked" if info.name == "clean-only" else "candidates"
    lines += [
        "",
        "```{code-block} python",
        f"from oneof import PartialLabelClassifier\n\nmodel = {call}.fit(X, {given})",
        "```",
        "",
    ]
    if info.name != "oracle":  # no table says which label is the true one
        told = SAYS.get(info.name, "--candidates labels")
        command = f"oneof fit table.csv {told} --method {info.name}"
        lines += ["```{code-block} bash", command, "```", ""]
    lines += ["## Paper and deviations", "", as_markdown(rest.strip() or text), ""]
    if info.cls.__module__.startswith("oneof.methods.rplg"):
        lines += ["All equations, and what the paper leaves open: [RPLG in this library](../../rplg.md).", ""]
    lines += ["## How to cite it", "", "```{code-block} bibtex", bibtex(info), "```", ""]
    lines += ["## Hyper-parameters", "", *hyper_table(method), "", *in_records(info.name)]
    return "\n".join(lines) + "\n"


def hyper_table(method: Any) -> list[str]:
    facts = hyper_parameters(method)
    if not facts:
        return ["None of its own."]
    rows = [f"| `{h['name']}` | `{h['default']}` | {searched(h)} | {escaped(h['meaning'])} |" for h in facts]
    head = ["| name | default | search range | meaning |", "|---|---|---|---|"]
    how = "The lab searches those with a range. Set any with `method_params={…}` or `--set NAME=VALUE`."
    return [*head, *rows, "", how]


def in_records(name: str) -> list[str]:
    """What our records say of a method: test accuracy and mean rank."""
    rows = []
    for file, protocol, net, words in PLACES:
        table = lookup(f"{file}:{protocol}/{net}")
        cells = {title(d): cell[name] for d, cell in table.items() if name in cell}
        if not cells:
            continue
        ranks = lookup(f"{file}:mean_rank/{protocol}/{net}")
        means = ", ".join(f"{d} {c['mean']:.2f}{spread(c['std'])}" for d, c in cells.items())
        place = f"{ranks[name]:.2f} of {len(ranks)}" if name in ranks else "not ranked"
        folder = Path(file).parent.name
        rows.append(f"| [{words}](../results/{folder}/README.md) | {means} | {place} |")
    if not rows:
        return []
    what = "Test accuracy in %, mean ± standard deviation over splits. Compare methods within one protocol."
    head = ["## In our records", "", what, ""]
    return [*head, "| protocol | accuracy | mean rank |", "|---|---|---|", *rows]


def spread(std: float | None) -> str:
    """A single training has none."""
    return "" if std is None else f" ± {std:.2f}"


def overview(methods: list[MethodInfo]) -> str:
    """The table of all methods, included by methods.md."""
    lines = [
        "---",
        "orphan: true",
        "---",
        "| method | published | cost | learns from | idea |",
        "|---|---|---|---|---|",
    ]
    for info in sorted(methods, key=lambda m: (-m.year or 1, m.name)):
        source = needs(info).split(":")[0].split(" (")[0]
        name = "" if title_of(info).casefold() == info.name else f" `{info.name}`"
        lines.append(
            f"| [{title_of(info)}](/generated/methods/{info.name}.md){name} | {info.venue} {info.year or ''} "
            f"| {info.forwards:g}F\u00a0{info.backwards:g}B | {source} | {escaped(info.summary)} |"
        )
    return "\n".join(lines) + "\n"
