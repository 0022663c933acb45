"""`Candidates`: for every row the set of labels of which one is right.

This is the type everything else speaks. It is checked once, when it is built, and frozen
afterwards, so that no later code has to look for empty rows, NaN or unknown classes again.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneof.candidates.cells import CandidateError, is_missing, native, ordered, short

UNKNOWN = -1
"""Value of `Candidates.truth` for a row whose true label is not known."""


class NoInformationWarning(UserWarning):
    """Some rows have all classes as candidates and so say nothing about their label."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """One candidate set per row.

    Build it with `from_mask`, `from_sets` or `from_labels`; the plain constructor runs the
    same checks.

    Parameters
    ----------
    mask : bool array (n, c)
        `mask[i, k]` says that class k is a candidate of row i. Every row has at least one.
    classes : sequence of length c
        Names of the classes, in the order of the columns.
    truth : int array (n,), optional
        Column of the true label where it is known, -1 elsewhere. Used for reports and by the
        supervised oracle, never by a method that learns from candidates.
    truth_may_be_outside : bool
        Whether the source cannot promise that the true label is among the candidates.
    provenance : mapping
        Where the sets come from: rule, rate, seed, file. Free form, JSON-like.

    Examples
    --------
    >>> c = Candidates.from_sets([["cat", "dog"], ["dog"], ["bird", "cat"]])
    >>> c.classes
    ('bird', 'cat', 'dog')
    >>> c.sizes.tolist()
    [2, 1, 2]
    """

    mask: np.ndarray
    classes: tuple[Any, ...]
    truth: np.ndarray | None = None
    truth_may_be_outside: bool = False
    provenance: Mapping[str, Any] = field(default_factory=dict)
    source: str = "candidates"

    def __post_init__(self) -> None:
        mask = _checked_mask(self.mask, self.source)
        classes = _checked_classes(self.classes, self.source)
        if len(classes) != mask.shape[1]:
            raise CandidateError(
                f"{self.source} has {mask.shape[1]} columns but {len(classes)} class names were given: "
                f"[{short(classes, 8)}].\n  Give one name per column."
            )
        _check_rows(mask, self.source)
        truth = None if self.truth is None else _checked_truth(self, mask)
        mask.setflags(write=False)
        facts = {"mask": mask, "classes": classes, "truth": truth, "provenance": dict(self.provenance)}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    # ---- ways in ------------------------------------------------------------------------------

    @classmethod
    def from_mask(cls, mask: Any, classes: Sequence[Any] | None = None, **more: Any) -> Candidates:
        """From an (n, c) array of booleans or of 0 and 1."""
        if classes is None:
            mask = _checked_mask(mask, more.get("source", "candidates"))
            classes = range(mask.shape[1])
        return cls(mask, tuple(classes), **more)

    @classmethod
    def from_sets(
        cls, sets: Iterable[Iterable[Any]], classes: Sequence[Any] | None = None, **more: Any
    ) -> Candidates:
        """From one collection of class names per row. `classes` fixes the columns and their order."""
        source = more.get("source", "candidates")
        rows = [_one_set(row, i, source) for i, row in enumerate(sets)]
        if classes is None:
            classes = ordered({label for row in rows for label in row})
            if not classes:
                raise CandidateError(f"{source} names no class at all: nothing can be learned from it.")
        names = _checked_classes(classes, source)
        column = {name: k for k, name in enumerate(names)}
        mask = np.zeros((len(rows), len(names)), dtype=bool)
        for i, row in enumerate(rows):
            for label in row:
                if label not in column:
                    raise CandidateError(
                        f"row {i} names an unknown class.\n  {source}[{i}] = [{short(row, 8)}], "
                        f"but {label!r} is not one of [{short(names, 8)}].\n"
                        "  Correct the label or add the class to `classes`."
                    )
                mask[i, column[label]] = True
        return cls(mask, names, **more)

    @classmethod
    def from_labels(cls, labels: Any, classes: Sequence[Any] | None = None, **more: Any) -> Candidates:
        """From one known label per row: every set has one member."""
        source = more.get("source", "labels")
        more = {"source": source, **more}
        values = np.asarray(labels)
        if values.ndim != 1:
            raise CandidateError(
                f"{source} has shape {values.shape}; labels are one value per row, shape (n,)."
            )
        made = cls.from_sets([[v] for v in values.tolist()], classes, **more)
        truth = made.mask.argmax(axis=1) if len(made) else np.zeros(0, dtype=np.int64)
        return cls(made.mask, made.classes, **{"truth": truth, **more})

    # ---- facts --------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.mask.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.mask.shape

    def __getitem__(self, rows: Any) -> Candidates:
        """`take`; lets scikit-learn's splitters cut candidates like any other y."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # as scikit-learn cuts whatever has a shape
        return self.take(np.atleast_1d(rows) if not isinstance(rows, slice) else np.arange(len(self))[rows])

    @property
    def n_classes(self) -> int:
        return self.mask.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates of each row."""
        return self.mask.sum(axis=1)

    @property
    def singletons(self) -> np.ndarray:
        """Boolean (n,): rows with exactly one candidate."""
        return self.sizes == 1

    @property
    def hash(self) -> str:
        """Digest of sets and class names: the same sets have the same hash wherever they were made."""
        return sets_hash(self.mask, self.classes)

    def sets(self) -> list[list[Any]]:
        """The candidate sets as lists of class names."""
        return [[self.classes[k] for k in np.flatnonzero(row)] for row in self.mask]

    def take(self, rows: Any) -> Candidates:
        """The candidates of some rows, by index or boolean mask, in that order."""
        rows = np.asarray(rows)
        truth = None if self.truth is None else self.truth[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoInformationWarning)  # said once, when the whole was built
            return Candidates(
                self.mask[rows], self.classes, truth, self.truth_may_be_outside, self.provenance, self.source
            )

    def describe(self) -> str:
        """One line for logs and reports."""
        sizes = self.sizes
        if not len(self):
            return f"0 rows, {self.n_classes} classes"
        return (
            f"{len(self)} rows, {self.n_classes} classes, {sizes.mean():.2f} candidates per row "
            f"({(sizes == 1).mean():.1%} singletons, {(sizes == 2).mean():.1%} pairs)"
        )

    def __repr__(self) -> str:
        return f"Candidates({self.describe()}{', truth known' if self.truth is not None else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        if self.truth is None or other.truth is None:
            same_truth = self.truth is other.truth
        else:
            same_truth = np.array_equal(self.truth, other.truth)
        return same_truth and self.classes == other.classes and np.array_equal(self.mask, other.mask)

    def __hash__(self) -> int:
        return hash(self.hash)


def sets_hash(mask: np.ndarray, classes: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(repr((mask.shape, classes)).encode())
    digest.update(np.packbits(mask, axis=1).tobytes())
    return digest.hexdigest()[:16]


def _checked_mask(given: Any, source: str) -> np.ndarray:
    """The mask as a fresh boolean (n, c) array, or an error that names the first bad entry."""
    try:
        values = np.asarray(given)
    except ValueError as error:
        raise CandidateError(
            f"{source} is ragged: its rows have different lengths.\n"
            "  Use Candidates.from_sets for lists of labels."
        ) from error
    if values.ndim != 2 or values.shape[1] == 0:
        raise CandidateError(
            f"{source} has shape {values.shape}; a candidate mask has shape (rows, classes).\n"
            "  Use Candidates.from_labels for one label per row, Candidates.from_sets for lists of labels."
        )
    if values.dtype == bool:
        return values.copy()
    if values.dtype.kind not in "iuf":
        raise CandidateError(
            f"{source} holds {values.dtype}, not booleans or 0 and 1.\n"
            "  Use Candidates.from_sets for lists of class names."
        )
    bad = (values != 0) & (values != 1)  # true for NaN as well
    if bad.any():
        i, k = np.argwhere(bad)[0]
        what = "is NaN" if np.isnan(float(values[i, k])) else f"is {values[i, k]!s}, neither 0 nor 1"
        raise CandidateError(
            f"row {i} of the mask {what}.\n  {source}[{i}, {k}] = {values[i, k]!s}\n"
            "  A mask says for each class whether it is a candidate; for scores choose a threshold first."
        )
    return values.astype(bool)


def _checked_classes(given: Iterable[Any], source: str) -> tuple[Any, ...]:
    classes = tuple(native(v) for v in given)
    seen: dict[Any, int] = {}
    for k, name in enumerate(classes):
        if is_missing(name):
            raise CandidateError(f"class {k} of {source} has no name: classes[{k}] = {name!r}.")
        if name in seen:
            raise CandidateError(
                f"class name {name!r} stands twice in {source}: classes[{seen[name]}] and classes[{k}].\n"
                "  Give every class one name of its own."
            )
        seen[name] = k
    return classes


def _check_rows(mask: np.ndarray, source: str) -> None:
    sizes = mask.sum(axis=1)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        others = f" ({len(empty)} rows in all)" if len(empty) > 1 else ""
        raise CandidateError(
            f"row {empty[0]} has no candidate label{others}.\n  {source}[{empty[0]}] = []\n"
            "  Give at least one label per row, or drop the row."
        )
    full = np.flatnonzero(sizes == mask.shape[1])
    if len(full) and mask.shape[1] > 1:
        warnings.warn(
            f"{len(full)} of {len(mask)} rows have all {mask.shape[1]} classes as candidates "
            f"(first: {source}[{full[0]}]); they carry no information about their label.",
            NoInformationWarning,
            stacklevel=4,
        )


def _checked_truth(self: Candidates, mask: np.ndarray) -> np.ndarray:
    truth = np.asarray(self.truth)
    if truth.shape != (len(mask),):
        raise CandidateError(
            f"the true labels have shape {truth.shape}, but there are {len(mask)} rows; "
            "give one class index per row."
        )
    if truth.dtype.kind not in "iu":
        raise CandidateError(f"the true labels are {truth.dtype}; give class indices (-1 where unknown).")
    truth = truth.astype(np.int64)
    wrong = np.flatnonzero((truth < UNKNOWN) | (truth >= mask.shape[1]))
    if len(wrong):
        raise CandidateError(
            f"row {wrong[0]} has true label {truth[wrong[0]]}, but there are only {mask.shape[1]} classes "
            f"(0 to {mask.shape[1] - 1}; -1 for unknown)."
        )
    known = np.flatnonzero(truth != UNKNOWN)
    outside = known[~mask[known, truth[known]]]
    if len(outside) and not self.truth_may_be_outside:
        i = outside[0]
        raise CandidateError(
            f"row {i}: the true label {self.classes[truth[i]]!r} is not among its candidates.\n"
            f"  {self.source}[{i}] = [{short([self.classes[k] for k in np.flatnonzero(mask[i])], 8)}]\n"
            f"  ({len(outside)} such rows.) If that can happen in this source, say truth_may_be_outside=True."
        )
    truth.setflags(write=False)
    return truth


def _one_set(row: Any, i: int, source: str) -> list[Any]:
    """The labels of one row as plain Python values, repeated labels dropped."""
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise CandidateError(
            f"row {i} is not a collection of labels.\n  {source}[{i}] = {row!r}\n"
            f"  Write [{row!r}] for one known label, or use Candidates.from_labels."
        )
    labels = list(dict.fromkeys(native(v) for v in row))
    for label in labels:
        if is_missing(label):
            raise CandidateError(
                f"row {i} has a missing label.\n  {source}[{i}] = [{short(labels, 8)}]\n"
                "  Drop the missing entry; a set lists only labels that are possible."
            )
    return labels
