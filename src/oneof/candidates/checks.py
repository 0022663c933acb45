"""What is asked of candidate sets before they are believed; errors name the row and repeat the input."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from oneof.candidates.cells import CandidateError, first_where, is_missing, native, short
from oneof.candidates.compact import CompactSets, frozen

if TYPE_CHECKING:
    from oneof.candidates.annotations import Answers
    from oneof.candidates.sets import Candidates

UNKNOWN = -1
"""Value of `Candidates.truth` for a row whose true label is not known."""


class NoInformationWarning(UserWarning):
    """Some rows have all classes as candidates and so say nothing about their label."""


def checked_mask(given: Any, source: str) -> np.ndarray:
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
    for i, k in first_where((values != 0) & (values != 1)):  # true for NaN as well
        what = "is NaN" if np.isnan(float(values[i, k])) else f"is {values[i, k]!s}, neither 0 nor 1"
        raise CandidateError(
            f"row {i} of the mask {what}.\n  {source}[{i}, {k}] = {values[i, k]!s}\n"
            "  A mask says for each class whether it is a candidate; for scores choose a threshold first."
        )
    return values.astype(bool)


def checked_classes(given: Iterable[Any], source: str) -> tuple[Any, ...]:
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


def check_rows(sets: CompactSets, source: str) -> None:
    empty = sets.sizes == 0
    for (i,) in first_where(empty):
        others = f" ({empty.sum()} rows in all)" if empty.sum() > 1 else ""
        raise CandidateError(
            f"row {i} has no candidate label{others}.\n  {source}[{i}] = []\n"
            "  Give at least one label per row, or drop the row."
        )
    full = np.flatnonzero(sets.sizes == sets.n_classes)
    if len(full) and sets.n_classes > 1:
        warnings.warn(
            f"{len(full)} of {len(sets)} rows have all {sets.n_classes} classes as candidates "
            f"(first: {source}[{full[0]}]); they carry no information about their label.",
            NoInformationWarning,
            stacklevel=3,
        )


def checked_positions(
    positions: Any, starts: Any, n_classes: int, source: str
) -> tuple[CompactSets, np.ndarray | None]:
    """The sets with ascending positions, and the order that makes them so; None where they were."""
    flat, begins = np.asarray(positions), np.asarray(starts)
    for name, values in (("positions", flat), ("starts", begins)):
        if values.ndim != 1 or (values.dtype.kind not in "iu" and len(values)):
            raise CandidateError(
                f"the {name} of {source} are {values.dtype} of shape {values.shape}; give whole numbers, one "
                "after the other."
            )
    begins = begins.astype(np.int64)  # differences of unsigned numbers wrap
    if not len(begins) or begins[0] != 0 or begins[-1] != len(flat) or (np.diff(begins) < 0).any():
        raise CandidateError(
            f"the starts of {source} are [{short(begins.tolist(), 8)}] for {len(flat)} positions.\n"
            "  Give where each row starts, from 0, and at the end the number of positions."
        )
    sizes = np.diff(begins)
    row = np.repeat(np.arange(len(sizes)), sizes)
    for (i,) in first_where((flat < 0) | (flat >= n_classes)):
        what = f"there are {n_classes} classes (0 to {n_classes - 1})."
        raise CandidateError(f"row {row[i]} has position {flat[i]}, but {what}")
    keys = row * n_classes + flat.astype(np.int64)
    order = None
    if (np.diff(keys) < 0).any():
        order = np.argsort(keys, kind="stable")
        keys, flat = keys[order], flat[order]
    for (i,) in first_where(np.diff(keys) == 0):
        raise CandidateError(f"row {row[i]} has position {flat[i]} twice; name each candidate once.")
    return CompactSets.of_sizes(flat.astype(np.int32), sizes, n_classes), order


def checked_evidence(given: Any, sets: CompactSets, source: str) -> np.ndarray:
    """One finite number of at least 0 per candidate, in double precision: likelihoods may be tiny."""
    values = np.asarray(given)
    if values.dtype.kind not in "iufb" or values.shape not in ((len(sets.positions),), sets.shape):
        raise CandidateError(
            f"the evidence of {source} is {values.dtype} of shape {values.shape}; give one number per "
            f"candidate, shape ({len(sets.positions)},), or per row and class, shape {sets.shape}."
        )
    if values.ndim == 2:
        inside = values[sets.rows, sets.positions]
        if np.count_nonzero(values) != np.count_nonzero(inside):
            outside = np.where(sets.dense(), 0, values)
            for i, k in first_where(outside):
                what = f"evidence {values[i, k]} for class {k}, which is not among its candidates"
                raise CandidateError(f"row {i} has {what}.\n  Give 0 there, or add the candidate.")
        values = inside
    made = values.astype(np.float64)
    for (i,) in first_where(~(np.isfinite(made) & (made >= 0))):
        what = f"evidence {made[i]} for class {sets.positions[i]}"
        raise CandidateError(f"row {sets.rows[i]} has {what}; give finite numbers of at least 0.")
    return frozen(made)


def checked_labels(given: Any, rows: int | None, n_classes: int, least: int = 0) -> np.ndarray:
    """True labels as int64 (n,); with the least value `UNKNOWN` some may not be known."""
    labels = np.asarray(given)
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        what = f"{labels.dtype} of shape {labels.shape}"
        raise CandidateError(f"the true labels are {what}; give class indices, shape (n,).")
    if rows is not None and len(labels) != rows:
        what = f"{len(labels)} true labels but {rows} rows"
        raise CandidateError(f"there are {what}; give one class index per row.")
    for (i,) in first_where((labels < least) | (labels >= n_classes)):
        what = f"0 to {n_classes - 1}" + ("" if least == 0 else ", -1 for unknown")
        raise CandidateError(f"row {i} has true label {labels[i]}, but the classes are {what}.")
    return labels.astype(np.int64)


def checked_truth(given: Any, self: Candidates) -> np.ndarray:
    truth = checked_labels(given, len(self), self.n_classes, least=UNKNOWN)
    if not self.truth_may_be_outside:
        known = np.flatnonzero(truth != UNKNOWN)
        outside = known[~self.has(known, truth[known])]
        if len(outside):
            i = outside[0]
            there = [self.classes[k] for k in np.flatnonzero(self.rows([i])[0])]
            raise CandidateError(
                f"row {i}: the true label {self.classes[truth[i]]!r} is not among its candidates.\n"
                f"  {self.source}[{i}] = [{short(there, 8)}]\n"
                f"  ({len(outside)} such rows.) If that can happen in this source, say "
                "truth_may_be_outside=True."
            )
    return frozen(truth)


def check_answers(answers: Answers, shape: tuple[int, int]) -> None:
    if not len(answers):
        return
    last, highest = int(answers.row[-1]), int(answers.label.max())
    if last >= shape[0] or highest >= shape[1]:
        raise CandidateError(
            f"an answer is about row {last} and one names class {highest}, but there are {shape[0]} rows "
            f"and {shape[1]} classes."
        )


def one_set(row: Any, i: int, source: str, first: dict[tuple[type, Any], int]) -> list[Any]:
    """The labels of one row as plain Python values, repeated labels dropped.

    `first` takes down the row of the first label of each type and value.
    """
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise CandidateError(
            f"row {i} is not a collection of labels.\n  {source}[{i}] = {row!r}\n"
            f"  Write [{row!r}] for one known label, or use Candidates.from_labels."
        )
    try:
        given = [native(v) for v in row]
        labels = list(dict.fromkeys(given))
    except TypeError:
        raise CandidateError(
            f"row {i} has a label that is a collection itself.\n  {source}[{i}] = {row!r:.80}\n"
            "  Give one collection of labels per row; a label is a text or a number."
        ) from None
    if any(map(is_missing, labels)):
        raise CandidateError(
            f"row {i} has a missing label.\n  {source}[{i}] = [{short(labels, 8)}]\n"
            "  Drop the missing entry; a set lists only labels that are possible."
        )
    for label in given:
        first.setdefault((label.__class__, label), i)
    return labels


def _texts_of(number: Any) -> set[str]:
    """How a number may be written: 1.0 is 1, too."""
    whole = isinstance(number, (float, np.floating)) and number.is_integer()
    return {str(number), f"{number:.0f}"} if whole else {str(number)}


def check_types(first: dict[tuple[type, Any], int], source: str, named: bool) -> None:
    """Labels that look alike are one thing: True is 1 to Python, which would make them one class, and a text
    is no number, which would make "1" and 1 two, unless the classes are `named` and have both.

    `first` has the row of the first label of each type and value.
    """
    flags = {label: row for (kind, label), row in first.items() if kind is bool}
    texts = {label: row for (_, label), row in first.items() if isinstance(label, str) and not named}
    for (kind, label), row in first.items() if flags or texts else ():
        if kind is not bool and label in flags:
            other: Any = bool(label)
            other_row, classes = flags[label], "one class"
        elif not isinstance(label, str) and (alike := texts.keys() & _texts_of(label)):
            other = min(alike)
            other_row, classes = texts[other], "two classes"
        else:
            continue
        raise CandidateError(
            f"row {other_row} of {source} has the label {other!r}, row {row} the label {label!r}: "
            f"they would be {classes}.\n  Use one type for all labels."
        )
