"""What evidence says about the candidates of a row: votes and scores as likelihoods.

`Candidates.evidence` keeps what was seen. Whole numbers are votes; a vote for the true label is r times as
probable as one for another label, so that n votes more weigh r^n: 28 : 12 is certain, 2 : 1 is a hint. How
often people are right, and with it r, is estimated from their agreement (Dawid and Skene's model with one
number for everybody and all mistakes alike). Other numbers are likelihoods, probabilities or scores: they
speak for themselves.
"""

from __future__ import annotations

import numpy as np

from oneof.candidates.compact import CompactSets
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
    if (evidence == np.floor(evidence)).all():
        return np.maximum((evidence - best) * log_odds_of_a_vote(candidates), FLOOR)
    part = np.divide(evidence, best, out=np.ones_like(evidence), where=best > 0)
    return np.log(np.maximum(part, np.exp(FLOOR)))


def log_odds_of_a_vote(candidates: Candidates, iterations: int = 100) -> float:
    """log r: how much more probable a vote is for the true label than for another one. EM; at least 0."""
    votes, sets, c = candidates.evidence, candidates.compact, candidates.n_classes
    assert votes is not None
    rows, n, most = sets.rows, len(sets), _best(votes, sets)
    total = votes.sum()
    if c < 2 or not total:
        return 0.0
    others = (c - sets.sizes) * candidates.truth_may_be_outside  # labels nobody named may be true
    top = np.zeros(n)
    top[rows] = most
    log_odds = 1.0
    for _ in range(iterations):
        likely = np.exp(log_odds * (votes - most))
        mass = np.bincount(rows, likely, n) + others * np.exp(-log_odds * top)
        right = (likely / mass[rows] * votes).sum()
        # one vote of either kind is added: nobody is always right
        renewed = max(0.0, float(np.log((right + 1) * (c - 1) / (total - right + 1))))
        if abs(renewed - log_odds) < 1e-6:
            break
        log_odds = renewed
    return log_odds


def _best(evidence: np.ndarray, sets: CompactSets) -> np.ndarray:
    """(m,): for each candidate the highest number of its row."""
    best = np.zeros(len(sets))
    np.maximum.at(best, sets.rows, evidence)
    return best[sets.rows]
