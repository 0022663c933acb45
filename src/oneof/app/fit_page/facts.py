"""The numbers of the report after a fit, made from what the fit left behind."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import binomtest

from oneof.app.review.folder import ReviewData
from oneof.app.review.ranking import ReviewList
from oneof.candidates import Candidates
from oneof.candidates.compact import Beliefs, best, pairs_of
from oneof.classifier.estimator import PartialLabelClassifier

KEPT = 0.05
"""A candidate counts as alive while the model gives it more than this."""
DECIDED = 0.9
MOST_PAIRS = 10
MOST_CLASSES = 30


@dataclass(frozen=True)
class Share:
    """k of n, with Wilson's 95 % interval: honest for few rows and for shares near 0 and 1."""

    k: int
    n: int

    @classmethod
    def of(cls, which: np.ndarray) -> Share:
        return cls(int(which.sum()), len(which))

    @property
    def value(self) -> float:
        return self.k / self.n if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        if not self.n:
            return 0.0, 1.0
        found = binomtest(self.k, self.n).proportion_ci(method="wilson")
        return float(found.low), float(found.high)

    @property
    def low(self) -> float:
        return self.interval[0]

    @property
    def high(self) -> float:
        return self.interval[1]

    def __str__(self) -> str:
        return f"{self.value:.1%} (95 % interval {self.low:.1%} to {self.high:.1%}, {self.n} rows)"


@dataclass(frozen=True)
class Bin:
    """Rows whose confidence lies in the same tenth."""

    confidence: float
    right: Share


def reliability(confidence: np.ndarray, right: np.ndarray) -> list[Bin]:
    """Rows in tenths by their confidence; empty ones are left out."""
    tenth = np.minimum((confidence * 10).astype(int), 9)
    parts = [tenth == k for k in np.unique(tenth)]
    return [Bin(float(confidence[part].mean()), Share.of(right[part])) for part in parts]


def calibration_error(bins: list[Bin]) -> float:
    """Expected calibration error: the mean distance of confidence and accuracy, weighted by rows."""
    n = sum(b.right.n for b in bins)
    return sum(b.right.n * abs(b.confidence - b.right.value) for b in bins) / max(1, n)


@dataclass
class Checked:
    """Rows with a trusted label that nothing was learned from."""

    probabilities: np.ndarray
    columns: np.ndarray
    """Column of the trusted label of each row."""

    @cached_property
    def prediction(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @property
    def right(self) -> Share:
        return Share.of(self.prediction == self.columns)


@dataclass(frozen=True)
class Pair:
    """Two classes that are candidates of the same rows, and what became of these rows."""

    a: str
    b: str
    rows: int
    to_a: int
    to_b: int
    to_other: int
    open: int
    """Rows without a label that has 90 % of the mass."""


@dataclass(frozen=True)
class ClassFacts:
    """One class: rows that may be it, rows believed to be it, and how often that is right."""

    name: str
    candidate: int
    believed: int
    confidence: float
    found: Share | None
    """Of the checked rows of this class, how many are predicted as it."""


@dataclass
class FitFacts:
    """What the page says. Rows are all training rows, in the order of the user's file."""

    title: str
    data: ReviewData
    """The rows; where the label was given (`trusted`), the candidates say nothing about the model."""
    history: list[dict[str, Any]]
    checked: Checked | None = None
    clean: str = ""
    """One sentence: which trusted labels there were and what became of them."""
    choice: str = ""
    """One sentence: which method, and why."""
    selection: list[dict[str, Any]] = field(default_factory=list)
    """What was compared, the chosen one first: `PartialLabelClassifier.selection_`."""
    notes: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    thumbnails: dict[int, str] = field(default_factory=dict)
    """Small pictures of rows as data URIs."""

    @classmethod
    def of(cls, model: PartialLabelClassifier, title: str, data: ReviewData, **more: Any) -> FitFacts:
        """What a fitted model says of itself, and more."""
        asked = f"Method: {model.method_.info.name}, as asked for."
        choice, selection = getattr(model, "selection_note_", asked), getattr(model, "selection_", [])
        return cls(title, data, model.history_, choice=choice, selection=selection, **more)

    def __post_init__(self) -> None:
        data, candidates, q = self.data, self.data.candidates, self.data.transduction
        assert q is not None
        assert data.trusted is not None
        (prediction, confidence), (label, belief) = best(data.probabilities), best(q)
        inside = candidates.has(np.arange(len(candidates)), prediction)
        learned = ~data.trusted  # the candidates of these rows were learned from
        before, after = candidates.sizes[learned], (q > KEPT).sum(axis=1)[learned]
        ambiguous = learned & (candidates.sizes > 1)
        self.rows, self.learned = len(candidates), int(learned.sum())
        self.covering, self.outside = Share.of(inside[learned]), Share.of(~inside[learned])
        self.changed = Share.of((prediction != label)[learned])
        self.resolved = Share.of(belief[ambiguous] >= DECIDED)
        self.confidence = confidence
        """(n,): probability of the predicted class."""
        self.belief = belief[ambiguous]
        """Of the ambiguous rows: mass of the label believed in."""
        self.sizes_before, self.sizes_after = _counts(before), _counts(after)
        self.mean_before, self.mean_after = (float(v.mean()) if len(v) else 0.0 for v in (before, after))
        self.pairs = confused_pairs(candidates, q, ambiguous)
        self.classes = _classes(candidates, self.checked, label, belief, learned)
        self.accuracy: Share | None = None
        self.bins: list[Bin] = []
        self.ece: float | None = None
        self.excess = 0.0
        """By how much confidence is above accuracy, in the mean of the checked rows."""
        self.mistakes: list[tuple[str, str, int]] = []
        if self.checked is not None and len(self.checked.columns):
            self._compare(self.checked, [str(name) for name in candidates.classes])

    def _compare(self, checked: Checked, names: list[str]) -> None:
        """What only rows with a known label can tell."""
        right, sure = checked.prediction == checked.columns, checked.probabilities.max(axis=1)
        self.accuracy, self.bins = checked.right, reliability(sure, right)
        self.ece = calibration_error(self.bins)
        self.excess = float(sure.mean()) - self.accuracy.value
        both = np.column_stack([checked.columns, checked.prediction])[~right]
        wrong, times = np.unique(both, axis=0, return_counts=True)
        for i in np.argsort(-times, kind="stable")[:MOST_PAIRS]:
            self.mistakes.append((names[wrong[i, 0]], names[wrong[i, 1]], int(times[i])))

    @cached_property
    def listed(self) -> ReviewList:
        """The rows as a review lists them."""
        return ReviewList(self.data)

    @property
    def doubtful(self) -> list[int]:
        """Rows worth a second look, the most doubtful first."""
        return self.listed.rows("doubtful")

    def by_epoch(self, name: str) -> list[float | None]:
        """A number of every epoch, None where there is none."""
        return [row.get(name) for row in self.history]


def confused_pairs(candidates: Candidates, q: Beliefs, rows: np.ndarray) -> list[Pair]:
    """The pairs of classes that most often stand in one set, and how the model decided between them."""
    some, (label, belief) = candidates.take(rows), best(q[rows])
    pairs, sets = pairs_of(some.compact.together()), some.compact
    order = np.argsort(-pairs[2], kind="stable")[:MOST_PAIRS]
    every = np.arange(len(sets))
    made = []
    for a, b, total in zip(*(values[order].tolist() for values in pairs)):
        both = sets.holds(every, np.full(len(sets), a)) & sets.holds(every, np.full(len(sets), b))
        to_a, to_b = int((label[both] == a).sum()), int((label[both] == b).sum())
        names = str(candidates.classes[a]), str(candidates.classes[b])
        still = int((belief[both] < DECIDED).sum())
        made.append(Pair(*names, total, to_a, to_b, total - to_a - to_b, still))
    return made


def _classes(
    candidates: Candidates, checked: Checked | None, label: np.ndarray, mass: np.ndarray, learned: np.ndarray
) -> list[ClassFacts]:
    """The classes with the most rows."""
    columns = np.bincount(candidates.take(learned).positions, minlength=candidates.n_classes)
    believed = np.bincount(label[learned], minlength=candidates.n_classes)
    made = []
    for k in np.argsort(-believed, kind="stable")[:MOST_CLASSES]:
        own = learned & (label == k)
        found = None
        if checked is not None and (checked.columns == k).any():
            found = Share.of(checked.prediction[checked.columns == k] == k)
        confidence = float(mass[own].mean()) if own.any() else float("nan")
        name = str(candidates.classes[k])
        made.append(ClassFacts(name, int(columns[k]), int(believed[k]), confidence, found))
    return made


def _counts(sizes: np.ndarray) -> dict[int, int]:
    return {size: int(count) for size, count in enumerate(np.bincount(sizes)) if count}
