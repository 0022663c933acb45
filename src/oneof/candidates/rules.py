"""Rules that turn the answers of several people into one candidate set per row.

A rule is called with the answers and the shape (rows, classes); it gives the mask and notes for a reader.
`union`, `vaguest`, `majority` and `not_named` are rules; `share(t)` and `dawid_skene(k)` make one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneof.candidates.annotations import Answers
from oneof.candidates.dawid_skene import estimate_true_labels
from oneof.candidates.sets import CandidateError

Decide = Callable[[Answers, tuple[int, int]], tuple[np.ndarray, list[str]]]


@dataclass(frozen=True)
class Rule:
    """A named way from answers to sets. `settings` go into the provenance of what comes out.

    `negative`: the answers say what a row is not; beside the sets they would read as if they said what it is.
    """

    name: str
    decide: Decide
    settings: Mapping[str, Any] = field(default_factory=dict)
    negative: bool = False

    def __call__(self, answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
        """The mask (rows, classes) and notes. Rows without an answer have no candidate."""
        return self.decide(answers, shape)


def _union(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
    mask = np.zeros(shape, dtype=bool)
    mask[answers.row, answers.label] = True
    return mask, []


def _vaguest(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
    mask = np.zeros(shape, dtype=bool)
    if not len(answers):
        return mask, []
    row, _, group = answers.groups()
    size = np.bincount(group)
    support = np.bincount(group, weights=answers.counts(*shape)[answers.row, answers.label])
    # of equally large sets the one whose labels have most votes, then the annotator who comes first
    order = np.lexsort((np.arange(len(row)), -support, -size, row))
    first = order[np.r_[True, np.diff(row[order]) > 0]]
    chosen = np.isin(group, first)
    mask[answers.row[chosen], answers.label[chosen]] = True
    return mask, []


def _majority(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
    votes = answers.counts(*shape)
    return (votes == votes.max(axis=1, keepdims=True)) & (votes > 0), []


def _not_named(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
    return ~_union(answers, shape)[0], []


union = Rule("union", _union)
"""Every label that somebody gave."""

vaguest = Rule("vaguest", _vaguest)
"""The largest set that one annotator gave; of equally large ones the one whose labels have most votes."""

majority = Rule("majority", _majority)
"""The label with most votes; all of them where several have equally many."""

not_named = Rule("not-named", _not_named, negative=True)
"""Answers say what the label is *not*: every label that nobody gave."""


def share(at_least: float) -> Rule:
    """Labels that at least this share of a row's annotators gave.

    Rows in which no label gets so far keep those with most votes.
    """
    if not 0 < at_least <= 1:
        raise CandidateError(f"share({at_least!r}): give a share of the annotators above 0, at most 1.")

    def decide(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
        row, _, _ = answers.groups()
        people = np.bincount(row, minlength=shape[0])[:, None]
        votes = answers.counts(*shape)
        # a share of 0.1 of ten people is one person, whatever 0.1 * 10 is in floating point
        mask = (votes >= at_least * people - 1e-9) & (votes > 0)
        below = (people[:, 0] > 0) & ~mask.any(axis=1)
        mask[below] = _majority(answers, shape)[0][below]
        note = f"rows in which no label was given by {at_least:.0%}: {below.sum()} (their most frequent kept)"
        return mask, [note] if below.any() else []

    return Rule("share", decide, {"at_least": at_least})


def dawid_skene(k: int = 2, at_least: float = 0.0) -> Rule:
    """The k most probable labels by Dawid and Skene's posterior, less those below `at_least`.

    The most probable label always stays. The answers must say who gave them.
    """
    if k < 1:
        raise CandidateError(f"dawid_skene({k!r}): keep at least one label per row.")
    if not 0 <= at_least < 1:
        raise CandidateError(f"dawid_skene(at_least={at_least!r}): give a probability below 1.")

    def decide(answers: Answers, shape: tuple[int, int]) -> tuple[np.ndarray, list[str]]:
        if k > shape[1]:
            raise CandidateError(f"dawid_skene({k}): there are only {shape[1]} classes.")
        found = estimate_true_labels(answers, *shape)
        best = np.argsort(-found.posterior, axis=1, kind="stable")[:, :k]
        mask = np.zeros(shape, dtype=bool)
        np.put_along_axis(mask, best, True, axis=1)
        mask &= found.posterior >= at_least
        np.put_along_axis(mask, best[:, :1], True, axis=1)
        mask[np.bincount(answers.row, minlength=shape[0]) == 0] = False
        state = "" if found.converged else ", not converged"
        right = found.reliability[np.unique(answers.worker)]
        return mask, [
            f"Dawid-Skene: {len(found.log_likelihood)} iterations{state}; annotators are right with "
            f"probability {right.min():.2f} to {right.max():.2f}"
        ]

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
