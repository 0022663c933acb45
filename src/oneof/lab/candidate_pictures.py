"""Pictures of candidate sets, as PNG: their sizes, and which classes occur together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.lab.panels import COLOURS, by_data, panels, save
from oneof.lab.tables import title


def save_size_chart(candidates: Candidates, path: Path) -> Path:
    """Bar chart of the set sizes."""
    sizes, counts = np.unique(candidates.sizes, return_counts=True)
    with panels(1, 3.6) as (figure, (axes,)):
        axes.bar(sizes, counts / len(candidates), color=COLOURS[0])
        axes.set(xlabel="candidates per row", ylabel="share of rows", title=candidates.describe())
        axes.xaxis.get_major_locator().set_params(integer=True)
        return save(figure, path, ["png"])


def save_heat_map(candidates: Candidates, path: Path) -> Path:
    """Heat map of P(column is a candidate | row is a candidate)."""
    together = candidates.compact.together().toarray().astype(np.float64)
    share = together / np.maximum(np.diag(together), 1)[:, None]
    np.fill_diagonal(share, np.nan)  # always 1 and would hide the rest
    k = candidates.n_classes
    side = min(12.0, max(4.5, 0.32 * k))
    with panels(1, side, 3 * side + 3) as (figure, (axes,)):
        image = axes.imshow(share, vmin=0.0, vmax=max(1e-9, float(np.nanmax(share, initial=0.0))))
        figure.colorbar(image, ax=axes, label="share of the row class's sets with the column class")
        axes.grid(visible=False)
        if k <= 40:
            names = [str(name)[:20] for name in candidates.classes]
            looks = {"fontsize": 7, "parse_math": False}  # a class may be called $5-$10
            axes.set_xticks(range(k), names, rotation=90, **looks)
            axes.set_yticks(range(k), names, **looks)
        axes.set_title("candidates that occur together")
        return save(figure, path, ["png"])


def save_sizes_by_data(facts: dict[str, Any], path: Path) -> Path | None:
    """Share of rows by size of the candidate set, from the facts of every data set."""

    def draw(axis: Any, d: str) -> None:
        sizes = {int(size): 100 * n / facts[d]["rows"] for size, n in facts[d]["sizes"].items()}
        axis.bar(list(sizes), list(sizes.values()), color=COLOURS[0], width=0.8)
        axis.set_title(f"{title(d)}: pairs {facts[d]['pairs']:.0%}", fontsize=9)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(axis="x", visible=False)

    return by_data(path, list(facts), 1.9, draw, "labels in the candidate set", "rows in %")
