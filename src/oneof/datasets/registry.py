"""Data sets by name: where their files lie, what they must contain, how they are loaded.

The files lie below one folder, `$ONEOF_DATA` or a cache folder of the user. A data set may have
several official forms (CIFAR: binary and python); the first one that is complete is read.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.tables.errors import DataError, MissingDataError
from oneof.tables.mat import read_mat


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
    """One official on-disk form: files below the data folder and the function that reads them.

    `files` maps each path to its checksum, `sha256:...`, `md5:...` or, for `.gz` files whose wrapping
    may differ, `content-sha256:...` (of the uncompressed content); None where none is known.
    """

    files: Mapping[str, str | None]
    read: Callable[[Path], Mapping[str, Any]]

    def missing(self, folder: Path) -> list[str]:
        return [file for file in self.files if not (folder / file).exists()]


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


def names() -> list[str]:
    """The names of all data sets."""
    from oneof.datasets.catalogue import ENTRIES

    return list(ENTRIES)


def entry(name: str) -> KnownSet:
    """What is known about a data set; other spellings (`Fashion-MNIST`, `lyn`) are understood."""
    from oneof.datasets.catalogue import ALIASES, ENTRIES

    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    key = ALIASES.get(key, key)
    if key in ENTRIES:
        return ENTRIES[key]
    near = difflib.get_close_matches(key, [*ENTRIES, *ALIASES], n=1)
    guess = f"; did you mean {ALIASES.get(near[0], near[0])!r}?" if near else ""
    raise DataError(
        f"unknown data set {name!r}{guess} There are: {', '.join(ENTRIES)}, and any .mat file by its path."
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
        return DataSet(name=path.stem, **mat_parts(path), facts={"file": str(path)})
    known = entry(str(name))
    folder = data_folder(folder)
    form = known.present(folder)
    if form is None:
        raise MissingDataError(where_to_put(known, folder))
    return DataSet(name=known.name, **form.read(folder), facts=known.facts)


def mat_parts(path: Path) -> dict[str, Any]:
    """The parts of a data set from a `.mat` file: all its rows are training rows."""
    x, sets = read_mat(path)
    return {"x_train": x, "y_train": sets.truth, "classes": sets.classes, "candidates": sets}


def where_to_put(known: KnownSet, folder: Path) -> str:
    """One line: which file is missing and where it has to lie."""
    form = min(known.forms, key=lambda f: len(f.missing(folder)))
    missing = form.missing(folder)
    others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    return (
        f"{known.name}: {folder / missing[0]} is not there{others}; run `oneof data fetch {known.name}`, "
        f"or get the files from {known.source} and put them there. Have you got them in another folder? "
        f"Set ONEOF_DATA to the one that holds {missing[0]}."
    )
