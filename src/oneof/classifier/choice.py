"""`method="auto"`: a choice made on the data.

A small portfolio (methods that the records in `results/` support, with a linear model and an MLP, this one at
two lengths, and two scalings of the features) and plain baselines are compared out of fold (`contenders.py`,
`standings.py`). Round r of a successive halving trains on all folds but the r-th and judges by that one. No
candidate set is in two folds, where there are enough of them. The first round leaves out what has little
hope: the scaling that served the first method worse, a long training of a net that was no good after a short
one. After each round the best third of the methods goes on; baselines always do, as they cost next to
nothing. The winner is fitted on all rows, and made as sure as it was right out of fold, in folds drawn at
random.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.compact import restricted
from oneof.classifier.calibration import LabelErrors, label_errors, temperature, tempered
from oneof.classifier.contenders import METHODS, ChoiceData, Contender, fit_baseline, portfolio, promising
from oneof.classifier.elsewhere import FoldFiles, opinions_from_cluster
from oneof.classifier.standings import note, ordered, score, table
from oneof.methods.targets import EXPONENT
from oneof.training.progress import closing

LONG_FITS = 8
"""Cost of a whole choice in trainings of the long MLP, about: a budget shortens them until so many fit in."""
TRAININGS = 20
"""How many trainings a choice has, about, each with its setup."""
MEASURED_ROWS = 4096
ROUNDS = 2
FACTOR = 3
"""One of so many methods goes on to the next round."""
LAST_FIT = 1.5
"""Time of the last fit, on all rows, in trainings on all folds but one; every fold that judges the winner in
the end takes one more."""


def choose(
    model: Any, X: np.ndarray, candidates: Candidates, clean: Any, groups: Any, weights: Any = None
) -> Any:
    """Compare, take the best, fit it on all rows: the winner, with what the choice found out about it.

    `model` has the settings that all contenders share.
    """
    recipe = model.recipe(len(X))
    data = ChoiceData.of(model, X, candidates, clean, groups, recipe.seed, weights)
    apart = data.without_known_sets(recipe.seed) if groups is None else data
    comparison = Comparison(model, apart, recipe.seed)
    comparison.run()
    finalists = ordered(comparison.finalists(), comparison.data, final=True)
    best = finalists[0]
    left = [c for c in comparison.contenders if c.rounds and c not in finalists]
    left.sort(key=lambda c: (c.rounds, score(c, comparison.data)), reverse=True)
    selection = table(finalists, left, comparison.data)
    judged = comparison.out_of_fold(best, data)
    fitted = comparison.fitted(best, np.arange(len(X)), np.arange(data.n_clean), last=True)
    # baselines know nothing of votes and scores, nor of the labels of the clean rows
    if best.is_baseline and data.likelihoods is not None:
        spoken = tempered(fitted.transduction_, 1.0, EXPONENT * data.likelihoods)
        fitted.transduction_ = restricted(spoken, candidates.mask).astype(np.float32)
    if data.clean is not None and data.clean_rows is not None:
        fitted.transduction_[data.clean_rows] = np.eye(data.candidates.n_classes)[data.clean.columns]
    fitted.out_of_fold_, fitted.label_errors_ = calibrated(fitted, judged, data)
    fitted.settings_, fitted.selection_, fitted.selection_note_ = used(best), selection, note(selection)
    return fitted


def used(best: Contender) -> dict[str, Any]:
    """The winner's parameters; a baseline's method is the nearest one that has a name."""
    nearest = {"method": "clean-only" if "clean" in best.name else "average"}
    return {**best.settings, **(nearest if best.is_baseline else {})}


def calibrated(fitted: Any, best: Contender, data: ChoiceData) -> tuple[np.ndarray, LabelErrors]:
    """Make the model as sure as it was right out of fold. The rows' probabilities, and what these say about
    the labels that the model gave them (`transduction_`).

    The sets tell a temperature, and the known labels correct it, the more the more of them there are.
    """
    sets, mask, p, clean = data.candidates, data.candidates.mask, best.probabilities, data.clean
    if np.isnan(p).any():
        return p, label_errors(fitted.transduction_, mask)
    by_sets = t = temperature(p, mask)
    possible = np.ones_like(mask) if sets.truth_may_be_outside else mask
    evidence = 0.0 if data.likelihoods is None else EXPONENT * data.likelihoods

    def belief(said: np.ndarray, t: float) -> np.ndarray:
        return restricted(tempered(said, t, evidence), possible)

    believed, trusted = belief(p, t), np.zeros(len(p), dtype=bool)
    if clean is not None:
        right, held = np.eye(sets.n_classes, dtype=bool)[clean.columns], best.clean_probabilities
        judged = ~np.isnan(held[:, 0])
        t = temperature(held[judged], right[judged], expected=by_sets)
        # models out of fold knew fewer rows: they doubt too much; the last one knew the row: too little
        both = np.sqrt(p * fitted.prepared_proba(fitted.prepare(data.x)))
        if data.clean_rows is None:
            believed = belief(both, t)
        else:  # wrong candidates look like the right one: among them alone a model is right less often
            trusted[data.clean_rows] = True
            inside = temperature(believed[data.clean_rows], right, expected=1.0)
            believed = restricted(tempered(belief(both, by_sets), inside), possible)
    fitted.set_temperature(t)
    labels = fitted.transduction_.argmax(axis=1)
    return tempered(p, t), label_errors(believed, possible, labels=labels, trusted=trusted)


@dataclass
class Comparison:
    """Contenders, folds and the clock."""

    model: Any
    data: ChoiceData
    seed: int
    began: float = field(default_factory=lambda: time.perf_counter())
    ahead: dict[tuple[str, int], list[np.ndarray]] = field(default_factory=dict)
    """Opinions that came from a cluster, by contender and fold."""

    def __post_init__(self) -> None:
        model, data = self.model, self.data
        n, c = data.candidates.shape
        shared = model.get_params(deep=False)
        for name in ("run", "callbacks", "verbose", "budget", "max_seconds", "device", "cluster"):
            shared.pop(name)
        weights = None if data.weights is None else data.weights.tolist()
        key = repr((shared, self.seed, weights, [fold.tolist() for fold in data.folds]))
        self.files = FoldFiles.of(model.run, data.x, data.candidates, data.clean, key)
        self.contenders = [
            Contender(name, kind, settings, np.full((n, c), np.nan), np.full((data.n_clean, c), np.nan))
            for name, kind, settings in portfolio(model, data, self.longest())
        ]

    def longest(self) -> int:
        """Epochs of the long trainings; a run that goes on keeps those it began with."""
        epochs = self.model.recipe(len(self.data.x)).epochs
        if self.model.budget is None:
            return epochs
        stored = self.files.read("longest", {}, 0)
        if stored is None:
            stored = [np.array(min(epochs, self.longest_within(self.model.budget)))]
            self.files.write("longest", {}, 0, stored)
        return int(stored[0])

    def longest_within(self, seconds: float) -> int:
        """Epochs that a budget allows the net that lengths go by, measured on a few rows; one at least."""
        data, n = self.data, len(self.data.x)
        rows = np.unique(np.linspace(0, n - 1, min(n, MEASURED_ROWS)).astype(np.int64))
        clean = np.arange(data.n_clean)
        if data.clean_rows is not None:
            clean = clean[np.isin(data.clean_rows, rows)]
        took = []
        for epochs in (1, 1, 3):  # first what happens once in a process only
            settings = {"method": METHODS[0], "epochs": epochs}
            trial = Contender("trial", "method", settings, np.zeros(0), np.zeros(0))
            began = time.perf_counter()
            self.fitted(trial, rows, clean)
            took.append(time.perf_counter() - began)
        epoch = max((took[2] - took[1]) / 2, took[2] / 6)
        setup = max(0.0, took[1] - epoch)
        return max(1, int((seconds - TRAININGS * setup) / LONG_FITS / (epoch * n / len(rows))))

    # ---- rounds -------------------------------------------------------------------------------

    def run(self) -> None:
        """Judge the contenders fold by fold; only the best third of the methods sees the next fold."""
        rounds, there = min(ROUNDS, len(self.data.folds)), list(self.contenders)
        baselines = sum(c.is_baseline for c in there)
        later = baselines + survivors(len(there) - baselines)
        total = len(there) + (rounds - 1) * later  # at most; a few are left out before they begin
        progress = self.model.progress("auto", total)
        progress.start("choosing", total, 0)
        done = 0
        # what an earlier run had decided stays decided: its last fit may have begun
        over = self.files.read("over", {}, 0) is not None

        def order(some: Sequence[Contender]) -> list[Contender]:
            return ordered(some, self.data)

        with closing(progress):
            for number in range(rounds):
                judged: list[Contender] = []
                if not over:
                    self.judge_ahead([(contender, number) for contender in there], self.data)
                for contender in there:
                    missing = self.stored(contender, number, self.data) is None
                    if (missing and (over or self.out_of_time(contender))) or not (
                        number or promising(contender, judged, order)
                    ):
                        continue
                    self.judge(contender, number)
                    judged.append(contender)
                    reached = score(contender, self.data)
                    facts = {"contender": contender.name, "round": number, "score": reached}
                    progress.epoch({"epoch": done, "loss": 1 - reached, **facts})
                    done += 1
                methods = [c for c in order(judged) if not c.is_baseline]
                kept = methods[: survivors(len(methods))]
                there = [c for c in judged if c.is_baseline or c in kept]
        self.files.write("over", {}, 0, [np.array(done)])

    def out_of_fold(self, best: Contender, data: ChoiceData) -> Contender:
        """The winner, judged by every fold of the data."""
        n, c = data.candidates.shape
        if data is not self.data:
            unknown = (np.full((n, c), np.nan), np.full((data.n_clean, c), np.nan))
            best = Contender(best.name, best.kind, best.settings, *unknown)
        left = range(best.rounds, len(data.folds))
        self.judge_ahead([(best, number) for number in left], data)
        for number in left:
            self.judge(best, number, data)
        return best

    def judge(self, contender: Contender, number: int, data: ChoiceData | None = None) -> None:
        """What a contender that has not seen a fold says about it."""
        data = data or self.data
        held, clean_held = data.folds[number], data.clean_folds[number]
        began = time.perf_counter()
        stored = self.stored(contender, number, data)
        if stored is None:
            stored = self.opinion(contender, number, data)
            self.files.write(contender.name, contender.settings, self.place(number, data), stored)
        contender.probabilities[held] = stored[0]
        if len(stored) > 1:
            contender.clean_probabilities[clean_held] = stored[1]
        contender.rounds += 1
        contender.seconds += time.perf_counter() - began

    def opinion(self, contender: Contender, number: int, data: ChoiceData) -> list[np.ndarray]:
        """Probabilities of a fold's rows, and of its clean rows, by a model that has seen none of them."""
        held, clean_held = data.folds[number], data.clean_folds[number]
        rows = np.setdiff1d(np.arange(len(data.x)), held)
        fitted = self.fitted(contender, rows, np.setdiff1d(np.arange(data.n_clean), clean_held))
        found = [fitted.prepared_proba(fitted.prepare(data.x[held]))]
        if data.clean is not None and len(clean_held):
            found.append(fitted.prepared_proba(fitted.prepare(data.clean.x[clean_held])))
        return found

    def place(self, number: int, data: ChoiceData) -> int:
        """The number of a fold among all: those of other data have numbers of their own."""
        return number if data is self.data else number + len(self.data.folds)

    def stored(self, contender: Contender, number: int, data: ChoiceData) -> list[np.ndarray] | None:
        place = self.place(number, data)
        found = self.ahead.get((contender.name, place))
        return found or self.files.read(contender.name, contender.settings, place)

    def judge_ahead(self, wanted: Sequence[tuple[Contender, int]], data: ChoiceData) -> None:
        """On a cluster: what will be asked for next, all at once."""
        missing = [(c, n) for c, n in wanted if self.stored(c, n, data) is None]
        if self.model.cluster is None or not missing:
            return
        settings = {c.name: c.settings for c, _ in missing}
        for name, number, found in opinions_from_cluster(self, missing, data):
            place = self.place(number, data)
            self.ahead[name, place] = found
            self.files.write(name, settings[name], place, found)

    def out_of_time(self, contender: Contender) -> bool:
        """Whether judging one more would leave too little of the budget for what the winner still needs."""
        budget = self.model.budget
        known = [c for c in self.contenders if c.rounds and not c.is_baseline]
        if budget is None or not known or contender.is_baseline:
            return False
        longest = max(c.seconds / c.rounds for c in known)
        # before its first round a contender may take as long as the longest so far
        one = contender.seconds / contender.rounds if contender.rounds else longest
        left = LAST_FIT + len(self.data.folds)
        return time.perf_counter() - self.began + one + left * longest > budget

    def finalists(self) -> list[Contender]:
        """Those that every fold has judged; where there was no time for that, those that most have."""
        methods = [c for c in self.contenders if not c.is_baseline]
        most = max(c.rounds for c in methods)
        if not most:
            return methods[:1]
        return [c for c in self.contenders if c.rounds >= most]

    def fitted(self, contender: Contender, rows: np.ndarray, clean: np.ndarray, last: bool = False) -> Any:
        """A model of the contender's settings on some rows and some of the clean rows."""
        data, model, settings = self.data, self.model, dict(contender.settings)
        quiet: dict[str, Any] = {"random_state": self.seed, "selection_share": 0.0}
        if not last:
            quiet |= {"run": None, "callbacks": None, "verbose": False, "patience": None}
        made = type(model)(**{**model.get_params(deep=False), **quiet, **settings})
        part, sets = data.clean_part(clean), data.candidates.take(rows)
        weights = None if data.weights is None else data.weights[rows]
        if contender.is_baseline:
            return fit_baseline(made, settings["method"], data.x[rows], sets, part, self.seed, weights)
        if model.clean_weight and (part is None or len(part) < 2):
            made.clean_weight = 0.0  # one row alone cannot be normalised
        with nullcontext() if last else warnings.catch_warnings(action="ignore"):
            return made.fit(data.x[rows], sets, clean=data.clean_argument(clean, rows), sample_weight=weights)


def survivors(n: int) -> int:
    """How many of n methods see the next fold: two at least, so that there is something to compare."""
    return min(n, max(2, math.ceil(n / FACTOR)))
