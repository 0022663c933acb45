"""SIGKILL after progress: what is there afterwards, continued, is what an undisturbed process ends with."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import savemat

from benchmarks.campaign import Attempt, Failed, begin
from benchmarks.campaign.guarded import Guarded
from benchmarks.campaign.killing import killed
from benchmarks.campaign.labs import Inline, lab_results, local_worker, ray_worker, toy
from benchmarks.campaign.subjects import ROWS, SETS, AfterEpochs, X, model, predictions, run
from oneof.app.review import ReviewData
from oneof.app.review.decisions import Decisions
from oneof.classifier.persist import ModelError
from oneof.lab.protocol import Protocol
from oneof.lab.records import Records
from oneof.lab.run import run_lab

METHODS = ("proden", "rplg", "rplg+", "pico", "valen", "lws")
WORKERS = 400
"""One attempt in so many kills workers of each runner; others take less than a second, these a minute."""


def start(templates: Path) -> Attempt:
    templates.mkdir()
    mat = {"data": X.astype(float), "partial_target": SETS.mask.T.astype(float)}
    mat["target"] = np.eye(len(SETS.classes))[SETS.truth].T
    savemat(templates / "toy.mat", mat)
    undisturbed = lab_results(templates / "lab", toy(templates), Inline())
    old, new = model(2), model(1)
    old.save(templates / "old")
    new.save(templates / "new")
    known = {"old": predictions(templates / "old"), "new": predictions(templates / "new")}
    guarded: dict[str, Guarded] = {}

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        kind = begin(folder, rng.choice(["lab", "fit", "fit", "model", "model", "decisions"]))
        turn = int(rng.bit_generator.seed_seq.entropy) % WORKERS
        if turn == 398 or (turn == 399 and find_spec("ray")):
            runner, make = ("local", local_worker) if turn == 398 else ("ray", ray_worker)
            begin(folder, f"{runner} worker")
            if runner not in guarded:
                guarded[runner] = Guarded(make, templates, seconds=600.0)
            return guarded[runner](rng, folder)
        if kind == "lab":
            return kind, lab(rng, folder, toy(templates), undisturbed)
        if kind == "fit":
            return kind, fit(rng, folder, METHODS[rng.integers(len(METHODS))])
        return kind, saving(rng, folder, old, new, known) if kind == "model" else decided(rng, folder)

    return attempt


def lab(rng: np.random.Generator, folder: Path, protocol: Protocol, undisturbed: list[str]) -> int:
    there, hits = folder / "lab", 0
    for _ in range(int(rng.integers(2, 5))):
        before = len(Records(there))
        work = lambda tell: run_lab(protocol, there, Inline(tell), stream=io.StringIO())  # noqa: E731
        done, hit = killed(rng, work, int(rng.integers(1, 3)))
        hits += hit
        if len(Records(there)) < before + done:
            raise Failed(f"{before + done} records were written, {len(Records(there))} are there")
    if lab_results(there, protocol, Inline()) != undisturbed:
        raise Failed("the records are not those of an undisturbed lab")
    return hits


@cache
def whole(method: str) -> list[bytes] | None:
    return run(None, method=method)


def fit(rng: np.random.Generator, folder: Path, method: str) -> int:
    there, hits = folder / "run", 0
    for _ in range(int(rng.integers(2, 5))):
        work = lambda tell: run(there, AfterEpochs(tell), method)  # noqa: E731
        hits += killed(rng, work, int(rng.integers(1, 5)))[1]
    if run(there, method=method) != whole(method):
        raise Failed(f"{method} ends otherwise")
    epochs = [json.loads(line)["epoch"] for line in (there / "metrics.jsonl").read_text().splitlines()]
    if epochs != list(range(6)):
        raise Failed(f"metrics.jsonl has the epochs {epochs}")
    return hits


def saving(rng: np.random.Generator, folder: Path, old: Any, new: Any, known: dict[str, list[bytes]]) -> int:
    hits = 0
    for k in range(4):  # the last one is to a new place
        there = folder / f"model{k}"
        if k < 3:
            old.save(there)

        def work(tell: Callable[[], None], there: Path = there) -> None:
            tell()
            new.save(there)

        _, hit = killed(rng, work, 1, most_calls=14)
        try:
            found = predictions(there) if there.exists() else None
        except ModelError as error:
            if k == 3:
                raise Failed(f"half a new model: {error!s:.200}") from error
            found = None
        if found not in (None, known["new"], *([known["old"]] if k < 3 else [])):
            raise Failed("a mixture of two models is believed")
        begun = any(file.name.startswith(".") for file in (*folder.iterdir(), *folder.glob(f"model{k}/*")))
        hits += hit and (begun or found != known["old"])
        new.save(there)
        if predictions(there) != known["new"]:
            raise Failed("what was saved after the kill is not what was saved")
    return hits


def decided(rng: np.random.Generator, folder: Path) -> int:
    data = ReviewData(SETS, np.full(SETS.shape, 1 / len(SETS.classes)), ids=tuple(map(str, range(ROWS))))
    hits, confirmed = 0, 0
    for _ in range(int(rng.integers(2, 7))):
        first = len(Decisions(folder, data).events)
        if first not in (confirmed, confirmed + 1):
            raise Failed(f"{confirmed} decisions were confirmed, {first} are there")

        def work(tell: Callable[[], None], first: int = first) -> None:
            decisions = Decisions(folder, data)
            for i in range(first, ROWS):
                decisions.append(i, "decide", i % 3)
                tell()

        done, hit = killed(rng, work, int(rng.integers(1, 9)))
        hits, confirmed = hits + hit, first + done
    decisions = Decisions(folder, data)
    decisions.append(0, "skip", None)  # whatever a kill has left, the next line is whole
    events = [(event.row, event.label) for event in Decisions(folder, data).events[:-1]]
    if events != [(i, i % 3) for i in range(len(events))] or len(events) - confirmed not in (0, 1):
        raise Failed(f"{confirmed} decisions were confirmed, there are {events}")
    return hits
