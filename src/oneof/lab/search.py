"""Hyper-parameters: a seeded random search with the same budget for every method, or a declared grid.

A value is drawn by (search seed, method, hyper-parameter, number of the configuration) alone, so a new
hyper-parameter leaves the others as they were. What all methods share (learning rate, weight decay,
scaling) is drawn without the method's name: configuration i gives every method the same three.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from oneof.datasets.scaling import SCALINGS
from oneof.lab.records import Record
from oneof.methods import make_method
from oneof.methods.settings import check_number

SCALINGS_OF_TABLES = tuple(kind for kind in SCALINGS if kind != "pixels")
Criterion = Literal["accuracy", "covering", "approximated"]
"""What chooses epoch and configuration: clean labels (the paper's way), or candidate sets alone."""


@dataclass(frozen=True)
class Search:
    """The budget and the ranges that all methods share."""

    configurations: int = 8
    """Per method, data set and net; the first one is the default."""
    seeds: tuple[int, ...] = (1000, 1001)
    """Splits to search on. Those of random draws are never reported; a grid on images, whose test rows are
    official and never searched on, may use a reported one."""
    seed: int = 0
    lr: tuple[float, float] = (1e-2, 5e-1)
    weight_decay: tuple[float, float] = (1e-5, 3e-2)
    scaling: tuple[str, ...] = ("global", "standard")
    grids: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    """Method, hyper-parameter, values: where trainings are dear, all combinations of a few values instead of
    random draws. Methods without a grid keep what they have."""

    def __post_init__(self) -> None:
        """Raise on values that cannot be meant."""
        check_number("configurations", self.configurations, 1, whole=True)
        for seed in (self.seed, *(self.seeds or (None,))):
            check_number("a seed", seed, whole=True)
        for name in ("lr", "weight_decay"):
            values = getattr(self, name)
            for value in values:
                check_number(name, value)
            if len(values) != 2 or not 0 < values[0] <= values[1]:
                raise ValueError(f"{name} is {values}; give a smallest and a largest value, both above 0.")
        if not self.scaling or not set(self.scaling) <= set(SCALINGS_OF_TABLES):
            raise ValueError(f"scaling is {self.scaling}; give some of {', '.join(SCALINGS_OF_TABLES)}.")


def configurations(
    method: str, search: Search | None, default: Mapping[str, Any], fixed: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The configurations to try: `lr`, `weight_decay`, `scaling` and `params` of the method; without a search
    the first alone.

    `default` has the first configuration's shared values; `fixed` hyper-parameters are not drawn, but a grid
    that names one tries its own values, too.
    """
    fixed = dict(fixed or {})
    found = [{**default, "params": fixed}]
    if search is None:
        return found
    if search.grids:
        grid = search.grids.get(method, {})
        for combination in itertools.product(*grid.values()):
            params = {**fixed, **dict(zip(grid, combination))}
            if make_method(method, params) != make_method(method, fixed):  # the first is there already
                found.append({**default, "params": params})
        return found
    for number in range(1, search.configurations):
        shared, own = (partial(_generator, search.seed, owner, number) for owner in ("", method))
        params = {name: value_in(f, own(name)) for name, f in searched(method).items() if name not in fixed}
        values: dict[str, Any] = {
            "lr": _log_uniform(*search.lr, shared("lr")),
            "weight_decay": _log_uniform(*search.weight_decay, shared("weight_decay")),
            "scaling": search.scaling[int(shared("scaling").integers(len(search.scaling)))],
        }
        found.append(values | {"params": {**params, **fixed}})
    return found


def searched(method: str) -> dict[str, dataclasses.Field[Any]]:
    """Hyper-parameters with a declared range, by name."""
    fields = dataclasses.fields(make_method(method))  # type: ignore[arg-type]
    return {f.name: f for f in fields if f.metadata.get("choices") or f.metadata.get("low") is not None}


def value_in(field: dataclasses.Field[Any], rng: np.random.Generator) -> Any:
    """A draw from a declared range."""
    facts = field.metadata
    if facts.get("choices"):
        return facts["choices"][int(rng.integers(len(facts["choices"])))]
    low, high = facts["low"], facts["high"]
    whole = isinstance(field.default, int) and not isinstance(field.default, bool)
    if facts.get("log"):
        value = _log_uniform(low, high, rng)
        return round(value) if whole else value
    if whole:
        return int(rng.integers(int(low), int(high) + 1))
    return _rounded(rng.uniform(low, high))


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    return _rounded(math.exp(rng.uniform(math.log(low), math.log(high))))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")  # readable in records, and the same everywhere


def _generator(seed: int, owner: str, number: int, name: str) -> np.random.Generator:
    digest = hashlib.sha256(repr((seed, owner, name, number)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def winner(trials: Sequence[Sequence[Record]], criterion: Criterion) -> int | None:
    """Number of the best configuration by the mean score of its records on the search splits; ties go to the
    first, failures to nobody."""
    scores = {i: s for i, records in enumerate(trials) if (s := mean_score(records, criterion)) is not None}
    return max(scores, key=lambda i: scores[i]) if scores else None


def mean_score(records: Sequence[Record], criterion: Criterion) -> float | None:
    """Of one configuration on the search splits; none if a training of it failed."""
    if not records or any(record["status"] != "ok" for record in records):
        return None
    score = "selection" if criterion == "accuracy" else criterion
    return float(np.mean([record["result"][score] for record in records]))
