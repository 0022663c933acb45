"""Dawid and Skene's estimate of the true label from many annotators' answers.

Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", Applied
Statistics 28 (1979). Every annotator has a confusion matrix: how often they say l when the truth is t. EM
finds the matrices, the class frequencies and for every row a distribution over its true label.

Deviations: a small count is added to every entry of a confusion matrix, so that somebody with few answers
is never certain of anything; and an annotator who names s classes for one row counts 1/s for each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

from oneof.candidates.annotations import Answers
from oneof.candidates.sets import CandidateError


class TrueLabels(NamedTuple):
    """What EM found. `posterior` (n, c), `prior` (c,), `reliability` (workers,): the mean diagonal of the
    confusion matrices under the prior; `log_likelihood` after each iteration; `converged`."""

    posterior: np.ndarray
    prior: np.ndarray
    reliability: np.ndarray
    log_likelihood: list[float]
    converged: bool


def estimate_true_labels(
    answers: Answers,
    n_rows: int,
    n_classes: int,
    *,
    smoothing: float = 0.01,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
) -> TrueLabels:
    """Run EM from the shares of the votes until the log-likelihood gains less than this part of itself.

    Deterministic. Rows without an answer get the class frequencies. `smoothing` is the count added to every
    entry of a confusion matrix.
    """
    if not answers.named:
        raise CandidateError(
            "Dawid-Skene learns how reliable each annotator is, but these answers do not say who gave them.\n"
            "  Name the column with the annotators, or use the rule union, majority or share."
        )
    if not len(answers):
        raise CandidateError("Dawid-Skene needs at least one answer; there is none.")
    # one column per (worker, label) that occurs: everything below is two sparse products
    pairs, column = np.unique(
        answers.worker.astype(np.int64) * n_classes + answers.label, return_inverse=True
    )
    worker, label = pairs // n_classes, pairs % n_classes
    _, _, group = answers.groups()
    weight = 1.0 / np.bincount(group)[group]
    votes = csr_matrix((weight, (answers.row, column)), shape=(n_rows, len(pairs)))
    votes_turned = votes.T.tocsr()
    of_worker = csr_matrix(
        (np.ones(len(pairs)), (worker, np.arange(len(pairs)))), shape=(len(answers.workers), len(pairs))
    )
    answered = np.bincount(answers.row, minlength=n_rows) > 0
    named = csr_matrix((np.ones(len(pairs)), (np.arange(len(pairs)), label)), shape=(len(pairs), n_classes))
    posterior = _shares((votes @ named).toarray())
    history: list[float] = []
    converged = False
    for _ in range(max_iterations):
        # M step: class frequencies and confusion matrices from the current beliefs
        prior = _shares(posterior[answered].sum(axis=0) + smoothing)
        counts = votes_turned @ posterior
        totals = of_worker @ counts + smoothing * n_classes
        log_said = np.log(counts + smoothing) - np.log(totals)[worker]  # log p(worker says label | truth)
        # E step: beliefs from them, in log space
        joint = votes @ log_said + np.log(prior)
        total = logsumexp(joint, axis=1, keepdims=True)
        posterior = np.exp(joint - total)
        history.append(float(total[answered].sum()))
        if len(history) > 1 and history[-1] - history[-2] <= tolerance * abs(history[-1]):
            converged = True
            break
    right = np.zeros((len(answers.workers), n_classes))
    right[worker, label] = np.exp(log_said[np.arange(len(pairs)), label])
    return TrueLabels(posterior, prior, right @ prior, history, converged)


def _shares(values: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; a row of zeros becomes uniform."""
    total = values.sum(axis=-1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1.0 / values.shape[-1])
