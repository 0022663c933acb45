"""What a comparison (`choice.py`) comes to: its winner, fitted on all rows and made as sure as it was right
out of fold, in folds drawn at random.

A comparison holds the probabilities of its rows, (n, c) for every contender. Where these are more than 2²⁴,
contenders are compared on as many rows as have no more, at random and those with a trusted label first, and
the winner learns from all.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.compact import DENSE, restricted
from oneof.classifier.calibration import LabelErrors, label_errors, temperature, tempered
from oneof.classifier.choice import Comparison
from oneof.classifier.contenders import ChoiceData, Contender, checked_groups
from oneof.classifier.inputs import KnownRows
from oneof.classifier.standings import note
from oneof.methods.targets import EXPONENT
from oneof.training.sources import stay_in_file

COMPARING = 0.5
"""Share of a budget for a comparison on some of the rows; the last fit has the rest."""


def choose(
    model: Any,
    X: np.ndarray,
    given: Any,
    candidates: Candidates,
    clean: KnownRows | None,
    groups: Any,
    weights: np.ndarray | None,
) -> Any:
    """Compare, take the best, fit it on all rows: the winner, with what the choice found out about it.

    `model` has the settings that all contenders share; X was made from what was `given`.
    """
    began, (n, c), recipe = time.perf_counter(), candidates.shape, model.recipe(len(X))
    whole = data = ChoiceData(X, candidates, clean, weights)
    groups = None if groups is None else checked_groups(groups, n)
    budget = model.budget
    if n * c > DENSE:
        rows = some_rows_of(n, DENSE // c, None if clean is None else clean.of_x, recipe.seed)
        data, groups = whole.part(rows), None if groups is None else groups[rows]
        budget = None if budget is None else COMPARING * budget
    data = data.divided(groups, recipe.seed)
    apart = data.without_known_sets(recipe.seed) if groups is None else data
    comparison = Comparison(model, apart, recipe.seed, budget)
    comparison.run()
    best, selection = comparison.decided()
    judged = comparison.out_of_fold(best, data)
    told = note(selection)
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
            epochs = best.settings["epochs"] * recipe.epochs / model.recipe(len(data.x)).epochs
            best.settings["epochs"] = max(1, round(epochs))
            whole = replace(whole, x=stay_in_file(given, X))  # an array in a file stays there
            left = None if model.budget is None else model.budget - (time.perf_counter() - began)
            fitted = comparison.fitted(best, whole, last=True, seconds=left)
        if data.folds:
            fitted.set_temperature(temperatures(judged, data)[1])
    fitted.settings_, fitted.selection_, fitted.selection_note_ = used(best), selection, told
    return fitted


def some_rows_of(n: int, most: int, trusted: np.ndarray | None, seed: int) -> np.ndarray:
    """So many rows of n at random; up to half of them are `trusted` ones, where there are some."""
    order = np.random.default_rng([seed, n]).permutation(n)
    if trusted is not None:
        known = np.isin(order, trusted)
        first = order[known][: most // 2]
        order = np.concatenate([first, order[~known], order[known][len(first) :]])
    return np.sort(order[:most])


def used(best: Contender) -> dict[str, Any]:
    """The winner's parameters; a baseline's method is the nearest one that has a name."""
    nearest = {"method": "clean-only" if "clean" in best.name else "average"}
    return {**best.settings, **(nearest if best.is_baseline else {})}


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


# ---- how sure to be ---------------------------------------------------------------------------


def temperatures(judged: Contender, data: ChoiceData) -> tuple[float, float]:
    """What the sets tell of the winner's temperature; and this, corrected by the known labels, the more the
    more of them there are."""
    by_sets = temperature(judged.probabilities, data.candidates.mask)
    if data.clean is None:
        return by_sets, by_sets
    held = ~np.isnan(judged.clean_probabilities[:, 0])
    told = judged.clean_probabilities[held], data.clean.mask[held]
    return by_sets, temperature(*told, expected=by_sets)


def calibrated(fitted: Any, judged: Contender, data: ChoiceData) -> tuple[np.ndarray, LabelErrors]:
    """Make the model as sure as it was right out of fold. The rows' probabilities, and what these say about
    the labels that the model gave them (`transduction_`)."""
    mask, p, clean = data.candidates.mask, judged.probabilities, data.clean
    if np.isnan(p).any():
        return p, label_errors(fitted.transduction_, mask)
    by_sets, t = temperatures(judged, data)
    possible = np.ones_like(mask) if data.candidates.truth_may_be_outside else mask
    evidence = 0.0 if data.likelihoods is None else EXPONENT * data.likelihoods

    def belief(said: np.ndarray, t: float) -> np.ndarray:
        return restricted(tempered(said, t, evidence), possible)

    believed, trusted = belief(p, by_sets), np.zeros(len(p), dtype=bool)
    if clean is not None:
        # models out of fold knew fewer rows: they doubt too much; the last one knew the row: too little
        both = np.sqrt(p * fitted.prepared_proba(fitted.prepare(data.x)))
        if clean.of_x is None:
            believed = belief(both, t)
        else:  # wrong candidates look like the right one: among them alone a model is right less often
            trusted[clean.of_x] = True
            inside = temperature(believed[clean.of_x], clean.mask, expected=1.0)
            believed = restricted(tempered(belief(both, by_sets), inside), possible)
    fitted.set_temperature(t)
    labels = fitted.transduction_.argmax(axis=1)
    return tempered(p, t), label_errors(believed, possible, labels=labels, trusted=trusted)
