"""Who takes part in a choice, and on which rows: the portfolio, plain baselines, the folds.

A baseline is scikit-learn's logistic regression on labels that anybody could have made. Its coefficients
become the one layer of the net "linear", so that a baseline that wins is a model like any other: it is saved,
exported and calibrated in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold

from oneof.candidates import Candidates
from oneof.candidates.compact import restricted
from oneof.candidates.evidence import label_likelihoods
from oneof.classifier.calibration import tempered
from oneof.classifier.inputs import as_numpy, class_array, known
from oneof.classifier.rows import KnownRows, row_weights, set_sizes
from oneof.classifier.standings import ordered
from oneof.methods import make_method
from oneof.methods.targets import EXPONENT
from oneof.nets import TABLE_NETS, build_net

# ---- baselines --------------------------------------------------------------------------------

BASELINES = ("random candidate", "majority vote", "clean rows alone")
"""A linear model on one random candidate of every row, on the one with the most support, on clean rows."""
NEVER = -30.0
"""Logit of a class that no label names."""


def fit_baseline(model: Any, kind: str, data: ChoiceData, seed: int) -> Any:
    """Fit a `PartialLabelClassifier` with the net "linear" by logistic regression. Returns the model.

    "majority vote" needs evidence, "clean rows alone" clean rows; see `BASELINES`.
    """
    candidates, clean, x = data.candidates, data.clean, data.x
    weights = row_weights(data.weights, model.class_weight, candidates)
    if kind == "clean rows alone":
        assert clean is not None
        x, columns, weights = clean.x, clean.mask.argmax(axis=1), None
    elif kind == "majority vote":
        columns = _likeliest(candidates.evidence_of(np.arange(len(candidates))), seed)
    else:
        columns = _likeliest(candidates.mask, seed)
    model.classes_ = class_array(candidates.classes)
    model.n_features_in_, model.input_shape_ = x.shape[1], tuple(map(int, x.shape[1:]))
    model.scaling_ = model._fitted_scaling(x)
    scaled = model.prepare(x)
    weight, bias = _regression(scaled, columns, len(model.classes_), seed, weights)
    net = build_net("linear", x.shape[1], len(model.classes_))
    net.head.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    model.net_ = (net.eval(),)
    model.method_ = make_method("clean-only" if kind == "clean rows alone" else "average")
    p = model.prepared_proba(scaled)
    loss = log_loss(columns, p, labels=np.arange(p.shape[1])) if p.shape[1] > 1 else 0.0
    model.history_, model.best_epoch_ = [{"epoch": 0, "loss": float(loss), "lr": 0.0}], 0
    model.clean_source_ = "none" if clean is None else "given"
    model.n_clean_, model.n_selection_ = data.n_clean, 0
    model.clean_weight_ = float(kind == "clean rows alone")
    model.trained_on_ = set_sizes(candidates.sizes)
    model.encoder_ = model.checked_ = None
    return model


def _likeliest(support: Any, seed: int) -> np.ndarray:
    """The column with the most support in every row, ties by chance."""
    # a stream of its own: generated sets are often drawn from default_rng(seed), and the same numbers again
    # would tell which candidate is the true one
    chance = np.random.default_rng([seed, 0xBA5E]).random(np.shape(support))
    top = support == support.max(axis=1, keepdims=True)
    return np.where(top, chance, -1.0).argmax(axis=1)


def _regression(
    x: np.ndarray, columns: np.ndarray, n_classes: int, seed: int, weights: Any
) -> tuple[Any, Any]:
    """Weights (c, d) and biases (c,) of a logistic regression; one that never occurs is never predicted."""
    there = np.unique(columns)
    weight = np.zeros((n_classes, x.shape[1]), dtype=np.float32)
    bias = np.full(n_classes, NEVER, dtype=np.float32)
    if len(there) == 1:
        bias[there] = 0.0
        return weight, bias
    # a baseline need not be solved to the last digit
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        found = LogisticRegression(max_iter=200, random_state=seed).fit(x, columns, sample_weight=weights)
    if len(there) == 2:  # one row of coefficients, for the second class
        weight[there[1]], bias[there] = found.coef_[0], [0.0, found.intercept_[0]]
    else:
        weight[there], bias[there] = found.coef_, found.intercept_
    return weight, bias


def baseline_labels(
    fitted: Any, data: ChoiceData, rows: np.ndarray | None = None, likelihoods: np.ndarray | None = None
) -> np.ndarray:
    """(B, c): what a baseline believes of some rows, or all; of itself it knows nothing of votes and scores
    (`likelihoods`), nor of the labels of clean rows."""
    rows = np.arange(len(data.x)) if rows is None else rows
    p, mask = fitted.prepared_proba(fitted.prepare(data.x[rows])), data.candidates.rows(rows)
    made = restricted(p, mask).astype(np.float32)
    if likelihoods is not None:
        made = restricted(tempered(made, 1.0, EXPONENT * likelihoods), mask).astype(np.float32)
    if data.clean is not None and data.clean.of_x is not None:
        known = np.isin(rows, data.clean.of_x)
        made[known] = data.clean.mask[np.searchsorted(data.clean.of_x, rows[known])]
    return made


# ---- contenders and folds ---------------------------------------------------------------------

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
LENGTHS = {"short": (0.2, 0.3), "long": (1.0, 1.0)}
"""How long to train, in parts of the longest, and at which part of the learning rate."""


@dataclass
class Contender:
    """One entry of a comparison, and what was found out about it."""

    name: str
    kind: str
    settings: dict[str, Any]
    probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(n, c): of the training rows out of fold, NaN before they are judged."""
    clean_probabilities: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """(m, c): of the clean rows, likewise."""
    seconds: float = 0.0
    rounds: int = 0

    @property
    def is_baseline(self) -> bool:
        return self.kind == "baseline"

    @property
    def parameters(self) -> dict[str, Any]:
        """Its settings as those of a model; a baseline's method is the nearest one that has a name."""
        nearest = {"method": "clean-only" if "clean" in self.name else "average"}
        return {**self.settings, **(nearest if self.is_baseline else {})}

    def key(self, fold: Fold) -> tuple[str, dict[str, Any], bytes]:
        """What its opinion of a fold is kept by."""
        settings = self.settings
        if makes_nets(settings.get("net")):  # its address says nothing; `Comparison` knows what it makes
            settings = {**settings, "net": "own net"}
        return self.name, settings, fold.rows.tobytes()

    def unjudged(self, data: ChoiceData) -> Contender:
        """The same, with room for what it will say about these rows."""
        n, c = data.candidates.shape
        room = np.full((n, c), np.nan), np.full((data.n_clean, c), np.nan)
        return Contender(self.name, self.kind, self.settings, *room)

    def differs_in(self, other: Contender, *names: str) -> bool:
        """Whether the two have the same settings except for these, in all of which they differ."""
        mine, theirs = self.settings, other.settings
        return self.kind == other.kind and {k for k in mine if mine[k] != theirs[k]} == set(names)


class Fold(NamedTuple):
    """Numbers of the rows, and of the clean rows, that are held out together."""

    rows: np.ndarray
    clean: np.ndarray


@dataclass(frozen=True)
class ChoiceData:
    """The rows of a choice, and their folds."""

    x: Any
    candidates: Candidates
    clean: KnownRows | None = None
    weights: np.ndarray | None = None
    folds: tuple[Fold, ...] = ()

    def divided(self, groups: Any, seed: int) -> ChoiceData:
        """The same rows in folds; a clean row is held out with the row it is."""
        held = row_folds(len(self.x), groups, seed)
        if self.clean is not None and self.clean.of_x is not None:
            clean = [self.clean_among(rows) for rows in held]
        else:
            clean = row_folds(self.n_clean, None, seed)
        clean += [np.zeros(0, dtype=np.int64)] * (len(held) - len(clean))
        return replace(self, folds=tuple(map(Fold, held, clean)))

    def without_known_sets(self, seed: int) -> ChoiceData:
        """Folds whose candidate sets do not occur in the other folds, where sets are many.

        Rows that belong together (frames of a scene, answers to one question) have the same set. A net that
        knows such a row's neighbours names a label of their set, which is then no sign that it is right.
        """
        n, sets = len(self.x), self.candidates.compact
        groups = np.where(sets.sizes > 1, n + sets.kinds(), np.arange(n))  # one candidate: a group by itself
        if not self.folds or np.bincount(groups).max() > LARGEST_SET * n:
            return self
        return self.divided(groups, seed)

    def clean_among(self, rows: np.ndarray) -> np.ndarray:
        """Numbers of the clean rows that are some of these rows; all where they are further ones."""
        if self.clean is None or self.clean.of_x is None:
            return np.arange(self.n_clean)
        return np.flatnonzero(np.isin(self.clean.of_x, rows))

    def part(self, rows: np.ndarray, clean: np.ndarray | None = None) -> ChoiceData:
        """Some of the rows, and some of the clean rows or all that can be there."""
        clean = self.clean_among(rows) if clean is None else clean
        known = None if self.clean is None or not len(clean) else self.clean.take(clean)
        if known is not None and known.of_x is not None:
            known = replace(known, of_x=np.searchsorted(rows, known.of_x))
        weights = None if self.weights is None else self.weights[rows]
        return ChoiceData(self.x[rows], self.candidates.take(rows), known, weights)

    def outside(self, fold: Fold) -> ChoiceData:
        """The rows and clean rows that are not in a fold."""
        rows = np.setdiff1d(np.arange(len(self.x)), fold.rows)
        return self.part(rows, np.setdiff1d(np.arange(self.n_clean), fold.clean))

    @cached_property
    def likelihoods(self) -> np.ndarray | None:
        """(n, c): what answers, votes or scores say about the labels (`label_likelihoods`)."""
        return label_likelihoods(self.candidates)

    @property
    def clean_rows_name_every_class(self) -> bool:
        """Whether every class that a set holds has one; others would never be predicted from these alone."""
        possible = np.unique(self.candidates.compact.positions)
        return self.clean is not None and bool(self.clean.mask[:, possible].any(axis=0).all())

    @property
    def n_clean(self) -> int:
        return 0 if self.clean is None else len(self.clean)


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


def some_rows_of(n: int, most: int, trusted: np.ndarray | None, seed: int) -> np.ndarray:
    """So many rows of n at random; up to half of them are `trusted` ones, where there are some."""
    order = np.random.default_rng([seed, n]).permutation(n)
    if trusted is not None:
        known = np.isin(order, trusted)
        first = order[known][: most // 2]
        order = np.concatenate([first, order[~known], order[known][len(first) :]])
    return np.sort(order[:most])


def checked_groups(groups: Any, n: int) -> np.ndarray:
    groups = np.asarray(as_numpy(groups))
    if groups.shape != (n,):
        raise ValueError(f"groups has shape {groups.shape}, but there are {n} rows; give one group per row.")
    if not known(groups).all():  # those without one would be a group together
        raise ValueError(f"groups[{known(groups).argmin()}] is missing; give every row one, if only its own.")
    return groups


def portfolio(model: Any, data: ChoiceData, long: int) -> Iterator[Contender]:
    """Everything that is compared; what is cheap comes first.

    `long` is the number of epochs of the long trainings.
    """
    table = data.x.ndim == 2
    if table and isinstance(model.net, str) and model.net in TABLE_NETS:
        held = max((len(fold.clean) for fold in data.folds), default=0)
        there = {
            "random candidate": True,
            "majority vote": data.candidates.evidence is not None,
            # some are left, whatever is held out
            "clean rows alone": data.n_clean > held and data.clean_rows_name_every_class,
        }
        for kind in BASELINES:
            if there[kind]:
                yield Contender(f"linear model, {kind}", "baseline", {"net": "linear", "method": kind})
    nets = ["linear", "mlp"] if table and model.net == "mlp" else [model.net]
    scalings = ["standard", "global"] if table and model.scaling == "standard" else [model.scaling]
    crowd = data.candidates.answers is not None
    linear = (METHODS[0], FOR_ANSWERS) if crowd else METHODS
    methods = (*METHODS, FOR_ANSWERS) if crowd else METHODS + ALSO_MLP
    for net in nets:
        # a short training of a linear model would stop before it has learned
        for length in ("long",) if net == "linear" else LENGTHS:
            part, lr = LENGTHS[length]
            for method in linear if net == "linear" else methods:
                for scaling in scalings:
                    settings = {
                        "method": method,
                        "net": net,
                        "scaling": scaling,
                        "epochs": max(1, round(part * long)),
                        "lr": lr * model.lr,
                    }
                    title = net if isinstance(net, str) else "own net"
                    scaled = "" if scaling == model.scaling else f", {scaling} scaling"
                    yield Contender(f"{method}, {title}, {length}{scaled}", "method", settings)


def makes_nets(net: Any) -> bool:
    """Whether this is a function of the user that makes networks."""
    return callable(net) and not isinstance(net, torch.nn.Module)


def promising(contender: Contender, judged: Sequence[Contender], data: ChoiceData) -> bool:
    """Whether a contender is worth its first training, by those that were judged before it.

    A scaling that served the first method worse with the same net is not tried with the others, and a long
    training only where the short one was among the best short ones.
    """
    if contender.is_baseline:
        return True
    first = [c for c in judged if not c.is_baseline and c.differs_in(contender, "method")]
    pairs = [(c, other) for c in first for other in judged if c.differs_in(other, "scaling")]
    if any(
        c.settings["method"] == METHODS[0] and ordered([c, other], data)[0] is other for c, other in pairs
    ):
        return False
    twins = [c for c in judged if c.differs_in(contender, "epochs", "lr")]
    short = [c for c in judged if not c.is_baseline and c.settings["lr"] < contender.settings["lr"]]
    return not short or any(c in ordered(short, data)[:LONG_TRAININGS] for c in twins)
