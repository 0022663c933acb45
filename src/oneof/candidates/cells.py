"""Cells as people write them: what is missing, text, label cells, spellings, ids, the order of classes.

Everything that looks at a single value of a table, of `y` or of a file asks this module.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import io
import json
import re
import sys
import tokenize
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

SEPARATOR = "|"
"""Stands between the labels of a cell: cat|dog."""

NO_VALUE = frozenset({"", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "nil", "?", "-", "--"})
"""Texts that stand for a missing number in a column of numbers; among labels they are asked about."""

QUOTES = "\"'`´„“”‚‘’«»‹›"

UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
"""Breaks and marks of no width, which texts copied from a page or a chat bring along."""

DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)

COLLECTIONS = (list, tuple, set, frozenset, np.ndarray)

Place = Callable[[int], str]
"""Says where a line of the input is: 'row 17, column "label"'."""


class CandidateError(ValueError):
    """Candidate labels that cannot be used. The message names the row and says what to do."""


class CellError(CandidateError):
    """A value that cannot be used. `line` is its number in the input, for readers that know its place."""

    def __init__(self, line: int, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.line = line


def in_column(name: str) -> Place:
    return lambda line: f'row {line}, column "{name}"'


# ---- single values ----------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Whether a value says nothing: None, NaN of any kind, pandas' NA and NaT, blank text, an empty list.

    Texts such as "nan", "NA" or "None" (`NO_VALUE`) are texts: a class may have that name. Only in a column
    of numbers they stand for a missing one (`oneof.tables.table`).
    """
    if value is None or isinstance(value, str):
        return value is None or not value.strip()
    if isinstance(value, bool | int):
        return False
    if isinstance(value, COLLECTIONS):
        return not np.size(value) if isinstance(value, np.ndarray) else not value
    try:
        return bool(value != value)
    except (TypeError, ValueError, ArithmeticError):  # pandas' NA refuses to be compared, and so do columns
        return not (hasattr(value, "__len__") and len(value))


def as_array(values: Any) -> np.ndarray:
    """An array in which a gap among texts stays one: of a NaN in a list numpy would make the text "nan"."""
    texts = isinstance(values, list | tuple) and any(isinstance(v, str) for v in values)
    gaps = texts and any(not isinstance(v, str) and is_missing(v) for v in values)
    return np.asarray(values, dtype=object if gaps else None)


def as_cells(values: Any) -> Any:
    """The cells of an array or of a data frame's column as Python values; what else is iterable as it is."""
    return getattr(values, "to_list", getattr(values, "tolist", lambda: values))()


def native(value: Any) -> Any:
    """A numpy value as a Python one; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def tidy(value: Any) -> Any:
    """A native value, a whole float as an int (data frames write 3 as 3.0), text trimmed."""
    value = native(value)
    if isinstance(value, str):
        return value.strip()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def cell_text(value: Any) -> str | None:
    """The text of a cell, None where it is missing; whole numbers without a decimal point."""
    return None if is_missing(value) else str(tidy(value))


def json_value(value: Any) -> Any:
    """A cell as a JSON value; what JSON has no word for becomes text, a missing one None."""
    value = native(value)
    if is_missing(value) and not isinstance(value, str):
        return None
    known = isinstance(value, str | bool | int) or (isinstance(value, float) and np.isfinite(value))
    return value if known else str(value)


def is_whole(value: Any) -> bool:
    """A whole number, or the text of one as it is normally written (not 007)."""
    if isinstance(value, str):
        return re.fullmatch(r"0|-?[1-9]\d{0,17}", value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def ordered(values: Iterable[Any]) -> list[Any]:
    """The order of classes: numbers by their value, also where all are whole numbers written as text; then
    texts; then anything else by type and text."""
    values = list(values)
    if all(is_whole(value) for value in values):
        return sorted(values, key=lambda value: (int(value), isinstance(value, str)))
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=_rank)


def _rank(value: Any) -> tuple[int, Any, str]:
    if isinstance(value, int | float):
        return 0, value, ""
    return (1, 0, value) if isinstance(value, str) else (2, type(value).__name__, str(value))


def short(values: Iterable[Any], limit: int = 10, shown: Callable[[Any], str] = repr) -> str:
    """The first few values, and how many there are."""
    values = list(values)
    more = f", … {len(values)} in all" if len(values) > limit else ""
    return ", ".join(map(shown, values[:limit])) + more


def counted(n: int, noun: str) -> str:
    """1 row, 2 rows, 3 classes, 1,000 rows."""
    return f"{n:,} {noun if n == 1 else noun + ('es' if noun.endswith('s') else 's')}"


def unknown(name: Any, known: Iterable[Any], what: str) -> str:
    """The sentence for a name that is none of the known ones, with the nearest of them."""
    texts = [str(value) for value in known]
    near = difflib.get_close_matches(str(name), texts[:10_000], n=1)  # of a million half a minute goes by
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{name!r} is no known {what}; known are {short(texts)}.{hint}"


def first_where(bad: np.ndarray) -> list[list[int]]:
    """The place of the first entry that is true, none where there is none: `for i, k in first_where(bad)`."""
    return np.argwhere(bad)[:1].tolist()


def refuse_dates_and_complex(column: Any, name: str) -> None:
    """Numpy would take them for numbers: of dates it makes days, and of complex numbers it drops a part."""
    typed = isinstance(column, np.ndarray) and column.dtype != object
    cells = column[: column.dtype.kind in "mMc"] if typed else column
    for i, cell in enumerate(cells):
        if typed or (isinstance(cell, (*DATES, complex, np.complexfloating)) and not is_missing(cell)):
            advice = "\n  Give a number in place of a date, such as days since the first, or leave it out."
            what = f"the cell is {cell!s:.80}, not a number." + advice * (not np.iscomplexobj(cell))
            raise CellError(i, in_column(name)(i), what)


# ---- label cells ------------------------------------------------------------------------------


def cell_labels(cell: Any) -> list[Any]:
    """The labels of one cell: a list, a list written as text, or text with `|` between labels."""
    if isinstance(cell, COLLECTIONS):
        return list(cell)
    if is_missing(cell):
        return []
    if not isinstance(cell, str):
        return [cell]
    text = cell.strip()
    listed = _written_list(text) if text[0] + text[-1] in ("[]", "{}", "()") else None
    # equal labels of a million cells are one text
    return [sys.intern(label.strip()) for label in listed or text.split(SEPARATOR) if label.strip()]


def as_set(labels: Any) -> list[Any]:
    """The labels of a cell that was read: several, one alone, or none where it is missing."""
    if isinstance(labels, COLLECTIONS):
        return list(labels)
    return [] if is_missing(labels) else [labels]


def _written_list(text: str) -> list[str] | None:
    """The labels of a list as JSON or Python writes it; None where the text is a label in brackets."""
    try:
        # numbers stay as they are written, so that [1, 2] and 1|2 mean the same classes
        values = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        values = _python_list(text)
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return values or [""]
    if SEPARATOR in text:  # splitting [cat|dog] would leave a bracket at each label, but not [a]|[b]
        several = not {text[0], text[-1]} & set(text[1:-1])
    else:
        several = text[0] == "[" and re.search(r"[,'\"\s]", text) is not None
    if several or (text[0] == "[" and isinstance(values, list)) or (text[0] == "{" and '"' in text):
        raise ValueError(
            f'{text!r:.80} looks like a list but cannot be read.\n  Write ["cat", "dog"] or cat|dog.'
        )
    return None


def _python_list(text: str) -> list[str] | None:
    """What a data frame makes of lists when it writes CSV: ['cat', 'dog']."""
    if re.search(r"['\"]\s+['\"]", text) and _side_by_side(text):
        return None  # a numpy array as text: Python would read ['cat' 'dog'] as one label, catdog
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # of a backslash in a label
            values = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    listed = isinstance(values, list | tuple | set) and all(isinstance(v, str | int | float) for v in values)
    return [str(value) for value in values] if listed else None


def _side_by_side(text: str) -> bool:
    """Whether two quoted texts stand there without a comma between them."""
    try:
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
    except (tokenize.TokenError, SyntaxError):
        return True
    there = (kind for kind in kinds if kind != tokenize.NL)
    return any(kind == after == tokenize.STRING for kind, after in pairwise(there))


# ---- spellings ---------------------------------------------------------------------------------


def spelling_of(name: str) -> str:
    """What the spellings of a name have in common; quotes around it are none of it, nor what nobody sees.

    Neither is the .0 of a whole number: data frames write it in a column with gaps.
    """
    seen = UNSEEN.sub("", name).strip()
    text = re.sub(r"^(-?\d+)\.0$", r"\1", seen.strip(QUOTES) or name)
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("_", " ").split())


def by_spelling(names: Iterable[Any]) -> dict[str, str]:
    """The first of the names, where they are texts, with each spelling."""
    found: dict[str, str] = {}
    for name in names:
        if isinstance(name, str):
            found.setdefault(spelling_of(name), name)
    return found


def one_spelling(cells: Sequence[Any], known: Collection[Any] = ()) -> list[Any]:
    """Cells with a label or several, each label spelled as a known name is, or else as it is most often."""
    times = Counter(v for cell in cells for v in as_set(cell) if isinstance(v, str))
    names = {name for name in known if isinstance(name, str)}
    usual = by_spelling([*known, *(label for label, _ in times.most_common())])

    def spelled(label: Any) -> Any:
        return usual[spelling_of(label)] if isinstance(label, str) and label not in names else label

    made = []
    for cell in cells:
        if labels := [spelled(label) for label in as_set(cell)]:
            once = [v for k, v in enumerate(labels) if v not in labels[:k]]
            cell = tuple(once) if isinstance(cell, COLLECTIONS) else labels[0]
        made.append(cell)
    return made


def spelled_as(labels: np.ndarray, classes: Iterable[Any]) -> np.ndarray:
    """Labels in the spelling of these classes, where they are one of them; numbers stay as they are."""
    names = {name for name in classes if isinstance(name, str)}
    usual = {spelling: name for spelling, name in by_spelling(classes).items() if not is_whole(spelling)}
    made = labels.astype(object)
    made[:] = [usual.get(spelling_of(v), v) if isinstance(v, str) and v not in names else v for v in labels]
    return made
