"""What answers, votes and scores say about the true label of a row.

Answers: Dawid, Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm", Applied
Statistics 28 (1979). Every annotator has a confusion matrix: how often they say l when the truth is t. EM
finds the matrices, the class frequencies and for every row a distribution over its true label. Deviations: a
small count is added to every entry of a confusion matrix, so that somebody with few answers is never certain
of anything; and an annotator who names s classes for one row counts 1/s for each.

`Candidates.evidence` keeps what was seen. Whole numbers are votes: the same model with one confusion matrix
for everybody tells from their agreement what they are worth. Then 28 : 12 is certain and 2 : 1 a hint, less
of one between labels that are often mixed up. Other numbers are likelihoods, probabilities or scores: they
speak for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp, softmax

from oneof.candidates.annotations import Answers
from oneof.candidates.compact import CompactSets, row_blocks
from oneof.candidates.sets import CandidateError, Candidates

SMOOTHING = 0.01
"""Count added to every entry of a confusion matrix."""
EVERYBODY = 4.0
"""So many answers of the whole crowd for each truth are added to an annotator's own by `log_likelihood`:
somebody with few answers is like the others."""


class SaidTable:
    """Answers as a sparse matrix `votes` (n, pairs), with a column for every (worker, label) that occurs.

    Everything about confusion matrices is then a product with it.
    """

    def __init__(self, votes: csr_matrix, worker: np.ndarray, label: np.ndarray, n_classes: int) -> None:
        self.votes, self.worker, self.label, self.n_classes = votes, worker, label, n_classes
        self.answered = np.diff(votes.indptr) > 0

    @classmethod
    def of_answers(cls, answers: Answers, n_rows: int, n_classes: int) -> SaidTable:
        """Where nobody knows who answered, all answers are one person's."""
        who = answers.worker.astype(np.int64) if answers.named else np.zeros(len(answers), dtype=np.int64)
        pairs, column = np.unique(who * n_classes + answers.label, return_inverse=True)
        votes = csr_matrix((answers.shares(), (answers.row, column)), shape=(n_rows, len(pairs)))
        return cls(votes, pairs // n_classes, pairs % n_classes, n_classes)

    def log_said(
        self, sums: np.ndarray, added: float | np.ndarray, of_each: float | np.ndarray
    ) -> np.ndarray:
        """(pairs, c): log p(worker says label | truth), of `votes.T @ beliefs` and counts that are added.

        `of_each` is what `added` sums up to over all labels.
        """
        totals = _by_number(self.worker, sums) + of_each
        return np.log(sums + added) - np.log(totals)[self.worker]

    def log_likelihood(self, beliefs: np.ndarray) -> np.ndarray:
        """(n, c): log p(answers about a row | truth), with the confusions that beliefs (n, c) give."""
        sums = self.votes.T @ beliefs
        crowd = _by_number(self.label, sums, self.n_classes) + SMOOTHING  # said, truth
        everybody = EVERYBODY * (crowd / crowd.sum(axis=0))[self.label]
        return self.votes @ self.log_said(sums, everybody, EVERYBODY)


@dataclass(frozen=True)
class TrueLabels:
    """What EM found: `prior` (c,), `log_likelihood` after each iteration, whether it `converged`."""

    said: SaidTable
    prior: np.ndarray
    log_said: np.ndarray
    """(pairs, c): log p(worker says label | truth)."""
    log_likelihood: list[float]
    converged: bool

    def spoken(self, rows: np.ndarray) -> np.ndarray:
        """(rows, c): log p(answers about a row | truth)."""
        return self.said.votes[rows] @ self.log_said

    def posterior_of(self, rows: np.ndarray) -> np.ndarray:
        """(rows, c): the distribution over the true label of some rows."""
        return np.exp(_believed(self.said.votes[rows], self.log_said, self.prior)[0])

    def likelihood_of(self, rows: np.ndarray) -> np.ndarray:
        """(rows, c): how probable the answers about some rows are for each true label; rows sum to 1."""
        return softmax(self.spoken(rows), axis=1)

    @property
    def posterior(self) -> np.ndarray:
        """(n, c): of all rows."""
        return self.posterior_of(np.arange(self.said.votes.shape[0]))

    @property
    def reliability(self) -> np.ndarray:
        """(workers,): the mean diagonal of the confusion matrices under the prior."""
        worker, label = self.said.worker, self.said.label
        right = np.exp(self.log_said[np.arange(len(label)), label])
        return np.bincount(worker, right * self.prior[label])


def estimate_true_labels(answers: Answers, n_rows: int, n_classes: int, **options: Any) -> TrueLabels:
    """Dawid and Skene's model of answers of which is known who gave them, with the options of `settle`."""
    if not answers.named:
        raise CandidateError(
            "Dawid-Skene learns how reliable each annotator is, but these answers do not say who gave them.\n"
            "  Name the column with the annotators, or use the rule union, majority or share."
        )
    if not len(answers):
        raise CandidateError("Dawid-Skene needs at least one answer; there is none.")
    return settle(SaidTable.of_answers(answers, n_rows, n_classes), **options)


def settle(
    table: SaidTable,
    smoothing: float = SMOOTHING,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    added: np.ndarray | None = None,
) -> TrueLabels:
    """Run EM from the shares of the votes until the log-likelihood gains less than this part of itself.

    Deterministic. Rows without an answer get the class frequencies. `smoothing` is the count added to every
    entry of a confusion matrix; `added` (pairs, c), in its place, are counts for the one matrix of a crowd.
    """
    votes = table.votes[table.answered]  # the others tell nothing
    (n_rows, n_pairs), n_classes = votes.shape, table.n_classes
    named = csr_matrix((np.ones(n_pairs), (np.arange(n_pairs), table.label)), shape=(n_pairs, n_classes))
    # beliefs are made for a block of rows and summed up at once: no table of all of them is kept
    blocks = [votes[rows] for rows in row_blocks(n_rows, n_classes)]
    sums = _Sums(n_pairs, n_classes)
    for said in blocks:
        sums.add(said, _shares((said @ named).toarray()))
    history: list[float] = []
    converged = False
    for _ in range(max_iterations):
        # M step: class frequencies and confusion matrices from the current beliefs
        prior = _shares(sums.classes + smoothing)
        if added is None:
            log_said = table.log_said(sums.pairs, smoothing, smoothing * n_classes)
        else:
            log_said = table.log_said(sums.pairs, added, added.sum(axis=0))
        # E step: beliefs from them, in log space
        sums, likelihood = _Sums(n_pairs, n_classes), 0.0
        for said in blocks:
            log_belief, total = _believed(said, log_said, prior)
            sums.add(said, np.exp(log_belief))
            likelihood += float(total.sum())
        history.append(likelihood)
        if len(history) > 1 and history[-1] - history[-2] <= tolerance * abs(history[-1]):
            converged = True
            break
    return TrueLabels(table, prior, log_said, history, converged)


class _Sums:
    """What the M step needs of the beliefs: their sums by (worker, label), and over all rows."""

    def __init__(self, n_pairs: int, n_classes: int) -> None:
        self.pairs, self.classes = np.zeros((n_pairs, n_classes)), np.zeros(n_classes)

    def add(self, said: csr_matrix, posterior: np.ndarray) -> None:
        self.pairs += said.T @ posterior
        self.classes += posterior.sum(axis=0)


def _believed(said: csr_matrix, log_said: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the beliefs (rows, c) and of the likelihood of each row."""
    joint = said @ log_said + np.log(prior)
    total = logsumexp(joint, axis=1, keepdims=True)
    return joint - total, total


def _by_number(number: np.ndarray, values: np.ndarray, length: int | None = None) -> np.ndarray:
    """The sums of the rows of `values` with number 0, 1, ..."""
    shape = (length or int(number.max(initial=-1)) + 1, len(number))
    return csr_matrix((np.ones(len(number)), (number, np.arange(len(number)))), shape=shape) @ values


def _shares(values: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; a row of zeros becomes uniform."""
    total = values.sum(axis=-1, keepdims=True)
    return np.where(total > 0, values / np.where(total > 0, total, 1.0), 1.0 / values.shape[-1])


# ---- votes and scores -------------------------------------------------------------------------

FLOOR = -100.0
"""Of a logarithm: no evidence rules a candidate out."""


def tells_apart(evidence: np.ndarray, sets: CompactSets) -> bool:
    """Whether some row supports one candidate more than another."""
    return bool((evidence != _best(evidence, sets)).any())


def log_likelihoods(candidates: Candidates) -> np.ndarray | None:
    """(m,): the logarithm of each candidate's likelihood, 0 for the best of a row; None without evidence."""
    evidence, sets = candidates.evidence, candidates.compact
    if evidence is None:
        return None
    best = _best(evidence, sets)
    if is_votes(candidates):
        found = settled_votes(candidates)
        parts = [found.spoken(rows)[sets.dense(rows)] for rows in sets.blocks()]
        spoken = np.concatenate([np.zeros(0), *parts])
        return np.maximum(spoken - _best(spoken, sets), FLOOR)
    part = np.divide(evidence, best, out=np.ones_like(evidence), where=best > 0)
    return np.log(np.maximum(part, np.exp(FLOOR)))


def settled_votes(candidates: Candidates) -> TrueLabels:
    """Dawid and Skene's model of the votes."""
    sets, c = candidates.compact, candidates.n_classes
    votes = csr_matrix((candidates.evidence, sets.positions, sets.starts), shape=sets.shape)
    # of a label that is never the truth is assumed: right half of the time, and all mistakes alike
    assumed = 1 + c * np.eye(c)
    return settle(SaidTable(votes, np.zeros(c, dtype=np.int64), np.arange(c), c), added=assumed)


def label_likelihoods(candidates: Candidates) -> np.ndarray | None:
    """(n, c): the logarithm of every label's likelihood by answers, votes or scores; None without evidence.

    Labels outside a set are impossible, or, where the truth may lie there, as likely as the answers and votes
    say; scores say nothing about them, and they count like the worst candidate.
    """
    answers, (n, c) = candidates.answers, candidates.shape
    if answers is not None:
        said = SaidTable.of_answers(answers, n, c)
        every = said.log_likelihood(settle(said).posterior)
    elif is_votes(candidates):
        every = settled_votes(candidates).spoken(np.arange(n))
    elif (spoken := log_likelihoods(candidates)) is None:
        return None
    else:
        worst = np.zeros(n)
        np.minimum.at(worst, candidates.compact.rows, spoken)
        every = np.where(candidates.mask, candidates.compact.dense(np.arange(n), spoken), worst[:, None])
    return every if candidates.truth_may_be_outside else np.where(candidates.mask, every, -np.inf)


def is_votes(candidates: Candidates) -> bool:
    evidence = candidates.evidence
    return evidence is not None and bool((evidence == np.floor(evidence)).all())


def _best(evidence: np.ndarray, sets: CompactSets) -> np.ndarray:
    """(m,): for each candidate the highest number of its row."""
    best = np.full(len(sets), -np.inf)
    np.maximum.at(best, sets.rows, evidence)
    return best[sets.rows]
