"""Which rows are for training, for validation and for testing.

Every function takes a seed and draws from its own generator: the global random state is neither
read nor changed. With labels the parts are stratified as far as the classes allow: small ones may give a
part a row more or less than their share. A class with one row stays in training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneof.candidates.compact import frozen
from oneof.tables.errors import DataError

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted row numbers (int64) of the three parts, which may be empty and never share a row.

    `provenance` says how the split was made: rule, seed, shares.
    """

    train: np.ndarray
    validation: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    test: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in PARTS:
            object.__setattr__(self, name, _checked_rows(getattr(self, name), name))
        object.__setattr__(self, "provenance", dict(self.provenance))
        values, counts = np.unique(np.concatenate(self._parts()), return_counts=True)
        for row in values[counts > 1]:
            raise DataError(f"row {row} stands in a split more than once; parts share no row.")

    def _parts(self) -> list[np.ndarray]:
        return [self.train, self.validation, self.test]

    def __len__(self) -> int:
        return sum(map(len, self._parts()))

    @property
    def hash(self) -> str:
        """Digest of the three parts: equal splits have equal hashes, however they were made."""
        named = zip(PARTS, self._parts())
        parts = [f"{name} {len(rows)} ".encode() + rows.astype("<i8").tobytes() for name, rows in named]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(rows)} {name}" for name, rows in zip(PARTS, self._parts()))
        return f"Split({sizes}, rule {self.provenance.get('rule', 'unknown')!r}, hash {self.hash})"


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
    part = max(1, round(n / 10))
    return _divide({"rule": "80/10/10", "rows": n}, 3, seed, labels, 2 * part, tested=part)


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
    if not 0 < share < 1:
        raise DataError(f"share = {share!r}: give the held-out share as a number between 0 and 1.")
    size = min(n - 1, max(1, round(share * n)))
    return _divide({"rule": "hold-out", "rows": n, "share": float(share)}, 2, seed, labels, size)


def _divide(
    facts: dict[str, Any], least: int, seed: int, labels: Any, held_out: int, tested: int = 0
) -> Split:
    """A split that holds out some rows, of which some are for testing."""
    n = facts["rows"]
    if n < least:
        raise DataError(f"n = {n!r}: this split needs at least {least} rows.")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(
            f"seed = {seed!r}: give a whole number, 0 or larger, so that the split can be made again."
        )
    groups = None
    if labels is not None:
        values = np.asarray(labels)
        if values.shape != (n,):
            raise DataError(
                f"labels have shape {values.shape}, but there are {n} rows; give one label per row."
            )
        groups = np.unique(values, return_inverse=True)[1].astype(np.int64)
    rng = np.random.default_rng(int(seed))
    held, stratified = _choose(np.arange(n), held_out, groups, rng)
    test = _choose(held, tested, groups, rng)[0] if tested else held[:0]
    facts |= {"seed": int(seed), "stratified": stratified}
    return Split(np.setdiff1d(np.arange(n), held), np.setdiff1d(held, test), test, facts)


def _choose(
    rows: np.ndarray, size: int, groups: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """`size` of the rows, sorted, and whether the choice was stratified."""
    if groups is not None:
        members = np.bincount(groups[rows], minlength=groups.max() + 1)
        # the only row of a class stays: taken out, nothing would be left to learn the class from
        eligible = rows[members[groups[rows]] > 1]
        if len(eligible) >= size:
            # class after class, classes and their rows in random order
            order = rng.permutation(eligible)
            order = order[np.argsort(rng.permutation(groups.max() + 1)[groups[order]], kind="stable")]
            # systematic sampling: equal steps through the classes from a random start
            steps = np.floor((np.arange(size) + rng.random()) * len(order) / size).astype(np.int64)
            return np.sort(order[np.minimum(steps, len(order) - 1)]), True
    return np.sort(rng.permutation(rows)[:size]), False


def _checked_rows(given: Iterable[int], name: str) -> np.ndarray:
    rows = np.asarray(given)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0)):
        raise DataError(f"the {name} part is {rows!s:.60} ({rows.dtype}); give a list of row numbers from 0.")
    return frozen(np.sort(rows.astype(np.int64)))
