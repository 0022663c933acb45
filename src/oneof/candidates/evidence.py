"""What evidence says about the candidates of a row: votes and scores as likelihoods.

`Candidates.evidence` keeps what was seen. Whole numbers are votes. What they are worth depends on how often
people are right and on what they mix up, which is estimated from their agreement: Dawid and Skene's model
with one confusion matrix for everybody. Then 28 : 12 is certain and 2 : 1 a hint, less of one between labels
that are often mixed up. Other numbers are likelihoods, probabilities or scores: they speak for themselves.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from oneof.candidates.compact import CompactSets
from oneof.candidates.dawid_skene import SaidTable, TrueLabels, settle
from oneof.candidates.sets import Candidates

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
        parts = [(found.votes[rows] @ found.log_said)[sets.dense(rows)] for rows in sets.blocks()]
        spoken = np.concatenate(parts)  # log p(votes of the row | truth)
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
    spoken = log_likelihoods(candidates)
    if answers is not None:
        said = SaidTable.of_answers(answers, n, c)
        every = said.log_likelihood(settle(said, len(answers.workers)).posterior)
    elif spoken is None:
        return None
    elif is_votes(candidates):
        found = settled_votes(candidates)
        every = found.votes @ found.log_said
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
