"""What can be said about each annotator: how much they answered, how well, and what they mix up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from oneof.candidates.annotations import Annotations
from oneof.candidates.compact import Beliefs, dense_rows, row_blocks
from oneof.candidates.evidence import SaidTable, estimate_true_labels
from oneof.candidates.sets import CandidateError

CONFUSIONS = 3
"""So many of an annotator's mistakes are listed, the most frequent first."""


@dataclass(frozen=True)
class Annotator:
    """One line of the table."""

    name: str
    answers: int
    """Rows they answered."""
    agreement: float | None
    """Mean share of the others who said the same; None where nobody else answered their rows."""
    accuracy: float
    """Estimated: how probable their answers are, in the mean."""
    interval: tuple[float, float]
    """95 % for the accuracy (Jeffreys), as if the other labels were known."""
    confusions: tuple[tuple[Any, Any, float], ...]
    """(truth, said, share of the rows with that truth), those that cost most answers first."""

    def columns(self) -> dict[str, Any]:
        """As texts and numbers, for a file."""
        mixed = "; ".join(f"{truth} as {said} {part:.0%}" for truth, said, part in self.confusions)
        return {
            "annotator": self.name,
            "answers": self.answers,
            "agreement": "" if self.agreement is None else f"{self.agreement:.4f}",
            "accuracy": f"{self.accuracy:.4f}",
            "accuracy_low": f"{self.interval[0]:.4f}",
            "accuracy_high": f"{self.interval[1]:.4f}",
            "confusions": mixed,
        }


def annotator_table(annotations: Annotations, beliefs: Beliefs | None = None) -> list[Annotator]:
    """A line per annotator, those with most answers first.

    `beliefs` (n, c): what is believed about the rows, such as `transduction_` of a model; default: Dawid and
    Skene's.
    """
    answers, (n, c) = annotations.answers, annotations.candidates.shape
    if answers is None or not len(answers) or not answers.named:
        raise CandidateError("nobody knows who answered: there is nothing to say about single annotators.")
    believed = estimate_true_labels(answers, n, c).posterior_of if beliefs is None else None
    table = SaidTable.of_answers(answers, n, c)
    said, sure = np.zeros((len(table.label), c)), np.zeros(len(answers))  # said: (worker, label) × truth
    for rows in row_blocks(n, c):  # a dense table of all rows may not fit into memory
        p = believed(rows) if believed is not None else dense_rows(beliefs, rows)
        said += table.votes[rows].T @ p
        here = slice(*np.searchsorted(answers.row, [rows[0], rows[-1] + 1]))
        sure[here] = p[answers.row[here] - rows[0], answers.label[here]]
    row, worker, _ = answers.groups()
    people = np.bincount(row, minlength=n)
    weight = answers.shares()
    others = people[answers.row] - 1
    times = answers.times_named(answers.row, answers.label, (n, c))
    same = np.where(others > 0, (times - 1) / np.maximum(others, 1), 0.0)
    size = len(answers.workers)
    given, compared, agreed, right = (
        np.bincount(answers.worker, weight * part, minlength=size)
        for part in (np.ones(len(answers)), others > 0, same, sure)
    )
    low, high = beta.ppf([[0.025], [0.975]], right + 0.5, np.maximum(given - right, 0) + 0.5)
    total = np.zeros((size, c))
    np.add.at(total, table.worker, said)
    made = []
    for w in sorted(np.unique(worker).tolist(), key=lambda w: -given[w]):
        mine = np.flatnonzero(table.worker == w)
        wrong = np.where(table.label[mine, None] == np.arange(c), 0.0, said[mine])
        mixed = [np.unravel_index(k, wrong.shape) for k in np.argsort(-wrong, axis=None)[:CONFUSIONS]]
        names = annotations.candidates.classes
        confusions = tuple(
            (names[t], names[table.label[mine[i]]], float(wrong[i, t] / total[w, t]))
            for i, t in mixed
            if wrong[i, t] >= 0.5  # less than half an answer is nothing to speak of
        )
        agreement = float(agreed[w] / compared[w]) if compared[w] else None
        accuracy = float(right[w] / given[w])
        interval = float(low[w]), float(high[w])
        made.append(Annotator(answers.workers[w], round(given[w]), agreement, accuracy, interval, confusions))
    return made
