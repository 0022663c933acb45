"""Who takes part in a choice, and on which rows: the portfolio, the baselines, the folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from oneof.candidates import Candidates
from oneof.candidates.evidence import label_likelihoods
from oneof.classifier.baselines import BASELINES, KnownRows, evidence_of
from oneof.classifier.clean import read_clean
from oneof.classifier.inputs import as_numpy, class_array
from oneof.nets import TABLE_NETS

METHODS = ("proden", "rplg+")
"""RPLG+ leads `results/rplg_plus`, PRODEN `results/table2` and the crowd."""
ALSO_MLP = ("cc",)
"""Good in `results/rplg_plus` with an MLP. IDGP, second in `results/fit_defaults`, takes thrice as long."""
FOR_ANSWERS = "crowd"
"""Where it is known who said what; best on generated crowds (`results/crowd`)."""
LONG_TRAININGS = 2
"""How many of the nets that were trained shortly are trained long."""
FOLDS = 3
LARGEST_SET = 0.2
"""A set that more of the rows have says nothing about which rows belong together."""
FEWEST_ROWS = 6
"""With fewer rows nothing is held out."""


@dataclass(frozen=True)
class Length:
    """How long to train, in parts of the longest, and at which part of the learning rate."""

    name: str
    epochs: float
    lr: float


SHORT, LONG = Length("short", 0.2, 0.3), Length("long", 1.0, 1.0)


@dataclass
class Contender:
    """One entry of a comparison, and what was found out about it."""

    name: str
    kind: str
    settings: dict[str, Any]
    probabilities: np.ndarray
    """(n, c): of the training rows out of fold, NaN before they are judged."""
    clean_probabilities: np.ndarray
    """(m, c): of the clean rows, likewise."""
    seconds: float = 0.0
    rounds: int = 0

    @property
    def is_baseline(self) -> bool:
        return self.kind == "baseline"

    def differs_in(self, other: Contender, *names: str) -> bool:
        """Whether the two have the same settings except for these, in all of which they differ."""
        mine, theirs = self.settings, other.settings
        return self.kind == other.kind and {k for k in mine if mine[k] != theirs[k]} == set(names)


Order = Callable[[Sequence[Contender]], list[Contender]]


@dataclass(frozen=True)
class ChoiceData:
    """The rows of a choice, and their folds."""

    x: np.ndarray
    candidates: Candidates
    clean: KnownRows | None
    clean_rows: np.ndarray | None
    """Rows of x that the clean rows are; None where they are further ones."""
    folds: list[np.ndarray]
    """Rows to judge by, fold after fold."""
    clean_folds: list[np.ndarray]
    weights: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: np.ndarray,
        candidates: Candidates,
        clean: Any,
        groups: Any,
        seed: int,
        weights: Any = None,
    ) -> ChoiceData:
        """From what `fit` was given; X has been checked."""
        known_rows = rows = None
        if clean is not None:
            read, classes = partial(model._inputs, reset=False), class_array(candidates.classes)
            x, columns, rows = read_clean(clean, X, classes, read)
            known_rows = KnownRows(x, columns)
        whole = cls(X, candidates, known_rows, rows, [], [], weights)
        return whole.divided(row_folds(len(X), groups, seed), seed)

    def divided(self, folds: list[np.ndarray], seed: int) -> ChoiceData:
        """The same rows with other folds; a clean row is held out with the row it is."""
        if self.clean_rows is not None:
            clean = [np.flatnonzero(np.isin(self.clean_rows, fold)) for fold in folds]
        else:
            clean = row_folds(self.n_clean, None, seed)
        clean += [np.zeros(0, dtype=np.int64)] * (len(folds) - len(clean))
        return replace(self, folds=folds, clean_folds=clean)

    def without_known_sets(self, seed: int) -> ChoiceData:
        """Folds whose candidate sets do not occur in the other folds, where sets are many.

        Rows that belong together (frames of a scene, answers to one question) have the same set. A net that
        knows such a row's neighbours names a label of their set, which is then no sign that it is right.
        """
        n, sets = len(self.x), self.candidates.compact
        groups = np.where(sets.sizes > 1, n + sets.kinds(), np.arange(n))  # one candidate: a group by itself
        if not self.folds or np.bincount(groups).max() > LARGEST_SET * n:
            return self
        return self.divided(row_folds(len(self.x), groups, seed), seed)

    @cached_property
    def likelihoods(self) -> np.ndarray | None:
        """(n, c): what answers, votes or scores say about the labels (`label_likelihoods`)."""
        return label_likelihoods(self.candidates)

    @property
    def n_clean(self) -> int:
        return 0 if self.clean is None else len(self.clean)

    def clean_part(self, numbers: np.ndarray) -> KnownRows | None:
        if self.clean is None:
            return None
        return KnownRows(self.clean.x[numbers], self.clean.columns[numbers])

    def clean_argument(self, numbers: np.ndarray, rows: np.ndarray) -> Any:
        """Some of the clean rows in the form `fit` takes, beside some of the rows."""
        part = self.clean_part(numbers)
        if part is None or not len(part):
            return None
        labels = class_array(self.candidates.classes)[part.columns]
        if self.clean_rows is None:
            return part.x, labels
        vector = np.full(len(self.x), None, dtype=object)
        vector[self.clean_rows[numbers]] = labels.tolist()
        return vector[rows]


def row_folds(n: int, groups: Any, seed: int) -> list[np.ndarray]:
    """The rows to judge by, fold after fold; none where there are too few to hold any out."""
    count = FOLDS if n >= FEWEST_ROWS else 0
    if groups is not None:
        groups = checked_groups(groups, n)
        count = min(count, len(np.unique(groups)))
    if count < 2:
        return []
    made = GroupKFold(count) if groups is not None else KFold(count, shuffle=True, random_state=seed)
    return [held for _, held in made.split(np.zeros((n, 1)), groups=groups)]


def checked_groups(groups: Any, n: int) -> np.ndarray:
    groups = np.asarray(as_numpy(groups))
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}, but there are {n} rows; give one group per row.")
    return groups


def portfolio(model: Any, data: ChoiceData, long: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, kind and settings of everything that is compared; what is cheap comes first.

    `long` is the number of epochs of the long trainings.
    """
    table = data.x.ndim == 2
    if table and isinstance(model.net, str) and model.net in TABLE_NETS:
        everywhere = data.n_clean > max(map(len, data.clean_folds), default=0)  # some whatever is held out
        there = {
            "majority vote": evidence_of(data.candidates),
            "clean rows alone": data.clean if everywhere else None,
        }
        for kind in BASELINES:
            if there.get(kind, kind) is not None:
                yield f"linear model, {kind}", "baseline", {"net": "linear", "method": kind}
    nets = ["linear", "mlp"] if table and model.net == "mlp" else [model.net]
    scalings = ["standard", "global"] if table and model.scaling == "standard" else [model.scaling]
    crowd = data.candidates.answers is not None
    linear = (METHODS[0], FOR_ANSWERS) if crowd else METHODS
    methods = (*METHODS, FOR_ANSWERS) if crowd else METHODS + ALSO_MLP
    for net in nets:
        # a short training of a linear model would stop before it has learned
        for length in (LONG,) if net == "linear" else (SHORT, LONG):
            for method in linear if net == "linear" else methods:
                for scaling in scalings:
                    settings = {
                        "method": method,
                        "net": net,
                        "scaling": scaling,
                        "epochs": max(1, round(length.epochs * long)),
                        "lr": length.lr * model.lr,
                    }
                    title = net if isinstance(net, str) else "own net"
                    scaled = "" if scaling == model.scaling else f", {scaling} scaling"
                    yield f"{method}, {title}, {length.name}{scaled}", "method", settings


def promising(contender: Contender, judged: Sequence[Contender], order: Order) -> bool:
    """Whether a contender is worth its first training, by those that were judged before it.

    A scaling that served the first method worse with the same net is not tried with the others, and a long
    training only where the short one was among the best short ones. `order` puts the best first.
    """
    if contender.is_baseline:
        return True
    first = [c for c in judged if not c.is_baseline and c.differs_in(contender, "method")]
    pairs = [(c, other) for c in first for other in judged if c.differs_in(other, "scaling")]
    if any(c.settings["method"] == METHODS[0] and order([c, other])[0] is other for c, other in pairs):
        return False
    twins = [c for c in judged if c.differs_in(contender, "epochs", "lr")]
    short = [c for c in judged if not c.is_baseline and c.settings["lr"] < contender.settings["lr"]]
    return not short or any(c in order(short)[:LONG_TRAININGS] for c in twins)
