"""Data as jobs see them: rows, candidate sets and truth, with a hash, loaded once per process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import is_missing
from oneof.candidates.generate import instance_sets
from oneof.candidates.questions import about_features, ask
from oneof.datasets import DataSet, load
from oneof.datasets.ready_made import ready_made_sets
from oneof.lab import LabError
from oneof.lab.generator import beliefs
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.reader import KINDS, read_table
from oneof.training import default_progress

DEFAULT_COLUMNS = {"column": "candidates", "truth": "truth"}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A data set with candidate sets on all its rows."""

    name: str
    x: np.ndarray
    candidates: Candidates
    truth: np.ndarray
    rule: Mapping[str, Any] | None = None
    """How the sets were drawn, or which columns of a table they are; None: they came with the data."""
    test: tuple[np.ndarray, np.ndarray] | None = None
    """The official test rows and their labels, where there are some; otherwise they are split off."""
    pixels: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Images: mean and standard deviation of every channel."""

    @property
    def n_classes(self) -> int:
        return self.candidates.n_classes

    @cached_property
    def hash(self) -> str:
        """Digest of features, candidate sets and true labels."""
        digest = hashlib.sha256(self.candidates.hash.encode())
        digest.update(np.ascontiguousarray(self.x).data.cast("B"))
        digest.update(self.truth.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def facts(self) -> dict[str, Any]:
        """What belongs beside every result on this data set."""
        sizes = self.candidates.sizes
        return {
            "rows": len(sizes),
            "features": int(np.prod(self.x.shape[1:])),
            "classes": self.n_classes,
            "mean_size": round(float(sizes.mean()), 4),
            "singletons": round(float((sizes == 1).mean()), 4),
            "pairs": round(float((sizes == 2).mean()), 4),
            "largest": int(sizes.max()),
            "sizes": {str(size): int(n) for size, n in enumerate(np.bincount(sizes)) if n},
            "hash": self.hash,
        }


def candidate_rule(n_classes: int) -> dict[str, Any]:
    """How sets are drawn where the data come without: VALEN's rule, about four false labels, one draw."""
    return {"rule": "instance", "rate": round(4 / n_classes, 6), "seed": 0}


def prepare(name: str, rule: Mapping[str, Any] | None = None, robbed: float = 0.0) -> Prepared:
    """The data set with its own candidates, or with sets drawn by a rule (see `candidate_rule`).

    `robbed` is the share of rows whose set loses its true label; a job finds it in its rule.
    """
    given = {**(rule or {}), **({"robbed": robbed} if robbed else {})}
    return _prepare(name, tuple(sorted(given.items())))


@lru_cache(maxsize=16)  # the draws of all trials of a data set: a plan asks for them entry by entry
def _prepare(name: str, given: tuple[tuple[str, Any], ...]) -> Prepared:
    columns = dict(given)
    robbed = columns.pop("robbed", 0.0)
    rule: dict[str, Any] | None = columns
    data = _own_table(name, columns) if is_table(name) else _loaded(name)
    if not is_file(name):
        name = data.name  # the registry's spelling; a file keeps its path, by which others find it
    test = pixels = None
    if data.x_test is not None and data.y_test is not None:
        test = (data.x_test, data.y_test)
    if data.x_train.ndim == 4:
        channels = data.x_train.shape[1]
        pixels = (data.facts.get("mean", (0.5,) * channels), data.facts.get("std", (0.25,) * channels))
    candidates = data.candidates
    if candidates is None:
        rule = rule or candidate_rule(len(data.classes))
        candidates = _drawn(data, rule)
    elif not is_table(name):
        rule = None
    if robbed:
        candidates, rule = without_truth(candidates, robbed), {**(rule or {}), "robbed": robbed}
    return Prepared(name, data.x_train, candidates, data.y_train, rule, test, pixels)


def is_table(name: str) -> bool:
    """Whether data are a table of one's own, by its path."""
    return Path(name).suffix.lower() in KINDS


def is_file(name: str) -> bool:
    return is_table(name) or name.lower().endswith(".mat")


def _own_table(name: str, columns: Mapping[str, str]) -> DataSet:
    """A table with a column of candidates and one of true labels; rows without either are left out."""
    sets, truth = (columns.get(part, default) for part, default in DEFAULT_COLUMNS.items())
    accept, table = columns.get("accept", "").split(), read_table(name)
    given = table.column(sets)
    cells = given if getattr(given, "ndim", 1) > 1 else table.label_sets(sets, accept)
    pairs = zip(cells, table.column(truth))
    known = [i for i, (labels, label) in enumerate(pairs) if not is_missing(label) and not is_missing(labels)]
    if not known:
        raise DataError(f'{name}: no row has both candidates ("{sets}") and a true label ("{truth}").')
    table = table.take(np.array(known))
    found = Annotations(table.candidates(sets, accept)).with_truth(table.columns[truth]).candidates
    others = {column: values for column, values in table.columns.items() if column not in (sets, truth)}
    ask(about_features(others, found.mask), accept, name)
    encoder = TableEncoder.fit(table, without=(sets, truth))
    assert found.truth is not None
    return DataSet(name, encoder.transform(table), found.truth, found.classes, candidates=found)


def without_truth(candidates: Candidates, share: float) -> Candidates:
    """A share of the sets robbed of the true label, always the same rows; an empty one gets another label."""
    draw = np.random.default_rng(0)
    mask, truth = candidates.mask.copy(), candidates.truth
    assert truth is not None
    rows = draw.permutation(len(mask))[: round(share * len(mask))]
    mask[rows, truth[rows]] = False
    alone = rows[~mask[rows].any(axis=1)]
    mask[alone, (truth[alone] + draw.integers(1, mask.shape[1], len(alone))) % mask.shape[1]] = True
    return Candidates(mask, candidates.classes, truth, truth_may_be_outside=True, source="robbed sets")


@lru_cache(maxsize=16)  # as many as above: all draws of a data set then share its rows
def _loaded(name: str) -> DataSet:
    return load(name)


def _drawn(data: DataSet, rule: Mapping[str, Any]) -> Candidates:
    if rule["rule"] != "instance":
        raise LabError(f"unknown rule {rule['rule']!r} for candidate sets; there is instance.")
    # stored sets are the same everywhere; a generator that is trained anew gives slightly other ones
    ready = ready_made_sets(data.name, rule["rate"], rule["seed"], data.y_train, data.classes)
    if ready is not None:
        return ready
    device = "auto" if data.x_train.ndim == 4 else "cpu"
    q = beliefs(data, device=device, progress=default_progress()).q  # on images this takes a while
    return instance_sets(data.y_train, rule["rate"], rule["seed"], q=q, classes=data.classes)
