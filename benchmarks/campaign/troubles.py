"""Full disks, read-only folders, two writers, a clock that is set back: nothing uncaught, nothing lost."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign import Failed, begin
from benchmarks.campaign.killing import killed
from benchmarks.campaign.subjects import (
    SETS,
    AfterEpochs,
    model,
    predictions,
    record,
    records,
    review_data,
    run,
    stop_after,
)
from oneof.app.review.decisions import Decisions
from oneof.classifier.persist import ModelError
from oneof.lab import LabError
from oneof.lab.records import Records, alone
from oneof.tables.candidate_files import save_candidates
from oneof.training import RunError

NOBODY = 65534


def trouble(rng: np.random.Generator, folder: Path, templates: Path, trained: Any) -> tuple[str, int]:
    kind = rng.choice(["full disk", "full disk", "read-only folder", "two writers", "clock set back"])
    if kind == "full disk":
        return full_disk(rng, folder, templates, trained)
    if kind == "read-only folder":
        return read_only(folder, templates)
    return (two_writers if kind == "two writers" else clock_set_back)(rng, folder, trained)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may become larger: writes fail in their midst, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_disk(rng: np.random.Generator, folder: Path, templates: Path, trained: Any) -> tuple[str, int]:
    """What is written when the disk is full fails with our error, and is as it was, or continues, later."""
    size = int(2 ** rng.uniform(0, 14))
    if rng.random() < 0.5:
        kind, hit = begin(folder, "full disk, run"), False
        try:
            with room_for(size):
                run(folder / "run")
        except RunError:
            hit = True
        if run(folder / "run") != trained:
            raise Failed(f"a run that had room for {size} bytes ends otherwise")
        return kind, hit
    kind, hit = begin(folder, "full disk, model"), False
    there = shutil.copytree(templates / "model", folder / "model")
    before, other = predictions(there), model(1)
    try:
        with room_for(size):
            other.save(there)
    except ModelError:
        hit = True
    if hit and predictions(there) != before:
        raise Failed(f"a model was changed with room for {size} bytes")
    if sorted(os.listdir(there)) != sorted(os.listdir(templates / "model")):
        raise Failed("saving has left something behind")
    return kind, hit


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere: be somebody else for a while."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def read_only(folder: Path, templates: Path) -> tuple[str, int]:
    kind = begin(folder, "read-only folder")
    there = shutil.copytree(templates, folder / "there")
    for place in (*templates.parents[:2], folder, there, *there.rglob("*")):
        place.chmod(0o755 if place.is_dir() and not place.is_relative_to(there) else 0o555)
    other = model(1)
    writes: dict[str, tuple[Callable[[], object], type[Exception]]] = {
        "run": (lambda: run(there / "stopped run"), RunError),
        "new run": (lambda: run(there / "run"), RunError),
        "model": (lambda: other.save(there / "model"), ModelError),
        "new model": (lambda: other.save(there / "one"), ModelError),
        "records": (lambda: Records(there / "records").add(record(99)), LabError),
        "candidates": (lambda: save_candidates(SETS, there / "sets.npz"), OSError),
        "decisions": (lambda: Decisions(there / "decisions", review_data()).append(0, "skip", None), OSError),
    }
    with as_nobody() if not os.geteuid() else nullcontext():
        for name, (write, error) in writes.items():
            try:
                write()
            except error:
                continue
            raise Failed(f"{name}: something was written to a folder that is read-only")
        if predictions(there / "model") != predictions(templates / "model"):
            raise Failed("a model in a read-only folder predicts otherwise")
    for place in (there, *there.rglob("*")):
        place.chmod(0o755)
    return kind, 1


def at_once(rng: np.random.Generator, *works: Callable[[Callable[[], None]], object]) -> None:
    """Some works, each in a process of its own, at the same time."""
    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(lambda work: killed(np.random.default_rng(0), work, 10**9), works))


def two_writers(rng: np.random.Generator, folder: Path, trained: Any) -> tuple[str, int]:
    kind, what = begin(folder, "two writers"), rng.choice(["run", "model", "records", "decisions"])
    there = folder / str(what)
    if what == "run":

        def train(tell: Callable[[], None]) -> None:
            try:
                run(there, AfterEpochs(tell))
            except RunError as error:
                if "another process" not in str(error):
                    raise

        at_once(rng, train, train)
        if run(there) != trained:
            raise Failed("a run with two writers ends otherwise")
    elif what == "model":
        one, two = model(1), model(2)
        two.save(there)

        def save(made: Any) -> Callable[[Callable[[], None]], object]:
            def work(tell: Callable[[], None]) -> None:
                for _ in range(5):
                    made.save(there)

            return work

        at_once(rng, save(one), save(two))
        one.save(folder / "one")
        two.save(folder / "two")
        try:
            if predictions(there) not in (predictions(folder / "one"), predictions(folder / "two")):
                raise Failed("a mixture of two models is believed")
        except ModelError:
            pass  # the files of two, and it says so
    elif what == "records":

        def add(first: int) -> Callable[[Callable[[], None]], object]:
            def work(tell: Callable[[], None]) -> None:
                while True:
                    try:
                        with alone(there):
                            for i in range(first, first + 20):
                                Records(there).add(record(i))
                        return
                    except LabError:  # another lab is writing
                        time.sleep(0.002)

            return work

        at_once(rng, add(0), add(100))
        if len(records(there)) != 40 or Records(there).damaged:
            raise Failed(f"{len(records(there))} of 40 records are there")
    else:
        there.mkdir()

        def decide(label: int) -> Callable[[Callable[[], None]], object]:
            def work(tell: Callable[[], None]) -> None:
                decisions = Decisions(there, review_data())
                for row in range(20):
                    decisions.append(row, "decide", label)

            return work

        at_once(rng, decide(0), decide(1))
        events = Decisions(there, review_data()).events
        for label in (0, 1):
            if [event.row for event in events if event.label == label] != list(range(20)):
                raise Failed("decisions of two writers are not all there, in their order")
    return kind, 1


def clock_set_back(rng: np.random.Generator, folder: Path, trained: Any) -> tuple[str, int]:
    """The clock goes back between the halves of a training and of records; files are from tomorrow."""
    kind, real = begin(folder, "clock set back"), time.time
    back = float(10 ** rng.uniform(0, 8))
    run(folder / "run", stop_after(int(rng.integers(1, 6))))
    Records(folder / "records").add(record(0))
    for file in folder.rglob("*"):
        os.utime(file, (real() + 86400, real() + 86400))
    time.time = lambda: real() - back
    try:
        if run(folder / "run") != trained:
            raise Failed(f"a run whose clock went back by {back:.0f} s ends otherwise")
        Records(folder / "records").add(record(1))
        Decisions(folder, review_data()).append(0, "decide", 1)
    finally:
        time.time = real
    if list(records(folder / "records").values()) != [record(0), record(1)]:
        raise Failed("records are missing")
    if Decisions(folder, review_data()).decided != {0: 1}:
        raise Failed("a decision is missing")
    return kind, 1
