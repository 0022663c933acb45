"""Compare the files in the data folder with what the registry expects."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oneof.datasets.registry import DataSet, KnownSet, data_folder, entry, load, where_to_put
from oneof.tables.errors import DataError
from oneof.tables.files import reading
from oneof.tables.unpacking import unzipped


def checksum(path: Path, kind: str) -> str:
    """Digest of a file: `sha256`, `md5`, or `content-sha256` (of what a gzip file holds)."""
    digest = hashlib.new(kind.removeprefix("content-"))
    with unzipped(path) if kind.startswith("content-") else path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def checksum_problem(path: Path, expected: str | None) -> str | None:
    """What is wrong with a file, in one line, or None."""
    if not expected:
        return None
    kind, _, value = expected.partition(":")
    try:
        with reading(path, "file", "fetch it again"):
            found = checksum(path, kind)
    except DataError as error:
        return str(error)
    wrong = f"{path}: its {kind} is {found}, not {value}; the file is damaged or not official."
    return wrong if found != value else None


@dataclass(frozen=True)
class Check:
    """What `check` found out about one data set."""

    name: str
    state: str
    """"ok", "missing" or "wrong"."""
    seconds: float = 0.0
    """Time to load it into memory."""
    text: str = ""
    problems: tuple[str, ...] = ()


def check(name: str, folder: Path | str | None = None) -> Check:
    """Compare a data set with the registry: checksums, shapes, classes, mean candidates."""
    known = entry(name)
    folder = data_folder(folder)
    form = known.present(folder)
    if form is None:
        return Check(known.name, "missing", text=where_to_put(known, folder))
    start = time.perf_counter()
    try:
        data = load(known.name, folder)
    except DataError as error:
        return Check(known.name, "wrong", problems=(str(error),))
    seconds = time.perf_counter() - start
    problems = [checksum_problem(folder / file, expected) for file, expected in form.files.items()]
    problems += _shape_problems(known, data)
    found = tuple(p for p in problems if p)
    return Check(known.name, "wrong" if found else "ok", seconds, _summary(data), found)


def _shape_problems(known: KnownSet, data: DataSet) -> list[str | None]:
    test = 0 if data.x_test is None else len(data.x_test)
    compared = [
        ("training rows", len(data.x_train), known.train),
        ("test rows", test, known.test),
        ("shape of a row", data.x_train.shape[1:], known.shape),
        ("classes", len(data.classes), known.n_classes),
        ("training labels", data.y_train.shape, (known.train,)),
        ("largest label below", bool(data.y_train.max() < known.n_classes), True),
    ]
    if data.candidates is not None and known.mean_candidates is not None:
        mean = round(float(data.candidates.sizes.mean()), 2)
        compared.append(("mean candidates", mean, known.mean_candidates))
    return [
        f"{known.name}: {what}: found {found}, expected {expected}."
        for what, found, expected in compared
        if found != expected
    ]


def _summary(data: DataSet) -> str:
    test = "" if data.x_test is None else f" + {len(data.x_test)}"
    occur = len(np.unique(data.y_train[data.y_train >= 0]))
    classes = f"{len(data.classes)} classes" + ("" if occur == len(data.classes) else f" ({occur} occur)")
    sets = "" if data.candidates is None else f", {data.candidates.sizes.mean():.2f} candidates"
    shape = " x ".join(map(str, data.x_train.shape[1:]))
    return f"{len(data.x_train)}{test} rows of {shape}, {classes}{sets}"
