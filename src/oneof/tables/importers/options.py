"""What a user can say about an import; the command line takes it as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oneof.candidates.questions import Answer
from oneof.tables.text import TextForm

RuleName = Literal["union", "vaguest", "majority", "share", "dawid-skene", "not-named"]


@dataclass(kw_only=True)
class ImportOptions:
    """What can be said about an import. A format takes some of them and refuses the others."""

    rule: RuleName = "union"
    """How the answers of several people become one set. union: every label somebody gave; vaguest: the
    largest set one person gave; majority: most votes, all on a tie; share: given by --at-least of the
    people; dawid-skene: the --keep most probable by Dawid and Skene's model; not-named: answers say what
    it is not."""
    at_least: float | None = None
    """For share: part of a row's annotators, such as 0.3. For dawid-skene: least probability of a label."""
    keep: int | None = None
    """For dawid-skene: how many labels per row (default 2)."""
    task: str | None = None
    """crowd: column with the task; default: task, item, id, ... where there is one."""
    worker: str | None = None
    """crowd: column with the annotator; default: worker, annotator, ...; answers may be without."""
    label: str | None = None
    """Column or field with the label, or labels such as cat|dog; default: label, answer, ..."""
    id: str | None = None
    """Column or field that names the rows; default: id, task, image, ... where there is one."""
    annotators: tuple[str, ...] = ()
    """wide: the columns with the answers; default: all but the id."""
    control: str | None = None
    """label-studio: name of the choices, where there are several."""
    ids: str | None = None
    """crowd: file with the ids of all rows, in their order (one per line, .json, .npy, or a table)."""
    n_rows: int | None = None
    """crowd: tasks are the numbers 0 to N-1 of the rows."""
    missing: Literal["error", "drop", "all"] = "error"
    """Rows without an answer: refuse, leave out, or give them all classes."""
    skip_empty: bool = False
    """Leave out lines with an empty label."""
    classes: tuple[str, ...] = ()
    """Names of the classes, or a file with them; labels may then be numbers, counted from 0."""
    taxonomy: Path | None = None
    """File (.json nested, or .csv with the columns parent, child): a coarse label is all its leaves."""
    top_k: int | None = None
    """scores: the k highest classes."""
    top_p: float | None = None
    """scores: the fewest classes with this probability together."""
    threshold: float | None = None
    """scores: all classes with at least this score."""
    level: float | None = None
    """sets: the coverage the prediction sets were made for, such as 0.9."""
    array: str | None = None
    """Array of an .npz file."""
    header: bool = True
    """Whether the first line of a CSV file names the columns; without it they are called 0, 1, 2, ..."""
    sep: str | None = None
    """What stands between the cells of a CSV file; default: found out (comma, semicolon, tab or bar)."""
    encoding: str | None = None
    """Encoding of a text file; default: found out (UTF-8, UTF-16, cp1252)."""
    accept: tuple[Answer, ...] = ()
    """Answers to questions about labels that look like a mistake; each question says which one fits. sets or
    names (bug;login), alike or spelling (Sparrow beside sparrow), na or na-empty, singletons, many-classes;
    crowd: unknown-tasks leaves out answers about tasks that --ids does not list."""
    truth: str | None = None
    """File with the true labels (one per line, .json, .npy, or a table, by its ids), for the report only."""
    truth_inside: bool | None = None
    """Whether the source promises that the true label is always in the set; default: yes for complementary
    and taxonomy, no for all others."""

    @property
    def form(self) -> TextForm:
        return TextForm(self.header, self.sep, self.encoding)
