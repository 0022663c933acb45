"""Dawid and Skene's estimate of the true label from many annotators' answers.

Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", Applied
Statistics 28 (1979). Every annotator has a confusion matrix: how often they say l when the truth is t. EM
finds the matrices, the class frequencies and for every row a distribution over its true label.

Deviations: a small count is added to every entry of a confusion matrix, so that somebody with few answers
is never certain of anything; and an annotator who names s classes for one row counts 1/s for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp, softmax

from oneof.candidates.annotations import Answers
from oneof.candidates.compact import row_blocks
from oneof.candidates.sets import CandidateError


@dataclass(frozen=True)
class TrueLabels:
    """What EM found.

    `prior` (c,); `reliability` (workers,): the mean diagonal of the confusion matrices under the prior;
    `log_likelihood` after each iteration; `converged`.
    """

    prior: np.ndarray
    reliability: np.ndarray
    log_likelihood: list[float]
    converged: bool
    votes: csr_matrix
    """(n, pairs): an entry for every label that a worker named."""
    log_said: np.ndarray
    """(pairs, c): log p(worker says label | truth)."""

    def posterior_of(self, rows: np.ndarray) -> np.ndarray:
        """(rows, c): the distribution over the true label of some rows."""
        return np.exp(_believed(self.votes[rows], self.log_said, self.prior)[0])

    def likelihood_of(self, rows: np.ndarray) -> np.ndarray:
        """(rows, c): how probable the answers about some rows are for each true label; rows sum to 1."""
        return softmax(self.votes[rows] @ self.log_said, axis=1)

    @property
    def posterior(self) -> np.ndarray:
        """(n, c): of all rows."""
        return self.posterior_of(np.arange(self.votes.shape[0]))


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
    of_worker = csr_matrix(
        (np.ones(len(pairs)), (worker, np.arange(len(pairs)))), shape=(len(answers.workers), len(pairs))
    )
    answered = np.bincount(answers.row, minlength=n_rows) > 0
    named = csr_matrix((np.ones(len(pairs)), (np.arange(len(pairs)), label)), shape=(len(pairs), n_classes))
    # beliefs are made for a block of rows and summed up at once: no table of all of them is kept
    blocks = [(votes[rows], answered[rows]) for rows in row_blocks(n_rows, n_classes)]
    sums = _Sums(len(pairs), n_classes)
    for said, counted in blocks:
        sums.add(said, _shares((said @ named).toarray()), counted)
    history: list[float] = []
    converged = False
    for _ in range(max_iterations):
        # M step: class frequencies and confusion matrices from the current beliefs
        prior = _shares(sums.classes + smoothing)
        totals = of_worker @ sums.pairs + smoothing * n_classes
        log_said = np.log(sums.pairs + smoothing) - np.log(totals)[worker]
        # E step: beliefs from them, in log space
        sums, likelihood = _Sums(len(pairs), n_classes), 0.0
        for said, counted in blocks:
            log_belief, total = _believed(said, log_said, prior)
            sums.add(said, np.exp(log_belief), counted)
            likelihood += float(total[counted].sum())
        history.append(likelihood)
        if len(history) > 1 and history[-1] - history[-2] <= tolerance * abs(history[-1]):
            converged = True
            break
    right = np.zeros((len(answers.workers), n_classes))
    right[worker, label] = np.exp(log_said[np.arange(len(pairs)), label])
    return TrueLabels(prior, right @ prior, history, converged, votes, log_said)


class _Sums:
    """What the M step needs of the beliefs: their sums by (worker, label), and over answered rows."""

    def __init__(self, n_pairs: int, n_classes: int) -> None:
        self.pairs, self.classes = np.zeros((n_pairs, n_classes)), np.zeros(n_classes)

    def add(self, said: csr_matrix, posterior: np.ndarray, answered: np.ndarray) -> None:
        self.pairs += said.T @ posterior
        self.classes += posterior[answered].sum(axis=0)


def _believed(said: csr_matrix, log_said: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the beliefs (rows, c) and of the likelihood of each row."""
    joint = said @ log_said + np.log(prior)
    total = logsumexp(joint, axis=1, keepdims=True)
    return joint - total, total


def _shares(values: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; a row of zeros becomes uniform."""
    total = values.sum(axis=-1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1.0 / values.shape[-1])
