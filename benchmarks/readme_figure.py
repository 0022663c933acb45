"""Draw the README's picture of results from the records of table 1.

python -m benchmarks.readme_figure            # writes docs/static/results.svg
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oneof.lab.plan import read_plan
from oneof.lab.records import Records
from oneof.tables.files import write_text

ROOT = Path(__file__).parents[1]
PROTOCOLS = ("images", "images-no-clean", "images-equal-information")
GROUPS = {
    "no clean label at all": {"PRODEN": "select", "RPLG-NM": "select", "RPLG+": "none"},
    "5,000 clean labels for the meta-learner": {"RPLG": "select", "RPLG+": "select"},
    "the same clean labels in the loss": {"PRODEN": "loss", "RPLG+": "loss"},
}
"""Rows of the picture, with the use of clean rows as records name it."""
LOW, HIGH, LEFT, WIDTH, STEP = 84.0, 92.0, 120, 560, 26


def main() -> None:
    found: dict[tuple[str, str], list[float]] = {}
    folder = ROOT / "results" / "table1"
    cells = [c for name in PROTOCOLS for c in read_plan(folder / f"plan-{name}.json")["cells"]]
    jobs = {job for cell in cells if cell["data"] == "cifar10" for job in cell["report"]}
    for record in Records(folder):
        if record["job"] in jobs and record["status"] == "ok":
            key = record["config"]["method"]["name"], record["config"]["information"]
            found.setdefault(key, []).append(100 * record["result"]["test"])
    write_text(ROOT / "docs" / "static" / "results.svg", "\n".join(drawn(found)) + "\n")


def place(accuracy: float) -> float:
    return LEFT + WIDTH * (accuracy - LOW) / (HIGH - LOW)


STYLE = """<style>
.ink { fill: #1f2933 } .soft { fill: #6b7785 } .ours { fill: #0b6e69 } .other { fill: #8296a0 }
.grid { stroke: #d5dde0 }
@media (prefers-color-scheme: dark) {
.ink { fill: #e6edf0 } .soft { fill: #9aa7b0 } .ours { fill: #4fc3bb } .grid { stroke: #3a484e }
}
</style>"""


def drawn(found: dict[tuple[str, str], list[float]]) -> Iterator[str]:
    """One line per method: a large dot for the mean, a small one per seed."""
    height = 64 + sum(STEP * (len(rows) + 1) for rows in GROUPS.values())
    size = f'viewBox="0 0 760 {height}" width="760" height="{height}"'
    font = 'font-family="Helvetica, Arial, sans-serif" font-size="14"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    yield STYLE
    yield text(20, 24, "soft", "CIFAR-10, test accuracy in %, three seeds, about three candidates per image")
    for tick in range(int(LOW), int(HIGH) + 1, 2):
        yield f'<line x1="{place(tick):.0f}" x2="{place(tick):.0f}" y1="36" y2="{height - 22}" class="grid"/>'
        yield text(place(tick), height - 6, "soft", str(tick), "middle")
    y = 52
    for heading, rows in GROUPS.items():
        yield text(20, y, "soft", heading)
        for label, information in rows.items():
            y += STEP
            seeds = found[label.lower(), information]
            mean = sum(seeds) / len(seeds)
            look = "ours" if label == "RPLG+" else "other"
            yield text(LEFT - 12, y, "ink", label, "end")
            yield f'<circle cx="{place(mean):.1f}" cy="{y - 5}" r="8" class="{look}"/>'
            yield from (f'<circle cx="{place(s):.1f}" cy="{y - 5}" r="2.5" class="ink"/>' for s in seeds)
            yield text(LEFT + WIDTH + 16, y, "ink", f"{mean:.1f}")
        y += STEP
    yield "</svg>"


def text(x: float, y: float, look: str, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{look}">{words}</text>'


if __name__ == "__main__":
    main()
