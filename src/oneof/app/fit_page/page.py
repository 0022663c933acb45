"""`report.html`: one page that needs no other file and no network, for the screen and for paper.

What figures show is said here, how in `templates/figure.svg`: sharp on screen and in print, light or dark
like the page. Bars differ in filling and lines in dashes, so that nothing is lost in black and white.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oneof
from oneof.app.fit_page.facts import DECIDED, KEPT, Bin, Checked, FitFacts
from oneof.app.review.folder import ReviewData
from oneof.candidates.cells import counted
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import as_candidates, as_numpy, label_columns
from oneof.classifier.standings import further_criteria
from oneof.lab import rendering
from oneof.tables.files import write_text
from oneof.training.recipe import choose_device

TEMPLATES = Path(__file__).parent / "templates"
REVIEWED = 50


def render(facts: FitFacts) -> str:
    """The page as text."""
    return rendering.render(
        "report.html",
        TEMPLATES,
        facts=facts,
        classes=facts.data.candidates.classes,
        review=[facts.listed.facts(row) for row in facts.doubtful[:REVIEWED]],
        further=further_criteria(facts.selection),
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        kept=KEPT,
        decided=DECIDED,
        counted=counted,
        **{draw.__name__: draw for draw in FIGURES},
    )


# ---- from a model that was fitted in Python ----------------------------------------------------


def write_model_report(
    path: Path | str,
    model: PartialLabelClassifier,
    X: Any,
    y: Any,
    *,
    checked: tuple[Any, Any] | None = None,
    ids: Sequence[Any] | None = None,
    title: str = "training rows",
) -> FitFacts:
    """Write the page about a fitted model; returns the numbers on it.

    Parameters
    ----------
    path : path
        The page, such as "report.html".
    model : PartialLabelClassifier
        Fitted.
    X, y
        What it was fitted with.
    checked : (X, y), optional
        Rows with true labels that nothing was learned from. Without them the page gives no accuracy.
    ids : sequence, optional
        What you call the rows.
    title : str
        Heading of the page.

    Examples
    --------
    >>> write_model_report("report.html", model, X, mask, checked=(X_test, y_test))  # doctest: +SKIP
    """
    candidates, errors = as_candidates(y), getattr(model, "label_errors_", None)
    transduction = getattr(model, "transduction_", ())
    if len(transduction) != len(candidates):
        known = len(transduction)
        raise ValueError(
            f"y has {len(candidates)} rows, but the model has a transduction_ of {known}; give the X and y "
            "it was fitted with."
        )
    rows = None
    if checked is not None:
        columns = label_columns(np.asarray(as_numpy(checked[1])), model.classes_, "y of the checked rows")
        rows = Checked(model.predict_proba(checked[0]), columns)
    review = ReviewData(
        candidates,
        model.predict_proba(X),
        transduction,
        None if ids is None else tuple(ids),
        answers=candidates.answers,
        trusted=np.zeros(len(candidates), dtype=bool),
        wrong=None if errors is None else errors.wrong,
    )
    settings = model_settings(model) | {
        "clean rows": f"{model.n_clean_} ({model.clean_source_}), weight in the loss {model.clean_weight_:g}",
        "curve": "Clean rows, or rows held out of training, predicted right (or inside their set), by epoch.",
    }
    clean = f"{len(rows.columns)} rows with a known label were given to check by." if rows else ""
    facts = FitFacts.of(model, title, review, checked=rows, clean=clean, settings=settings)
    write_text(path, render(facts))
    return facts


def model_settings(model: PartialLabelClassifier) -> dict[str, str]:
    """How a model was made, in names and values for people."""
    model = model.chosen_model()
    params = ", ".join(f"{name} {value}" for name, value in model.method_.params().items())
    parameters = sum(p.numel() for net in model.net_ for p in net.parameters())
    recipe = model.recipe(model.trained_on_["rows"])
    batch = recipe.rows_per_step(model.trained_on_["rows"])
    chosen = getattr(model, "selection_", None)
    training = (
        f"{model.optimiser}, learning rate {model.lr:g}, weight decay {model.weight_decay:g}, "
        f"{model.schedule}, {len(model.history_)} of {recipe.epochs} epochs, batches of {batch}"
    )
    method = model.method_.info.name + (f" ({params})" if params else "")
    if chosen and chosen[0]["kind"] == "baseline":
        method, training = f"{chosen[0]['name']} (a baseline)", "logistic regression"
    return {
        "method": method,
        "network": f"{model.net if isinstance(model.net, str) else type(model.net).__name__}, "
        f"{parameters:,} parameters",
        "scaling": str(model.scaling),
        "optimiser": training,
        "seed": str(model.random_state),
        "device": str(choose_device(model.device)),
        "versions": f"oneof {oneof.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    }


# ---- figures ----------------------------------------------------------------------------------


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
        return rendering.render("figure.svg", TEMPLATES, f=self, title=title)


def confidence_histogram(values: np.ndarray, x_label: str) -> str:
    """How many rows are how sure, in twenty bins from 0 to 1."""
    counts, edges = np.histogram(values, bins=20, range=(0.0, 1.0))
    top = nice_top(int(counts.max(initial=1)))
    frame = Frame((0, 1), (0, top), PERCENT, count_ticks(top), x_label, "rows")
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist()):
        frame.bar(low + 0.004, high - 0.004, count, "solid", f"{low:.0%} to {high:.0%}: {count} rows")
    return frame.svg(f"Histogram of {len(values)} rows: {x_label}")


def size_bars(before: dict[int, int], after: dict[int, int], threshold: float) -> str:
    """Candidates per row before and after training, side by side; sizes above the last shown are one bar."""
    largest = max([*before, *after], default=1)
    shown = min(largest, 15)
    first, second = Counter[int](), Counter[int]()
    for gathered, counts in ((first, before), (second, after)):
        for size, count in counts.items():
            gathered[min(size, shown)] += count
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
    by = selection[0]["judged_by"]  # one that left early may have been judged by something else
    same = [(i, row) for i, row in enumerate(selection, 1) if row["rounds"] and row["judged_by"] == by]
    judged = [(i, row, 1.96 * row["standard_error"]) for i, row in same]
    low = max(0.0, min(row["score"] - error for _, row, error in judged))
    high = min(1.0, max(row["score"] + error for _, row, error in judged))
    # four steps of a round size hold everything
    steps = [(step, math.floor(low / step + 1e-9) * step) for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25)]
    step, below = next((step, below) for step, below in steps if below + 4 * step > high - 1e-9)
    span, low = 4 * step, min(below, 1 - 4 * step)
    last = len(selection) + 0.5
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


FIGURES = (confidence_histogram, size_bars, reliability_diagram, comparison, curve)
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
    places = [top * k / parts for k in range(parts + 1)]
    return [(place, f"{place:,.0f}" if whole else f"{place:.3g}") for place in places]
