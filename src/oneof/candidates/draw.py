"""Drawing candidate sets from probabilities, with or without singletons and full sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from oneof.candidates.cells import first_where
from oneof.candidates.checks import checked_labels
from oneof.candidates.compact import CompactSets, row_blocks
from oneof.candidates.sets import CandidateError, Candidates

Chances = Callable[[np.ndarray], np.ndarray | float]
"""From numbers of rows to the probabilities with which labels join them: (rows, K), or one for all."""


def made(
    facts: Mapping[str, Any],
    chances: Chances,
    truth: np.ndarray,
    n_classes: int,
    classes: Sequence[Any] | None,
    forbid_singletons: bool,
    forbid_full_sets: bool,
) -> Candidates:
    """Draw the sets by `facts["seed"]` and build `Candidates`, block by block.

    `chances` gives xi of some rows; `xi[i, j]` is the chance of a wrong label.
    """
    seed = facts["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise CandidateError(
            f"seed = {seed!r}: give a whole number, 0 or larger, so that the draw can be repeated."
        )
    generator = np.random.default_rng(int(seed))  # gives the same numbers in blocks as all at once
    expected = np.zeros(len(truth))

    def masks() -> Iterator[np.ndarray]:
        for rows in row_blocks(len(truth), n_classes):
            here, y = np.arange(len(rows)), truth[rows]
            uniform = generator.random((len(rows), n_classes))
            xi = np.broadcast_to(chances(rows), uniform.shape)
            if forbid_singletons or forbid_full_sets:
                mask = draw_given(uniform, xi, y, forbid_singletons, forbid_full_sets, int(rows[0]))
            else:
                mask = uniform < xi
            mask[here, y] = True
            expected[rows] = xi.sum(axis=1) - xi[here, y]  # false candidates
            yield mask

    sets = CompactSets.of_masks(masks(), n_classes)
    provenance = {
        **facts,
        "seed": int(seed),
        "classes": n_classes,
        "forbid_singletons": forbid_singletons,
        "forbid_full_sets": forbid_full_sets,
    }
    if not (forbid_singletons or forbid_full_sets) and len(truth):
        provenance["expected_mean_size"] = round(1 + float(expected.mean()), 6)
    names = range(n_classes) if classes is None else classes
    drawn = Candidates(sets, names, truth, provenance=provenance, source=str(facts["rule"]))
    drawn.provenance["hash"] = drawn.hash
    return drawn


def draw_given(
    uniform: np.ndarray, xi: np.ndarray, truth: np.ndarray, some_in: bool, some_out: bool, first_row: int = 0
) -> np.ndarray:
    """Independent draws given that at least one wrong label is in (and/or at least one is out).

    Label after label: P(in | so far, the condition can still be met). The law is exact, no draw is
    thrown away, and one uniform number per entry is used as in the unconditional case.
    """
    n, k = xi.shape
    wrong = np.ones((n, k), dtype=bool)
    wrong[np.arange(n), truth] = False
    xi = np.where(wrong, xi, 0.5)  # at the true label anything may stand; it is left out below
    with np.errstate(divide="ignore"):  # log 0 = -inf is right here
        log_out = np.where(wrong, np.log1p(-xi), 0.0)
        log_in = np.where(wrong, np.log(xi), 0.0)
    # logarithm of the probability that all labels from column j on stay out, or all come in
    all_out = np.concatenate([np.cumsum(log_out[:, ::-1], axis=1)[:, ::-1], np.zeros((n, 1))], axis=1)
    all_in = np.concatenate([np.cumsum(log_in[:, ::-1], axis=1)[:, ::-1], np.zeros((n, 1))], axis=1)
    needs_in, needs_out = np.full(n, some_in), np.full(n, some_out)
    met = _can_be_met(all_out[:, 0], all_in[:, 0], needs_in, needs_out)
    # a single wrong label cannot be both in and out, though rounding may leave a little
    for (i,) in first_where((met <= 0) | (k - 1 < some_in + some_out)):
        what = " and ".join(["no singletons"] * some_in + ["no full sets"] * some_out)
        raise CandidateError(
            f"row {first_row + i} (true label {truth[i]}, {k} classes) cannot have {what}: its wrong labels "
            f"join with probabilities {np.array2string(xi[i, wrong[i]], precision=3, threshold=6)}."
        )
    mask = np.zeros((n, k), dtype=bool)
    for j in range(k):
        never = np.zeros(n, dtype=bool)
        inside = _can_be_met(all_out[:, j + 1], all_in[:, j + 1], never, needs_out)
        outside = _can_be_met(all_out[:, j + 1], all_in[:, j + 1], needs_in, never)
        weight_in, weight_out = xi[:, j] * inside, (1 - xi[:, j]) * outside
        total = weight_in + weight_out
        chance = np.divide(weight_in, total, out=np.zeros(n), where=total > 0)
        mask[:, j] = wrong[:, j] & (uniform[:, j] < chance)
        needs_in &= ~mask[:, j]
        needs_out &= mask[:, j] | ~wrong[:, j]
    return mask


def _can_be_met(
    all_out: np.ndarray, all_in: np.ndarray, needs_in: np.ndarray, needs_out: np.ndarray
) -> np.ndarray:
    """1 - P(all out) [an in is needed] - P(all in) [an out is needed], without cancellation near 0."""
    log_a = np.where(needs_in, all_out, -np.inf)
    log_b = np.where(needs_out, all_in, -np.inf)
    larger, smaller = np.maximum(log_a, log_b), np.minimum(log_a, log_b)
    return np.maximum(0.0, -np.expm1(larger) - np.exp(smaller))


def checked_truth(truth: Any, n_classes: int, rows: int | None = None) -> np.ndarray:
    if n_classes < 2:
        raise CandidateError(f"n_classes = {n_classes!r}: candidate sets need at least two classes.")
    return checked_labels(truth, rows, n_classes)
