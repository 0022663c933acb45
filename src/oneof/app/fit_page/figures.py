"""Figures as SVG: sharp on screen and in print, light or dark like the page, told apart without colour.

What is drawn is said here, how in `templates/figure.svg`. Bars differ in filling and lines in dashes, so that
nothing is lost in black and white.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.fit_page.facts import Bin
from oneof.lab.rendering import render

TEMPLATES = Path(__file__).parent / "templates"


@dataclass
class Frame:
    """Axes with ticks; marks are added in data units and kept in those of the page."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_label: str
    y_label: str
    height: float = 250.0
    legend: Sequence[tuple[str, str]] = ()
    """Kinds of bars and their names, above the axes."""
    bars: list[Any] = field(default_factory=list)
    lines: list[Any] = field(default_factory=list)
    dots: list[Any] = field(default_factory=list)
    width, left, right = 420.0, 60.0, 396.0

    @property
    def top(self) -> float:
        return 26.0 if self.legend else 12.0

    @property
    def bottom(self) -> float:
        return self.height - 42.0

    @property
    def samples(self) -> list[tuple[str, str, float]]:
        """The legend with the place of each entry."""
        widths = [34 + 6.3 * len(words) for _, words in self.legend]
        return [(*entry, round(self.left + sum(widths[:i]))) for i, entry in enumerate(self.legend)]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place on the page of a point in data units."""
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        down = self.bottom - up * (self.bottom - self.top)
        return round(self.left + across * (self.right - self.left), 1), round(down, 1)

    def bar(self, low: float, high: float, value: float, kind: str, hint: str) -> None:
        if value > self.y[0]:
            self.bars.append((kind, self.at(low, self.y[0]), self.at(high, value), hint))

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        self.lines.append((kind, [self.at(*point) for point in points]))

    def dot(self, x: float, y: float, radius: float, hint: str) -> None:
        self.dots.append((self.at(x, y), radius, hint))

    def svg(self, title: str) -> str:
        """The whole figure; `title` is what a screen reader says."""
        return render("figure.svg", TEMPLATES, f=self, title=title)


# ---- the figures ------------------------------------------------------------------------------


def confidence_histogram(values: np.ndarray, x_label: str) -> str:
    """How many rows are how sure, in twenty bins from 0 to 1."""
    counts, edges = np.histogram(values, bins=20, range=(0.0, 1.0))
    top = nice_top(int(counts.max(initial=1)))
    frame = Frame((0, 1), (0, top), PERCENT, count_ticks(top), x_label, "rows")
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist()):
        frame.bar(low + 0.004, high - 0.004, count, "solid", f"{low:.0%} to {high:.0%}: {count} rows")
    return frame.svg(f"Histogram of {len(values)} rows: {x_label}")


def size_bars(before: dict[int, int], after: dict[int, int], threshold: float) -> str:
    """Candidates per row before and after training, side by side."""
    largest = max([*before, *after], default=1)
    shown = min(largest, 15)
    first = _gathered(before, shown)
    second = _gathered(after, shown)
    top = nice_top(max([*first.values(), *second.values(), 1]))
    lowest = min([*first, *second, 1])
    names = [(s, f"{s}+" if s == shown < largest else str(s)) for s in range(lowest, shown + 1)]
    frame = Frame((lowest - 0.6, shown + 0.6), (0, top), names, count_ticks(top), "labels per row", "rows")
    frame.legend = [("hollow", "candidates given"), ("solid", f"labels above {threshold:.0%} afterwards")]
    for size, count in first.items():
        frame.bar(size - 0.4, size - 0.02, count, "hollow", f"{size} given: {count}")
    for size, count in second.items():
        frame.bar(size + 0.02, size + 0.4, count, "solid", f"{size} left: {count}")
    return frame.svg("Number of rows by how many labels they have, before and after training")


def reliability_diagram(bins: Sequence[Bin]) -> str:
    """Accuracy against confidence on rows with a known label; on the diagonal probabilities are right."""
    frame = Frame((0, 1), (0, 1), PERCENT, PERCENT, "how sure the model says it is", "how often it is right")
    frame.height = 290
    frame.line([(0, 0), (1, 1)], "guide")
    most = max((b.right.n for b in bins), default=1)
    for b in bins:
        frame.line([(b.confidence, b.right.low), (b.confidence, b.right.high)], "whisker")
    for b in bins:
        hint = f"confidence {b.confidence:.0%}, right {b.right}"
        frame.dot(b.confidence, b.right.value, 3 + 5 * math.sqrt(b.right.n / most), hint)
    return frame.svg("Reliability diagram: accuracy against confidence")


def comparison(selection: Sequence[dict[str, Any]]) -> str:
    """The score of every contender, by its number in the table; dashed: the best baseline."""
    judged = [(i, row, 1.96 * row["standard_error"]) for i, row in enumerate(selection, 1) if row["rounds"]]
    low = max(0.0, min(row["score"] - error for _, row, error in judged))
    high = min(1.0, max(row["score"] + error for _, row, error in judged))
    # four steps of a round size hold everything
    steps = [(step, math.floor(low / step + 1e-9) * step) for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)]
    step, below = next((step, below) for step, below in steps if below + 4 * step > high - 1e-9)
    span, low = 4 * step, min(below, 1 - 4 * step)
    last, by = len(selection) + 0.5, selection[0]["judged_by"]
    ticks = [(low + step * k, f"{low + step * k:.0%}") for k in range(5)]
    places = [(i, str(i)) for i, _, _ in judged]
    frame = Frame((0.5, last), (low, low + span), places, ticks, "number in the table", by)
    plain = [row["score"] for _, row, _ in judged if row["kind"] == "baseline"]
    if plain:
        frame.line([(0.5, max(plain)), (last, max(plain))], "guide")
    for i, row, error in judged:
        score = row["score"]
        frame.line([(i, max(low, score - error)), (i, min(low + span, score + error))], "whisker")
        frame.dot(i, score, 5 if row["chosen"] else 3.5, f"{row['name']}: {score:.1%}")
    return frame.svg(f"{by} of {len(judged)} contenders, out of fold")


def curve(values: Sequence[float | None], y_label: str, percent: bool = False) -> str:
    """A number per epoch."""
    points = [(float(i + 1), float(v)) for i, v in enumerate(values) if v is not None]
    low, high = (0.0, 1.0) if percent else (min(0.0, *(y for _, y in points), 0.0), max(y for _, y in points))
    top = high if percent else nice_top(high)
    ticks = PERCENT if percent else count_ticks(top)
    epochs = len(values)
    steps = sorted({1, *(round(epochs * k / 4) for k in range(1, 5))} - {0})
    frame = Frame((1, max(2, epochs)), (low, top), [(s, str(s)) for s in steps], ticks, "epoch", y_label)
    frame.height = 210
    if len(points) == 1:
        frame.dot(*points[0], 3, f"{points[0][1]:.3g}")
    else:
        frame.line(points, "curve")
    return frame.svg(f"{y_label} by epoch, from {points[0][1]:.3g} to {points[-1][1]:.3g}")


PERCENT = [(k / 4, f"{25 * k} %") for k in range(5)]


def nice_top(value: float) -> float:
    """The next round number: where an axis ends."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * size >= value)


def count_ticks(top: float) -> list[tuple[float, str]]:
    whole = top >= 4 and float(top).is_integer()
    parts = next((k for k in (4, 5, 3, 2) if (top / k).is_integer()), 4) if whole else 4
    return [
        (top * k / parts, f"{top * k / parts:,.0f}" if whole else f"{top * k / parts:.3g}")
        for k in range(parts + 1)
    ]


def _gathered(counts: dict[int, int], last: int) -> dict[int, int]:
    """Counts by size, those above `last` added to it."""
    made: Counter[int] = Counter()
    for size, count in counts.items():
        made[min(size, last)] += count
    return made
