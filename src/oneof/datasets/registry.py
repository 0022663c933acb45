"""Data sets by name: where their files lie, what they must contain, how they are loaded.

The files lie below one folder, `$ONEOF_DATA` or a cache folder of the user. A data set may have
several official forms (CIFAR: binary and python); the first one that is complete is read.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.datasets.formats import READERS
from oneof.tables.errors import DataError, MissingDataError
from oneof.tables.unpacking import unzipped


@dataclass(frozen=True, eq=False)
class DataSet:
    """A loaded data set.

    Parameters
    ----------
    x_train, y_train : arrays
        Training rows: features (n, d) or images uint8 (n, channels, h, w), and true labels int64 (n,).
        For the real-world partial-label sets these are all rows; split them with `split_80_10_10`.
    x_test, y_test : arrays or None
        The official test rows, where there are some.
    classes : tuple
        Class names in the order of the labels.
    candidates : Candidates or None
        The candidate sets of the training rows, where the data set comes with some.
    facts : mapping
        What the registry knows: task, licence, source, channel means. JSON-like.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    classes: tuple[Any, ...]
    x_test: np.ndarray | None = None
    y_test: np.ndarray | None = None
    candidates: Candidates | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        test = "no test part" if self.x_test is None else f"{len(self.x_test)} test rows"
        sets = f", {self.candidates.sizes.mean():.2f} candidates per row" if self.candidates else ""
        return (
            f"DataSet({self.name}: {len(self.x_train)} training rows of shape {self.x_train.shape[1:]}, "
            f"{test}, {len(self.classes)} classes{sets})"
        )


@dataclass(frozen=True)
class Form:
    """One official on-disk form: files below the data folder and the name of their reader.

    `files` maps each path to its checksum, `sha256:...`, `md5:...` or, for `.gz` files whose wrapping
    may differ, `content-sha256:...` (of the uncompressed content); empty where none is known.
    """

    files: Mapping[str, str]
    read: str

    def missing(self, folder: Path) -> list[str]:
        return [file for file in self.files if not (folder / file).exists()]

    def problems(self, folder: Path, inside: str = "") -> list[str]:
        """What is wrong with the files whose names begin with `inside`."""
        some = ((folder / file, value) for file, value in self.files.items() if file.startswith(inside))
        return [problem for path, value in some if (problem := checksum_problem(path, value))]


@dataclass(frozen=True)
class Download:
    """A file of the official source. Archives are kept in `downloads/` until they are unpacked."""

    url: str
    file: str
    """Where the file goes, below the data folder."""
    checksum: str | None = None
    unpacks: str | None = None
    """For archives: the top folder inside, the only one that is taken out."""


@dataclass(frozen=True)
class KnownSet:
    """What the registry knows about a data set."""

    name: str
    title: str
    task: str
    train: int
    test: int
    shape: tuple[int, ...]
    n_classes: int
    licence: str
    citation: str
    source: str
    forms: tuple[Form, ...]
    downloads: tuple[Download, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of the classes, where the files do not have them."""
    other_names: tuple[str, ...] = ()
    """Other spellings met in papers and codes."""
    mean_candidates: float | None = None
    """Mean size of the candidate sets as published, for sets that come with candidates."""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    """Mean and standard deviation of the training pixels per channel, pixels between 0 and 1."""

    @property
    def facts(self) -> dict[str, Any]:
        names = ("title", "task", "licence", "citation", "source", "mean", "std", "mean_candidates")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def present(self, folder: Path | None = None) -> Form | None:
        """The first form whose files are all there."""
        return next((form for form in self.forms if not form.missing(data_folder(folder))), None)


def data_folder(given: Path | str | None = None) -> Path:
    """The folder that is given, else `$ONEOF_DATA`, else one in the user's cache."""
    given = given or os.environ.get("ONEOF_DATA")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser() / "oneof" / "data"


@cache
def entries() -> dict[str, KnownSet]:
    """What `catalogue.toml` says about every data set, by name."""
    facts = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
    return {name: _known(name, **about) for name, about in facts.items()}


def _known(name: str, forms: list[Any], downloads: Sequence[Any] = (), **facts: Any) -> KnownSet:
    parts = {"forms": [Form(**form) for form in forms], "downloads": [Download(**one) for one in downloads]}
    plain: dict[str, Any] = facts | parts
    lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
    return KnownSet(name, **plain | lists)


def names() -> list[str]:
    """The names of all data sets."""
    return list(entries())


def entry(name: str) -> KnownSet:
    """What is known about a data set; other spellings (`Fashion-MNIST`, `lyn`) are understood."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    spelled = {other: known for known in entries().values() for other in (known.name, *known.other_names)}
    if key in spelled:
        return spelled[key]
    near = difflib.get_close_matches(key, spelled, n=1)
    guess = f"; did you mean {spelled[near[0]].name!r}?" if near else "."
    raise DataError(
        f"unknown data set {name!r}{guess} There are: {', '.join(names())}, and any .mat file by its path. "
        "Tables are for `oneof fit` and `oneof bench`."
    )


def load(name: str | Path, folder: Path | str | None = None) -> DataSet:
    """Load a data set by name, or a partial-label `.mat` file by path.

    Parameters
    ----------
    name : str or path
        A name of `names()`, or the path of a `.mat` file of the family of Lost.
    folder : path, optional
        The data folder; without it `$ONEOF_DATA` or the user's cache.

    Examples
    --------
    >>> load("digits")
    DataSet(digits: 1797 training rows of shape (64,), no test part, 10 classes)
    """
    if str(name).lower().endswith(".mat"):
        path = Path(name).expanduser()
        return DataSet(name=path.stem, **READERS["mat"]([path], ()), facts={"file": str(path)})
    known = entry(str(name))
    folder = data_folder(folder)
    form = known.present(folder)
    if form is None:
        raise MissingDataError(where_to_put(known, folder))
    parts = READERS[form.read]([folder / file for file in form.files], known.classes)
    return DataSet(name=known.name, **parts, facts=known.facts)


def where_to_put(known: KnownSet, folder: Path) -> str:
    """One line: which file is missing and where it has to lie."""
    form = min(known.forms, key=lambda f: len(f.missing(folder)))
    missing = form.missing(folder)
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    fetched = f"run `oneof data fetch {known.name}`, or " if known.downloads else ""
    return (
        f"{known.name}: {folder / missing[0]} is not there{others}; {fetched}"
        f"get the files from {known.source} and put them there. Have you got them in another folder? "
        f"Set ONEOF_DATA to the one that holds {missing[0]}."
    )


# ---- what must be in the files ----------------------------------------------------------------


def checksum_problem(path: Path, expected: str | None) -> str | None:
    """What is wrong with a file, in one line, or None."""
    if not expected:
        return None
    kind, _, value = expected.partition(":")
    digest = hashlib.new(kind.removeprefix("content-"))
    try:
        with unzipped(path, None if kind.startswith("content-") else False) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except DataError as error:
        return str(error)
    if digest.hexdigest() == value:
        return None
    return f"{path}: its {kind} is {digest.hexdigest()}, not {value}; the file is damaged or not official."


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
    problems = [*form.problems(folder), *_shape_problems(known, data)]
    return Check(known.name, "wrong" if problems else "ok", seconds, _summary(data), tuple(problems))


def _shape_problems(known: KnownSet, data: DataSet) -> list[str]:
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
    wrong = [(what, found, expected) for what, found, expected in compared if found != expected]
    return [f"{known.name}: {what}: found {found}, expected {expected}." for what, found, expected in wrong]


def _summary(data: DataSet) -> str:
    test = "" if data.x_test is None else f" + {len(data.x_test)}"
    occur = len(np.unique(data.y_train[data.y_train >= 0]))
    classes = f"{len(data.classes)} classes" + ("" if occur == len(data.classes) else f" ({occur} occur)")
    sets = "" if data.candidates is None else f", {data.candidates.sizes.mean():.2f} candidates"
    shape = " x ".join(map(str, data.x_train.shape[1:]))
    return f"{len(data.x_train)}{test} rows of {shape}, {classes}{sets}"
