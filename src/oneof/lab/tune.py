"""Declared ranges for a user's own tuning with Optuna (extra `tune`).

The lab's tables use its own seeded search (`oneof.lab.search`). This is for your data:

>>> def objective(trial):                                               # doctest: +SKIP
...     params = suggest(trial, "rplg")
...     model = PartialLabelClassifier("rplg", method_params=params)
...     return cross_val_score(model, X, candidates, scoring=covering_rate).mean()
>>> optuna.create_study(direction="maximize").optimize(objective, n_trials=50)  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from oneof.lab.search import searched


def suggest(trial: Any, method: str, only: Collection[str] | None = None) -> dict[str, Any]:
    """Hyper-parameters of a method from an Optuna trial, each within its declared range.

    Parameters
    ----------
    trial : optuna.Trial
        Asked by `suggest_float`, `suggest_int` and `suggest_categorical`.
    method : str
        Name of a method.
    only : names, optional
        Ask for these alone; the others keep their defaults.
    """
    found = {}
    for name, field in searched(method).items():
        if only is not None and name not in only:
            continue
        facts = field.metadata
        if facts.get("choices"):
            found[name] = trial.suggest_categorical(name, list(facts["choices"]))
        elif isinstance(field.default, int) and not isinstance(field.default, bool):
            low, high = int(facts["low"]), int(facts["high"])
            found[name] = trial.suggest_int(name, low, high, log=bool(facts.get("log")))
        else:
            found[name] = trial.suggest_float(name, facts["low"], facts["high"], log=bool(facts.get("log")))
    return found
