"""Damaged files, full disks, read-only folders: an error of ours or an exact recovery, no silent change."""

from __future__ import annotations

import os
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import oneof
import oneof.tables.errors
from campaign import Attempt, Failed, begin
from oneof import Candidates, PartialLabelClassifier
from oneof.classifier.persist import ModelError
from oneof.lab.errors import LabError
from oneof.lab.records import Records
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.tables.candidate_files import load_candidates, save_candidates
from oneof.training import CleanRows, Recipe, Run, RunError, Trained, train

CLASSES, FEATURES, ROWS = 3, 4, 60


def problem() -> tuple[np.ndarray, Candidates]:
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=ROWS)
    x = (2 * np.eye(CLASSES, FEATURES)[truth] + rng.standard_normal((ROWS, FEATURES))).astype(np.float32)
    mask = np.eye(CLASSES, dtype=bool)[truth]
    mask[np.arange(ROWS), rng.integers(CLASSES, size=ROWS)] = True
    return x, Candidates(mask, ("ant", "bee", "cow"), truth)


X, SETS = problem()


# ---- what is written, and how it is read back -----------------------------------------------------


class Stop(Exception):
    """In the place of a kill."""


class AfterEpochs:
    """A progress that calls a function after every epoch."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell

    def start(self, title: str, epochs: int, done: int) -> None:
        pass

    def epoch(self, row: dict[str, Any]) -> None:
        self.tell()

    def finish(self) -> None:
        pass


def stop_after(epochs: int) -> AfterEpochs:
    left = iter(range(epochs - 1))

    def stop() -> None:
        if next(left, None) is None:
            raise Stop

    return AfterEpochs(stop)


def run(folder: Path | None, progress: Any = None, method: str = "proden") -> list[bytes] | None:
    """A training of six epochs, in a folder or without; what it ends with, None where it was stopped."""
    recipe = Recipe(epochs=6, batch_size=16, checkpoint_every=2, device="cpu", lr=0.02)
    net = lambda: build_net("mlp", FEATURES, CLASSES, hidden=(6,))  # noqa: E731
    there = None if folder is None else Run(folder)
    clean = CleanRows(X[:12], np.eye(CLASSES, dtype=bool)[SETS.truth[:12]]) if "rplg" in method else None
    try:
        made = make_method(method)
        return ends_with(train(made, net, X, SETS, clean=clean, recipe=recipe, run=there, progress=progress))
    except Stop:
        return None


def ends_with(trained: Trained) -> list[bytes]:
    values = [value.numpy().tobytes() for value in trained.state.state_dict().values()]
    return [repr(trained.history).encode(), trained.pseudo_labels.tobytes(), *values]


def model(epochs: int) -> PartialLabelClassifier:
    return PartialLabelClassifier("proden", hidden=(6,), epochs=epochs, device="cpu").fit(X, SETS)


def predictions(folder: Path) -> list[bytes]:
    """Everything of a model that is promised; its training rows may be missing."""
    found = oneof.load(folder)
    rows = getattr(found, "transduction_", None)
    return [
        found.predict_proba(X).tobytes(),
        b"" if rows is None else rows.tobytes(),
        repr(found.history_).encode(),
    ]


def record(i: int) -> dict[str, Any]:
    return {
        "job": f"{i:016x}",
        "status": "ok",
        "config": {"seed": i},
        "result": {"test": i / 7},
        "seconds": 1.5,
    }


def records(folder: Path) -> dict[str, Any]:
    return {found["job"]: found for found in Records(folder)}


def sets(folder: Path) -> Candidates:
    return load_candidates(folder / "sets.npz")


def whole(expected: Any) -> Callable[[Any], bool]:
    return lambda found: found == expected


def start(templates: Path) -> Attempt:
    templates.mkdir()
    run(templates / "stopped run", stop_after(5))
    run(templates / "finished run")
    model(2).save(templates / "model")
    for i in range(12):
        Records(templates / "records").add(record(i))
    (templates / "candidates").mkdir()
    save_candidates(SETS, templates / "candidates" / "sets.npz")
    trained = run(None)
    all_records = records(templates / "records")

    def records_are_fine(found: dict[str, Any]) -> bool:
        """A damaged record is left out, and its job runs again; none is changed."""
        return all(all_records.get(job) == there for job, there in found.items())

    kinds: dict[str, tuple[Callable[[Path], Any], Callable[[Any], bool], tuple[type[Exception], ...]]] = {
        "stopped run": (run, whole(trained), (RunError,)),
        "finished run": (run, whole(trained), (RunError,)),
        "model": (predictions, whole(predictions(templates / "model")), (ModelError,)),
        "records": (records, records_are_fine, (LabError,)),
        "candidates": (sets, whole(SETS), (oneof.tables.errors.DataError,)),
    }

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, bool]:
        lot = rng.random()
        if lot < 0.1:
            return full_disk(rng, folder, templates, trained)
        if lot < 0.12 and os.geteuid():  # root may write everywhere
            return read_only(folder)
        kind = list(kinds)[rng.integers(len(kinds))]
        read, fine, errors = kinds[kind]
        begin(folder, kind)
        damaged = shutil.copytree(templates / kind, folder / "damaged")
        changed = damage(rng, damaged)
        shutil.copytree(damaged, folder / "input")  # reading may repair it
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = read(damaged)
            except errors:
                return kind, True
        if not fine(found):
            raise Failed(f"a damaged {changed} was believed")
        return kind, any("damaged" in str(warning.message) for warning in said)

    return attempt


# ---- damage ---------------------------------------------------------------------------------------


def damage(rng: np.random.Generator, folder: Path) -> str:
    """Change one file of a folder; its name."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    # half of them where headers are
    place = int(rng.integers(min(len(content), 600) if rng.random() < 0.5 else len(content)))
    way = rng.choice(["bit", "bit", "bits", "cut", "zeros", "insert"])
    if way == "bit":
        content[place] ^= 1 << int(rng.integers(8))
    elif way == "bits":
        for i in rng.integers(len(content), size=5):
            content[i] ^= 1 << int(rng.integers(8))
    elif way == "cut":
        del content[place:]
    elif way == "zeros":
        end = min(len(content), place + int(rng.integers(1, 512)))
        content[place:end] = bytes(end - place)
    else:
        content[place:place] = rng.bytes(int(rng.integers(1, 9)))
    file.write_bytes(content)
    return f"{file.relative_to(folder)} ({way} at {place})"


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may become larger: writes fail in their midst, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_disk(rng: np.random.Generator, folder: Path, templates: Path, trained: Any) -> tuple[str, bool]:
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


def read_only(folder: Path) -> tuple[str, bool]:
    kind = begin(folder, "read-only folder")
    (folder / "there").mkdir(mode=0o500)
    for write in (lambda: run(folder / "there" / "run"), lambda: model(1).save(folder / "there" / "model")):
        try:
            write()
        except (RunError, ModelError):
            continue
        raise Failed("something was written to a folder that is read-only")
    (folder / "there").chmod(0o700)
    return kind, True
