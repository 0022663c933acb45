"""From lines "row, annotator, label" to `Annotations`: what all importers of answers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import (
    CellError,
    Codes,
    Place,
    check_one_type,
    encode,
    is_missing,
    label_columns,
    ordered,
)
from oneof.candidates.rules import Rule, union
from oneof.candidates.sets import CandidateError, Candidates
from oneof.candidates.taxonomy import Taxonomy

Missing = Literal["error", "drop", "all"]


@dataclass(frozen=True)
class Settings:
    """What a user may say about any importer of answers.

    Parameters
    ----------
    rule : Rule, default=union
        How the answers of a row become its candidate set.
    classes : sequence, optional
        Names of the classes, in the order of the columns. Labels are names, or numbers counted from 0.
        Default: the labels that occur, sorted.
    taxonomy : Taxonomy, optional
        Labels are nodes of it; a coarse label stands for all its leaves, which are the classes.
    missing : {"error", "drop", "all"}, default="error"
        What to do with rows without any answer: refuse, leave them out, or give them all classes.
    skip_empty : bool, default=False
        Whether a line with an empty label is left out instead of being an error.
    truth_may_be_outside : bool, default=True
        Whether the true label may be missing from a set. Answers of people promise nothing.
    """

    rule: Rule = union
    classes: Sequence[Any] | None = None
    taxonomy: Taxonomy | None = None
    missing: Missing = "error"
    skip_empty: bool = False
    truth_may_be_outside: bool = True
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def of(self, format: str, more: Mapping[str, Any]) -> Settings:
        """These settings for one import: the format in the provenance, and single ones replaced."""
        names = [field.name for field in fields(self)]
        for name in more:
            if name not in names:
                raise TypeError(f"there is no setting {name!r}; there are {', '.join(names)}.")
        made = replace(self, **more)
        return replace(made, provenance={"format": format, **made.provenance})


def assemble(
    row: np.ndarray,
    worker: Iterable[Any] | None,
    label: Iterable[Any],
    ids: Sequence[Any],
    settings: Settings,
    place: Place,
    worker_place: Place,
) -> Annotations:
    """One line per answer: its row, who gave it (None: not known) and the label or labels."""
    if settings.taxonomy is not None and settings.classes is not None:
        raise CandidateError("give classes or a taxonomy, not both: the classes are its leaves.")
    notes: list[str] = []
    codes = encode(label)
    if not len(codes.number) == len(row):
        raise CandidateError(f"there are {len(row)} tasks and {len(codes.number)} labels; give one each.")
    empty = np.array([is_missing(value) for value in codes.values], dtype=bool)[codes.number]
    if empty.any() and not settings.skip_empty:
        line = int(np.argmax(empty))
        raise CellError(
            line,
            place(line),
            f"the label is empty ({int(empty.sum())} such lines).\n"
            "  Give a label, drop the line, or say skip_empty (--skip-empty).",
        )
    lines = np.flatnonzero(~empty)
    if empty.any():
        notes.append(f"lines with an empty label, left out: {int(empty.sum())}")
    n_lines = len(lines)
    sizes, columns, classes = _columns(codes, settings, place)
    names, who = _workers(worker, row, worker_place, lines)
    size = sizes[codes.number[lines]]
    offset = np.r_[0, np.cumsum(sizes)][codes.number[lines]]
    inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    answers, repeated = _without_repeats(
        np.repeat(row[lines], size),
        np.repeat(who, size),
        columns[np.repeat(offset, size) + inside],
        names,
        len(classes),
        worker is not None,
    )
    if repeated:
        notes.append(f"answers given twice by the same annotator, counted once: {repeated}")
    return decide(answers, classes, ids, settings, notes, n_lines)


def decide(
    answers: Answers,
    classes: tuple[Any, ...],
    ids: Sequence[Any],
    settings: Settings,
    notes: list[str],
    n_lines: int,
) -> Annotations:
    """Apply the rule, and what was said about rows without answers."""
    answered = np.bincount(answers.row, minlength=len(ids)) > 0
    silent = np.flatnonzero(~answered)
    if len(silent):
        if settings.missing == "error":
            raise CandidateError(
                f"{len(silent)} of {len(ids)} rows have no answer; the first is row {silent[0]} "
                f"(id {ids[silent[0]]!r}).\n  Say missing drop to leave them out, or missing all to give "
                "them all classes."
            )
        done = "left out" if settings.missing == "drop" else "given all classes"
        first = ", ".join(str(ids[i]) for i in silent[:5]) + (", …" if len(silent) > 5 else "")
        notes.append(f"rows without any answer, {done}: {len(silent)} ({first})")
        if settings.missing == "drop":
            answers = answers.take(answered, len(ids))
            ids = [ids[i] for i in np.flatnonzero(answered).tolist()]
            answered = answered[answered]
            if not ids:
                raise CandidateError("no row has an answer: nothing is left.")
    mask, remarks = settings.rule(answers, (len(ids), len(classes)))
    mask[~answered] = True
    nothing = np.flatnonzero(~mask.any(axis=1))
    if len(nothing):
        raise CandidateError(
            f"row {nothing[0]} (id {ids[nothing[0]]!r}) has no candidate left by the rule "
            f"{settings.rule.name} ({len(nothing)} such rows).\n  Drop the row or use another rule."
        )
    provenance = {
        **settings.provenance,
        "rule": settings.rule.name,
        "settings": dict(settings.rule.settings),
        "answers": n_lines,
        "rows_without_answer": len(silent),
        "notes": [*settings.provenance.get("notes", ()), *notes, *remarks],
    }
    made = Candidates(
        mask,
        classes,
        None,
        settings.truth_may_be_outside,
        provenance,
        settings.provenance.get("file", "answers"),
    )
    names = None if list(ids) == list(range(len(ids))) else tuple(ids)
    return Annotations(made, names, None if settings.rule.negative else answers)


def _columns(
    codes: Codes, settings: Settings, place: Place
) -> tuple[np.ndarray, np.ndarray, tuple[Any, ...]]:
    """How many classes every distinct value names, their columns one after the other, and the classes."""
    used = [(v, line) for v, line in zip(codes.values, codes.first) if not is_missing(v)]
    if not used:
        raise CandidateError("every label is empty: nothing can be learned from this.")
    for value, line in used:
        if isinstance(value, tuple) and any(is_missing(single) for single in value):
            raise CellError(line, place(line), f"one of the labels {list(value)!r:.80} is empty.")
    known = Codes(codes.number, [v for v, _ in used], [line for _, line in used])
    check_one_type(known, place, "label")
    singles = [(s, line) for v, line in used for s in (v if isinstance(v, tuple) else (v,))]
    if settings.taxonomy is not None:
        tree = settings.taxonomy
        spread = [([tree.column(leaf) for leaf in tree.leaves_of(s, line, place)]) for s, line in singles]
        classes = tree.leaves
    else:
        columns, classes = label_columns(singles, settings.classes, place)
        spread = [[k] for k in columns]
    sizes = np.zeros(len(codes.values), dtype=np.int64)
    flat: list[int] = []
    following = iter(spread)
    for number, value in enumerate(codes.values):
        if is_missing(value):
            continue
        parts = [next(following) for _ in (value if isinstance(value, tuple) else (value,))]
        mine = sorted({k for part in parts for k in part})
        sizes[number] = len(mine)
        flat += mine
    return sizes, np.array(flat, dtype=np.int64), classes


def _workers(
    worker: Iterable[Any] | None, row: np.ndarray, place: Place, lines: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the annotators and, for the lines that count, who gave the answer."""
    if worker is None:
        order = np.argsort(row[lines], kind="stable")
        sorted_rows = row[lines][order]
        start = np.searchsorted(sorted_rows, sorted_rows)
        who = np.empty(len(lines), dtype=np.int64)
        who[order] = np.arange(len(lines)) - start  # the how-manieth answer of its row
        return tuple(f"answer {k + 1}" for k in range(int(who.max(initial=-1)) + 1)), who
    codes = encode(worker)
    if len(codes.number) != len(row):
        raise CandidateError(f"there are {len(row)} tasks and {len(codes.number)} workers; give one each.")
    for value, line in zip(codes.values, codes.first):
        if is_missing(value) or isinstance(value, tuple):
            raise CellError(
                line,
                place(line),
                f"{value!r:.80} names no annotator.\n  Fill the cell, or leave the annotators out.",
            )
    check_one_type(codes, place, "annotator")
    texts = [str(value) for value in codes.values]
    names = ordered(list(dict.fromkeys(texts)))  # trimmed texts may coincide
    number = {name: k for k, name in enumerate(names)}
    return tuple(names), np.array([number[text] for text in texts], dtype=np.int64)[codes.number][lines]


def _without_repeats(
    row: np.ndarray, who: np.ndarray, label: np.ndarray, names: tuple[str, ...], n_classes: int, named: bool
) -> tuple[Answers, int]:
    """Sorted by row, annotator and label, each answer once; and how many were repeated."""
    keys = np.unique((row * max(len(names), 1) + who) * n_classes + label)
    pairs, label_once = np.divmod(keys, n_classes)
    row_once, who_once = np.divmod(pairs, max(len(names), 1))
    return Answers(row_once, who_once, label_once, names, named), len(row) - len(keys)
