"""What candidate sets look like: sizes, confused classes, rows that say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from oneof.candidates.cells import json_value, short
from oneof.candidates.compact import pairs_of
from oneof.candidates.sets import UNKNOWN, CandidateError, Candidates

MOST_PAIRS = 10


def describe(candidates: Candidates, q: Any = None) -> dict[str, Any]:
    """Facts about candidate sets, as plain JSON-able values.

    `q` (n, K), a generator's belief in the wrong labels, adds how often the most probable wrong label is in.

    Returns
    -------
    dict
        `rows, classes, mean_size, sizes` (size: rows), `singletons, pairs` (shares), `full_rows` (number of
        rows with all classes: they say nothing), `classes_never_alone` (in no singleton),
        `classes_never_candidate`, `classes_never_apart` (pairs that no row tells apart), `confused_pairs`
        (most frequent first: names, rows with both, share of the rows with either); where the truth is
        known `truth_inside` and `ambiguity`, the largest share with which a wrong label accompanies a class.
    """
    n = len(candidates)
    if not n:
        raise CandidateError("there are no rows to describe.")
    sizes = candidates.sizes
    counts = np.bincount(sizes)
    together = candidates.compact.together()
    ever = together.diagonal() > 0
    alone = np.zeros(candidates.n_classes, dtype=bool)
    alone[candidates.positions[candidates.starts[:-1][candidates.singletons]]] = True
    facts: dict[str, Any] = {
        "rows": n,
        "classes": candidates.n_classes,
        "mean_size": round(float(sizes.mean()), 5),
        "sizes": {str(size): int(count) for size, count in enumerate(counts) if count},
        "singletons": round(float((sizes == 1).mean()), 5),
        "pairs": round(float((sizes == 2).mean()), 5),
        "full_rows": int((sizes == candidates.n_classes).sum()),
        "classes_never_alone": _names(candidates, ever & ~alone),
        "classes_never_candidate": _names(candidates, ~ever),
        **_pairs(candidates, together),
        "hash": candidates.hash,
    }
    if candidates.truth is not None and (candidates.truth != UNKNOWN).any():
        facts |= _against_truth(candidates)
    if q is not None:
        facts["top_wrong_label_in"] = round(top_wrong_label_share(candidates, q), 5)
    return facts


def top_wrong_label_share(candidates: Candidates, q: Any) -> float:
    """How often the wrong label that the generator finds most probable is a candidate."""
    beliefs = np.array(q, dtype=np.float64)
    if candidates.truth is None or (candidates.truth == UNKNOWN).any():
        raise CandidateError("the most probable wrong label needs the true label of every row.")
    if beliefs.shape != candidates.shape:
        raise CandidateError(f"q has shape {beliefs.shape}, the candidates {candidates.shape}.")
    rows = np.arange(len(beliefs))
    beliefs[rows, candidates.truth] = -1.0
    return float(candidates.has(rows, beliefs.argmax(axis=1)).mean())


def as_text(facts: dict[str, Any]) -> str:
    """The facts as a short report."""
    n = facts["rows"]
    lines = [
        f"{n} rows, {facts['classes']} classes, {facts['mean_size']:.2f} candidates per row",
        f"singletons {facts['singletons']:.1%}, pairs {facts['pairs']:.1%}",
        "sizes: " + ", ".join(f"{size}: {count / n:.1%}" for size, count in facts["sizes"].items()),
        f"rows without information (all classes): {facts['full_rows']}",
        f"classes never alone: {short(facts['classes_never_alone'], 12, str) or 'none'}",
        f"classes that are never a candidate: {short(facts['classes_never_candidate'], 12, str) or 'none'}",
    ]
    if facts["classes_never_apart"]:
        pairs = [f"{a} and {b}" for a, b in facts["classes_never_apart"]]
        lines.append(f"classes no row tells apart: {short(pairs, 12, str)}")
    if facts["confused_pairs"]:
        lines.append("most confused pairs (rows with both, share of the rows with either):")
        lines += [
            f"  {p['a']} and {p['b']}: {p['rows']} ({p['share']:.1%})" for p in facts["confused_pairs"][:5]
        ]
    if "truth_inside" in facts:
        lines.append(
            f"true label among the candidates: {facts['truth_inside']:.2%}; the wrong label that most often "
            f"accompanies a class does so in {facts['ambiguity']:.1%} of its rows"
        )
    if "top_wrong_label_in" in facts:
        lines.append(f"most probable wrong label is in: {facts['top_wrong_label_in']:.2%}")
    return "\n".join(lines)


def _pairs(candidates: Candidates, together: csr_matrix) -> dict[str, Any]:
    """Classes that no method can tell apart, being candidates of the same rows; and those often confused."""
    names = [json_value(name) for name in candidates.classes]
    a, b, both = pairs_of(together)
    rows_of_a, rows_of_b = together.diagonal()[a], together.diagonal()[b]
    same = (both == rows_of_a) & (both == rows_of_b)
    share = both / (rows_of_a + rows_of_b - both)
    most = np.argsort(-both, kind="stable")[:MOST_PAIRS]
    return {
        "classes_never_apart": [[names[i], names[j]] for i, j in zip(a[same], b[same])],
        "confused_pairs": [
            {"a": names[a[i]], "b": names[b[i]], "rows": int(both[i]), "share": round(float(share[i]), 5)}
            for i in most
        ],
    }


def _against_truth(candidates: Candidates) -> dict[str, Any]:
    assert candidates.truth is not None
    known = np.flatnonzero(candidates.truth != UNKNOWN)
    truth, sets, k = candidates.truth[known], candidates.compact.take(known), candidates.n_classes
    inside = sets.holds(np.arange(len(truth)), truth)
    # how often each label accompanies each class
    pairs, times = np.unique(truth[sets.rows] * k + sets.positions, return_counts=True)
    of_class, label = np.divmod(pairs, k)
    share = (times / np.bincount(truth, minlength=k)[of_class])[of_class != label]
    return {
        "truth_inside": round(float(inside.mean()), 5),
        "ambiguity": round(float(share.max(initial=0.0)), 5),
    }


def _names(candidates: Candidates, which: Any) -> list[Any]:
    return [json_value(candidates.classes[k]) for k in np.flatnonzero(which)]
