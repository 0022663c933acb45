"""Rules that turn the answers of several people into one candidate set per row.

A rule is called with the answers and the shape (rows, classes); it gives the sets, notes for a reader, and
the evidence: how strongly each candidate is supported (votes, or Dawid and Skene's likelihoods).
`union`, `vaguest`, `majority` and `not_named` are rules; `share(t)` and `dawid_skene(k)` make one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from oneof.candidates.annotations import Answers
from oneof.candidates.compact import CompactSets, row_blocks
from oneof.candidates.evidence import estimate_true_labels
from oneof.candidates.sets import CandidateError


class Decided(NamedTuple):
    """The sets of all rows, notes for a reader, and a number for each candidate in the order of the sets."""

    sets: CompactSets
    notes: Sequence[str] = ()
    evidence: np.ndarray | None = None


Decide = Callable[[Answers, tuple[int, int]], Decided]


@dataclass(frozen=True)
class Rule:
    """A named way from answers to sets. `settings` go into the provenance of what comes out.

    `negative`: the answers say what a row is not; beside the sets they would read as if they said what it is.
    """

    name: str
    decide: Decide
    settings: Mapping[str, Any] = field(default_factory=dict)
    negative: bool = False

    def __call__(self, answers: Answers, shape: tuple[int, int]) -> Decided:
        """The sets of (rows, classes) and notes. Rows without an answer have no candidate.

        What no rule says otherwise about, the votes say.
        """
        decided = self.decide(answers, shape)
        if decided.evidence is not None or self.negative:
            return decided
        sets = decided.sets
        return decided._replace(evidence=answers.times_named(sets.rows, sets.positions, shape))


def _rule(name: str, negative: bool = False) -> Callable[[Decide], Rule]:
    return lambda decide: Rule(name, decide, negative=negative)


def _named(votes: csr_matrix, which: np.ndarray) -> Decided:
    """The marked ones of the labels that were named."""
    pairs = votes.tocoo()
    return Decided(CompactSets.of_pairs(pairs.row[which], pairs.col[which], votes.shape))


def _most_named(votes: csr_matrix) -> np.ndarray:
    """Which of the named labels no other of their row exceeds."""
    return votes.data == votes.max(axis=1).toarray().ravel()[votes.tocoo().row]


@_rule("union")
def union(answers: Answers, shape: tuple[int, int]) -> Decided:
    """Every label that somebody gave."""
    return Decided(CompactSets.of_pairs(answers.row, answers.label, shape))


@_rule("vaguest")
def vaguest(answers: Answers, shape: tuple[int, int]) -> Decided:
    """The largest set that one annotator gave; of equally large ones the one whose labels have most votes."""
    row, _, group = answers.groups()
    size = np.bincount(group)
    support = np.bincount(group, weights=answers.times_named(answers.row, answers.label, shape))
    # of equally large sets the one whose labels have most votes, then the annotator who comes first
    order = np.lexsort((np.arange(len(row)), -support, -size, row))
    first = order[np.diff(row[order], prepend=-1) > 0]
    chosen = np.isin(group, first)
    return Decided(CompactSets.of_pairs(answers.row[chosen], answers.label[chosen], shape))


@_rule("majority")
def majority(answers: Answers, shape: tuple[int, int]) -> Decided:
    """The label with most votes; all of them where several have equally many."""
    votes = answers.votes(*shape)
    return _named(votes, _most_named(votes))


@_rule("not-named", negative=True)
def not_named(answers: Answers, shape: tuple[int, int]) -> Decided:
    """Answers say what the label is *not*: every label that nobody gave."""
    return Decided(union.decide(answers, shape).sets.complement())


def share(at_least: float) -> Rule:
    """Labels that at least this share of a row's annotators gave.

    Rows in which no label gets so far keep those with most votes.
    """
    if not 0 < at_least <= 1:
        raise CandidateError(f"share({at_least!r}): give a share of the annotators above 0, at most 1.")

    def decide(answers: Answers, shape: tuple[int, int]) -> Decided:
        row, _, _ = answers.groups()
        people, votes = np.bincount(row, minlength=shape[0]), answers.votes(*shape)
        of = votes.tocoo().row  # of every label that was named
        # a share of 0.1 of ten people is one person, whatever 0.1 * 10 is in floating point
        enough = votes.data >= at_least * people[of] - 1e-9
        below = (people > 0) & (np.bincount(of[enough], minlength=shape[0]) == 0)
        note = f"rows in which no label was given by {at_least:.0%}: {below.sum()} (their most frequent kept)"
        kept = enough | (below[of] & _most_named(votes))
        return _named(votes, kept)._replace(notes=[note] * bool(below.any()))

    return Rule("share", decide, {"at_least": at_least})


def dawid_skene(k: int = 2, at_least: float = 0.0) -> Rule:
    """The k most probable labels by Dawid and Skene's posterior, less those below `at_least`.

    The most probable label always stays. The answers must say who gave them.
    """
    if k < 1:
        raise CandidateError(f"dawid_skene({k!r}): keep at least one label per row.")
    if not 0 <= at_least < 1:
        raise CandidateError(f"dawid_skene(at_least={at_least!r}): give a probability below 1.")

    def decide(answers: Answers, shape: tuple[int, int]) -> Decided:
        if k > shape[1]:
            raise CandidateError(f"dawid_skene({k}): there are only {shape[1]} classes.")
        found = estimate_true_labels(answers, *shape)
        answered = np.bincount(answers.row, minlength=shape[0]) > 0
        evidence: list[np.ndarray] = []

        def masks() -> Iterator[np.ndarray]:
            for rows in row_blocks(*shape):
                posterior = found.posterior_of(rows)
                best = np.argsort(-posterior, axis=1, kind="stable")[:, :k]
                mask = np.zeros(posterior.shape, dtype=bool)
                np.put_along_axis(mask, best, True, axis=1)
                mask &= posterior >= at_least
                np.put_along_axis(mask, best[:, :1], True, axis=1)
                mask &= answered[rows, None]
                evidence.append(found.likelihood_of(rows)[mask])
                yield mask

        state = "" if found.converged else ", not converged"
        right = found.reliability[np.unique(answers.worker)]
        note = f"Dawid-Skene: {len(found.log_likelihood)} iterations{state}; annotators are right with "
        note += f"probability {right.min():.2f} to {right.max():.2f}"
        sets = CompactSets.of_masks(masks(), shape[1])
        return Decided(sets, [note], np.concatenate(evidence))

    return Rule("dawid-skene", decide, {"k": k, "at_least": at_least})


def make_rule(name: str, *, at_least: float | None = None, keep: int | None = None) -> Rule:
    """A rule by its name, as the command line gives it."""
    fixed = {rule.name: rule for rule in (union, vaguest, majority, not_named)}
    if name in fixed:
        if at_least is not None or keep is not None:
            raise CandidateError(f"the rule {name} has no settings; leave at-least and keep out.")
        return fixed[name]
    if name == "share":
        if at_least is None or keep is not None:
            raise CandidateError("the rule share needs at-least, a share such as 0.3, and nothing else.")
        return share(at_least)
    if name == "dawid-skene":
        return dawid_skene(2 if keep is None else keep, at_least or 0.0)
    raise CandidateError(
        f"there is no rule {name!r}; give one of {', '.join([*fixed, 'share'])}, dawid-skene."
    )
