"""What looks like a mistake in labels as they were read: the run stops with a question, `accept` answers it.

Importers, `oneof fit` and the estimator ask the same questions because they ask them here. Plain labels in
arrays are taken as they are; cells of files and joined strings are looked at.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from oneof.candidates.cells import (
    COLLECTIONS,
    NO_VALUE,
    SEPARATOR,
    CandidateError,
    CellError,
    as_set,
    cell_labels,
    cell_text,
    counted,
    in_column,
    is_missing,
    one_spelling,
    short,
    spelling_of,
)

Answer = Literal[
    "sets",
    "names",
    "alike",
    "spelling",
    "na",
    "na-empty",
    "singletons",
    "many-classes",
    "leak",
    "unknown-tasks",
    "order",
]
"""What `accept` (on the command line `--accept`) can say.

sets, names: cells such as bug;login are sets of labels, or names of one class each. alike, spelling: Sparrow
and sparrow are one class, or two. na, na-empty: n/a is a class, or an empty cell. singletons: every row has
one candidate. many-classes: there are more classes than a tenth of the rows. leak: a column that tells the
label is a feature. unknown-tasks: answers about rows that are not there are left out. order: ids say nothing.
"""

MARKS = (";", ",", "/")
"""What may stand between labels besides the bar, which always does."""
UNSURE = frozenset(
    {"unknown", "unsure", "not sure", "don't know", "dont know", "do not know", "no idea"}
    | {"can't tell", "cannot tell", "undefined", "missing", "not available", "not applicable", "tbd"}
    | {"unbekannt", "unsicher", "weiß nicht", "weiss nicht", "keine ahnung"}
    | {"inconnu", "je ne sais pas", "desconocido", "no sé", "-1"}
)
FEW_CLASSES = 10
SCORE_FIELDS = (("label", "class", "name"), ("score", "probability", "prob", "confidence"))


class QuestionError(CandidateError):
    """Labels that are probably not meant as they stand. The message asks, and says how to answer."""


@dataclass(frozen=True)
class Question:
    """What was seen, and the words of `accept` that answer, with what they mean."""

    text: str
    answers: Mapping[str, str]

    def __str__(self) -> str:
        return self.text + "".join(f"\n  --accept {word}: {means}." for word, means in self.answers.items())


def ask(questions: Iterable[Question], accept: Collection[str], where: str) -> None:
    """Raise the questions that were not answered."""
    for word in accept:
        if word not in get_args(Answer):
            raise CandidateError(
                f"accept {word!r}: there is no such answer; there are {short(get_args(Answer))}."
            )
    still = [question for question in questions if not set(question.answers) & set(accept)]
    if still:
        raise QuestionError("\n".join(f"{where}: {question}" for question in still))


# ---- cells ------------------------------------------------------------------------------------


def read_labels(
    values: Iterable[Any], name: str, accept: Collection[str] = (), known: Iterable[Any] = ()
) -> list[Any]:
    """The labels of cells: a tuple where there are several, one label alone, None where there is none.

    Cells are texts such as cat|dog, lists, or single labels. Text is split at bars, and at `;`, `,` or `/`
    where the parts are labels of other cells too, or of those that are `known`, which are never split. `name`
    is what the column is called in messages. The answers about names of classes are for `answered`, once it
    is known what is one label.
    """
    read: dict[str, Any] = {}
    listed = []
    for i, cell in enumerate(values):
        scores = scores_of(cell)
        if scores and (isinstance(cell, list) or any(value % 1 for value in scores.values())):
            what = f"{cell!r:.80} are scores of classes, not labels.\n"
            what += "  Import them with --format scores and --top-p 0.9, --top-k 2 or --threshold 0.1."
            raise CellError(i, in_column(name)(i), what)
        if isinstance(cell, str) and cell not in read:
            try:
                read[cell] = cell_labels(cell)
            except ValueError as error:
                raise CellError(i, in_column(name)(i), str(error)) from None
        listed.append(cell)
    # a list is meant as it is: only labels that stand between bars may be joined
    between = {part.strip() for cell in read for part in cell.split(SEPARATOR)}
    plain = {label for labels in read.values() for label in labels if label in between}
    whole = _split_at(plain, f'column "{name}"', accept, {str(label).strip() for label in known})
    for cell, labels in read.items():
        parts = list(dict.fromkeys(part for v in labels for part in whole.get(v, [v])))
        read[cell] = tuple(parts) if len(parts) > 1 else parts[0] if parts else None
    return [read[cell] if isinstance(cell, str) else cell for cell in listed]


def answered(labels: Sequence[Any], accept: Collection[str], known: Collection[Any] = ()) -> Sequence[Any]:
    """Labels of cells, one or several each, after the answers `na-empty` and `alike`."""
    if "na-empty" in accept:
        told = [[v for v in as_set(some) if not _says_nothing(v)] for some in labels]
        labels = [some if len(rest) == len(as_set(some)) else rest for some, rest in zip(labels, told)]
    return one_spelling(labels, known) if "alike" in accept else labels


def joined_labels(values: Sequence[Any], known: Collection[Any] = ()) -> list[list[Any]] | None:
    """Texts of which some are several labels, such as cat|dog, as lists; None where all are plain labels.

    For `y` in Python, where plain labels are always allowed: of names with a separator that nobody recognises
    only those with a semicolon are asked about. `known`: the classes of a model, which are no sets.
    """
    if not all(isinstance(value, str) for value in values) or set(values) <= set(known):
        return None
    if not any(mark in value for value in set(values) for mark in (SEPARATOR, *MARKS)):
        return None
    try:
        found = read_labels(values, "y", known=known)
    except QuestionError:
        odd = next((value for value in values if ";" in value), None)
        if odd is not None:
            raise QuestionError(
                f"y: is {odd!r} one label, or several?\n"
                f"  Give lists: [{odd!r}] for one, {[part.strip() for part in odd.split(';')]} for several."
            ) from None
        found = read_labels(values, "y", ["names"], known)
    return [as_set(labels) for labels in found] if any(isinstance(v, tuple) for v in found) else None


def _split_at(labels: set[str], where: str, accept: Collection[str], known: set[str]) -> dict[str, list[str]]:
    """The labels that each of these texts holds. A text of which nobody knows is a question."""
    split = {label: [label] for label in labels | known}
    for mark in () if "names" in accept else MARKS:
        whole = {part for some in split.values() for part in some}
        parts = {part: [part] if part in known else _parted(part, mark) for part in whole}
        joined = {label: some for label, some in parts.items() if len(some) > 1}
        if not joined:
            continue
        if "sets" in accept or _recur(joined, set(parts), mark):
            split = {label: [p for part in some for p in parts[part]] for label, some in split.items()}
            continue
        example = max(joined, key=lambda label: (len(joined[label]), label))
        text = f"{counted(len(joined), 'label')} with {mark!r} inside, such as {example!r}. "
        parted = f"{example!r} is the set {SEPARATOR.join(joined[example])}"
        answers = {"sets": parted, "names": f"{example!r} is the name of one class"}
        ask([Question(text + "Are these several labels, or one name?", answers)], accept, where)
    return split


def _parted(label: str, mark: str) -> list[str]:
    """What stands between the marks of a text, without brackets around them; n/a and its like are one."""
    inner = label[1:-1] if label[0] + label[-1] in ("{}", "()") else label
    parts = [part.strip() for part in inner.split(mark) if part.strip()]
    alone = len(parts) == 1 and (inner == label or label[0] == "(")  # {cat} beside {cat,dog} is cat
    return [label] if alone or not parts or _says_nothing(label) else parts


def _recur(joined: Mapping[str, list[str]], labels: set[str], mark: str) -> bool:
    """Whether the parts are labels of their own: nearly all stand alone somewhere, or, between semicolons,
    which are rare inside names, in several combinations."""
    alone = labels - set(joined)
    times = Counter(part for parts in joined.values() for part in set(parts))
    again = {part for part in times if part in alone or (mark == ";" and times[part] > 1)}
    good = sum(set(parts) <= again for parts in joined.values())
    return good >= 0.8 * len(joined) and all(set(parts) & again for parts in joined.values())


def _says_nothing(label: Any) -> bool:
    if not isinstance(label, str | int):
        return False
    text = str(label).strip().lower().replace("’", "'")
    return text.removeprefix("i ").removeprefix("i'm ") in UNSURE or text in NO_VALUE


def scores_of(cell: Any) -> dict[str, float] | None:
    """The numbers of a cell by class, where it is {"crow": 0.6} or [{"label": "crow", "score": 0.6}]."""
    if isinstance(cell, list) and cell and all(isinstance(part, Mapping) for part in cell):
        keys = [next((k for k in names if k in cell[0]), None) for names in SCORE_FIELDS]
        if None in keys or not all(k in part for part in cell for k in keys):
            return None
        cell = {cell_text(part[keys[0]]): part[keys[1]] for part in cell}
    if not isinstance(cell, Mapping) or not cell:
        return None
    kinds = {type(v) for v in cell.values()}
    numbers = kinds <= {int, float} and not any(abs(v) > sys.float_info.max for v in cell.values())
    return {str(k): float(v) for k, v in cell.items()} if numbers else None


# ---- classes and sets -------------------------------------------------------------------------


def about_classes(classes: Sequence[Any], n_rows: int) -> list[Question]:
    """Questions about the names of classes that were found in labels, not given."""
    made = []
    texts = [name for name in classes if isinstance(name, str)]
    by_form: dict[str, list[str]] = {}
    for name in texts:
        by_form.setdefault(spelling_of(name), []).append(name)
    alike = [names for names in by_form.values() if len(names) > 1]
    if alike:
        text = f"{counted(len(alike), 'class')} spelled in several ways, such as {short(alike[0])}. "
        answers = {"alike": "they are, spelled as in most cells", "spelling": "they are different classes"}
        made.append(Question(text + "Are they one class?", answers))
    names = {*map(str, classes)}
    signed = {"-1"} if names == {"-1", "1"} or "-2" in names else set()  # there it is a class
    nothing = [name for name in classes if _says_nothing(name) and str(name) not in signed]
    if nothing:
        stand = "stands" if len(nothing) == 1 else "stand"
        text = f"{short(nothing)} {stand} for nothing in many files. A class?"
        made.append(Question(text, {"na": "yes", "na-empty": "no, such cells are empty"}))
    if len(classes) > max(FEW_CLASSES, n_rows / 10):
        text = f"there are {len(classes)} classes in {n_rows} rows, such as {short(classes, 3)}. "
        made.append(Question(text + "Are these labels?", {"many-classes": "they are"}))
    return made


def about_sizes(sizes: np.ndarray) -> list[Question]:
    """The question whether rows without any ambiguity are meant."""
    if not len(sizes) or (sizes != 1).any():
        return []
    text = f"every one of the {len(sizes)} rows has a single candidate: nothing is ambiguous. Is this meant?"
    return [Question(text, {"singletons": "it is, learn from plain labels"})]


# ---- features ---------------------------------------------------------------------------------


def about_features(columns: Mapping[str, Any], mask: np.ndarray) -> list[Question]:
    """Questions about columns that tell the label: an old label column among the features."""
    partial = np.asarray(~mask.all(axis=1))
    found = [name for name, values in columns.items() if _tells(values, mask, partial)]
    return [
        Question(
            f'column "{name}" tells the label: each of its values goes with one candidate in all rows. '
            "Is it an old label, which new rows will not have?\n"
            f"  If so, leave it out (--ignore {name}) or trust it (--clean {name}, where it names classes).",
            {"leak": "it is a feature, known for new rows too"},
        )
        for name in found
    ]


def _tells(values: Any, mask: np.ndarray, partial: np.ndarray) -> bool:
    """Whether every value of a column stands for a class of its own, a candidate of all rows with it."""
    if getattr(values, "ndim", 1) != 1 or partial.sum() < 20:
        return False
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and (values != np.rint(values)).any():
        return False
    cells = values.tolist() if isinstance(values, np.ndarray) else values
    if any(isinstance(cell, COLLECTIONS) for cell in cells[:100]):
        return False
    number: dict[str, int] = {}
    codes = np.full(len(cells), -1)
    for i, cell in enumerate(cells):
        if is_missing(cell):
            continue
        codes[i] = number.setdefault(str(cell), len(number))
        if len(number) > mask.shape[1]:
            return False
    rows = np.flatnonzero((codes >= 0) & partial)
    if len(number) < 2 or len(rows) < 5 * len(number) or len(rows) < 0.5 * partial.sum():
        return False
    together = np.zeros((len(number), mask.shape[1]))
    np.add.at(together, codes[rows], mask[rows])
    best = together.argmax(axis=1)
    holds = mask[rows, best[codes[rows]]].mean()
    if holds < 0.98 or len(set(best.tolist())) < len(number):
        return False
    # by chance these classes are candidates as often as anywhere; many rows must agree before it is no chance
    by_chance = float(mask[rows][:, best].mean())
    return len(rows) * -np.log(by_chance) > 10 + len(number) * np.log(mask.shape[1])
