"""How time and memory of a training grow with classes and rows.

    python -m benchmarks.growth [--figure growth.png]

One layer on 64 features, batch 256, 5 candidates per row, one core. A step's time is processor time, the
median of some steps after the first, which are slower; memory is the size of everything that a training keeps
beside its features: weights, moments, row tables and candidate sets. `docs/how-large.md` has the formula.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import print_json, print_table
from benchmarks.compact import drawn
from oneof.candidates import Candidates
from oneof.lab.panels import COLOURS, DASHES, MARKERS, QUIET, STYLE, require_matplotlib, save
from oneof.lab.tables import method_title
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import Recipe
from oneof.training.ongoing import Given, OngoingTraining

METHODS = ("proden", "rplg+", "rc", "cc", "cavl")
CLASSES, ROWS = (10, 100, 1000, 5000, 20_000), (10_000, 100_000, 1_000_000, 10_000_000)
USUAL_CLASSES, USUAL_ROWS, FEATURES, BATCH = 1000, 20_000, 64, 256
WARM_UP, STEPS = 15, 20
DENSE_ENTRIES, WHOLE_BRANCHES = 2**24, 200  # up to these, tables are dense and RPLG's branches whole


def point(name: str, n: int, c: int, x: np.ndarray) -> dict[str, float]:
    sets = Candidates.from_positions(*drawn(n, c, min(5, c // 2)), range(c))
    recipe = Recipe(epochs=10**6, batch_size=BATCH, lr=1e-3, schedule="constant", device="cpu")
    given = Given(x[:n], sets)
    fit = OngoingTraining(
        make_method(name), lambda: build_net("linear", FEATURES, c), given, recipe, torch.device("cpu")
    )
    fit.before_first_epoch()
    times, began = [], time.process_time()
    for _ in itertools.islice(fit.steps(), WARM_UP + STEPS):
        times.append(time.process_time() - began)
        began = time.process_time()
    return {"ms": round(statistics.median(times[WARM_UP:]) * 1000, 2), "mb": round(kept_bytes(fit) / 1e6, 2)}


def kept_bytes(fit: OngoingTraining) -> int:
    optimisers = [fit.main.optimiser, *fit.state.optimisers.values()]
    kept = [*fit.state.parameters(), *fit.state.buffers()]
    kept += [
        v for o in optimisers for s in o.state.values() for v in s.values() if isinstance(v, torch.Tensor)
    ]
    rows = fit.candidates
    kept += list(rows.layout.buffers()) if rows.layout is not None else [rows.mask]  # type: ignore[list-item]
    sets = fit.given.candidates.compact
    return sum(t.numel() * t.element_size() for t in kept) + sets.positions.nbytes + sets.starts.nbytes


def draw(growth: dict[str, dict[str, dict[str, Any]]], file: Path) -> None:
    """Axes are logarithmic; dotted: slope 1; vertical lines: where tables and branches change their form."""
    plt = require_matplotlib()
    steps = {"classes": DENSE_ENTRIES / USUAL_ROWS, "rows": DENSE_ENTRIES / USUAL_CLASSES}
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
        for column, (along, methods) in enumerate(growth.items()):
            for row, (what, title) in enumerate((("ms", "ms per step"), ("mb", "MB kept"))):
                axis = axes[row, column]
                for k, (name, points) in enumerate(methods.items()):
                    x, y = [int(n) for n in points], [p[what] for p in points.values()]
                    style = {"color": COLOURS[k], "linestyle": DASHES[k], "marker": MARKERS[k]}
                    axis.loglog(x, y, label=method_title(name), markersize=4, **style)
                if (along, what) != ("rows", "ms"):  # the cost of a step does not grow with rows
                    axis.loglog(x[-2:], [0.5 * y[-1] * n / x[-1] for n in x[-2:]], ":", color="#777777")
                axis.axvline(steps[along], **QUIET)
                if along == "classes":
                    axis.axvline(WHOLE_BRANCHES, **QUIET)
                axis.set(xlabel=along, ylabel=title)
                axis.yaxis.set_major_formatter(plt.LogFormatter())  # 10 and 6, not 10¹ and 6 × 10⁰
                axis.yaxis.set_minor_formatter(plt.LogFormatter())
        axes[0, 0].legend()
        save(figure, file)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--figure", type=Path, help="file for a picture")
    parser.add_argument("--rows", type=int, default=max(ROWS), help="the most rows")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [n for n in ROWS if n <= given.rows]
    x = np.random.default_rng(0).standard_normal((max(*rows, USUAL_ROWS), FEATURES), dtype=np.float32)
    growth = {
        "classes": {m: {str(c): point(m, USUAL_ROWS, c, x) for c in CLASSES} for m in METHODS},
        "rows": {m: {str(n): point(m, n, USUAL_CLASSES, x) for n in rows} for m in METHODS},
    }
    for along, of in growth.items():
        fixed = f"{USUAL_ROWS} rows" if along == "classes" else f"{USUAL_CLASSES} classes"
        sizes = list(next(iter(of.values())))
        for what, title in (("ms", "ms per step"), ("mb", "MB kept")):
            table = [[name, *(p[what] for p in points.values())] for name, points in of.items()]
            print_table(f"{title} by {along}, {fixed}", ["method", *sizes], table)
    if given.figure is not None:
        draw(growth, given.figure)
    print_json({"growth": growth, "usual_rows": USUAL_ROWS, "usual_classes": USUAL_CLASSES})


if __name__ == "__main__":
    main()
