"""What RPLG+ might be instead: each of its parts changed alone, on splits that are reported nowhere else.

    ONEOF_DATA=DIR PYTHONPATH=. python -m benchmarks.plus_trials [--workers 2] [--to results/plus_trials]
    oneof --plugin benchmarks/plus_variants.py report results/plus_trials --pack

As in the protocols plus-paper and plus-equal (one recipe, MLP, last epoch), splits 1000 to 1007. Variants are
options of RPLG+, or methods of their own (`plus_variants.py`).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

os.environ["ONEOF_PLUGINS"] = "benchmarks.plus_variants"  # before the library is there, and for the workers

from oneof.lab.protocol import Row
from oneof.lab.protocols import protocol
from oneof.lab.run import run_lab
from oneof.lab.runners.local import LocalRunner

SEEDS = range(1000, 1008)
DATA = ("lost", "birdsong", "msrcv2", "digits")
OPTIONS = {
    "alpha 0.3": {"alpha": 0.3},
    "alpha 0.7": {"alpha": 0.7},
    "g not held": {"shrink": 0.0},
    "g with 100 hidden": {"meta_hidden": 100},
    "256 clean rows a step": {"clean_batch": 256},
}
OWN = ("bias", "ahead", "sure", "unsure", "later", "earlier", "alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--splits", type=int, default=len(SEEDS))
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--to", type=Path, default=Path("results/plus_trials"))
    given = parser.parse_args()
    rows = [Row("rplg+", "rplg+"), *(Row(name, "rplg+", options) for name, options in OPTIONS.items())]
    rows += [Row(f"rplg+{name}", f"rplg+{name}") for name in OWN]
    command = f"python -m benchmarks.plus_trials --workers {given.workers} --splits {given.splits}"
    common = {"entries": tuple(rows), "seeds": tuple(SEEDS)[: given.splits], "data": tuple(given.data)}
    for name in ("plus-paper", "plus-equal"):
        chosen = replace(protocol(name), nets=("mlp",), figures=(), **common)
        run_lab(chosen, given.to, LocalRunner(given.workers, "cpu", "auto"), command=command)


if __name__ == "__main__":
    main()
