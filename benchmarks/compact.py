"""Candidate sets of many rows and classes: seconds and peak memory of what is done with them.

    python -m benchmarks.compact [--rows 1000000] [--classes 1000] [--candidates 5]

Every step runs once, in a process of its own; its peak is beyond what was resident before it (Linux).
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import forget_peak, peak_mb, print_json, print_table
from oneof.candidates import Candidates
from oneof.candidates.describe import describe
from oneof.candidates.generate import flip_sets
from oneof.tables.candidate_files import load_candidates, save_annotations


def drawn(n: int, c: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and starts of k distinct random candidates per row."""
    rng = np.random.default_rng(0)
    steps = rng.integers(1, max(2, c // k), size=(n, k))
    return (np.cumsum(steps, axis=1) % c).ravel(), np.arange(0, n * k + 1, k)


def steps(n: int, c: int, k: int, folder: Path) -> dict[str, Callable[[], tuple[Callable[[], Any], Any]]]:
    """By name: a function that prepares and gives what is to be measured."""

    def made() -> Candidates:
        return Candidates.from_positions(*drawn(n, c, k), range(c))

    def of_positions() -> tuple[Callable[[], Any], Any]:
        positions, starts = drawn(n, c, k)
        return (lambda: Candidates.from_positions(positions, starts, range(c))), None

    def on_sets(function: Callable[[Candidates], Any]) -> Callable[[], tuple[Callable[[], Any], Any]]:
        def prepare() -> tuple[Callable[[], Any], Any]:
            sets = made()
            return (lambda: function(sets)), sets

        return prepare

    def save(ending: str) -> Callable[[], tuple[Callable[[], Any], Any]]:
        from oneof.candidates.annotations import Annotations

        return on_sets(lambda sets: save_annotations(Annotations(sets), folder / f"sets.{ending}"))

    def load(ending: str) -> Callable[[], tuple[Callable[[], Any], Any]]:
        return lambda: ((lambda: load_candidates(folder / f"sets.{ending}")), None)

    return {
        "from_positions": of_positions,
        "hash": on_sets(lambda sets: sets.hash),
        "describe": on_sets(describe),
        "take half": on_sets(lambda sets: sets.take(np.arange(0, n, 2))),
        "save npz": save("npz"),
        "load npz": load("npz"),
        "save parquet": save("parquet"),
        "load parquet": load("parquet"),
        "flip_sets": lambda: ((lambda: flip_sets(np.arange(n) % c, c, (k - 1) / (c - 1), 0)), None),
    }


def measure(name: str, sizes: tuple[int, int, int], folder: Path, answer: Connection) -> None:
    work, kept = steps(*sizes, folder)[name]()
    before = forget_peak()
    began = time.perf_counter()
    result = work()
    answer.send((time.perf_counter() - began, peak_mb(before)))
    del result, kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("rows", 10**6), ("classes", 1000), ("candidates", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    sizes = (chosen.rows, chosen.classes, chosen.candidates)
    spawned = multiprocessing.get_context("spawn")
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in steps(*sizes, Path(folder)):
            answer, sender = spawned.Pipe(duplex=False)
            process = spawned.Process(target=measure, args=(name, sizes, Path(folder), sender))
            process.start()
            sender.close()
            seconds, peak = answer.recv()
            process.join()
            figures[name] = {"seconds": round(seconds, 2), "peak_mb": round(peak)}
        files = {path.name: round(path.stat().st_size / 1e6, 1) for path in Path(folder).iterdir()}
    n, c, k = sizes
    title = f"{n} rows × {c} classes × {k} candidates: a dense mask would have {n * c / 1e6:.0f} MB"
    print_table(
        title, ["step", "seconds", "peak MB"], [[k, v["seconds"], v["peak_mb"]] for k, v in figures.items()]
    )
    print_json({"rows": n, "classes": c, "candidates": k, "steps": figures, "file_mb": files})


if __name__ == "__main__":
    main()
