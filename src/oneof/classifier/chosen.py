"""A choice (`method="auto"`) by some of the rows, or by all.

A comparison holds the probabilities of its rows, (n, c) for every contender. Where these are more than 2²⁴,
contenders are compared on as many rows as have no more, at random and those with a trusted label first, and
the winner learns from all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.compact import DENSE, restricted
from oneof.classifier.inputs import clean_vector, is_pair, known, with_clean_rows, without_clean_rows

COVERING, SUPPORT = "covering rate", "support of the prediction"
"""What candidate sets can tell of a contender."""

COMPARING = 0.5
"""Share of a budget for the comparison; the last fit has the rest."""


def further_criteria(selection: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """What decides where the score leaves contenders equal, with its key in `selection_`; a table of scores
    alone would leave it open why an equal one is not as good."""
    names = [(name, name.replace(" ", "_")) for name in (COVERING, SUPPORT)]
    return [(n, key) for row in selection[:1] for n, key in names if key in row and n != row["judged_by"]]


def choose_by_some_or_all(
    model: Any, X: np.ndarray, given: Any, candidates: Candidates, clean: Any, groups: Any, weights: Any
) -> Any:
    """`choose`, by as many rows as it can hold the probabilities of; `given` is what X was made from."""
    # only here: nothing else of an estimator needs what a choice imports
    from oneof.classifier.choice import choose
    from oneof.classifier.contenders import checked_groups

    began, (n, c), recipe = time.perf_counter(), candidates.shape, model.recipe(len(X))
    if n * c <= DENSE:
        return choose(model, X, candidates, clean, groups, weights)
    further = is_pair(clean)
    if further:
        clean = model._inputs(clean[0], reset=False), clean[1]
    elif clean is not None:
        clean = clean_vector(clean, n)
    rows = some_rows_of(n, DENSE // c, None if further else clean, recipe.seed)
    some_groups = None if groups is None else checked_groups(groups, n)[rows]
    some_weights = None if weights is None else weights[rows]
    some_clean = clean if clean is None or further else clean[rows]
    small = copy(model).set_params(
        run=None if model.run is None else Path(model.run) / "part",
        budget=None if model.budget is None else COMPARING * model.budget,
    )
    chosen = choose(small, X[rows], candidates.take(rows), some_clean, some_groups, some_weights)
    told = f"{chosen.selection_note_} Contenders were compared on {len(rows):,} of {n:,} rows."
    del chosen.out_of_fold_, chosen.label_errors_  # of most rows they are not known
    if chosen.selection_[0]["kind"] == "baseline":
        with_all_rows(chosen, X, candidates, clean, recipe)
        chosen.selection_note_ = told + " A baseline learns from these alone."
        return chosen
    settings = dict(chosen.settings_)
    # as long in proportion: a default length goes by the number of rows
    settings["epochs"] = max(1, round(settings["epochs"] * recipe.epochs / model.recipe(len(rows)).epochs))
    params = {**model.get_params(deep=False), "random_state": recipe.seed, "selection_share": 0.0}
    fitted = type(model)(**{**params, **settings})
    if model.budget is not None:
        left = max(1.0, model.budget - (time.perf_counter() - began))
        fitted.max_seconds = min(left, model.max_seconds or left)
    inputs = given if isinstance(given, np.memmap) else X  # an array in a file stays there
    fitted.fit(inputs, candidates, clean=clean, sample_weight=weights)
    if hasattr(chosen, "temperature_"):
        fitted.set_temperature(chosen.temperature_)
    fitted.settings_, fitted.selection_, fitted.selection_note_ = settings, chosen.selection_, told
    return fitted


def some_rows_of(n: int, most: int, clean: np.ndarray | None, seed: int) -> np.ndarray:
    """So many rows of n at random; up to half of them are rows with a trusted label, where there are some."""
    order = np.random.default_rng([seed, n]).permutation(n)
    if clean is not None:
        trusted = known(clean)[order]
        first = order[trusted][: most // 2]
        order = np.concatenate([first, order[~trusted], order[trusted][len(first) :]])
    return np.sort(order[:most])


def with_all_rows(fitted: Any, X: np.ndarray, candidates: Candidates, clean: Any, recipe: Any) -> None:
    """Let a model that learned from some rows say what it believes of all, when that is asked for."""
    if clean is None:
        roles = without_clean_rows(X, candidates, replace(recipe, patience=None, clean_weight=0.0))
    else:
        roles = with_clean_rows(X, clean, fitted.classes_, lambda x: x, 0.0, recipe.seed)

    def opinion(rows: np.ndarray) -> np.ndarray:
        return fitted.prepared_proba(fitted.prepare(X[rows]))

    def trained(places: np.ndarray) -> np.ndarray:
        rows = roles.rows[places]
        return restricted(opinion(rows), candidates.rows(rows))

    every = np.arange(len(X))
    fitted.transduction_ = lambda rows=every: roles.labels(rows, trained, opinion)
