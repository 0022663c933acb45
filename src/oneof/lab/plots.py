"""Figures: readable in black-and-white print and for colour-blind eyes (Okabe and Ito's colours).

Every line differs from the others in colour and in dashes or marker. matplotlib is the extra `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from oneof.lab.errors import LabError
from oneof.lab.paper import published
from oneof.lab.statistics import CriticalDifference, critical_difference
from oneof.lab.summary import CellResult, Result
from oneof.lab.tables import method_title, title
from oneof.tables.files import write_with

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))
WIDTH = 7.2
DPI = 170
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.dpi": 100,
    "savefig.dpi": DPI,
    "pdf.fonttype": 42,
}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise LabError("figures need matplotlib: pip install 'oneof[report]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


@contextmanager
def _panels(n: int, height: float = 2.4, **options: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A figure with n panels side by side, at most four in a row."""
    plt = _pyplot()
    columns = min(n, 4 if n % 4 == 0 else 3)
    rows = -(-n // columns)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(max(4.8, WIDTH * columns / 3), height * rows),
            squeeze=False,
            layout="constrained",
            **options,
        )
        for axis in axes.flat[n:]:
            axis.set_visible(False)
        try:
            yield figure, list(axes.flat[:n])
        finally:
            plt.close(figure)


def style(i: int, strong: bool = False) -> dict[str, Any]:
    """Colour and dashes of line i; the strong one is drawn thick and on top."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": DASHES[(i // len(COLOURS) + i) % len(DASHES)] if not strong else "-",
        "linewidth": 2.4 if strong else 1.3,
        "zorder": 3 if strong else 2,
    }


QUIET = {"color": "#b5b5b5", "linestyle": "-", "linewidth": 0.8, "zorder": 1}


def prominent(result: Result, net: str, data: Sequence[str]) -> list[str]:
    """The rows worth a colour: the reference, PRODEN, the oracle and the three best others."""
    scores = {n: [c.mean for d in data if (c := result.cell(net, d, n))] for n in result.labels}
    means = {n: float(np.mean(values)) for n, values in scores.items() if values}
    fixed = [n for n in (result.protocol.reference, "proden", "oracle") if n in means]
    others = sorted((n for n in means if n not in fixed), key=lambda n: -means[n])
    return fixed + others[:3]


def save(figure: Any, path: Path) -> Path:
    """PNG for screens and PDF for print, without a date, so that the same records give the same file."""
    write_with(
        path.with_suffix(".pdf"),
        lambda out: figure.savefig(out, format="pdf", bbox_inches="tight", metadata=_NO_DATE),
    )
    write_with(
        path, lambda out: figure.savefig(out, format="png", bbox_inches="tight", metadata={"Software": None})
    )
    return path


_NO_DATE = {"CreationDate": None, "Producer": None, "Creator": None}


def mean_curve(cell: CellResult, name: str) -> np.ndarray | None:
    """Mean of an epoch's number over the splits that kept it; a stopped training keeps its last value."""
    found = [r["result"]["curves"][name] for r in cell.records if r["result"].get("curves", {}).get(name)]
    if not found:
        return None
    length = max(map(len, found))
    return np.mean([values + [values[-1]] * (length - len(values)) for values in found], axis=0)


def _with_curves(result: Result, net: str) -> list[str]:
    return [
        data
        for data in result.data
        if any(
            (c := result.cell(net, data, n)) and mean_curve(c, "selection") is not None for n in result.labels
        )
    ]


# ---- the figures --------------------------------------------------------------------------------


def accuracies(result: Result, net: str, path: Path) -> Path | None:
    """Mean accuracy of every row with a 95 % interval of the mean, and the published number."""
    from scipy.stats import t

    data = [d for d in result.data if any(result.cell(net, d, n) for n in result.labels)]
    if not data:
        return None
    labels = list(reversed(result.labels))
    with _panels(len(data), 0.75 + 0.22 * len(labels), sharey=True) as (figure, axes):
        for axis, d in zip(axes, data):
            for i, label in enumerate(labels):
                number, cell = published(result.protocol.paper_table, label, d), result.cell(net, d, label)
                if number is not None:
                    axis.plot(number[0], i, "o", mfc="white", mec="#666666", ms=5, zorder=2)
                if cell is None:
                    continue
                n = len(cell.records)
                half = t.ppf(0.975, n - 1) * cell.std / np.sqrt(n) if n > 1 else 0.0
                colour = COLOURS[1] if label == result.protocol.reference else COLOURS[0]
                axis.errorbar(cell.mean, i, xerr=half, fmt="o", color=colour, ms=4.5, capsize=2, zorder=3)
            axis.set_title(title(d), fontsize=9)
            axis.set_yticks(range(len(labels)), [method_title(n) for n in labels])
            axis.set_ylim(-0.6, len(labels) - 0.4)  # room for the outermost marks, however few rows there are
            axis.set_xlabel("test accuracy in %")
            axis.grid(axis="y", visible=False)
        if any(published(result.protocol.paper_table, n, d) for n in labels for d in data):
            axes[0].plot([], [], "o", color=COLOURS[0], ms=4.5, label="ours, 95 % interval of the mean")
            axes[0].plot([], [], "o", mfc="white", mec="#666666", ms=5, label="published")
            figure.legend(loc="outside lower center", ncols=2, fontsize=8)
        return save(figure, path)


def learning_curves(result: Result, net: str, path: Path) -> Path | None:
    """Test accuracy per epoch, mean over the splits whose epoch log was kept."""
    data = _with_curves(result, net)
    if not data:
        return None
    shown = prominent(result, net, data)
    with _panels(len(data), 3.2 if len(data) == 1 else 2.6) as (figure, axes):
        for axis, d in zip(axes, data):
            for label in result.labels:
                cell = result.cell(net, d, label)
                curve = None if cell is None else mean_curve(cell, "test")
                if curve is None:
                    continue
                strong = label == result.protocol.reference
                looks = style(shown.index(label), strong) if label in shown else QUIET
                name = method_title(label) if label in shown else "other methods"
                axis.plot(np.arange(1, len(curve) + 1), 100 * curve, label=name, **looks)
            axis.set_title(title(d), fontsize=9)
            axis.set_xlabel("epoch")
            low = np.nanmin([line.get_ydata()[len(line.get_ydata()) // 10 :].min() for line in axis.lines])
            axis.set_ylim(bottom=max(0.0, low - 2))  # the first steps would flatten everything else
        axes[0].set_ylabel("test accuracy in %")
        _legend_outside(figure, axes)
        return save(figure, path)


def sensitivity(result: Result, net: str, path: Path) -> Path | None:
    """Accuracy against the value in the rows' names (alpha)."""
    data = [d for d in result.data if any(result.cell(net, d, n) for n in result.labels)]
    if not data:
        return None
    with _panels(len(data), 2.3) as (figure, axes):
        for axis, d in zip(axes, data):
            points = [
                (float(n.split()[-1]), c.mean, c.std / np.sqrt(len(c.records)))
                for n in result.labels
                if (c := result.cell(net, d, n)) is not None
            ]
            x, y, error = map(np.array, zip(*points))
            axis.fill_between(x, y - error, y + error, color=COLOURS[0], alpha=0.2, linewidth=0)
            axis.plot(x, y, "o-", color=COLOURS[0], ms=4)
            best = int(y.argmax())
            axis.plot(x[best], y[best], "D", color=COLOURS[1], ms=6, zorder=4)
            axis.annotate(f"{x[best]:g}", (x[best], y[best]), (0, 7), textcoords="offset points", ha="center")
            axis.margins(y=0.25)
            axis.set_title(title(d), fontsize=9)
            axis.set_xlabel("alpha")
        axes[0].set_ylabel("test accuracy in %")
        return save(figure, path)


Line = tuple[str, str, str]


def _log_lines(
    result: Result, net: str, path: Path, lines: Sequence[Line], label: str, scale: float = 1.0
) -> Path | None:
    """One panel per data set; each line is (row, column of the epoch log, text)."""
    data = _with_curves(result, net)
    if not data:
        return None
    with _panels(len(data), 2.4) as (figure, axes):
        for axis, d in zip(axes, data):
            for i, (row, column, text) in enumerate(lines):
                cell = result.cell(net, d, row)
                curve = None if cell is None else mean_curve(cell, column)
                if curve is not None:
                    axis.plot(np.arange(1, len(curve) + 1), scale * curve, label=text, **style(i))
            axis.set_title(title(d), fontsize=9)
            axis.set_xlabel("epoch")
        axes[0].set_ylabel(label)
        _legend_outside(figure, axes)
        return save(figure, path)


def consistency(result: Result, net: str, path: Path) -> Path | None:
    """Share of training rows whose pseudo-label is the true label."""
    lines = (
        ("rplg", "q_accuracy", "RPLG: q, the target"),
        ("rplg", "mu_accuracy", "RPLG: mu, own opinion"),
        ("rplg", "v_accuracy", "RPLG: v, from the branches"),
        ("rplg-nm", "q_accuracy", "RPLG-NM: q"),
        ("proden", "target_accuracy", "PRODEN"),
    )
    return _log_lines(result, net, path, lines, "right pseudo-labels in %", 100)


def change(result: Result, net: str, path: Path) -> Path | None:
    """How much the targets move from epoch to epoch."""
    lines = (("rplg", "q_change", "RPLG"), ("rplg-nm", "q_change", "RPLG-NM"))
    return _log_lines(result, net, path, lines, "mean L1 change of q per epoch")


def weights(result: Result, net: str, path: Path) -> Path | None:
    """Entropy of w, and its mass on the branch that excludes the true label."""
    lines = (
        ("rplg", "w_entropy", "RPLG: entropy of w (nat)"),
        ("rplg", "w_on_truth", "RPLG: w on the true label's branch"),
        ("rplg-nm", "w_entropy", "RPLG-NM: entropy"),
        ("rplg-nm", "w_on_truth", "RPLG-NM: on the true label's branch"),
    )
    return _log_lines(result, net, path, lines, "mean over training rows")


def set_sizes(facts: dict[str, Any], path: Path) -> Path:
    """Share of rows by size of the candidate set, from the facts of every data set."""
    with _panels(len(facts), 1.9) as (figure, axes):
        for axis, (name, known) in zip(axes, facts.items()):
            sizes = {int(size): n / known["rows"] for size, n in known["sizes"].items()}
            axis.bar(list(sizes), [100 * share for share in sizes.values()], color=COLOURS[0], width=0.8)
            axis.set_title(f"{title(name)}: pairs {known['pairs']:.0%}", fontsize=9)
            axis.set_xlabel("labels in the candidate set")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.grid(axis="x", visible=False)
        axes[0].set_ylabel("rows in %")
        return save(figure, path)


def rank_diagram(result: Result, net: str, path: Path) -> Path | None:
    """Mean ranks over data sets with Nemenyi's critical difference (Demšar 2006)."""
    found = ranking(result, net)
    if found is None:
        return None
    order = sorted(found.ranks, key=lambda name: found.ranks[name])
    k = len(order)
    half = -(-k // 2)
    with _panels(1, 0.9 + 0.2 * half) as (figure, (axis,)):
        figure.set_figwidth(WIDTH)
        axis.set_xlim(k + 0.3, 0.7)
        axis.set_ylim(-half - 0.6, 1.6)
        axis.axis("off")
        axis.plot([1, k], [0, 0], color="black", linewidth=1)
        for tick in range(1, k + 1):
            axis.plot([tick, tick], [0, 0.12], color="black", linewidth=1)
            axis.text(tick, 0.25, str(tick), ha="center", fontsize=8)
        for i, name in enumerate(order):
            right = i < half
            y = -(i + 1) if right else -(k - i)
            edge = 0.8 if right else k + 0.2
            colour = COLOURS[1] if name == result.protocol.reference else "black"
            axis.plot([found.ranks[name]] * 2, [0, y], color=colour, linewidth=0.8)
            axis.plot([found.ranks[name], edge], [y, y], color=colour, linewidth=0.8)
            text = f"{method_title(name)} {found.ranks[name]:.2f}"
            axis.text(edge, y, text, va="bottom", ha="right" if right else "left", fontsize=8, color=colour)
        width = min(found.difference, k - 1)
        axis.plot([1, 1 + width], [1.1, 1.1], color=COLOURS[0], linewidth=3, solid_capstyle="butt")
        axis.text(1 + width / 2, 1.25, f"critical difference {found.difference:.2f}", ha="center", fontsize=8)
        return save(figure, path)


def ranking(result: Result, net: str) -> CriticalDifference | None:
    """Ranks of the mean accuracies over the data sets of a net."""
    scores = {
        n: {d: c.mean for d in result.data if (c := result.cell(net, d, n)) is not None}
        for n in result.ranked()
    }
    return critical_difference({name: found for name, found in scores.items() if found})


def _legend_outside(figure: Any, axes: Sequence[Any]) -> None:
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, text in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(text, handle)
    columns = 4 if len(axes) > 1 else 3
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8)


PLOTS: dict[str, tuple[Callable[[Result, str, Path], Path | None], str]] = {
    "accuracies": (accuracies, "Test accuracy with the 95 % interval of the mean over splits."),
    "sensitivity": (
        sensitivity,
        "Test accuracy against alpha, the model's own share; band: standard error; diamond: best.",
    ),
    "consistency": (consistency, "Share of training rows whose pseudo-label is the true label."),
    "convergence": (change, "Change of the targets q from epoch to epoch."),
    "weights": (weights, "Weights of the branches: entropy, and mass on the branch that is of no use."),
    "curves": (learning_curves, "Test accuracy per epoch, mean over splits."),
    "ranks": (rank_diagram, "Mean ranks over data sets; differences below the bar are not significant."),
}
