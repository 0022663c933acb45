"""Which rows deserve a second look, and why.

Four signs of doubt, each between 0 and 1, with p the model's probabilities, S the candidate set of the
row and q its disambiguated label:

    close         1 − (r₁ − r₂), the two largest of p restricted to S and renormalised; 0 for one candidate
    outside       1 − Σ_{k∈S} p_k: the model thinks the label is not in the set
    split         1 − (v₁ − v₂) / Σ v, the two largest counts of the annotators' votes; 0 below two annotators
                  (who names several labels shares one vote among them)
    disagreement  max p − p[argmax q]: what the model believes in beyond the label it was trained with

They are joined like independent alarms, so that one strong sign is enough and several add up:

    score = 1 − (1 − 0.6·close) (1 − 0.9·outside) (1 − 0.4·split) (1 − 0.7·disagreement)

The weights are judgement, not fitted: a label outside the set cannot be repaired by any amount of training,
while split annotators are what candidate sets are made of. Rows with a trusted label come last.

After a choice (`method="auto"`) there is something better: the probability that a label is wrong, by models
that had not seen the row. It is the score then, and as many rows are doubtful as labels are expected wrong.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData
from oneof.candidates.compact import best, dense_rows, row_blocks
from oneof.tables.table import numbers

WEIGHTS = {"close": 0.6, "outside": 0.9, "split": 0.4, "disagreement": 0.7}
# from here on a sign is worth a sentence; rows without any are not doubtful
CLOSE, OUTSIDE, SPLIT = 0.6, 0.3, 0.6
VIEWS = ("doubtful", "all", "decided", "skipped")
SHOWN_OUTSIDE = 3
SHOWN_FEATURES = 40
IMAGE_TYPES = {f".{kind}": f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp")}
IMAGE_TYPES[".jpg"] = "image/jpeg"


@dataclass(frozen=True)
class Doubt:
    """A row worth a look: its number, how doubtful it is (0 to 1), and why, in short sentences."""

    row: int
    score: float
    reasons: tuple[str, ...]


def rank_rows(data: ReviewData, limit: int | None = None) -> list[Doubt]:
    """All rows, or the first `limit`, the most doubtful first; see the module for the score."""
    listed = ReviewList(data)
    rows = listed.order[:limit].tolist()
    return [Doubt(row, round(float(listed.score[row]), 4), listed.reasons(row)) for row in rows]


class ReviewList:
    """The rows in the order of doubt: the signs of all as arrays, and what the page shows of one."""

    def __init__(self, data: ReviewData) -> None:
        self.data, n = data, len(data)
        self.features = {
            name: (values, number_range(values))
            for name, values in list((data.features or {}).items())[:SHOWN_FEATURES]
        }
        self.votes = csr_array(data.candidates.shape)
        if data.answers:  # each annotator has one vote per row, shared among the labels they name
            places = data.answers.row, data.answers.label
            self.votes = csr_array((data.answers.shares(), places), shape=data.candidates.shape)
        self.outside, self.close, self.split, self.disagreement = np.zeros((4, n))
        self.prediction, self.pseudo_label = np.zeros((2, n), dtype=np.int64)
        for rows in row_blocks(*data.candidates.shape):
            self._look_at(rows)

    def _look_at(self, rows: np.ndarray) -> None:
        data, every = self.data, np.arange(len(rows))
        p, shares = self.p(rows), self.shares(rows)
        self.outside[rows] = np.clip(1 - (p * data.candidates.rows(rows)).sum(axis=1), 0, 1)
        self.close[rows] = np.where(data.candidates.sizes[rows] > 1, 1 - _lead(shares), 0.0)
        votes = self.votes[rows].toarray()
        total = votes.sum(axis=1)
        share = votes / np.where(total > 0, total, 1)[:, None]
        # shared votes add up to 1 only nearly
        self.split[rows] = np.where(total > 1.5, 1 - _lead(share), 0.0)
        prediction = label = p.argmax(axis=1)
        if data.transduction is not None:
            label = dense_rows(data.transduction, rows).argmax(axis=1)
        self.prediction[rows], self.pseudo_label[rows] = prediction, label
        self.disagreement[rows] = p[every, prediction] - p[every, label]

    def p(self, rows: Any) -> np.ndarray:
        """(rows, c): the model's probabilities, which add up to 1."""
        p = dense_rows(self.data.probabilities, rows)
        mass = p.sum(axis=1, keepdims=True)
        if issparse(self.data.probabilities):  # what is missing belongs to labels that are not kept
            mass[mass < 0.9999] = 1
        return np.where(mass > 0, p / np.where(mass > 0, mass, 1), 1 / p.shape[1])

    def shares(self, rows: Any) -> np.ndarray:
        """(rows, c): p within the candidates."""
        inside = self.p(rows) * self.data.candidates.rows(rows)
        held = inside.sum(axis=1, keepdims=True)
        return inside / np.where(held > 0, held, 1)

    @cached_property
    def score(self) -> np.ndarray:
        if self.data.wrong is not None:
            return np.asarray(self.data.wrong, dtype=np.float64)
        calm = np.ones(len(self.data))
        for name, weight in WEIGHTS.items():
            calm *= 1 - weight * getattr(self, name)
        return 1 - calm

    @cached_property
    def order(self) -> np.ndarray:
        """Row numbers, the most doubtful first, rows with a trusted label last; ties by row number."""
        return np.lexsort((-self.score, np.asarray(self.data.trusted)))

    @cached_property
    def doubtful(self) -> np.ndarray:
        """Boolean (n,): rows with at least one reason, and no trusted label."""
        if self.data.expected_errors is not None:
            first = np.isin(np.arange(len(self.data)), self.order[: self.data.expected_errors])
            return first & ~np.asarray(self.data.trusted)
        any_sign = (self.close >= CLOSE) | (self.outside >= OUTSIDE) | (self.split >= SPLIT)
        return (any_sign | (self.disagreement > 0)) & ~np.asarray(self.data.trusted)

    def reasons(self, row: int) -> tuple[str, ...]:
        """Why a row is doubtful, the gravest first."""
        assert self.data.trusted is not None
        if self.data.trusted[row]:
            return ("It has a trusted label already.",)
        found, mask = [], self.data.candidates.rows([row])[0]
        if self.data.wrong is not None:
            label = self._name(self.pseudo_label[row])
            chance = float(self.data.wrong[row])
            much = f"{chance:.0%}" if chance < 0.995 else "more than 99%"  # nothing is certain
            found.append(f"{label} is wrong with a probability of {much}.")
        if self.outside[row] >= OUTSIDE:
            best = int(np.where(mask, -1, self.p([row])[0]).argmax())
            share, most = f"{self.outside[row]:.0%}", self._name(best)
            found.append(f"The model puts {share} outside the candidates, most on {most}.")
        if self.close[row] >= CLOSE:
            # candidates without any probability come before classes that are none
            shares = self.shares([row])[0]
            a, b = np.argsort(-shares - mask, kind="stable")[:2].tolist()
            found.append(
                f"Among the candidates {self._name(a)} and {self._name(b)} are close: "
                f"{shares[a]:.0%} to {shares[b]:.0%}."
            )
        if self.disagreement[row] > 0:
            label, prediction = self.pseudo_label[row], self.prediction[row]
            found.append(f"Trained as {self._name(label)}, but predicted as {self._name(prediction)}.")
        if self.split[row] >= SPLIT:
            votes = self.votes[[row]].toarray()[0]
            named = np.argsort(-votes, kind="stable")[:3]
            counts = [f"{votes[k]:.2g} for {self._name(k)}" for k in named if votes[k] > 0]
            found.append(f"Annotators are split: {', '.join(counts)}.")
        return tuple(found)

    def _name(self, column: Any) -> str:
        return f"“{self.data.candidates.classes[column]}”"

    # ---- what the page shows --------------------------------------------------------------------

    def rows(self, view: str, decisions: Decisions | None = None, column: int | None = None) -> list[int]:
        """Row numbers, the most doubtful first; `column` keeps rows that may be, or look like, that class."""
        keep = np.ones(len(self.data), dtype=bool)
        if view == "doubtful":
            keep = self.doubtful.copy()
        elif decisions is not None and view in ("decided", "skipped"):
            keep = np.isin(np.arange(len(keep)), list(getattr(decisions, view)))
        if column is not None:
            every = np.arange(len(keep))
            holds = self.data.candidates.has(every, np.full(len(keep), column))
            keep &= holds | (self.prediction == column)
        return self.order[keep[self.order]].tolist()

    def facts(self, row: int) -> dict[str, Any]:
        """What the page shows of a row. Classes are columns; the page knows their names."""
        data, answers = self.data, self.data.answers
        mask, p = data.candidates.rows([row])[0], self.p([row])[0]
        by_belief = np.argsort(-p, kind="stable")
        inside = by_belief[mask[by_belief]].tolist()
        outside = by_belief[~mask[by_belief]][:SHOWN_OUTSIDE].tolist()
        return {
            "row": row,
            "name": str(data.name_of(row)),
            "score": round(float(self.score[row]), 3),
            "reasons": list(self.reasons(row)),
            "candidates": [[k, round(float(p[k]), 4)] for k in inside],
            "outside": [[k, round(float(p[k]), 4)] for k in outside],
            "trained_as": None if data.transduction is None else int(self.pseudo_label[row]),
            "answers": [[str(who), said] for who, said in (answers.of(row) if answers else {}).items()],
            "features": [[name, rounded(v[row]), span] for name, (v, span) in self.features.items()],
            "image": data.images is not None,
        }

    def image(self, row: int) -> tuple[Path, str] | None:
        """File and type of a row's image; None if there is none that may and can be shown.

        Links are followed first: what matters is where the file really is.
        """
        if self.data.images is None or self.data.image_folder is None:
            return None
        try:
            path = Path(os.path.realpath(self.data.images[row]))
            kind = IMAGE_TYPES.get(path.suffix.lower())
            if kind is None or not path.is_relative_to(os.path.realpath(self.data.image_folder)):
                return None
            return (path, kind) if path.is_file() else None
        except (ValueError, OSError):  # no file can have such a name
            return None


def _lead(shares: np.ndarray) -> np.ndarray:
    """The largest minus the second largest value of each row."""
    if shares.shape[1] < 2:
        return np.ones(len(shares))
    top = np.partition(shares, -2, axis=1)[:, -2:]
    return top[:, 1] - top[:, 0]


def rounded(value: Any) -> str:
    """A cell for people: four digits of a fraction, whole numbers and texts as they are."""
    made = numbers([value])
    x = math.nan if made is None else float(made[0])
    if not math.isfinite(x) or (x.is_integer() and not isinstance(value, float)):
        return "" if value is None else str(value)
    return f"{x:.0f}" if 1000 <= abs(x) < 1e15 else f"{x:.4g}"


def number_range(values: Sequence[Any]) -> str:
    """Smallest and largest number of a column, to judge one of them by; nothing where there are texts."""
    made = numbers(list(values))
    made = made if made is None else made[np.isfinite(made)]
    return "" if made is None or not len(made) else f"{rounded(made.min())} to {rounded(made.max())}"


# ---- similar rows -----------------------------------------------------------------------------

DIMENSIONS = 16
ENOUGH = 2000
"""Rows to learn the main directions from."""
THUMBNAIL = 8
"""Images are compared at so many pixels both ways: by colour and layout."""
SHOWN_SIMILAR = 3


def places_of(x: Any, scaled: Callable[[np.ndarray], Any]) -> np.ndarray:
    """(n, at most 16) float16: rows along the main directions of what the model sees of them.

    x are features, which `scaled` scales as the model does, or images (n, ...); they may lie in a file.
    """

    def flat(rows: np.ndarray) -> np.ndarray:
        part = np.asarray(x[rows])
        if part.ndim != 4:
            return np.asarray(scaled(part), dtype=np.float32).reshape(len(part), -1)
        tall, wide = (np.linspace(0, size, THUMBNAIL, endpoint=False).astype(int) for size in part.shape[2:])
        sums = np.add.reduceat(np.add.reduceat(part.astype(np.float32), tall, axis=2), wide, axis=3)
        return sums.reshape(len(part), -1)

    some = flat(np.unique(np.linspace(0, len(x) - 1, ENOUGH).astype(np.int64)))
    mean = some.mean(axis=0)
    directions = np.linalg.svd(some - mean, full_matrices=False)[2][:DIMENSIONS]
    width = int(np.prod(np.shape(x)[1:]))
    found = np.concatenate([(flat(rows) - mean) @ directions.T for rows in row_blocks(len(x), width)])
    # only distances count: any unit will do, and half precision has room for this one
    return (found / max(float(np.abs(found).max()), 1e-12) * 100).astype(np.float16)


def similar_rows(data: ReviewData, row: int, known: Mapping[int, int]) -> list[tuple[int, int]]:
    """The rows most like this one whose label is known, and that label: trusted, or decided (`known`)."""
    if data.places is None:
        return []
    labels = {}
    if data.transduction is not None:
        trusted = np.flatnonzero(np.asarray(data.trusted))
        labels = dict(zip(trusted.tolist(), best(data.transduction[trusted])[0].tolist()))
    labels |= known
    labels.pop(row, None)
    rows = np.array(sorted(labels), dtype=np.int64)
    places = data.places
    apart = ((places[rows].astype(np.float32) - places[row].astype(np.float32)) ** 2).sum(axis=1)
    # any two rows are twice the variance apart, in the mean: similar ones less than half of that
    order = np.argsort(apart, kind="stable")[:SHOWN_SIMILAR]
    near = rows[order[apart[order] < data.spread]].tolist()
    return [(other, labels[other]) for other in near]
