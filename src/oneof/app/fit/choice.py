"""Which method `oneof fit` takes when nobody names one, and why. The records decide, not the fashion.

`results/fit_defaults` has every method as `oneof fit` runs it, with the library's defaults and nothing tuned;
`results/table2` has them tuned. docs/fit.md quotes both.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneof.candidates import Candidates

WITH_CLEAN = "proden"
CLEAN_WEIGHT = 1.0
WITHOUT_CLEAN = {"mlp": "idgp", "linear": "proden"}
NOT_MEASURED = "proden"
"""For nets, such as those for images, that the records say nothing about: simple, and good everywhere."""


@dataclass(frozen=True)
class Choice:
    """A method, the weight of the clean rows in its loss, and one sentence that says why."""

    method: str
    clean_weight: float
    reason: str


def choose_method(
    wanted: str, clean_weight: float | None, n_clean: int, candidates: Candidates, net: str = "mlp"
) -> Choice:
    """The method a user wants, or for `auto` the one that did best in our records for this kind of data."""
    if wanted != "auto":
        return Choice(wanted, clean_weight or 0.0, f"Method: {wanted}, as asked for.")
    if n_clean > 1:  # one row alone cannot be normalised by a net
        weight = CLEAN_WEIGHT if clean_weight is None else clean_weight
        return Choice(
            WITH_CLEAN,
            weight,
            f"Method: {WITH_CLEAN} with the clean rows in its loss (weight {weight:g}): in our records "
            "methods that train on clean rows beat those that only let them steer, RPLG among them "
            "(results/table2, results/fit_defaults).",
        )
    method = WITHOUT_CLEAN.get(net, NOT_MEASURED)
    alone = int(candidates.singletons.sum())
    rows = f"{alone} rows with one candidate are learned as labels" if alone else "no row has a known label"
    why = f"the best label-free choice for {net} in our records (results/fit_defaults)"
    if net not in WITHOUT_CLEAN:
        why = f"a method that is good everywhere, as our records say nothing about {net}"
    return Choice(method, clean_weight or 0.0, f"Method: {method}, {why}; {rows}.")
