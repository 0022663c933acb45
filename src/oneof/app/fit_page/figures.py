"""Figures as SVG: sharp on screen and in print, light or dark like the page, told apart without colour.

Every mark has a class and the page's style gives it ink; bars differ in filling and lines in dashes, so
that nothing is lost in black and white. All texts are escaped here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from oneof.app.fit_page.facts import Bin

LEFT, RIGHT, TOP, BOTTOM = 60.0, 24.0, 12.0, 42.0


@dataclass
class Frame:
    """Axes with ticks; marks are added in data units."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_label: str
    y_label: str
    width: float = 420.0
    height: float = 250.0
    marks: list[str] = field(default_factory=list)
    extra_top: float = 0.0

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Place on the page of a point in data units."""
        top = TOP + self.extra_top
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1.0)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1.0)
        return (
            LEFT + across * (self.width - LEFT - RIGHT),
            self.height - BOTTOM - up * (self.height - top - BOTTOM),
        )

    def bar(self, low: float, high: float, value: float, kind: str, hint: str) -> None:
        (x0, y0), (x1, y1) = self.at(low, self.y[0]), self.at(high, value)
        if value > self.y[0]:
            self.marks.append(
                f'<rect class="{kind}" x="{x0:.1f}" y="{y1:.1f}" width="{x1 - x0:.1f}" '
                f'height="{max(y0 - y1, 0.75):.1f}"><title>{escape(hint)}</title></rect>'
            )

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        path = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in points)
        self.marks.append(f'<polyline class="{kind}" points="{path}"/>')

    def dot(self, x: float, y: float, radius: float, kind: str, hint: str) -> None:
        px, py = self.at(x, y)
        self.marks.append(
            f'<circle class="{kind}" cx="{px:.1f}" cy="{py:.1f}" r="{radius:.1f}">'
            f"<title>{escape(hint)}</title></circle>"
        )

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Samples of bars with their names, above the axes."""
        at = LEFT
        for kind, words in entries:
            self.marks.append(f'<rect class="{kind}" x="{at:.0f}" y="4" width="14" height="10"/>')
            self.marks.append(f'<text class="small" x="{at + 19:.0f}" y="13">{escape(words)}</text>')
            at += 34 + 6.3 * len(words)

    def svg(self, title: str) -> str:
        """The whole figure; `title` is what a screen reader says."""
        parts = []
        for value, words in self.y_ticks:
            (x0, y), (x1, _) = self.at(self.x[0], value), self.at(self.x[1], value)
            parts.append(f'<line class="grid" x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}"/>')
            parts.append(_words(x0 - 6, y + 3.5, words, "end"))
        for value, words in self.x_ticks:
            x, y = self.at(value, self.y[0])
            parts.append(_words(x, y + 15, words, "middle"))
        (x0, y0), (x1, _) = self.at(self.x[0], self.y[0]), self.at(self.x[1], self.y[0])
        axis = f'<line class="axis" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y0:.1f}"/>'
        middle = (self.height - BOTTOM + TOP + self.extra_top) / 2
        names = (
            f'<text class="name" x="{(x0 + x1) / 2:.1f}" y="{self.height - 6:.1f}" '
            f'text-anchor="middle">{escape(self.x_label)}</text>'
            f'<text class="name" transform="translate(11 {middle:.1f}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y_label)}</text>'
        )
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(title)}">'
            + "".join([*parts, *self.marks, axis, names])
            + "</svg>"
        )


def _words(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


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
    frame.extra_top = 14
    frame.legend([("hollow", "candidates given"), ("solid", f"labels above {threshold:.0%} afterwards")])
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
        frame.dot(b.confidence, b.right.value, 3 + 5 * math.sqrt(b.right.n / most), "dot", hint)
    return frame.svg("Reliability diagram: accuracy against confidence")


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
        frame.dot(*points[0], 3, "dot", f"{points[0][1]:.3g}")
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
