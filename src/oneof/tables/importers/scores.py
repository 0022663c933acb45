"""Candidate sets from a model's opinion: its scores, or the sets of a conformal predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import CandidateError, CellError, first_where, is_missing
from oneof.candidates.compact import CompactSets
from oneof.candidates.questions import answered
from oneof.tables.importers.assemble import (
    HOW_TO_FILL,
    Missing,
    Settings,
    decide,
    filled,
    finished,
    row_names,
    unnamed,
)

SUM_TOLERANCE = 0.02
"""How far the probabilities of a row may sum to something else than 1: written with two or three
digits, or in half precision, they do."""

MOST_ANSWERS_OF_A_ROW = 100_000
MOST_ANSWERS = 10_000_000
"""Counts become single answers; more than so many would take gigabytes."""


def from_scores(
    scores: Any,
    classes: Sequence[Any] | None = None,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
    threshold: float | None = None,
    ids: Sequence[Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Annotations:
    """From an (n, c) array of scores, by one of three rules.

    Parameters
    ----------
    scores : array (n, c)
        One finite number per row and class; a higher one is more probable. They stay with the candidates as
        evidence, as parts of 1; where some are negative, by a softmax.
    classes, ids : sequences, optional
        Names of the columns, default those of a data frame, else 0..c-1; names of the rows.
    top_k : int, optional
        The k highest classes of every row.
    top_p : float, optional
        The fewest classes whose probabilities sum to at least p; scores must be probabilities.
    threshold : float, optional
        Classes with at least this score. A row in which none has it keeps its highest.

    Examples
    --------
    >>> from_scores([[0.5, 0.4, 0.1], [0.1, 0.1, 0.8]], ["a", "b", "c"], top_p=0.8).candidates.sets()
    [['a', 'b'], ['c']]
    """
    values, names = _matrix(scores, classes, "scores")
    given = {"top-k": top_k, "top-p": top_p, "threshold": threshold}
    wanted = {name: value for name, value in given.items() if value is not None}
    if len(wanted) != 1:
        raise CandidateError(f"give exactly one of {', '.join(given)}; {len(wanted)} were given.")
    order = np.argsort(-values, axis=1, kind="stable")  # of equal scores the first column
    notes = []
    if top_k is not None:
        if not 1 <= top_k <= values.shape[1]:
            raise CandidateError(f"top-k is {top_k}, but there are {values.shape[1]} classes; give 1 to all.")
        sizes = np.full(len(values), top_k)
    elif top_p is not None:
        sizes = _sizes_with_mass(np.take_along_axis(values, order, axis=1), top_p)
    else:
        sizes = (values >= threshold).sum(axis=1)
        if below := int((sizes == 0).sum()):
            notes.append(f"rows without a score of {threshold:g}, their highest kept: {below}")
    mask = np.empty(values.shape, dtype=bool)
    np.put_along_axis(mask, order, np.arange(values.shape[1]) < np.maximum(sizes, 1)[:, None], axis=1)
    (rule, _), *_ = wanted.items()
    known = {"format": "scores", **(provenance or {}), "rule": rule, "settings": wanted, "notes": notes}
    return finished(CompactSets.of_mask(mask), names, row_names(ids, len(mask)), known, shares(values)[mask])


def _sizes_with_mass(highest_first: np.ndarray, top_p: float) -> np.ndarray:
    """How many of the highest probabilities of every row sum to at least p."""
    if not 0 < top_p <= 1:
        raise CandidateError(f"top-p is {top_p!r}; give a probability above 0, at most 1.")
    total, lowest = highest_first.sum(axis=1), highest_first[:, -1]
    for (i,) in first_where((lowest < 0) | (np.abs(total - 1) > SUM_TOLERANCE)):
        what = f"top-p needs probabilities, but this row sums to {total[i]:g} (lowest {lowest[i]:g}).\n"
        what += "  For other scores: --top-k 2, or --threshold 0.1."
        raise CellError(i, f"row {i}", what)
    before = np.cumsum(highest_first, axis=1) - highest_first
    return (before < top_p * total[:, None] - 1e-12).sum(axis=1)  # rounding must not add a class


def from_prediction_sets(
    sets: Any,
    level: float,
    classes: Sequence[Any] | None = None,
    *,
    index: int = 0,
    missing: Missing = "error",
    ids: Sequence[Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Annotations:
    """From the sets of a conformal predictor.

    Parameters
    ----------
    sets : bool array (n, c) or (n, c, levels)
        Which classes are in. The last axis of a three-dimensional one (MAPIE's form) is cut at `index`.
    level : float
        Coverage the sets were made for, such as 0.9: the true label is expected to be missing from one
        set in ten. It is kept in the provenance.
    classes, ids : sequences, optional
        Names of the columns, default those of a data frame, else 0..c-1; names of the rows.
    missing : {"error", "drop", "all"}, default="error"
        What to do with empty sets, which conformal prediction may give.
    """
    if not 0 < level < 1:
        raise CandidateError(f"the level is {level!r}; give the coverage of the sets, such as 0.9.")
    shape = np.shape(sets)
    if len(shape) == 3:
        if not -shape[2] <= index < shape[2]:
            raise CandidateError(f"index is {index}, but the sets have {shape[2]} levels.")
        sets = np.asarray(sets)[:, :, index]
    matrix, names = _matrix(sets, classes, "prediction sets")
    odd = (matrix != 0) & (matrix != 1)
    _refuse_first(odd, matrix, names, "is neither 0 nor 1; scores need their own import.")
    mask = matrix.astype(bool)
    empty = mask.sum(axis=1) == 0
    notes = [f"expected share of rows whose true label is missing: at most {1 - level:.1%}"]
    for (i,) in first_where(empty):
        if missing == "error":
            what = f"its prediction set is empty ({empty.sum()} such rows).\n  {HOW_TO_FILL}"
            raise CellError(i, f"row {i}", what)
        notes.append(f"rows with an empty prediction set, {filled(missing)}: {empty.sum()}")
        mask[empty] = True
    known = {"format": "sets", **(provenance or {})}
    known |= {"rule": "conformal", "settings": {"level": level}, "notes": notes}
    made = finished(CompactSets.of_mask(mask), names, row_names(ids, len(mask)), known)
    return made.take(~empty) if missing == "drop" and empty.any() else made


def from_counts(
    counts: Any,
    classes: Sequence[Any] | None = None,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From an (n, c) array of how often each class was named; who did is not known.

    Parameters
    ----------
    counts : array (n, c)
        Whole numbers of at least 0.
    classes, ids : sequences, optional
        Names of the columns, default those of a data frame, else 0..c-1; names of the rows.
    settings, **more
        See `Settings`: `rule, missing, truth_may_be_outside`.

    Examples
    --------
    >>> from_counts([[3, 0, 1], [0, 5, 0]], ["ant", "bee", "cow"]).candidates.sets()
    [['ant', 'cow'], ['bee']]
    """
    settings = (settings or Settings()).of("counts", more)
    values, names = _matrix(counts, classes, "counts")
    odd = (values < 0) | (values != np.floor(values))
    _refuse_first(odd, values, names, "is no count; counts are 0, 1, 2, ...")
    said = answered(names, settings.accept or ())
    if list(said) != list(names):  # votes for one class under several names, or for none
        names = tuple(dict.fromkeys(name for name in said if not is_missing(name)))
        values = values @ np.array([[v == name for name in names] for v in said], dtype=np.float64)
    totals = values.sum(axis=1)
    if not totals.any():
        raise CandidateError("all counts are 0: there is no answer at all.")
    if totals.max() > MOST_ANSWERS_OF_A_ROW or totals.sum() > MOST_ANSWERS:
        i = int(totals.argmax())
        what = f"it has {totals[i]:.15g} answers, all rows {totals.sum():.15g}; every answer is listed, and "
        what += f"there may be {MOST_ANSWERS_OF_A_ROW:,} of a row and {MOST_ANSWERS:,} in all.\n"
        what += "  Divide the counts by a common number, or import them as scores with a threshold."
        raise CellError(i, f"row {i}", what)
    row, column = (np.repeat(some, values[values > 0].astype(np.int64)) for some in np.nonzero(values))
    workers, worker = unnamed(row)
    answers = Answers(row, worker, column, workers, named=False)
    return decide(answers, names, row_names(ids, len(values)), settings, [], len(row))


def shares(scores: np.ndarray) -> np.ndarray:
    """Scores as parts of 1: divided by their sum, or where some are negative (logits) by a softmax."""
    if (scores < 0).any():
        return softmax(scores, axis=1)
    total = scores.sum(axis=1, keepdims=True)
    return np.divide(scores, total, out=np.ones_like(scores), where=total > 0)


def _matrix(given: Any, classes: Sequence[Any] | None, what: str) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Finite numbers (n, c) and the names of the columns."""
    try:
        values = np.asarray(given)
    except ValueError:
        raise CandidateError(f"{what} are ragged: rows have different lengths.") from None
    if values.ndim != 2 or not values.size or values.dtype.kind not in "biuf":
        raise CandidateError(
            f"{what} are {values.dtype} of shape {values.shape}; give numbers, one column per class."
        )
    columns = getattr(given, "columns", range(values.shape[1]))
    names = tuple(columns if classes is None else classes)
    if len(names) != values.shape[1]:
        raise CandidateError(f"{what} have {values.shape[1]} columns, but {len(names)} classes were given.")
    values = values.astype(np.float64)
    _refuse_first(~np.isfinite(values), values, names, "is not a finite number.")
    return values, names


def _refuse_first(bad: np.ndarray, values: np.ndarray, names: Sequence[Any], what: str) -> None:
    for i, k in first_where(bad):
        raise CellError(i, f"row {i}, column {names[k]!r}", f"{values[i, k]:g} {what}")
