"""Making candidate sets from true labels.

Four rules. All of them put every wrong label j of row i into the set with a probability xi_ij of
its own, independently; they differ in xi:

=================  =====================================================================
`uniform_sets`     1/2, never the full set: every set with the true label is equally likely
`flip_sets`        one number for all labels (FPS)
`class_sets`       a matrix: depends on the true class
`instance_sets`    min(1, r K q_ij), q_i a network's belief in the wrong labels (VALEN)
=================  =====================================================================

Guarantees: the true label is always in; the draw depends on the seed and nothing else; with
`forbid_singletons` or `forbid_full_sets` the sets follow the same law *given* that no row is a
singleton or full set, exactly (no repair by random labels that would bend the law). Where that is
impossible, such as a rate of 0 without singletons, the error names the row.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import softmax

from oneof.candidates.cells import first_where
from oneof.candidates.compact import row_blocks
from oneof.candidates.draw import checked_truth, made
from oneof.candidates.sets import CandidateError, Candidates


def uniform_sets(
    truth: Any,
    n_classes: int,
    seed: int,
    *,
    classes: Sequence[Any] | None = None,
    forbid_singletons: bool = False,
    forbid_full_sets: bool = True,
) -> Candidates:
    """Uniform sampling (USS): every set that holds the true label is equally likely, except the full one.

    The law of Feng et al., "Provably Consistent Partial-Label Learning", NeurIPS 2020: a set of size s has
    probability 1 / (2^(K-1) - 1), so P(size s) = C(K-1, s-1) / (2^(K-1) - 1) for s < K. (Codes that draw the
    size from C(K, s) / (2^K - 2) follow another law: mean size 5.00 instead of 5.49 for K = 10.)

    Parameters
    ----------
    truth : int array (n,)
        True labels, 0..K-1.
    n_classes : int
        K.
    seed : int
        Seed of this draw.
    classes : sequence of length K, optional
        Class names; 0..K-1 without them.
    forbid_singletons, forbid_full_sets : bool
        Condition the law on sets of at least two labels, at most K-1 labels.
    """
    y = checked_truth(truth, n_classes)
    facts = {"rule": "uniform", "seed": seed}
    return made(facts, lambda rows: 0.5, y, n_classes, classes, forbid_singletons, forbid_full_sets)


def flip_sets(
    truth: Any,
    n_classes: int,
    rate: float,
    seed: int,
    *,
    classes: Sequence[Any] | None = None,
    forbid_singletons: bool = False,
    forbid_full_sets: bool = False,
) -> Candidates:
    """Independent flips (FPS): every wrong label is added with probability `rate`.

    Mean size 1 + rate (K-1). Parameters as in `uniform_sets`.
    """
    y = checked_truth(truth, n_classes)
    if not 0 <= rate <= 1:
        raise CandidateError(f"rate = {rate!r}: give a probability between 0 and 1.")
    facts = {"rule": "flips", "rate": float(rate), "seed": seed}
    return made(facts, lambda rows: float(rate), y, n_classes, classes, forbid_singletons, forbid_full_sets)


def class_sets(
    truth: Any,
    matrix: Any,
    seed: int,
    *,
    classes: Sequence[Any] | None = None,
    forbid_singletons: bool = False,
    forbid_full_sets: bool = False,
) -> Candidates:
    """Class-conditional flips: label j joins a row of true class y with probability `matrix[y, j]`.

    Parameters
    ----------
    truth : int array (n,)
        True labels, 0..K-1.
    matrix : array (K, K)
        Probabilities; the diagonal is not used. `similarity_flips` makes one from a similarity matrix.
    seed, classes, forbid_singletons, forbid_full_sets
        As in `uniform_sets`.
    """
    table = _square(matrix, "matrix")
    k = len(table)
    off = ~np.eye(k, dtype=bool)
    for t, j in first_where(off & ~((table >= 0) & (table <= 1))):
        raise CandidateError(f"matrix[{t}, {j}] = {table[t, j]}: give probabilities between 0 and 1.")
    y = checked_truth(truth, k)
    facts = {"rule": "class", "seed": seed, "matrix_hash": _digest([np.where(off, table, 0.0)])}
    return made(facts, lambda rows: table[y[rows]], y, k, classes, forbid_singletons, forbid_full_sets)


def similarity_flips(similarity: Any, rate: float) -> np.ndarray:
    """Flip probabilities from a similarity matrix, by the rule of `instance_sets` applied to classes.

    Row y is renormalised over the wrong classes to q; the result is min(1, rate K q), so before clipping
    a row expects rate K false candidates. The diagonal of the result is 0.

    Parameters
    ----------
    similarity : array (K, K)
        Not negative; row y says how similar the classes are to y. The diagonal is not used.
    rate : float
        Strength, larger than 0; 4/K gives up to four false candidates.
    """
    table = _square(similarity, "similarity").copy()
    np.fill_diagonal(table, 0.0)
    for y, j in first_where(~(np.isfinite(table) & (table >= 0))):
        raise CandidateError(
            f"similarity[{y}, {j}] = {table[y, j]}: similarities are finite and not negative."
        )
    _check_strength(rate)
    mass = table.sum(axis=1, keepdims=True)
    if not (mass > 0).all():
        raise CandidateError(
            f"similarity[{int(np.argmin(mass))}] is 0 for every other class; give it a neighbour."
        )
    return np.minimum(1.0, rate * len(table) * (table / mass))


def instance_sets(
    truth: Any,
    rate: float,
    seed: int,
    *,
    q: Any = None,
    log_probabilities: Any = None,
    classes: Sequence[Any] | None = None,
    forbid_singletons: bool = False,
    forbid_full_sets: bool = False,
) -> Candidates:
    """Instance-dependent sets by the rule of VALEN (Xu et al., NeurIPS 2021).

    A network trained on clean labels believes in the wrong labels of row i with q_i (its probabilities
    without the true label, renormalised). Label j joins with probability min(1, rate K q_ij); before
    clipping a row expects rate K false candidates, so 1 <= mean size <= 1 + min(rate K, K-1). There is
    no minimum size unless `forbid_singletons` asks for it.

    Parameters
    ----------
    truth : int array (n,)
        True labels, 0..K-1.
    rate : float
        r, larger than 0; 0.4 is usual for 10 classes, 0.04 for 100.
    seed : int
        Seed of this draw: `numpy.random.default_rng(seed).random((n, K))` is compared with the probabilities.
    q : array (n, K), optional
        The distribution over the wrong labels. The value at the true label is not used.
    log_probabilities : array (n, K), optional
        Log-softmax or logits of the network, from which q is taken in log space: rows in which all wrong
        labels underflow keep their shape. Give either this or `q`.
    classes, forbid_singletons, forbid_full_sets
        As in `uniform_sets`.
    """
    if (q is None) == (log_probabilities is None):
        raise CandidateError("give either q or log_probabilities to instance_sets, and not both.")
    _check_strength(rate)
    given = np.asarray(q if q is not None else log_probabilities)
    if given.ndim != 2:
        raise CandidateError(
            f"the network's beliefs have shape {given.shape}; give one row per example, (n, K)."
        )
    y = checked_truth(truth, given.shape[1], len(given))
    k, kind = given.shape[1], _checked_q if q is not None else wrong_label_q

    def beliefs(rows: np.ndarray) -> np.ndarray:
        return kind(given[rows], y[rows], int(rows[0]))

    q_hash = _digest(beliefs(rows) for rows in row_blocks(len(y), k))
    facts = {"rule": "instance", "rate": float(rate), "seed": seed, "q_hash": q_hash}

    def chances(rows: np.ndarray) -> np.ndarray:
        return np.minimum(1.0, rate * k * beliefs(rows))

    return made(facts, chances, y, k, classes, forbid_singletons, forbid_full_sets)


def wrong_label_q(log_probabilities: Any, truth: Any, first_row: int = 0) -> np.ndarray:
    """Distribution over the wrong labels, taken in log space; 0 at the true label.

    A softmax as sure as 1 - 1e-40 has no wrong label left in single precision; its logarithm still says
    which wrong label is next, so q is never 0/0. Logits will do: a constant per row cancels. Errors count
    rows from `first_row`.
    """
    z = np.array(log_probabilities, dtype=np.float64)
    if z.ndim != 2:
        raise CandidateError(f"log-probabilities have shape {z.shape}; give one row per example, (n, K).")
    z[np.arange(len(z)), checked_truth(truth, z.shape[1], len(z))] = -np.inf
    for (i,) in first_where(~np.isfinite(z.max(axis=1))):  # NaN is the maximum of its row
        raise CandidateError(
            f"row {first_row + i} has NaN or no finite log-probability of a wrong label; give the "
            "network's log-softmax or logits, not the logarithm of an underflowed softmax."
        )
    return softmax(z, axis=1)


def _checked_q(given: np.ndarray, truth: np.ndarray, first_row: int = 0) -> np.ndarray:
    beliefs = given.astype(np.float64)
    beliefs[np.arange(len(beliefs)), truth] = 0.0
    for i, j in first_where(~((beliefs >= 0) & (beliefs <= 1))):
        raise CandidateError(
            f"q[{first_row + i}, {j}] = {beliefs[i, j]}: q holds probabilities between 0 and 1."
        )
    mass = beliefs.sum(axis=1)
    for (i,) in first_where(np.abs(mass - 1) > 0.01):  # files keep q in half precision
        raise CandidateError(
            f"row {first_row + i} of q sums to {mass[i]:.4f} over the wrong labels, not to 1; "
            "renormalise it, or give log_probabilities."
        )
    return beliefs


def _check_strength(rate: float) -> None:
    if not (rate > 0 and math.isfinite(rate)):
        raise CandidateError(f"rate = {rate!r}: give a number larger than 0, such as 0.4 for 10 classes.")


def _square(given: Any, name: str) -> np.ndarray:
    table = np.asarray(given, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise CandidateError(f"{name} has shape {table.shape}; give a square one, true class x class.")
    return table


def _digest(blocks: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(np.ascontiguousarray(block, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]
