"""Small trainings run together as one program (`one_program.py`), beside the same trainings alone.

    python -m benchmarks.stacked                      # on a CPU: one thread for each
    python -m benchmarks.stacked --device cuda        # beside 14 processes on one GPU

Tables of the form of Lost and MSRCv2 (random rows); the MLP, recipe, splits and searched numbers of table 2.

First the check: trainings run alone and stacked must end with the same weights, tables and best epochs, in
double precision. Single precision is told, not judged: one rounding can switch a unit of the net.

Then epochs of trainings per second: of one training alone, of several processes with one training each, of
stacks. They take turns in each round, and the median counts. On a CPU a second is one of the processor, and a
stack has one core as a lone training has. Nothing else of a training is measured; `ready` is how long it took
to stack trainings, to record a step and for the first epochs. Of an epoch a stack leaves out the log alone.
"""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common import print_json, print_table
from benchmarks.one_program import Stack
from oneof.candidates import Candidates
from oneof.datasets.splits import split_80_10_10
from oneof.lab.protocols import NETS, PROTOCOLS
from oneof.lab.search import Search, configurations
from oneof.methods import list_methods, make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe
from oneof.training.ongoing import Given, OngoingTraining

METHODS = ("proden", "rc", "cc", "rplg-nm", "rplg", "rplg+")
EQUAL = 1e-9
"""Numbers in double precision that differ by less are the same: all are of the order of 1."""


class Table(NamedTuple):
    rows: int
    features: int
    classes: int
    others: float
    """False candidates of a row, on average."""
    hidden: tuple[int, ...] = tuple(NETS["mlp"]["hidden"])


TABLES = {"lost": Table(1122, 108, 16, 1.23), "msrcv2": Table(1758, 48, 23, 2.16)}
SMALL = Table(690, 12, 6, 1.0, (40, 40))  # a step draws from its clean rows, and soon every row was seen


def training(
    name: str, table: Table, number: int, device: str, double: bool = False, speed: Any = "auto"
) -> OngoingTraining:
    """The training of this number, before its first epoch: a split and a configuration of table 2."""
    protocol = PROTOCOLS["table2"]
    default = {"lr": protocol.lr, "weight_decay": protocol.weight_decay, "scaling": protocol.scaling}
    chosen = configurations(name, Search(), default)[number % Search().configurations]
    params = {key: value for key, value in chosen["params"].items() if isinstance(value, float)}  # no sizes
    rng = np.random.default_rng(0)  # one data set
    y = rng.integers(table.classes, size=table.rows)
    x = rng.standard_normal((table.rows, table.features), dtype=np.float32)
    x[np.arange(table.rows), y % table.features] += 2
    mask = rng.random((table.rows, table.classes)) < table.others / (table.classes - 1)
    mask[np.arange(table.rows), y] = True
    split = split_80_10_10(table.rows, number)
    clean = CleanRows(x[split.validation], np.eye(table.classes, dtype=bool)[y[split.validation]])
    numbers = {"lr": chosen["lr"], "weight_decay": chosen["weight_decay"], "seed": number}

    def net() -> torch.nn.Module:
        made = build_net("mlp", table.features, table.classes, hidden=table.hidden)
        return made.double() if double else made

    given = Given(x[split.train], Candidates.from_mask(mask[split.train], truth=y[split.train]), clean)
    recipe = Recipe(**protocol.recipe, **numbers, device=device, speed=speed)
    made = OngoingTraining(make_method(name, params), net, given, recipe, torch.device(device))
    made.before_first_epoch()
    return made


# ---- the check ----------------------------------------------------------------------------------


def gap(
    name: str, device: str, double: bool, count: int = 3, epochs: int = 6, recorded: bool = True
) -> float:
    """The largest difference of numbers that trainings keep, stacked and alone; infinite: of best epochs."""
    alone, together = ([training(name, SMALL, i, device, double) for i in range(count)] for _ in range(2))
    stack = Stack(together, recorded)
    for _ in range(epochs):
        stack.run_epoch()
        for each in alone:
            each.run_epoch()
    largest = 0.0
    for i, (a, b) in enumerate(zip(alone, together)):
        if (a.stopping.best_epoch, a.stopping.best) != (b.stopping.best_epoch, b.stopping.best):
            return math.inf
        assert a.best is not None
        kept = zip(a.best.values(), (best[i] for best in stack.best))
        for one, other in (*zip(a.state.state_dict().values(), b.state.state_dict().values()), *kept):
            apart = float((one.double() - other.double()).abs().max())
            largest = max(largest, apart if math.isfinite(apart) else math.inf)
    return largest


def check(device: str, names: list[str], recorded: bool = True) -> dict[str, Any]:
    """Of every method: how far stacked is from alone, or why it cannot be stacked."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = {
                kind: float(f"{gap(name, device, kind == 'double', recorded=recorded):.1e}")
                for kind in ("double", "single")
            }
        except Exception as error:  # whatever torch or the method says is the answer
            frames = traceback.extract_tb(error.__traceback__)
            where = ([f for f in frames if "oneof" in f.filename] or frames)[-1]
            line = f"{Path(where.filename).name}:{where.lineno}"
            found[name] = f"{type(error).__name__} in {line}: {str(error).splitlines()[0]}"
            continue
        if not found[name]["double"] < EQUAL:
            found[name] = f"not the same: {found[name]}"
    return found


# ---- the measurement ----------------------------------------------------------------------------


def epochs_per_second(run_epoch: Callable[[], Any], seconds: float, device: str) -> float:
    """Whole epochs, for so long or at least one."""
    clock = time.perf_counter if device == "cuda" else time.process_time  # whoever else works on the CPU
    done, began = 0, clock()
    while not done or clock() - began < seconds:
        run_epoch()
        done += 1
        if device == "cuda":
            torch.cuda.synchronize()
    return done / (clock() - began)


def get_ready(training: OngoingTraining | Stack, device: str) -> None:
    """On a GPU until every row was seen: from then on the steps of RPLG are others, and recorded anew."""
    for _ in range(10 if device == "cuda" else 1):
        training.run_epoch()


def work(device: str, speed: str, seconds: float, orders: Connection, start: Any) -> None:
    """A process with one training: a case makes another, `None` runs it."""
    torch.set_num_threads(1)
    made: OngoingTraining | None = None
    while (order := orders.recv()) != "end":
        if order is not None:
            name, table, number = order
            made = training(name, table, number, device, speed=speed)
            get_ready(made, device)
            orders.send(True)
            continue
        assert made is not None
        start.wait()
        orders.send(epochs_per_second(made.run_epoch, seconds, device))


@contextmanager
def processes(given: Any) -> Iterator[Callable[[Any], float]]:
    """A function that gives all processes a case, or (None) runs it: epochs per second of all together."""
    spawned = multiprocessing.get_context("spawn")
    start = spawned.Barrier(given.processes)
    ends = []
    for _ in range(given.processes):
        here, there = spawned.Pipe()
        what = (given.device, given.alone, given.seconds, there, start)
        spawned.Process(target=work, args=what, daemon=True).start()
        there.close()
        ends.append(here)

    def ask(case: Any) -> float:
        for number, end in enumerate(ends):
            end.send(case and (*case, number))
        return sum(end.recv() for end in ends)

    yield ask
    for end in ends:
        end.send("end")


def measure(name: str, table: Table, given: Any, ask: Callable[[Any], float]) -> dict[str, Any]:
    device, seconds = given.device, given.seconds
    ask((name, table))
    alone = training(name, table, 0, device, speed=given.alone)
    get_ready(alone, device)
    trainings = [training(name, table, number, device) for number in range(max(given.stacks))]
    stacks, ready = {}, {}
    for size in given.stacks:
        began = time.perf_counter()
        stacks[size] = Stack(trainings[:size], recorded=not given.eager)
        get_ready(stacks[size], device)
        ready[str(size)] = round(time.perf_counter() - began, 2)
    rates: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        rates.setdefault("alone", []).append(epochs_per_second(alone.run_epoch, seconds, device))
        rates.setdefault("processes", []).append(ask(None))
        for size, stack in stacks.items():
            rate = size * epochs_per_second(stack.run_epoch, seconds, device)
            rates.setdefault(str(size), []).append(rate)
    del alone, trainings, stacks, stack
    gc.collect()  # recordings hold the memory of a step
    return {"rates": {key: round(statistics.median(v), 2) for key, v in rates.items()}, "ready": ready}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--processes", type=int, help="default: 2, on a GPU 14")
    parser.add_argument("--stacks", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each in a round, at least one epoch")
    parser.add_argument("--alone", default="auto", choices=("auto", "graph"), help="the recipe's speed there")
    parser.add_argument("--eager", action="store_true", help="stacks without a CUDA graph")
    parser.add_argument("--all", action="store_true", help="check every method of the library")
    given: Any = parser.parse_args()
    given.processes = given.processes or (14 if given.device == "cuda" else 2)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    names = [m.name for m in list_methods()] if given.all else given.methods
    checked = check(given.device, names, recorded=not given.eager)
    for name, answer in checked.items():
        print(f"{name:16} {answer}", flush=True)
    figures: dict[str, Any] = {}
    with processes(given) as ask:
        for key in given.tables:
            rows = []
            for name in given.methods:
                found = measure(name, TABLES[key], given, ask)
                figures.setdefault(key, {})[name] = found
                alone, together, *stacked = found["rates"].values()
                of = together if given.device == "cuda" else alone
                rows.append([name, alone, together, *(rate / of for rate in stacked)])
            columns = ["method", "alone", f"{given.processes} processes"]
            columns += [f"stack of {size}" for size in given.stacks]
            of = "the processes'" if given.device == "cuda" else "one training's, alone on a core"
            print_table(f"{key}: epochs per second; those of stacks as a multiple of {of}", columns, rows)
    options = {
        "device": given.device,
        "processes": given.processes,
        "alone": given.alone,
        "eager": given.eager,
    }
    print_json({**options, "check": checked, "tables": figures})


if __name__ == "__main__":
    main()
