"""`Candidates`: for every row the set of labels of which one is right.

This is the type everything else speaks. It is checked once, when it is built, and frozen
afterwards, so that no later code has to look for empty rows, NaN or unknown classes again.
"""

from __future__ import annotations

import hashlib
import warnings
from array import array
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from oneof.candidates import checks
from oneof.candidates.cells import CandidateError, as_array, ordered, short
from oneof.candidates.checks import UNKNOWN, NoInformationWarning
from oneof.candidates.compact import DENSE, CompactSets, FrozenArrays, frozen, row_numbers

if TYPE_CHECKING:
    from oneof.candidates.annotations import Answers

__all__ = ["UNKNOWN", "CandidateError", "Candidates", "NoInformationWarning"]


class Candidates(FrozenArrays):
    """One candidate set per row.

    Build it with `from_sets`, `from_labels`, `from_mask` or `from_positions`; the plain constructor runs the
    same checks. Sets are kept by position (`positions`, `starts`): memory grows with the candidates, not with
    rows × classes. `mask` is the dense view.

    Parameters
    ----------
    mask : bool array (n, c) or CompactSets
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
    evidence : array (m,) or (n, c), optional
        How strongly each candidate is supported, not negative: whole numbers are votes, others likelihoods or
        scores (`oneof.candidates.evidence`). One number per candidate in the order of `positions`, or a
        matrix that is 0 outside the sets.
    answers : Answers, optional
        Who said what, for methods that judge the annotators. History, not part of hash and equality.

    Examples
    --------
    >>> c = Candidates.from_sets([["cat", "dog"], ["dog"], ["bird", "cat"]])
    >>> c.classes
    ('bird', 'cat', 'dog')
    >>> c.sizes.tolist()
    [2, 1, 2]
    >>> c.positions.tolist(), c.starts.tolist()
    ([1, 2, 2, 0, 1], [0, 2, 3, 5])
    """

    compact: CompactSets
    classes: tuple[Any, ...]
    truth: np.ndarray | None
    truth_may_be_outside: bool
    provenance: dict[str, Any]
    source: str
    evidence: np.ndarray | None
    answers: Answers | None

    def __init__(
        self,
        mask: Any,
        classes: Iterable[Any],
        truth: Any = None,
        truth_may_be_outside: bool = False,
        provenance: Mapping[str, Any] | None = None,
        source: str = "candidates",
        evidence: Any = None,
        answers: Answers | None = None,
    ) -> None:
        compact = (
            mask if isinstance(mask, CompactSets) else CompactSets.of_mask(checks.checked_mask(mask, source))
        )
        names = checks.checked_classes(classes, source)
        if len(names) != compact.n_classes:
            raise CandidateError(
                f"{source} has {compact.n_classes} columns but {len(names)} class names were given: "
                f"[{short(names, 8)}].\n  Give one name per column."
            )
        checks.check_rows(compact, source)
        if answers is not None:
            checks.check_answers(answers, compact.shape)
        vars(self).update(
            compact=compact.freeze(),
            classes=names,
            truth_may_be_outside=truth_may_be_outside,
            provenance=dict(provenance or {}),
            source=source,
            evidence=None if evidence is None else checks.checked_evidence(evidence, compact, source),
            answers=answers,
        )
        vars(self)["truth"] = None if truth is None else checks.checked_truth(truth, self)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"candidates are frozen: {name!r} cannot be set; make new ones with `replace`.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"candidates are frozen: {name!r} cannot be deleted.")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_mask", "hash")}

    # ---- ways in ------------------------------------------------------------------------------

    @classmethod
    def from_mask(cls, mask: Any, classes: Sequence[Any] | None = None, **more: Any) -> Candidates:
        """From an (n, c) array of booleans or of 0 and 1."""
        compact = CompactSets.of_mask(checks.checked_mask(mask, more.get("source", "candidates")))
        return cls(compact, range(compact.n_classes) if classes is None else classes, **more)

    @classmethod
    def from_positions(cls, positions: Any, starts: Any, classes: Sequence[Any], **more: Any) -> Candidates:
        """From the columns of all candidates, row after row, and where each row starts.

        Row i has `positions[starts[i] : starts[i + 1]]`, in any order; `evidence` is in the order given.
        """
        classes = tuple(classes)
        source = more.get("source", "candidates")
        compact, order = checks.checked_positions(positions, starts, len(classes), source)
        if order is not None and np.shape(more.get("evidence", ())) == order.shape:
            more["evidence"] = np.asarray(more["evidence"])[order]
        return cls(compact, classes, **more)

    @classmethod
    def from_sets(
        cls, sets: Iterable[Iterable[Any]], classes: Sequence[Any] | None = None, **more: Any
    ) -> Candidates:
        """From one collection of class names per row. `classes` fixes the columns and their order."""
        source = more.get("source", "candidates")
        first: dict[tuple[type, Any], int] = {}
        rows = [checks.one_set(row, i, source, first) for i, row in enumerate(sets)]
        checks.check_types(first, source, named=classes is not None)
        if classes is None:
            classes = ordered({label for row in rows for label in row})
            if not classes:
                raise CandidateError(f"{source} names no class at all: nothing can be learned from it.")
        names = checks.checked_classes(classes, source)
        column = {name: k for k, name in enumerate(names)}
        positions = array("i")
        for i, row in enumerate(rows):
            try:
                positions.extend(sorted([column[label] for label in row]))
            except KeyError as error:
                raise CandidateError(
                    f"row {i} names an unknown class.\n  {source}[{i}] = [{short(row, 8)}], "
                    f"but {error.args[0]!r} is not one of [{short(names, 8)}].\n"
                    "  Correct the label or add the class to `classes`."
                ) from None
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        return cls(CompactSets.of_sizes(np.array(positions), sizes, len(names)), names, **more)

    @classmethod
    def from_labels(cls, labels: Any, classes: Sequence[Any] | None = None, **more: Any) -> Candidates:
        """From one known label per row: every set has one member."""
        source = more.setdefault("source", "labels")
        values = as_array(labels)
        if values.ndim != 1:
            what = "labels are one value per row, shape (n,)."
            raise CandidateError(f"{source} has shape {values.shape}; {what}")
        made = cls.from_sets([[v] for v in values.tolist()], classes, **more)
        return made if "truth" in more else made.replace(truth=made.positions)

    # ---- facts --------------------------------------------------------------------------------

    @property
    def positions(self) -> np.ndarray:
        """The columns of the candidates of row 0, of row 1, ...; ascending within a row."""
        return self.compact.positions

    @property
    def starts(self) -> np.ndarray:
        """Where each row starts in `positions`, and at the end their number."""
        return self.compact.starts

    @property
    def mask(self) -> np.ndarray:
        """Boolean (n, c), read-only. Where it is large it is made anew each time: `rows` gives a part."""
        if "_mask" in vars(self):
            return vars(self)["_mask"]
        mask = frozen(self.compact.dense())
        if mask.size <= DENSE:  # kept once it was asked for
            vars(self)["_mask"] = mask
        return mask

    def rows(self, rows: Any) -> np.ndarray:
        """The mask of some rows: a boolean array (rows, c)."""
        return self.compact.dense(row_numbers(rows, len(self)))

    def evidence_of(self, rows: Any) -> np.ndarray:
        """The evidence of some rows as an array (rows, c), 0 outside the sets; without evidence 1 inside."""
        values = np.ones(len(self.positions)) if self.evidence is None else self.evidence
        return self.compact.dense(row_numbers(rows, len(self)), values)

    def has(self, rows: Any, columns: Any) -> np.ndarray:
        """Boolean: whether column `columns[i]` is a candidate of row `rows[i]`."""
        return self.compact.holds(row_numbers(rows, len(self)), columns)

    def __len__(self) -> int:
        return len(self.compact)

    @property
    def shape(self) -> tuple[int, int]:
        return self.compact.shape

    def __getitem__(self, rows: Any) -> Candidates:
        """`take`; lets scikit-learn's splitters cut candidates like any other y."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # as scikit-learn cuts whatever has a shape
        return self.take(rows)

    @property
    def n_classes(self) -> int:
        return self.compact.n_classes

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates of each row."""
        return self.compact.sizes

    @property
    def singletons(self) -> np.ndarray:
        """Boolean (n,): rows with exactly one candidate."""
        return self.sizes == 1

    @cached_property
    def hash(self) -> str:
        """Digest of sets, names and evidence: the same sets have the same hash wherever they were made."""
        digest = hashlib.sha256(repr((self.shape, self.classes)).encode())
        for rows in self.compact.blocks():  # the bits of the mask, row after row
            digest.update(np.packbits(self.compact.dense(rows), axis=1).tobytes())
        if self.evidence is not None:
            digest.update(b"evidence" + self.evidence.astype("<f8").tobytes())
        return digest.hexdigest()[:16]

    def sets(self) -> list[list[Any]]:
        """The candidate sets as lists of class names."""
        names = [self.classes[k] for k in self.positions.tolist()]
        starts = self.starts.tolist()
        return [names[first:last] for first, last in pairwise(starts)]

    def take(self, rows: Any) -> Candidates:
        """The candidates of some rows, by index or boolean mask, in that order."""
        rows = row_numbers(rows, len(self))
        return self.replace(
            mask=self.compact.take(rows),
            truth=None if self.truth is None else self.truth[rows],
            evidence=None if self.evidence is None else self.evidence[self.compact.places(rows)],
            answers=None if self.answers is None else self.answers.take(rows, len(self)),
        )

    def replace(self, **facts: Any) -> Candidates:
        """The same candidates with other facts, named as in the constructor."""
        known = {"mask": self.compact} | {name: getattr(self, name) for name in _FACTS}
        # said once, when the whole was built
        with warnings.catch_warnings(action="ignore", category=NoInformationWarning):
            return Candidates(**known | facts)

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
        known = ", truth known" if self.truth is not None else ""
        return f"Candidates({self.describe()}{known}{', with evidence' if self.evidence is not None else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        truth = np.asarray(self.truth), np.asarray(other.truth)  # None equals None
        return self.hash == other.hash and np.array_equal(*truth)

    def __hash__(self) -> int:
        return hash(self.hash)


_FACTS = ("classes", "truth", "truth_may_be_outside", "provenance", "source", "evidence", "answers")
