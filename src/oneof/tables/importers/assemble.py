"""From lines "row, annotator, label" to `Annotations`: what all importers of answers share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import (
    CandidateError,
    CellError,
    Place,
    by_spelling,
    first_where,
    is_missing,
    ordered,
    spelling_of,
    tidy,
)
from oneof.candidates.codes import Codes, check_one_type, encode, encode_labels, named_columns
from oneof.candidates.compact import CompactSets, each_once
from oneof.candidates.evidence import tells_apart
from oneof.candidates.questions import about_classes, about_sizes, answered, ask
from oneof.candidates.rules import Rule, union
from oneof.candidates.sets import Candidates
from oneof.candidates.taxonomy import Taxonomy

Missing = Literal["error", "drop", "all"]
"""What to do with rows that nobody answered."""
HOW_TO_FILL = "Leave them out with --missing drop, or give them all classes with --missing all."


def filled(missing: Missing) -> str:
    """What becomes of such rows, in words."""
    words = {"drop": "left out", "all": "given all classes"}
    if missing not in words:
        raise CandidateError(f"missing = {missing!r}: say error, drop or all.")
    return words[missing]


NUMBERED = "numbered"
"""In the provenance: the source has ids, which are 0 to n-1 in this order and so not stored."""


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
    accept : sequence of str, optional
        Answers to the questions about labels that look like a mistake (`oneof.candidates.questions`).
        Default: labels in arrays are taken as they are, nothing is asked.
    """

    rule: Rule = union
    classes: Sequence[Any] | None = None
    taxonomy: Taxonomy | None = None
    missing: Missing = "error"
    skip_empty: bool = False
    truth_may_be_outside: bool = True
    accept: Sequence[str] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def of(self, format: str, more: Mapping[str, Any]) -> Settings:
        """These settings for one import: the format in the provenance, and single ones replaced."""
        names = [field.name for field in fields(self)]
        for name in more:
            if name not in names:
                raise TypeError(f"there is no setting {name!r}; there are {', '.join(names)}.")
        made = replace(self, **more)
        return replace(made, provenance={"format": format, **made.provenance})

    @property
    def known(self) -> Collection[Any]:
        """Names that labels may have, where the user has said which."""
        return self.taxonomy.names if self.taxonomy is not None else self.classes or ()


def row_names(ids: Sequence[Any] | None, n: int) -> Sequence[Any]:
    """The ids of n rows; the range 0..n-1 where none are given."""
    names = range(n) if ids is None else [tidy(name) for name in ids]
    if len(names) != n:
        raise CandidateError(f"there are {len(names)} ids for {n} rows; give one per row.")
    return names


class Line(NamedTuple):
    """One answer: the number of its entry in the input, who gave it, and the label or labels."""

    entry: int
    worker: Any
    label: Any


def assemble_lines(
    lines: Sequence[Line],
    ids: Sequence[Any],
    settings: Settings,
    place: Callable[[Line], str],
    *,
    named: bool,
    rows: Sequence[int] | None = None,
) -> Annotations:
    """`assemble` for single answers; `rows` are those of the entries, by default the entries themselves."""
    if settings.accept:
        labels = answered([line.label for line in lines], settings.accept, settings.known)
        lines = [line._replace(label=v) for line, v in zip(lines, labels) if not is_missing(v)]
    entry = np.array([line.entry for line in lines], dtype=np.int64)
    row = entry if rows is None else np.array(rows, dtype=np.int64)[entry]
    worker = [line.worker for line in lines] if named else None
    try:
        return assemble(row, worker, [line.label for line in lines], ids, settings, lambda i: place(lines[i]))
    except CellError as error:
        error.line = int(entry[error.line])
        raise


def assemble(
    row: np.ndarray,
    worker: Iterable[Any] | None,
    label: Iterable[Any],
    ids: Sequence[Any],
    settings: Settings,
    place: Place,
    worker_place: Place | None = None,
) -> Annotations:
    """One line per answer: its row (-1: left out), who gave it (None: not known) and the label or labels."""
    if settings.taxonomy is not None and settings.classes is not None:
        raise CandidateError("give classes or a taxonomy, not both: the classes are its leaves.")
    notes: list[str] = []
    dropped = row < 0
    if dropped.any():
        label = [None if drop else value for drop, value in zip(dropped.tolist(), label, strict=True)]
        notes.append(f"answers about unknown tasks, left out: {int(dropped.sum())}")
    codes, sizes = encode_labels(label, place)
    if len(sizes) != len(row):
        raise CandidateError(f"there are {len(row)} tasks and {len(sizes)} labels; give one each.")
    empty = sizes == 0
    lines = np.flatnonzero(~empty)
    empty &= ~dropped
    for (line,) in first_where(empty):
        if not settings.skip_empty:
            what = f"the label is empty ({empty.sum()} such lines).\n"
            what += "  Give a label, drop the line, or say skip_empty (--skip-empty)."
            raise CellError(line, place(line), what)
        notes.append(f"lines with an empty label, left out: {empty.sum()}")
    by_label, classes = _columns(codes, settings, place)
    names, who = _workers(worker, row, worker_place or place, lines)
    said = by_label.take(codes.number)
    # one number for row, annotator and label; of a million sets all this is large, and goes when it can
    keys = np.repeat(row[lines] * max(len(names), 1) + who, sizes[lines])
    keys = np.repeat(keys, said.sizes) * len(classes)
    keys += said.positions
    del codes, said
    once = each_once(keys)
    if len(once) < len(keys):
        notes.append(f"answers given twice by the same annotator, counted once: {len(keys) - len(once)}")
    del keys
    pairs, label_once = np.divmod(once, len(classes))
    answers = Answers(*np.divmod(pairs, max(len(names), 1)), label_once, names, worker is not None)
    del once, pairs, label_once
    return decide(answers, classes, ids, settings, notes, len(lines))


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
                f"(id {ids[silent[0]]!r}).\n  {HOW_TO_FILL}"
            )
        first = ", ".join(str(ids[i]) for i in silent[:5]) + (", …" if len(silent) > 5 else "")
        notes.append(f"rows without any answer, {filled(settings.missing)}: {len(silent)} ({first})")
        if settings.missing == "drop":
            answers = answers.take(answered, len(ids))
            ids = [ids[i] for i in np.flatnonzero(answered).tolist()]
            answered = answered[answered]
            if not ids:
                raise CandidateError("no row has an answer: nothing is left.")
    for what, names in (("rows", ids[:100_000]), ("annotators", answers.workers)):  # of more it takes memory
        usual = by_spelling(names)
        if again := {v for v in names if isinstance(v, str)} - set(usual.values()):
            pair = f"{usual[spelling_of(min(again))]!r}, {min(again)!r}"
            notes.append(f"{what} of nearly the same name, not taken for one: {pair}")
    where = str(settings.provenance.get("file", "answers"))
    if settings.accept is not None and settings.classes is None and settings.taxonomy is None:
        # a column of remarks would make as many classes as rows
        ask(about_classes(classes, len(ids)), settings.accept, where)
    decided, remarks, evidence = settings.rule(answers, (len(ids), len(classes)))
    sets = decided.with_full(~answered)
    for (i,) in first_where(sets.sizes == 0):
        what = f"by the rule {settings.rule.name} ({(sets.sizes == 0).sum()} such rows)"
        raise CandidateError(
            f"row {i} (id {ids[i]!r}) has no candidate left {what}.\n  Drop the row or use another rule."
        )
    if settings.accept is not None and settings.rule.name in ("union", "vaguest"):
        ask(about_sizes(sets.sizes), settings.accept, where)
    provenance = {
        **settings.provenance,
        "rule": settings.rule.name,
        "settings": dict(settings.rule.settings),
        "answers": n_lines,
        "rows_without_answer": len(silent),
        "notes": [*settings.provenance.get("notes", ()), *notes, *remarks],
    }
    support = None
    if evidence is not None:
        support = np.ones(len(sets.positions))  # where nobody answered all labels are equal
        support[sets.places(np.flatnonzero(answered))] = evidence
    said = None if settings.rule.negative else answers
    return finished(sets, classes, ids, provenance, support, settings.truth_may_be_outside, said)


def finished(
    sets: CompactSets,
    classes: tuple[Any, ...],
    ids: Sequence[Any],
    provenance: Mapping[str, Any],
    evidence: np.ndarray | None = None,
    truth_may_be_outside: bool = True,
    answers: Answers | None = None,
) -> Annotations:
    """The end of every import. Evidence that tells no two candidates of a row apart is left out."""
    if evidence is not None and not tells_apart(evidence, sets):
        evidence = None
    where = str(provenance.get("file", provenance["format"]))
    by_number = list(ids) == list(range(len(ids)))
    if by_number and not isinstance(ids, range):  # a table may have these ids in another order
        provenance = {**provenance, NUMBERED: True}
    made = Candidates(sets, classes, None, truth_may_be_outside, provenance, where, evidence)
    return Annotations(made, None if by_number else tuple(ids), answers)


def _columns(labels: Codes, settings: Settings, place: Place) -> tuple[CompactSets, tuple[Any, ...]]:
    """The columns of the classes that every distinct label stands for, and the classes."""
    if not labels.values:
        raise CandidateError("every label is empty: nothing can be learned from this.")
    check_one_type(labels, place, "label")
    singles = list(zip(labels.values, labels.first))
    if settings.taxonomy is None:
        columns, classes = named_columns(singles, settings.classes, place)
        return CompactSets.of_sizes(np.array(columns), np.ones(len(columns)), len(classes)), classes
    tree = settings.taxonomy
    leaves = [tree.leaves_of(label, line, place) for label, line in singles]
    of_label = np.repeat(np.arange(len(leaves)), [len(some) for some in leaves])
    columns = [tree.column(leaf) for some in leaves for leaf in some]
    return CompactSets.of_pairs(of_label, np.array(columns), (len(leaves), len(tree.leaves))), tree.leaves


def unnamed(row: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Names for annotators whom nobody knows, and who gave each answer: the how-manieth it is of its row."""
    order = np.argsort(row, kind="stable")
    who = np.empty(len(row), dtype=np.int64)
    who[order] = np.arange(len(row)) - np.searchsorted(row[order], row[order])
    return tuple(f"answer {k + 1}" for k in range(int(who.max(initial=-1)) + 1)), who


def encode_names(values: Iterable[Any], place: Place, what: str, advice: str) -> Codes:
    """`encode` for names, which must all be there; those that are the same once trimmed are one."""
    codes = encode(values, place)
    for value, line in zip(codes.values, codes.first):
        if is_missing(value) or isinstance(value, tuple):
            raise CellError(line, place(line), f"{value!r:.80} names no {what}{advice}")
    check_one_type(codes, place, what)
    once = len(set(codes.values)) == len(codes.values)
    return codes if once else encode([codes.values[k] for k in codes.number], place)


def _workers(
    worker: Iterable[Any] | None, row: np.ndarray, place: Place, lines: np.ndarray
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the annotators and, for the lines that count, who gave the answer."""
    if worker is None:
        return unnamed(row[lines])
    advice = ".\n  Fill the cell, or leave the annotators out."
    codes = encode_names(worker, place, "annotator", advice)
    if len(codes.number) != len(row):
        raise CandidateError(f"there are {len(row)} tasks and {len(codes.number)} workers; give one each.")
    texts = [str(value) for value in codes.values]
    names = ordered(texts)
    number = {name: k for k, name in enumerate(names)}
    return tuple(names), np.array([number[text] for text in texts], dtype=np.int64)[codes.number][lines]
