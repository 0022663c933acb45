"""The figures of a report (`PLOTS`), each drawn from what a protocol found with one net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oneof.lab.panels import COLOURS, MARKERS, QUIET, WIDTH, by_data, panels, save, style
from oneof.lab.paper import published
from oneof.lab.statistics import half_interval
from oneof.lab.summary import CellResult, NetResult
from oneof.lab.tables import method_title, title


def prominent(part: NetResult, data: Sequence[str]) -> list[str]:
    """The rows worth a colour: the reference, PRODEN, the oracle and the three best others."""
    scores = {n: [c.mean for d in data if (c := part.rows[d].get(n))] for n in part.labels}
    means = {n: float(np.mean(found)) for n, found in scores.items() if found}
    fixed = [n for n in (part.protocol.reference, "proden", "oracle") if n in means]
    others = sorted((n for n in means if n not in fixed), key=lambda n: -means[n])
    return fixed + others[:3]


def mean_curve(cell: CellResult | None, name: str) -> np.ndarray | None:
    """Mean of an epoch's number over the splits that kept it; a stopped training keeps its last value."""
    records = cell.records if cell is not None else []
    found = [r["result"]["curves"][name] for r in records if r["result"].get("curves", {}).get(name)]
    if not found:
        return None
    length = max(map(len, found))
    return np.mean([values + [values[-1]] * (length - len(values)) for values in found], axis=0)


def _with_curves(part: NetResult) -> list[str]:
    def kept(rows: dict[str, CellResult]) -> bool:
        return any(mean_curve(cell, "selection") is not None for cell in rows.values())

    return [data for data, rows in part.rows.items() if kept(rows)]


def _plot_curve(axis: Any, cell: CellResult | None, column: str, scale: float, **looks: Any) -> None:
    curve = mean_curve(cell, column)
    if curve is not None:
        axis.plot(np.arange(1, len(curve) + 1), scale * curve, **looks)


# ---- the figures --------------------------------------------------------------------------------


def accuracies(part: NetResult, path: Path) -> Path | None:
    """Mean accuracy of every row with a 95 % interval of the mean, and the published number."""
    labels, table = list(reversed(part.labels)), part.protocol.paper_table
    data = list(part.rows)
    compared = any(published(table, n, d) for n in labels for d in data)
    ours, theirs = {"color": COLOURS[0], "ms": 4.5}, {"mfc": "white", "mec": "#666666", "ms": 5}

    def draw(axis: Any, d: str) -> None:
        for i, label in enumerate(labels):
            number, cell = published(table, label, d), part.rows[d].get(label)
            if number is not None:
                axis.plot(number[0], i, "o", **theirs, zorder=2)
            if cell is not None:
                half = half_interval(cell.std, len(cell.records))
                looks = ours | {"color": COLOURS[1]} if label == part.protocol.reference else ours
                axis.errorbar(cell.mean, i, xerr=half, fmt="o", capsize=2, zorder=3, **looks)
        axis.set_yticks(range(len(labels)), [method_title(n) for n in labels])
        axis.set_xlim(max(0, axis.get_xlim()[0]), min(101, axis.get_xlim()[1]))  # intervals of two splits
        axis.set_ylim(-0.6, len(labels) - 0.4)  # room for the outermost marks, however few rows there are
        axis.grid(axis="y", visible=False)
        if compared:
            axis.plot([], [], "o", **ours, label="ours, 95 % interval of the mean")
            axis.plot([], [], "o", **theirs, label="published")

    height = 0.75 + 0.22 * len(labels)
    return by_data(path, data, height, draw, "test accuracy in %", legend=compared, sharey=True)


def unbeaten(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of points (cost, score) those that no other reaches at the same cost or less, cheapest first."""
    found: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not found or score > found[-1][1]:
            found.append((cost, score))
    return found


def accuracy_by_cost(part: NetResult, path: Path) -> Path | None:
    """Accuracy against the seconds of a training; the line joins rows that no other beats in both."""

    def draw(axis: Any, d: str) -> None:
        points = {n: (c.seconds, c.mean) for n, c in part.rows[d].items()}
        points = {n: point for n, point in points.items() if np.isfinite(point[0])}
        if points:
            axis.step(*zip(*unbeaten(list(points.values()))), where="post", **QUIET)
        for i, label in enumerate(part.labels):
            if label in points:
                strong = label == part.protocol.reference
                looks = {"color": COLOURS[i % len(COLOURS)], "ms": 8 if strong else 5, "zorder": 3}
                marker = MARKERS[(i // len(COLOURS) + i % len(COLOURS)) % len(MARKERS)]
                axis.plot(*points[label], marker, label=method_title(label), **looks)
        axis.margins(0.1)
        axis.set_xlim(0, 1.08 * max((cost for cost, _ in points.values()), default=1.0))

    data = list(part.rows)
    return by_data(path, data, 3.6, draw, "seconds of a training", "test accuracy in %", legend=True)


def learning_curves(part: NetResult, path: Path) -> Path | None:
    """Test accuracy per epoch, mean over the splits whose epoch log was kept."""
    data = _with_curves(part)
    shown = prominent(part, data)

    def draw(axis: Any, d: str) -> None:
        for label in part.labels:
            strong = label == part.protocol.reference
            looks = style(shown.index(label), strong) if label in shown else QUIET
            name = method_title(label) if label in shown else "other methods"
            _plot_curve(axis, part.rows[d].get(label), "test", 100, label=name, **looks)
        low = np.nanmin([line.get_ydata()[len(line.get_ydata()) // 10 :].min() for line in axis.lines])
        axis.set_ylim(bottom=max(0.0, low - 2))  # the first steps would flatten everything else

    height = 3.2 if len(data) == 1 else 2.6
    return by_data(path, data, height, draw, "epoch", "test accuracy in %", legend=True)


def value_of(label: str) -> float | None:
    """The number at the end of a row's name; none is 0, and a row without either has no place on the axis."""
    value = label.rpartition(" ")[2]
    try:
        return 0.0 if value == "none" else float(value.rstrip("%"))
    except ValueError:
        return None


def by_value(x: str, part: NetResult, path: Path) -> Path | None:
    """Accuracy against the number at the end of the rows' names, one line per name before it."""
    names = {label: label.rpartition(" ")[0] for label in part.labels if value_of(label) is not None}

    def draw(axis: Any, d: str) -> None:
        lines: dict[str, dict[float, CellResult]] = {}
        for label, cell in part.rows[d].items():
            if (value := value_of(label)) is not None:
                lines.setdefault(names[label], {})[value] = cell
        for i, (name, by_number) in enumerate(lines.items()):
            values = sorted(by_number)  # rows stand in the order in which they were asked for
            cells, colour = [by_number[value] for value in values], COLOURS[i % len(COLOURS)]
            y, error = np.array([(c.mean, c.std / np.sqrt(len(c.records))) for c in cells]).T
            axis.fill_between(values, y - error, y + error, color=colour, alpha=0.2, linewidth=0)
            axis.plot(values, y, "o-", color=colour, ms=4, label=name.rstrip(","))
            best = int(y.argmax())
            axis.plot(values[best], y[best], "D", color=colour, ms=6, zorder=4)
        axis.margins(y=0.25)

    several = len(set(names.values())) > 1
    return by_data(path, list(part.rows), 2.6, draw, x, "test accuracy in %", several) if names else None


Lines = tuple[tuple[str, str, str], ...]
"""Each is (row, column of the epoch log, text)."""
CONSISTENCY: Lines = (
    ("rplg", "q_accuracy", "RPLG: q, the target"),
    ("rplg", "mu_accuracy", "RPLG: mu, own opinion"),
    ("rplg", "v_accuracy", "RPLG: v, from the branches"),
    ("rplg-nm", "q_accuracy", "RPLG-NM: q"),
    ("proden", "target_accuracy", "PRODEN"),
    ("rplg+", "q_accuracy", "RPLG+: q"),
)
CHANGE: Lines = (("rplg", "q_change", "RPLG"), ("rplg-nm", "q_change", "RPLG-NM"))
WEIGHTS: Lines = (
    ("rplg", "w_entropy", "RPLG: entropy of w (nat)"),
    ("rplg", "w_on_truth", "RPLG: w on the true label's branch"),
    ("rplg-nm", "w_entropy", "RPLG-NM: entropy"),
    ("rplg-nm", "w_on_truth", "RPLG-NM: on the true label's branch"),
)


def epoch_log(y: str, scale: float, lines: Lines, part: NetResult, path: Path) -> Path | None:
    """What the epoch log says of some rows."""

    def draw(axis: Any, d: str) -> None:
        for i, (row, column, text) in enumerate(lines):
            _plot_curve(axis, part.rows[d].get(row), column, scale, label=text, **style(i))

    return by_data(path, _with_curves(part), 2.4, draw, "epoch", y, legend=True)


def opinions(part: NetResult, path: Path) -> Path | None:
    """Of every row with branches: how often its opinions are right, and what the useless branch weighs."""
    lines = {"mu_accuracy": "mu, own opinion", "v_accuracy": "v, from the branches",
             "q_accuracy": "q, the target", "w_on_truth": "w of the true label's branch"}  # fmt: skip

    def draw(axis: Any, cell: CellResult) -> None:
        for i, (column, text) in enumerate(lines.items()):
            _plot_curve(axis, cell, column, 100, label=text, **style(i))

    def name(cell: CellResult) -> str:
        return f"{title(cell.data)}: {method_title(cell.label)}"

    shown = [cell for cell in part.cells if mean_curve(cell, "v_accuracy") is not None]
    return by_data(path, shown, 2.4, draw, "epoch", "% of training rows", True, name, sharey=True)


def rank_diagram(part: NetResult, path: Path) -> Path | None:
    """Mean ranks over data sets with Nemenyi's critical difference (Demšar 2006)."""
    found = part.ranking()
    if found is None:
        return None
    order = sorted(found.ranks, key=lambda name: found.ranks[name])
    k = len(order)
    half = -(-k // 2)
    with panels(1, 0.9 + 0.2 * half) as (figure, (axis,)):
        figure.set_figwidth(WIDTH)
        axis.set_xlim(k + 1.3, -0.3)
        axis.set_ylim(-half - 0.6, 1.6)
        axis.axis("off")
        axis.plot([1, k], [0, 0], color="black", linewidth=1)
        for tick in range(1, k + 1):
            axis.plot([tick, tick], [0, 0.12], color="black", linewidth=1)
            axis.text(tick, 0.25, str(tick), ha="center", fontsize=8)
        for i, name in enumerate(order):
            right = i < half
            y = -(i + 1) if right else -(k - i)
            edge = -0.2 if right else k + 1.2  # beside the axis: no line crosses a name
            colour = COLOURS[1] if name == part.protocol.reference else "black"
            axis.plot([found.ranks[name]] * 2, [0, y], color=colour, linewidth=0.8)
            axis.plot([found.ranks[name], edge], [y, y], color=colour, linewidth=0.8)
            text = f"{method_title(name)} {found.ranks[name]:.2f}"
            axis.text(edge, y, text, va="bottom", ha="right" if right else "left", fontsize=8, color=colour)
        width = min(found.difference, k - 1)
        axis.plot([1, 1 + width], [1.1, 1.1], color=COLOURS[0], linewidth=3, solid_capstyle="butt")
        axis.text(1 + width / 2, 1.25, f"critical difference {found.difference:.2f}", ha="center", fontsize=8)
        return save(figure, path)


PLOTS: dict[str, tuple[Callable[[NetResult, Path], Path | None], str]] = {
    "accuracies": (accuracies, "Test accuracy with the 95 % interval of the mean over splits."),
    "clean share": (
        partial(by_value, "clean rows in % of all"),
        "Test accuracy against the share of clean rows; band: standard error; diamond: best.",
    ),
    "sensitivity": (
        partial(by_value, "alpha"),
        "Test accuracy against alpha, the model's own share; band: standard error; diamond: best.",
    ),
    "consistency": (
        partial(epoch_log, "right pseudo-labels in %", 100, CONSISTENCY),
        "Share of training rows whose pseudo-label is the true label.",
    ),
    "convergence": (
        partial(epoch_log, "mean L1 change of q per epoch", 1, CHANGE),
        "Change of the targets q from epoch to epoch.",
    ),
    "opinions": (
        opinions,
        "Training rows whose label the opinions of RPLG get right, and the mean weight of the branch that "
        "works without the true label and is misled.",
    ),
    "weights": (
        partial(epoch_log, "mean over training rows", 1, WEIGHTS),
        "Weights of the branches: entropy, and mass on the branch that is of no use.",
    ),
    "curves": (learning_curves, "Test accuracy per epoch, mean over splits."),
    "cost": (
        accuracy_by_cost,
        "Test accuracy against the seconds of a training by the clock, mean over splits; trainings that ran "
        "side by side slowed one another down. No row is both faster and better than those on the line.",
    ),
    "ranks": (rank_diagram, "Mean ranks over data sets; differences below the bar are not significant."),
}
