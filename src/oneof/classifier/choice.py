"""`method="auto"`: contenders are compared out of fold, in rounds.

A small portfolio (methods that the records in `results/` support, with a linear model and an MLP, this one at
two lengths, and two scalings of the features) and plain baselines are compared out of fold (`contenders.py`,
`standings.py`). Round r of a successive halving trains on all folds but the r-th and judges by that one. No
candidate set is in two folds, where there are enough of them. The first round leaves out what has little
hope: the scaling that served the first method worse, a long training of a net that was no good after a short
one. After each round the best third of the methods goes on; baselines always do, as they cost next to
nothing. The winner is fitted on all rows and made as sure as it was right out of fold, in random folds.

A comparison holds the probabilities of its rows, (n, c) for every contender. Where these are more than 2²⁴,
contenders are compared on as many rows as have no more, at random and those with a trusted label first, and
the winner learns from all.

What a contender says about a fold is the same wherever and whenever it is trained. A run folder keeps it, one
file per contender and fold; a cluster has the trainings of a round at once (`cluster=`, extra `cluster`).
"""

from __future__ import annotations

import copy
import hashlib
import math
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from oneof.candidates.compact import DENSE
from oneof.classifier.calibration import calibrated, temperatures
from oneof.classifier.contenders import (
    METHODS,
    ChoiceData,
    Contender,
    Fold,
    baseline_labels,
    checked_groups,
    fit_baseline,
    portfolio,
    promising,
    some_rows_of,
)
from oneof.classifier.settings import told_apart
from oneof.classifier.standings import note, ordered, score, table
from oneof.tables.errors import DataError
from oneof.tables.files import digest_of, only_plain_entries, write_with
from oneof.tables.unpacking import stored_arrays
from oneof.training.cluster import Cluster, ClusterError
from oneof.training.progress import showing
from oneof.training.run import AFRESH, Run, RunError
from oneof.training.sources import stay_in_file

LONG_FITS = 12
"""Cost of a whole choice in trainings of the long MLP with the first of `METHODS`, about (`results/choice`: 5
to 17): a budget shortens them until so many fit in."""
TRAININGS = 20
"""How many trainings a choice has, about, each with its setup."""
MEASURED_ROWS = 4096
ROUNDS = 2
FACTOR = 3
"""One of so many methods goes on to the next round."""
LAST_FIT = 1.5
"""Time of the last fit, on all rows, in trainings on all folds but one; every fold that judges the winner in
the end takes one more."""
COMPARING = 0.5
"""Share of a budget for a comparison on some of the rows; the last fit has the rest."""


def choose(model: Any, whole: ChoiceData, given: Any, groups: Any) -> Any:
    """Compare, take the best, fit it on all rows: the winner, with what the choice found out about it.

    `model` has the settings that all contenders share; the inputs were made from what was `given`.
    """
    began, (n, c), recipe = time.perf_counter(), whole.candidates.shape, model.recipe(len(whole.x))
    data, budget, seed = whole, model.budget, recipe.seed
    groups = None if groups is None else checked_groups(groups, n)
    if n * c > DENSE:
        rows = some_rows_of(n, DENSE // c, None if whole.clean is None else whole.clean.of_x, seed)
        data, groups = whole.part(rows), None if groups is None else groups[rows]
        budget = None if budget is None else COMPARING * budget
    data = data.divided(groups, seed)
    comparison = Comparison(model, data.without_known_sets(seed) if groups is None else data, seed, budget)
    comparison.run()
    best, selection = comparison.decided()
    judged = comparison.out_of_fold(best, data.folds)
    told, settings = note(selection), best.settings
    if len(data.x) == n:
        fitted = comparison.fitted(best, data, last=True)
        if best.is_baseline:
            fitted.transduction_ = baseline_labels(fitted, data, likelihoods=data.likelihoods)
        fitted.out_of_fold_, fitted.label_errors_ = calibrated(fitted, judged, data)
    else:
        told += f" Contenders were compared on {len(data.x):,} of {n:,} rows."
        if best.is_baseline:
            told += " A baseline learns from these alone."
            fitted = comparison.fitted(best, data, last=True)
            fitted.transduction_ = partial(baseline_labels, fitted, whole)
        else:
            # as long in proportion: a default length goes by the number of rows
            epochs = settings["epochs"] * recipe.epochs / model.recipe(len(data.x)).epochs
            settings["epochs"] = max(1, round(epochs))
            whole = replace(whole, x=stay_in_file(given, whole.x))  # an array in a file stays there
            left = None if model.budget is None else model.budget - (time.perf_counter() - began)
            fitted = comparison.fitted(best, whole, last=True, seconds=left)
        if data.folds:
            fitted.set_temperature(temperatures(judged, data)[1])
    if whole.clean is not None and hasattr(fitted, "calibration_scores_"):
        # it has learned nothing from the clean rows; what its sets go by was found at another temperature
        x, columns = fitted.prepare(whole.clean.x), whole.clean.mask.argmax(axis=1)
        fitted.calibrate_prepared(x, columns, probabilities=False)
    fitted.settings_, fitted.selection_, fitted.selection_note_ = best.parameters, selection, told
    return fitted


@dataclass
class Comparison:
    """Contenders, folds and the clock. `model` has the settings that all contenders share."""

    model: Any
    data: ChoiceData
    seed: int
    budget: float | None = None
    """Seconds for all of it."""
    began: float = field(default_factory=lambda: time.perf_counter())

    def __post_init__(self) -> None:
        shared = self.model.get_params(deep=False)
        for name in ("run", "callbacks", "verbose", "budget", "max_seconds", "device", "cluster"):
            shared.pop(name)
        if isinstance(shared["random_state"], np.random.RandomState):
            shared["random_state"] = "RandomState"  # the seed it gave is in the key; its address is another
        if self.model.run is not None:
            shared["net"] = told_apart(self.model.net, self.data.x, self.data.candidates.n_classes)
        self.files = FoldFiles.of(self.model.run, self.data, repr((shared, self.seed)))
        begun = self.model.run is not None and Run(self.model.run).config_file.exists()
        if begun and self.files.read("over") is None:  # the last fit could not use it
            raise RunError(f"{self.model.run} holds a run with other rows or settings.\n  {AFRESH}")
        self.contenders = [c.unjudged(self.data) for c in portfolio(self.model, self.data, self.longest())]

    def longest(self) -> int:
        """Epochs of the long trainings; a run that goes on keeps those it began with."""
        epochs = self.model.recipe(len(self.data.x)).epochs
        if self.budget is None:
            return epochs
        stored = self.files.read("longest")
        if stored is None:
            stored = [np.array(min(epochs, self.longest_within(self.budget)))]
            self.files.write(stored, "longest")
        return int(stored[0])

    def longest_within(self, seconds: float) -> int:
        """Epochs that a budget allows the net that lengths go by, measured on a few rows; one at least."""
        data, n = self.data, len(self.data.x)
        rows = np.unique(np.linspace(0, n - 1, min(n, MEASURED_ROWS)).astype(np.int64))
        part = data.part(rows)
        took = []
        for epochs in (1, 1, 3):  # first what happens once in a process only
            trial = Contender("trial", "method", {"method": METHODS[0], "epochs": epochs})
            began = time.perf_counter()
            self.fitted(trial, part)
            took.append(time.perf_counter() - began)
        epoch = max((took[2] - took[1]) / 2, took[2] / 6)
        setup = max(0.0, took[1] - epoch)
        return max(1, int((seconds - TRAININGS * setup) / LONG_FITS / (epoch * n / len(rows))))

    # ---- rounds -------------------------------------------------------------------------------

    def run(self) -> None:
        """Judge the contenders fold by fold; only the best third of the methods sees the next fold."""
        folds, there = self.data.folds[:ROUNDS], list(self.contenders)
        baselines = sum(c.is_baseline for c in there)
        later = baselines + survivors(len(there) - baselines)
        total = len(there) + (len(folds) - 1) * later  # at most; a few are left out before they begin
        progress = self.model.progress("auto", total)
        done = 0
        # what an earlier run had decided stays decided: its last fit may have begun
        over = self.files.read("over") is not None
        with showing(progress, "choosing", total):
            for number, fold in enumerate(folds):
                first = (total if number else len(there)) - len(there)
                judged: list[Contender] = []
                if not over:
                    self.ask_cluster([(contender, fold) for contender in there])
                for place, contender in enumerate(there, first):
                    missing = self.files.read(*contender.key(fold)) is None
                    if missing and (over or self.out_of_time(contender)):
                        continue
                    if number == 0 and not promising(contender, judged, self.data):
                        continue
                    self.judge(contender, fold)
                    judged.append(contender)
                    reached = score(contender, self.data)
                    facts = {"contender": contender.name, "round": number, "score": reached}
                    progress.epoch({"epoch": place, "loss": 1 - reached, **facts})
                    done += 1
                methods = [c for c in ordered(judged, self.data) if not c.is_baseline]
                # the best first: where time runs out in the next round, it was not spent on the others
                there = [c for c in judged if c.is_baseline] + methods[: survivors(len(methods))]
        self.files.write([np.array(done)], "over")

    def out_of_time(self, contender: Contender) -> bool:
        """Whether judging one more would leave too little of the budget for what the winner still needs."""
        known = [c for c in self.contenders if c.rounds and not c.is_baseline]
        if self.budget is None or not known or contender.is_baseline:
            return False
        longest = max(c.seconds / c.rounds for c in known)
        # before its first round a contender may take as long as the longest so far
        one = contender.seconds / contender.rounds if contender.rounds else longest
        left = LAST_FIT + len(self.data.folds)
        return time.perf_counter() - self.began + one + left * longest > self.budget

    def decided(self) -> tuple[Contender, list[dict[str, Any]]]:
        """The winner, and how all that were judged stand (`selection_`)."""
        methods = [c for c in self.contenders if not c.is_baseline]
        most = max(c.rounds for c in methods)
        # those that every fold has judged; where there was no time for that, those that most have
        last = [c for c in self.contenders if c.rounds >= most] if most else methods[:1]
        finalists = ordered(last, self.data, final=True)
        left = [c for c in self.contenders if c.rounds and c not in finalists]
        left.sort(key=lambda c: (c.rounds, score(c, self.data)), reverse=True)
        return finalists[0], table(finalists, left, self.data)

    def out_of_fold(self, best: Contender, folds: Sequence[Fold]) -> Contender:
        """The winner, judged by every one of the folds; these may be others than those compared by."""
        if folds is not self.data.folds:
            best = best.unjudged(self.data)
        left = folds[best.rounds :]
        self.ask_cluster([(best, fold) for fold in left])
        for fold in left:
            self.judge(best, fold)
        return best

    # ---- one contender and one fold -----------------------------------------------------------

    def judge(self, contender: Contender, fold: Fold) -> None:
        """What a contender that has not seen a fold says about it."""
        began = time.perf_counter()
        said = self.files.read(*contender.key(fold))
        if said is None:
            said = self.opinion(contender, fold)
            self.files.write(said, *contender.key(fold))
        contender.probabilities[fold.rows] = said[0]
        if len(said) > 1:
            contender.clean_probabilities[fold.clean] = said[1]
        contender.rounds += 1
        contender.seconds += time.perf_counter() - began

    def opinion(self, contender: Contender, fold: Fold) -> list[np.ndarray]:
        """Probabilities of a fold's rows, and of its clean rows, by a model that has seen none of them."""
        fitted, clean = self.fitted(contender, self.data.outside(fold)), self.data.clean
        asked = [self.data.x[fold.rows]]
        if clean is not None and len(fold.clean):
            asked.append(clean.x[fold.clean])
        return [fitted.prepared_proba(fitted.prepare(x)) for x in asked]

    def fitted(
        self, contender: Contender, data: ChoiceData, last: bool = False, seconds: float | None = None
    ) -> Any:
        """A model of the contender's settings on these rows; no epoch is begun beyond so many `seconds`."""
        settings: dict[str, Any] = {"random_state": self.seed, "selection_share": 0.0, **contender.settings}
        if not last:
            settings |= {"run": None, "callbacks": None, "verbose": False, "patience": None}
        if self.model.clean_weight and data.n_clean < 2:
            settings["clean_weight"] = 0.0  # one row alone cannot be normalised
        if seconds is not None:
            settings["max_seconds"] = min(max(1.0, seconds), self.model.max_seconds or math.inf)
        made = type(self.model)(**{**self.model.get_params(deep=False), **settings})
        if contender.is_baseline:
            return fit_baseline(made, contender.settings["method"], data, self.seed)
        with nullcontext() if last else warnings.catch_warnings(action="ignore"):
            return made.learn(data.x, data.candidates, data.clean, data.weights)

    def ask_cluster(self, wanted: Sequence[tuple[Contender, Fold]]) -> None:
        """Where there is a cluster: what will be asked for next, all at once."""
        wanted = [(c, fold) for c, fold in wanted if self.files.read(*c.key(fold)) is None]
        if self.model.cluster is None or not wanted:
            return
        sent = copy.copy(self)  # without what belongs to this machine
        sent.model = clone(self.model).set_params(run=None, callbacks=None, verbose=False, cluster=None)
        sent.contenders, sent.files = [], FoldFiles(None, "")
        with Cluster(self.model.cluster) as cluster:
            shared, opinion = cluster.share(sent), type(self).opinion
            calls = [
                (c.key(fold), opinion, shared, Contender(c.name, c.kind, c.settings), fold)
                for c, fold in wanted
            ]
            for key, found in cluster.results(calls):
                if isinstance(found, ClusterError):
                    raise found
                self.files.hold(found, *key)


def survivors(n: int) -> int:
    """How many of n methods see the next fold: two at least, so that there is something to compare."""
    return min(n, max(2, math.ceil(n / FACTOR)))


@dataclass(frozen=True)
class FoldFiles:
    """What a choice has found out, by a key and the data; without a folder nothing is kept but what came from
    a cluster."""

    folder: Path | None
    data: str
    held: dict[Path, list[np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Any, data: ChoiceData, shared: str) -> FoldFiles:
        """In a run's folder; `shared` names the settings that all contenders have in common."""
        if run is None:
            return cls(None, "")
        arrays = [data.x, data.weights, *(numbers for fold in data.folds for numbers in fold)]
        if data.clean is not None:
            arrays += [data.clean.x, data.clean.mask, data.clean.of_x]
        parts = [b"" if array is None else np.ascontiguousarray(array).data for array in arrays]
        return cls(Path(run) / "choice", digest_of([shared.encode(), data.candidates.hash.encode(), *parts]))

    def read(self, *key: Any) -> list[np.ndarray] | None:
        path = self._path(key)
        if path in self.held or self.folder is None or not path.exists():
            return self.held.get(path)
        only_plain_entries(path.parent, (path.name,))
        try:
            stored = stored_arrays(path)
        except DataError:
            return None  # damaged: it is made again
        if str(stored.pop("of", path.stem)) != path.stem:
            return None  # of another contender or fold
        return [stored[name] for name in sorted(stored)]

    def write(self, arrays: list[np.ndarray], *key: Any) -> None:
        if self.folder is not None:
            path = self._path(key)
            named: dict[str, Any] = {"of": path.stem, **{f"p{i}": a for i, a in enumerate(arrays)}}
            write_with(path, lambda out: np.savez(out, **named))

    def hold(self, arrays: list[np.ndarray], *key: Any) -> None:
        self.held[self._path(key)] = arrays
        self.write(arrays, *key)

    def _path(self, key: tuple[Any, ...]) -> Path:
        name = hashlib.sha256(repr((self.data, *key)).encode()).hexdigest()[:24]
        return (self.folder or Path()) / f"{name}.npz"
