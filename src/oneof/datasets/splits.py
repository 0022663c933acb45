"""Which rows are for training, for validation and for testing.

Every function takes a seed and draws from its own generator: the global random state is neither
read nor changed. With labels the parts are stratified: a class of m rows gives a part of share s
either floor(m s) or ceil(m s) rows. A class with one row stays in training.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.files import write_text, write_with

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the three parts. Parts may be empty and never share a row.

    Parameters
    ----------
    train, validation, test : int64 array
        Sorted row numbers.
    provenance : mapping
        How the split was made: rule, seed, shares. Free form, JSON-like.
    """

    train: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    test: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in PARTS:
            object.__setattr__(self, name, _checked_rows(getattr(self, name), name))
        object.__setattr__(self, "provenance", dict(self.provenance))
        together = np.concatenate([getattr(self, name) for name in PARTS])
        values, counts = np.unique(together, return_counts=True)
        if (counts > 1).any():
            raise DataError(
                f"row {values[counts > 1][0]} stands in a split more than once; parts share no row."
            )

    def __len__(self) -> int:
        return sum(len(getattr(self, name)) for name in PARTS)

    @property
    def hash(self) -> str:
        """Digest of the three parts: equal splits have equal hashes, however they were made."""
        digest = hashlib.sha256()
        for name in PARTS:
            rows = getattr(self, name)
            digest.update(f"{name} {len(rows)} ".encode())
            digest.update(rows.astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in PARTS)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(getattr(self, name))} {name}" for name in PARTS)
        return f"Split({sizes}, rule {self.provenance.get('rule', 'unknown')!r}, hash {self.hash})"

    def save(self, path: Path | str) -> None:
        """Write the split to a `.json` or `.npz` file; the file appears whole or not at all."""
        path = Path(path)
        facts = {"kind": "oneof split", "hash": self.hash, "provenance": dict(self.provenance)}
        parts = {name: getattr(self, name) for name in PARTS}
        if path.suffix == ".json":
            rows = {name: values.tolist() for name, values in parts.items()}
            write_text(path, json.dumps({**facts, **rows}) + "\n")
        elif path.suffix == ".npz":
            write_with(path, lambda out: np.savez_compressed(out, facts=json.dumps(facts), **parts))
        else:
            raise DataError(f"cannot save a split as {path.name}: the name must end in .json or .npz.")

    @classmethod
    def load(cls, path: Path | str) -> Split:
        """Read a split written by `save` and check it against its hash."""
        path = Path(path)
        if not path.is_file():
            raise DataError(f"{path}: no such split file.")
        try:
            facts, parts = _read_npz(path) if path.suffix == ".npz" else _read_json(path)
            split = cls(**parts, provenance=facts["provenance"])
            stored = facts["hash"]
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            raise DataError(f"{path}: not a split file ({error}); write it with Split.save.") from None
        if split.hash != stored:
            raise DataError(
                f"{path}: the rows have hash {split.hash}, the file says {stored}; it was changed."
            )
        return split


def split_80_10_10(n: int, seed: int, labels: Any = None) -> Split:
    """80 % training, 10 % validation, 10 % test: the protocol of the real-world data sets.

    Parameters
    ----------
    n : int
        Number of rows, at least 3 (every part has one).
    seed : int
        Seed of this split.
    labels : array (n,), optional
        True labels; the parts are then stratified as far as the classes allow.
    """
    _check(n, 3)
    rng = _generator(seed)
    groups = _groups(n, labels)
    part = max(1, round(n / 10))
    held, stratified = _choose(np.arange(n), 2 * part, groups, rng)
    test, _ = _choose(held, part, groups, rng)
    return _made(
        "80/10/10",
        {"seed": int(seed), "stratified": stratified},
        train=np.setdiff1d(np.arange(n), held),
        validation=np.setdiff1d(held, test),
        test=test,
    )


def hold_out(n: int, share: float, seed: int, labels: Any = None) -> Split:
    """Hold out a share of the rows as validation (benchmarks: 10 % of train, kept clean).

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    share : float
        Share of the rows that goes to validation, between 0 and 1; at least one row, never all.
    seed : int
        Seed of this split.
    labels : array (n,), optional
        True labels; the held-out rows are then stratified as far as the classes allow.
    """
    _check(n, 2)
    if not 0 < share < 1:
        raise DataError(
            f"share = {share!r}: give the held-out share as a number between 0 and 1, such as 0.1."
        )
    rng = _generator(seed)
    size = min(n - 1, max(1, round(share * n)))
    held, stratified = _choose(np.arange(n), size, _groups(n, labels), rng)
    facts = {"share": float(share), "seed": int(seed), "stratified": stratified}
    return _made("hold-out", facts, train=np.setdiff1d(np.arange(n), held), validation=held)


def k_fold(n: int, k: int, seed: int, labels: Any = None) -> list[Split]:
    """k splits whose test parts are disjoint and cover all rows; validation is empty.

    With labels every class is spread over the folds as evenly as its size allows; the sizes of the
    folds differ by at most one row in any case.
    """
    _check(n, 2)
    if not 2 <= k <= n:
        raise DataError(f"k = {k!r}: give a number of folds between 2 and the number of rows, {n}.")
    rng = _generator(seed)
    groups = _groups(n, labels)
    order = _by_group(np.arange(n), groups, rng)
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % k
    facts = {"k": int(k), "seed": int(seed), "stratified": groups is not None}
    return [
        _made(
            f"{k}-fold", {**facts, "fold": f}, train=np.flatnonzero(fold != f), test=np.flatnonzero(fold == f)
        )
        for f in range(k)
    ]


def _choose(
    rows: np.ndarray, size: int, groups: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """`size` of the rows, sorted, and whether the choice was stratified."""
    if groups is not None:
        members = np.bincount(groups[rows], minlength=groups.max() + 1)
        # the only row of a class stays: taken out, nothing would be left to learn the class from
        eligible = rows[members[groups[rows]] > 1]
        if len(eligible) >= size:
            order = _by_group(eligible, groups, rng)
            # systematic sampling: equal steps through the classes from a random start
            steps = np.floor((np.arange(size) + rng.random()) * len(order) / size).astype(np.int64)
            return np.sort(order[np.minimum(steps, len(order) - 1)]), True
    return np.sort(rng.permutation(rows)[:size]), False


def _by_group(rows: np.ndarray, groups: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The rows in random order, class after class, the classes in random order as well."""
    order = rng.permutation(rows)
    if groups is None:
        return order
    rank = rng.permutation(groups.max() + 1)
    return order[np.argsort(rank[groups[order]], kind="stable")]


def _groups(n: int, labels: Any) -> np.ndarray | None:
    if labels is None:
        return None
    values = np.asarray(labels)
    if values.shape != (n,):
        raise DataError(f"labels have shape {values.shape}, but there are {n} rows; give one label per row.")
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _generator(seed: int) -> np.random.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(
            f"seed = {seed!r}: give a whole number, 0 or larger, so that the split can be made again."
        )
    return np.random.default_rng(int(seed))


def _check(n: int, least: int) -> None:
    if n < least:
        raise DataError(f"n = {n!r}: this split needs at least {least} rows.")


def _made(rule: str, facts: Mapping[str, Any], **parts: np.ndarray) -> Split:
    rows = sum(len(values) for values in parts.values())
    return Split(**parts, provenance={"rule": rule, "rows": rows, **facts})


def _checked_rows(given: Iterable[int], name: str) -> np.ndarray:
    rows = np.asarray(given)
    if rows.ndim != 1:
        raise DataError(f"the {name} part has shape {rows.shape}; give a list of row numbers.")
    if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0):
        raise DataError(
            f"the {name} part holds {rows.dtype} values from {rows.min()!s}; give row numbers from 0."
        )
    rows = np.sort(rows.astype(np.int64))
    rows.setflags(write=False)
    return rows


def _read_json(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return content, {name: np.asarray(content[name], dtype=np.int64) for name in PARTS}


def _read_npz(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(path, allow_pickle=False) as stored:
        return json.loads(str(stored["facts"])), {name: stored[name] for name in PARTS}
