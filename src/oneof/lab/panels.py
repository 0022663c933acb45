"""What all figures share: readable in black-and-white print and for colour-blind eyes (Okabe and Ito's).

Every line differs from the others in colour and in dashes or marker. matplotlib is the extra `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from oneof.lab import LabError
from oneof.lab.tables import title
from oneof.tables.files import write_with

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)), (0, (1, 3)))
MARKERS = "oDs^vPX*"
QUIET = {"color": "#b5b5b5", "linestyle": "-", "linewidth": 0.8, "zorder": 1}
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


def require_matplotlib() -> Any:
    """Its pyplot; fails early, before minutes of work, where figures cannot be drawn."""
    try:
        import matplotlib
    except ImportError:
        raise LabError(
            "figures need matplotlib: pip install 'oneof[report]', or leave them out (--no-figures)."
        ) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


@contextmanager
def panels(n: int, height: float = 2.4, width: float = WIDTH, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure with n panels side by side, at most four in a row."""
    plt = require_matplotlib()
    columns = min(n, 4 if n % 4 == 0 else 3)
    rows = -(-n // columns)
    size = max(4.8, width * columns / 3), height * rows
    with plt.rc_context(STYLE):
        options |= {"figsize": size, "squeeze": False, "layout": "constrained"}
        figure, axes = plt.subplots(rows, columns, **options)
        for axis in axes.flat[n:]:
            axis.set_visible(False)
        try:
            yield figure, list(axes.flat[:n])
        finally:
            plt.close(figure)


WITHOUT_DATE: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "png": {"Software": None},
}


def save(figure: Any, path: Path, kinds: Sequence[str] = ("pdf", "png")) -> Path:
    """PNG for screens and PDF for print; the same records give the same file."""
    for kind in kinds:
        options = {"format": kind, "bbox_inches": "tight", "metadata": WITHOUT_DATE[kind]}
        write_with(path.with_suffix(f".{kind}"), partial(figure.savefig, **options))
    return path


def style(i: int, strong: bool = False) -> dict[str, Any]:
    """Colour and dashes of line i; the strong one is drawn thick and on top."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "linestyle": DASHES[(i // len(COLOURS) + i) % len(DASHES)] if not strong else "-",
        "linewidth": 2.4 if strong else 1.3,
        "zorder": 3 if strong else 2,
    }


def by_data(
    path: Path,
    data: Sequence[Any],
    height: float,
    draw: Callable[[Any, Any], None],
    x: str,
    y: str = "",
    legend: bool = False,
    name: Callable[[Any], str] = title,
    **options: Any,
) -> Path | None:
    """One panel per data set, drawn by `draw(axis, data set)`; none where there is nothing to show."""
    if not data:
        return None
    with panels(len(data), height, **options) as (figure, axes):
        for axis, d in zip(axes, data):
            axis.set_title(name(d), fontsize=9, parse_math=False)  # a file may be called $a_$b.csv
            axis.set_xlabel(x)
            draw(axis, d)
            if x == "epoch":
                axis.xaxis.get_major_locator().set_params(integer=True)
        axes[0].set_ylabel(y)
        if legend:
            handles: dict[str, Any] = {}
            for axis in axes:
                for handle, text in zip(*axis.get_legend_handles_labels()):
                    handles.setdefault(text, handle)
            places = {"loc": "outside lower center", "ncols": 4 if len(axes) > 1 else 3, "fontsize": 8}
            figure.legend(handles.values(), handles.keys(), **places)
        return save(figure, path)
