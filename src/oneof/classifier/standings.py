"""Who is better, by what was said about rows nobody had learned from.

Two criteria, one after the other: where there are clean rows, accuracy on them; then the candidate sets, by
the covering rate (with evidence: by the support of the prediction). Contenders within two standard errors of
the best on the few clean rows are equal as far as these can tell, and the sets decide between them. In the
end, of those with the winner's net that are within its standard error, the records choose (`preference`): the
longer training, then the method; and a method rather than a baseline that is no better. The approximated
accuracy is shown, but decides nothing: it likes whatever is sure, right or wrong (CC, trained long, was its
choice on most sets we tried).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from oneof.classifier.scoring import label_free

if TYPE_CHECKING:  # reports need the names of criteria, but nothing of a choice
    from oneof.classifier.contenders import ChoiceData, Contender

ON_CLEAN = "accuracy on clean rows"
COVERING, SUPPORT = "covering rate", "support of the prediction"
"""What candidate sets can tell of a contender."""
EQUAL, EQUAL_ON_CLEAN = 1.0, 2.0
"""Standard errors of the difference within which two contenders count as equal."""
RECORDS = ("crowd", "rplg+", "proden", "cc")
"""Methods in the order of `results/rplg_plus`, on tables."""


def covering(contender: Contender, data: ChoiceData) -> tuple[np.ndarray, np.ndarray]:
    """(n,): whether the prediction is a candidate (or its support), and its share of their probability."""
    mask, p = data.candidates.mask, contender.probabilities
    judged = ~np.isnan(p[:, 0])
    cover, share = np.full((2, len(p)), np.nan)
    if judged.any():
        cover[judged], share[judged] = label_free(p[judged], mask[judged])
    if data.likelihoods is not None:
        support = softmax(data.likelihoods, axis=1)
        cover[judged] = support[judged, p[judged].argmax(axis=1)]
    return cover, share


def criteria(contender: Contender, data: ChoiceData) -> dict[str, np.ndarray]:
    """What decides, row by row, the first criterion first; NaN where a row was not judged yet."""
    cover = {COVERING if data.likelihoods is None else SUPPORT: covering(contender, data)[0]}
    if data.clean is None:
        return cover
    p = contender.clean_probabilities
    right = np.nan_to_num(p).argmax(axis=1) == data.clean.mask.argmax(axis=1)
    return {ON_CLEAN: np.where(np.isnan(p[:, 0]), np.nan, right), **cover}


def deciding(contender: Contender, data: ChoiceData) -> tuple[str, np.ndarray]:
    """The first criterion that judged any row: a few clean rows may be in none of the folds."""
    *first, last = criteria(contender, data).items()
    return next((found for found in first if not np.isnan(found[1]).all()), last)


def ordered(contenders: Sequence[Contender], data: ChoiceData, final: bool = False) -> list[Contender]:
    """The best first, judged by the rows that all of them were judged by.

    `final`: first comes what the records prefer among the equals of the best one.
    """
    found = {c.name: criteria(c, data) for c in contenders}
    noisy = data.candidates.truth_may_be_outside

    def favour(contender: Contender) -> tuple[float, int]:
        return preference(contender, noisy)

    by_name = {c.name: c for c in sorted(contenders, key=favour)}
    order = [by_name[name] for name in _ordered(list(by_name), {n: [*f.values()] for n, f in found.items()})]
    if final and order:
        top = order[0]
        if top.is_baseline:  # of equals the records choose: a method was ahead of all baselines in every one
            methods = [c for c in order if not c.is_baseline]
            top = next((c for c in methods if all_as_good(found[c.name], found[top.name])), top)
        same_net = [c for c in order if c.kind == top.kind and c.settings["net"] == top.settings["net"]]
        equal = [c for c in same_net if all_as_good(found[c.name], found[top.name])]
        order.sort(key=lambda c: c is not min(equal or [top], key=favour))
    return order


def _ordered(names: list[str], found: dict[str, list[np.ndarray]]) -> list[str]:
    if len(names) < 2:
        return names
    first = np.stack([found[name][0] for name in names])
    judged = ~np.isnan(first).any(axis=0)
    means = dict(zip(names, first[:, judged].mean(axis=1))) if judged.any() else dict.fromkeys(names, 0.0)
    down = sorted(names, key=lambda name: -means[name])
    if len(found[names[0]]) == 1:
        return down
    equal = [name for name in names if as_good(found[name][0], found[down[0]][0], EQUAL_ON_CLEAN)]
    rest = [name for name in down if name not in equal]
    return _ordered(equal, {name: values[1:] for name, values in found.items()}) + rest


def preference(contender: Contender, noisy: bool) -> tuple[float, int]:
    """Small for what the records favour: RPLG+, and a long training unless it learns noisy sets by heart."""
    settings = contender.settings
    place = RECORDS.index(settings["method"]) if settings["method"] in RECORDS else len(RECORDS)
    epochs = settings.get("epochs", 0)
    return epochs if noisy else -epochs, place


def all_as_good(one: Mapping[str, np.ndarray], best: Mapping[str, np.ndarray]) -> bool:
    """By every criterion."""
    bands = (EQUAL_ON_CLEAN, EQUAL)[-len(best) :]
    return all(as_good(mine, theirs, band) for mine, theirs, band in zip(one.values(), best.values(), bands))


def as_good(one: np.ndarray, best: np.ndarray, band: float = EQUAL) -> bool:
    """Whether one is no more than so many standard errors of the difference behind the other."""
    difference = best - one
    difference = difference[~np.isnan(difference)]
    if not len(difference):
        return True
    # one row's worth of variance more: of a few rows that all say the same nobody knows the spread
    spread = math.sqrt((((difference - difference.mean()) ** 2).sum() + 1) / len(difference))
    return float(difference.mean()) <= band * spread / math.sqrt(len(difference)) + 1e-9


def mean_and_error(row_values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error of the rows that were judged; NaN without any."""
    seen = row_values[~np.isnan(row_values)]
    if not len(seen):
        return math.nan, math.nan
    return float(seen.mean()), float(seen.std() / math.sqrt(len(seen)))


def score(contender: Contender, data: ChoiceData) -> float:
    """By the deciding criterion, over the rows judged so far."""
    return mean_and_error(deciding(contender, data)[1])[0]


def table(
    finalists: Sequence[Contender], others: Sequence[Contender], data: ChoiceData
) -> list[dict[str, Any]]:
    """`selection_`: finalists in their order, the chosen one first, then those that left earlier."""
    winner = criteria(finalists[0], data)
    by = [*winner][-1]
    made = []
    for place, c in enumerate((*finalists, *others)):
        found, (judged_by, values) = criteria(c, data), deciding(c, data)
        mean, error = mean_and_error(values)
        cover, share = covering(c, data)
        made.append(
            {
                "name": c.name,
                "kind": c.kind,
                "score": mean,
                "standard_error": error,
                "judged_by": judged_by,
                by.replace(" ", "_"): mean_and_error(cover)[0],
                "approximated_accuracy": mean_and_error(share)[0],
                "rounds": c.rounds,
                "seconds": round(c.seconds, 3),
                "chosen": place == 0,
                "as_good": place == 0 or (place < len(finalists) and all_as_good(found, winner)),
            }
        )
    return made


def further_criteria(selection: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """What decides where the score leaves contenders equal, with its key in `selection_`; a table of scores
    alone would leave it open why an equal one is not as good."""
    names = [(name, name.replace(" ", "_")) for name in (COVERING, SUPPORT)]
    return [(n, key) for row in selection[:1] for n, key in names if key in row and n != row["judged_by"]]


def note(selection: Sequence[dict[str, Any]]) -> str:
    """What was chosen, and a sentence about a method with a higher score or a baseline that is as good."""
    best = selection[0]
    if math.isnan(best["score"]):
        return f"{best['name']} was taken without a comparison: there are too few rows to hold any out."
    reached = f"{best['score']:.3f} ± {best['standard_error']:.3f}"
    told = f"{best['name']} was chosen: {best['judged_by']} {reached}."
    if best["kind"] == "baseline":
        return told + " It is a baseline: no method that learns from the candidate sets was better."
    equal = [row for row in selection[1:] if row["as_good"] and row["kind"] != "baseline"]
    if higher := [row for row in equal if row["score"] > best["score"]]:
        sets = "the candidate sets and " if further_criteria(selection) else ""
        told += (
            f" {higher[0]['name']} has {higher[0]['score']:.3f}, but these rows cannot tell the two apart: "
        )
        told += f"between equals, {sets}our benchmarks decide."
    plain = [row for row in selection if row["kind"] == "baseline" and row["as_good"]]
    if plain:
        return told + f" The baseline is as good: {plain[0]['name']} has {plain[0]['score']:.3f}."
    return told
