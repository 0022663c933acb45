"""`Annotations`: what an importer returns. Candidate sets, the names of the rows, and who said what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from oneof.candidates.cells import CandidateError, CellError, cell_text, first_where, native
from oneof.candidates.codes import named_columns
from oneof.candidates.compact import CompactSets, FrozenArrays, frozen, row_numbers
from oneof.candidates.describe import as_text, describe
from oneof.candidates.sets import UNKNOWN, Candidates


@dataclass(frozen=True, eq=False)
class Answers(FrozenArrays):
    """Who said what, in long form, ordered by row.

    Parameters
    ----------
    row : int array (m,)
        The row an answer is about.
    worker : int array (m,)
        Who gave it: index into `workers`.
    label : int array (m,)
        What was said: column of the class. Somebody who named two classes for a row has two entries.
    workers : tuple of str
        Names of the annotators.
    named : bool, default=True
        Whether `workers` are people. Where the source does not tell, "answer 1", "answer 2", ...
        only number the answers of a row, and nothing can be learned about who is reliable.
    """

    row: np.ndarray
    worker: np.ndarray
    label: np.ndarray
    workers: tuple[str, ...]
    named: bool = True

    def __post_init__(self) -> None:
        row, worker, label = map(np.asarray, (self.row, self.worker, self.label))
        if not row.shape == worker.shape == label.shape == (len(row),):
            raise CandidateError(
                f"answers need one row, worker and label each: shapes {row.shape}, {worker.shape}, "
                f"{label.shape}."
            )
        _check_indices(row, "row", None)
        _check_indices(worker, "worker", len(self.workers))
        _check_indices(label, "label", None)
        row = row.astype(np.int64)  # before anything is subtracted: unsigned numbers wrap
        order = np.argsort(row, kind="stable") if (np.diff(row) < 0).any() else slice(None)
        object.__setattr__(self, "row", frozen(row[order]))
        object.__setattr__(self, "worker", frozen(worker[order].astype(np.int32)))
        object.__setattr__(self, "label", frozen(label[order].astype(np.int32)))
        object.__setattr__(self, "workers", tuple(self.workers))

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answers):
            return NotImplemented
        parts = [(a.row, a.worker, a.label) for a in (self, other)]
        same = all(map(np.array_equal, *parts))
        return same and (self.workers, self.named) == (other.workers, other.named)

    def __hash__(self) -> int:
        return hash((self.workers, len(self)))

    def of(self, row: int) -> dict[str, list[int]]:
        """The answers for one row: for each annotator the columns of the classes named."""
        start, end = np.searchsorted(self.row, [row, row + 1])
        found: dict[str, list[int]] = {}
        for worker, label in zip(self.worker[start:end].tolist(), self.label[start:end].tolist()):
            found.setdefault(self.workers[worker], []).append(label)
        return found

    def votes(self, n_rows: int, n_classes: int) -> csr_matrix:
        """(n_rows, n_classes): how often each label was named, row by row, of those that were."""
        ones = np.ones(len(self), dtype=np.int64)
        made = csr_matrix((ones, (self.row, self.label)), shape=(n_rows, n_classes))
        made.sum_duplicates()
        return made

    def counts(self, n_rows: int, n_classes: int) -> np.ndarray:
        """`votes` with the zeros."""
        return self.votes(n_rows, n_classes).toarray()

    def times_named(self, row: np.ndarray, label: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """How often label `label[i]` was named in row `row[i]`, of a table of this shape."""
        return np.asarray(self.votes(*shape)[row, label]).ravel() if len(row) else np.zeros(0)

    def groups(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row and worker of every (row, worker) pair, by row then worker; and the pair of each answer."""
        width = max(len(self.workers), 1)
        keys = self.row * width + self.worker
        if len(keys) and (np.diff(keys) >= 0).all():  # as importers make them
            new = np.diff(keys, prepend=-1) > 0
            keys, pair = keys[new], np.cumsum(new) - 1
        else:
            keys, pair = np.unique(keys, return_inverse=True)
        return keys // width, keys % width, pair

    def shares(self) -> np.ndarray:
        """(m,): what each answer counts; somebody who names s labels for a row has 1/s for each."""
        _, _, pair = self.groups()
        return 1.0 / np.bincount(pair)[pair]

    def take(self, rows: Any, n_rows: int) -> Answers:
        """The answers for some of `n_rows` rows, numbered in the order given."""
        rows = row_numbers(rows, n_rows)
        by_row = CompactSets.of_sizes(self.label, np.bincount(self.row, minlength=n_rows), 0)
        place, row = by_row.places(rows), np.repeat(np.arange(len(rows)), by_row.sizes[rows])
        return Answers(row, self.worker[place], self.label[place], self.workers, self.named)


@dataclass(frozen=True, eq=False)
class Annotations:
    """Candidate sets with their history.

    Parameters
    ----------
    candidates : Candidates
        One set per row. `provenance` says where the sets come from: format, rule and its settings, and
        what was left out or filled in on the way.
    ids : tuple of str or int, optional
        Names of the rows in the source: task ids, file names. None: the rows are 0..n-1.
    answers : Answers, optional
        Who said what, where the source tells; default: what the candidates know of it.
    """

    candidates: Candidates
    ids: tuple[str | int, ...] | None = None
    answers: Answers | None = None

    def __post_init__(self) -> None:
        n = len(self.candidates)
        if self.ids is not None:
            object.__setattr__(self, "ids", tuple(self.ids))
            if len(self.ids) != n:
                raise CandidateError(f"{len(self.ids)} ids were given for {n} rows; give one per row.")
            for row, name in enumerate(self.ids):
                if name is not None and not isinstance(native(name), str | int | float):
                    raise CandidateError(f"the id of row {row} is {name!r}; give a text or a number.")
            if len(set(self.ids)) != n:
                twice = Counter(self.ids).most_common(1)[0][0]
                first, second = [row for row, name in enumerate(self.ids) if name == twice][:2]
                raise CandidateError(
                    f"the id {twice!r} stands for two rows, {first} and {second} (the first is 0).\n"
                    "  Keep one of the two, or give them other ids."
                )
        if self.answers is None:
            object.__setattr__(self, "answers", self.candidates.answers)
        elif self.answers is not self.candidates.answers:
            object.__setattr__(self, "candidates", self.candidates.replace(answers=self.answers))

    def __len__(self) -> int:
        return len(self.candidates)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Annotations):
            return NotImplemented
        return (
            self.candidates == other.candidates
            and self.ids == other.ids
            and self.candidates.truth_may_be_outside == other.candidates.truth_may_be_outside
            and self.candidates.provenance == other.candidates.provenance
            and self.answers == other.answers
        )

    def __hash__(self) -> int:
        return hash(self.candidates)

    def id_of(self, row: int) -> str | int:
        """What the source calls a row."""
        return row if self.ids is None else self.ids[row]

    def take(self, rows: Any) -> Annotations:
        """Some rows, by index or boolean mask, in that order."""
        rows = row_numbers(rows, len(self))
        return Annotations(self.candidates.take(rows), tuple(map(self.id_of, rows.tolist())))

    def with_truth(self, labels: Sequence[Any]) -> Annotations:
        """The same with the true labels, one per row: names of classes, or None where unknown.

        Labels are matched by their text, so that 3 finds the class "3"; where none is the name of a class,
        whole numbers are numbers of classes, counted from 0. They may lie outside the sets: what annotators
        say promises nothing.
        """
        values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        known = [(text, i) for i, v in enumerate(values) if (text := cell_text(v)) is not None]
        c, truth = self.candidates, np.full(len(values), UNKNOWN, dtype=np.int64)
        try:
            columns, _ = named_columns(known, c.classes, lambda row: f"the true label of row {row}")
        except CellError as error:  # its line is no line of the file that the answers come from
            raise CandidateError(str(error)) from None
        truth[[row for _, row in known]] = columns
        return Annotations(c.replace(truth=truth, truth_may_be_outside=True), self.ids)

    def describe(self) -> str:
        """A short report: where the sets come from, what was left out, and what they look like."""
        lines = [_origin(self.candidates)]
        if self.answers is not None and len(self.answers):
            lines += _about_answers(self.answers, self.candidates)
        lines += [str(note) for note in self.candidates.provenance.get("notes", ())]
        if len(self.candidates):
            lines.append(as_text(describe(self.candidates)))
        if self.candidates.truth_may_be_outside:
            lines.append("the true label may be missing from a set: the source does not promise it")
        return "\n".join(lines)

    def __repr__(self) -> str:
        answers = "" if self.answers is None else f", {len(self.answers)} answers"
        return f"Annotations({self.candidates.describe()}{answers})"


def _origin(candidates: Candidates) -> str:
    known = candidates.provenance
    settings = [f"{name} {value}" for name, value in known.get("settings", {}).items()]
    parts = [
        str(known["file"]) if "file" in known else "",
        f"format {known['format']}" if "format" in known else "",
        f"rule {known['rule']}" + (f" ({', '.join(settings)})" if settings else "")
        if "rule" in known
        else "",
    ]
    return ", ".join(part for part in parts if part) or "candidate sets"


def _about_answers(answers: Answers, candidates: Candidates) -> list[str]:
    row, _, group = answers.groups()
    several = np.bincount(row, minlength=len(candidates)) > 1  # rows that two or more people answered
    agreed = np.ones(len(candidates), dtype=bool)
    other = (np.diff(answers.row) == 0) & (np.diff(answers.label) != 0)  # than the answer before, of one row
    agreed[answers.row[1:][other]] = False
    vague = int((np.bincount(group) > 1).sum())
    people = np.count_nonzero(np.bincount(answers.worker))
    who = f"{people} annotators" if answers.named else "annotators not named"
    lines = [f"{len(answers)} answers, {who}, {len(answers) / len(candidates):.2f} answers per row"]
    if several.any():
        lines.append(
            f"rows with more than one answer: {several.mean():.1%}; in {agreed[several].mean():.1%} of them "
            "all say the same"
        )
    if vague:
        lines.append(f"times somebody named several labels for a row: {vague}")
    return lines


def _check_indices(values: np.ndarray, what: str, limit: int | None) -> None:
    if values.dtype.kind not in "iu" and len(values):
        raise CandidateError(f"the {what} of an answer is an index, not {values.dtype}.")
    for (i,) in first_where((values < 0) | (values >= limit if limit is not None else False)):
        bound = f"; there are {limit}" if limit is not None else ""
        raise CandidateError(f"answer {i} has {what} {values[i]}{bound}.")
