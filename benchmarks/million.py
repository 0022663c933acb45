"""Many rows and classes: rows per second and peak memory, beside a plain loop with cross-entropy.

    python -m benchmarks.million [--rows 1000000] [--classes 1000] [--candidates 5] [--features 256]
    python -m benchmarks.million --device cuda --batch 1024 --features 512 [--speed graph]

Features are a memory-mapped file, the net and the batch are those of `PartialLabelClassifier` (MLP with two
layers of 300, batch 256, Adam), on two cores. The plain loop knows one label per row and reads the same file,
in random order. Rounds of all loops alternate in one process; peak memory (the whole process, with what is
mapped of the file) is that of a process for each, from nothing to the last of some steps (Linux).

On a GPU all rows lie on it, and what is measured is an epoch: of the library's loop as it is there by default
(step by step) or with `--speed graph`, and of the plain loop, its step recorded in a CUDA graph.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common import peak_mb, print_json, print_table, versions
from benchmarks.compact import drawn
from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.nets import Net, build_net
from oneof.training import CleanRows, Recipe
from oneof.training.ongoing import Given, OngoingTraining

PLAIN, CLEAN = "plain cross-entropy", "rplg+ with clean rows"
LOOPS = (PLAIN, "proden", "rplg+", CLEAN)


class Sizes(NamedTuple):
    rows: int
    classes: int
    candidates: int
    features: int
    batch: int = 256


def make_net(sizes: Sizes) -> Net:
    return build_net("mlp", sizes.features, sizes.classes, hidden=(300, 300))


def candidates(sizes: Sizes) -> Candidates:
    return Candidates.from_positions(
        *drawn(sizes.rows, sizes.classes, sizes.candidates), range(sizes.classes)
    )


def training(name: str, sizes: Sizes, x: np.ndarray, device: str, speed: str = "auto") -> OngoingTraining:
    clean = None
    if name == CLEAN:
        truth = np.arange(2 * sizes.classes) % sizes.classes
        rows = np.arange(len(truth)) * len(x) // len(truth)
        clean = CleanRows(x[rows], truth[:, None] == np.arange(sizes.classes))
    method = make_method("rplg+" if clean is not None else name)
    recipe = Recipe(
        epochs=10**6, batch_size=sizes.batch, lr=1e-3, schedule="constant", device=device, speed=speed
    )
    given = Given(x, candidates(sizes), clean)
    fit = OngoingTraining(method, lambda: make_net(sizes), given, recipe, torch.device(device))
    fit.before_first_epoch()
    return fit


def steps(name: str, sizes: Sizes, x: np.ndarray) -> Iterator[None]:
    """One step of a training after the other, without end."""
    if name == PLAIN:
        yield from plain_steps(sizes, x)
    fit = training(name, sizes, x, "cpu")
    while True:
        yield from fit.steps()
        fit.method.end_epoch(fit.state, fit.task, fit.step)


def plain_steps(sizes: Sizes, x: np.ndarray) -> Iterator[None]:
    net = make_net(sizes)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    y = torch.arange(sizes.rows) % sizes.classes
    while True:
        for index in torch.randperm(sizes.rows).split(sizes.batch):
            loss = torch.nn.functional.cross_entropy(net(torch.from_numpy(x[index.numpy()])), y[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            yield


def measure_memory(name: str, sizes: Sizes, file: Path, count: int, answer: Connection) -> None:
    torch.set_num_threads(2)
    for _ in itertools.islice(steps(name, sizes, np.load(file, mmap_mode="r")), count):
        pass
    answer.send(peak_mb(0))


def measure_rates(
    names: tuple[str, ...], sizes: Sizes, file: Path, count: int, rounds: int
) -> dict[str, float]:
    """Rows per second of each loop, the median of rounds that alternate."""
    torch.set_num_threads(2)
    loops = {name: steps(name, sizes, np.load(file, mmap_mode="r")) for name in names}
    rates: dict[str, list[float]] = {name: [] for name in loops}
    for round_ in range(rounds + 1):
        for name, loop in loops.items():
            began = time.perf_counter()
            for _ in itertools.islice(loop, count):
                pass
            if round_:  # the first one sets up
                rates[name].append(count * sizes.batch / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in rates.items()}


# ---- on a GPU ---------------------------------------------------------------------------------


def plain_epochs(sizes: Sizes, x: np.ndarray) -> Iterator[None]:
    """Epochs of cross-entropy against one label per row, the step recorded in a CUDA graph."""
    net = make_net(sizes).cuda()
    rows, y = torch.from_numpy(x).cuda(), (torch.arange(sizes.rows) % sizes.classes).cuda()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True, capturable=True)
    index = torch.arange(sizes.batch, device="cuda")

    def step() -> None:
        loss = torch.nn.functional.cross_entropy(net(rows[index]), y[index])
        optimiser.zero_grad(set_to_none=False)
        loss.backward()
        optimiser.step()

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    while True:
        for chosen in torch.randperm(sizes.rows, device="cuda").split(sizes.batch):
            if len(chosen) == sizes.batch:
                index.copy_(chosen)
                graph.replay()
        yield


def library_epochs(name: str, sizes: Sizes, x: np.ndarray, speed: str) -> Iterator[None]:
    fit = training(name, sizes, x, "cuda", speed)
    while True:
        for _ in fit.steps():
            pass
        fit.method.end_epoch(fit.state, fit.task, fit.step)
        fit.step.epoch += 1  # methods begin to trust what they stored
        yield


def on_gpu(sizes: Sizes, rounds: int, speed: str) -> None:
    x = np.random.default_rng(0).standard_normal((sizes.rows, sizes.features), dtype=np.float32)
    figures: dict[str, Any] = {}
    for name in LOOPS:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        loop = plain_epochs(sizes, x) if name == PLAIN else library_epochs(name, sizes, x, speed)
        times = []
        for _ in range(rounds + 2):  # two get ready: the second epoch may be another stage
            torch.cuda.synchronize()
            began = time.perf_counter()
            next(loop)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
        peak = torch.cuda.max_memory_allocated() / 1e9
        figures[name] = {"epoch_s": round(statistics.median(times[2:]), 3), "peak_gb": round(peak, 2)}
        print(name, figures[name], flush=True)
        loop.close()
    print_json({**sizes._asdict(), "speed": speed, "loops": figures, "versions": versions()})


def write_features(file: Path, sizes: Sizes) -> None:
    made = np.lib.format.open_memmap(file, "w+", np.float32, (sizes.rows, sizes.features))
    rng = np.random.default_rng(0)
    for first in range(0, sizes.rows, 10_000):
        part = made[first : first + 10_000]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    made.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("rows", 10**6), ("classes", 1000), ("candidates", 5), ("features", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--speed", default="auto", choices=("auto", "eager", "graph"), help="on a GPU")
    given: Any = parser.parse_args()
    sizes = Sizes(given.rows, given.classes, given.candidates, given.features, given.batch)
    if given.device == "cuda":
        on_gpu(sizes, min(given.rounds, 5), given.speed)
        return
    spawned = multiprocessing.get_context("spawn")
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.npy"
        write_features(file, sizes)
        for name in LOOPS:
            answer, sender = spawned.Pipe(duplex=False)
            process = spawned.Process(target=measure_memory, args=(name, sizes, file, given.steps, sender))
            process.start()
            sender.close()
            peaks[name] = answer.recv()
            process.join()
        rates = measure_rates(LOOPS, sizes, file, given.steps, given.rounds)
        mapped = file.stat().st_size / 1e6
    n, c, k, d, _ = sizes
    title = f"{n} rows × {c} classes, {k} candidates per row, {d} features ({mapped:.0f} MB in a file)"
    of = rates[PLAIN]
    print_table(
        title,
        ["loop", "rows per second", "of plain", "peak MB"],
        [[name, round(rates[name]), rates[name] / of, round(peaks[name])] for name in LOOPS],
    )
    figures = {
        name: {
            "rows_per_second": round(rates[name]),
            "of_plain": round(rates[name] / of, 3),
            "peak_mb": round(peaks[name]),
        }
        for name in LOOPS
    }
    dense = 5 * 4 * n * c / 1e9
    print_json({**sizes._asdict(), "loops": figures, "file_mb": round(mapped), "dense_rplg_tables_gb": dense})


if __name__ == "__main__":
    main()
