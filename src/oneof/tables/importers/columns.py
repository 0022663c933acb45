"""Finding the columns and arrays an import needs in whatever file they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates.cells import CellError, ordered, short
from oneof.candidates.questions import scores_of
from oneof.tables.errors import DataError
from oneof.tables.reader import KINDS, read_json, read_lines, read_table
from oneof.tables.table import numbers_of
from oneof.tables.text import TextForm
from oneof.tables.unpacking import refuse_bomb, stored_arrays

# what columns are usually called; earlier names win
TASK = ("task", "task_id", "item", "item_id", "id", "example", "unit", "question", "row", "image", "file")
PEOPLE = ("worker", "worker_id", "annotator", "annotator_id", "rater")
WORKER = (*PEOPLE, "user", "user_id", "labeler", "performer")
SAID = ("label", "labels", "answer", "answers", "candidates")
LABEL = (*SAID, "choice", "class", "response", "responses", "vote")
ID = ("id", "task", "task_id", "item", "item_id", "image", "file", "filename", "name")


def column(columns: dict[str, Any], given: str | None, guesses: Sequence[str], path: Path) -> str | None:
    """The name of a column: the one that was given, or the first of the usual names that is there."""
    if given is not None:
        if given not in columns:
            raise DataError(f'{path} has no column "{given}"; it has the columns {short(columns, 20)}.')
        return given
    by_form = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in reversed(columns)}
    return next((by_form[guess] for guess in guesses if guess in by_form), None)


def needed(
    columns: dict[str, Any], given: str | None, guesses: Sequence[str], option: str, path: Path
) -> str:
    """Like `column`, but it must be there."""
    found = column(columns, given, guesses, path)
    if found is None:
        raise DataError(
            f"{path}: which column holds the {option}? It has the columns {short(columns, 20)}.\n"
            f"  Name it with --{option}."
        )
    return found


def read_matrix(
    path: Path, *, array: str | None = None, form: TextForm | None = None, id_column: str | None = None
) -> tuple[np.ndarray, list[Any] | None, list[Any] | None]:
    """An array, the names of its columns and the ids of its rows, where the file has them."""
    if path.suffix.lower() in (".npy", ".npz"):
        arrays = stored_arrays(path)
        classes = arrays.pop("classes", None)
        if (array is None and len(arrays) != 1) or (array is not None and array not in arrays):
            what = "which array (--array)?" if array is None else f"there is no array {array!r}."
            raise DataError(f"{path}: {what} It has {short(arrays)}.")
        found = arrays[array or next(iter(arrays))]
        return found, None if classes is None else classes.ravel().tolist(), None
    columns = read_table(path, form).columns
    name = column(columns, id_column, ("id",), path)  # other usual names may well be classes
    ids = None if name is None else list(columns.pop(name))
    if not columns:
        raise DataError(f"{path} has no column besides the ids in {name!r}.")
    by_class = next((cells for cells in columns.values() if scores_of(cells[0]) is not None), None)
    if by_class is not None:
        return *_score_matrix(by_class, path), ids
    parts = [numbers_of(cells, title) for title, cells in columns.items()]
    if any(part.ndim > 1 for part in parts):
        raise DataError(f"{path} has lists in its cells; a matrix has one number in each.")
    return np.stack(parts, axis=1), list(columns) if form is None or form.header else None, ids


def _score_matrix(cells: Sequence[Any], path: Path) -> tuple[np.ndarray, list[Any]]:
    """Scores that every row names by class; a class that a row leaves out has none, 0."""
    rows = [scores_of(cell) for cell in cells]
    for i, (cell, row) in enumerate(zip(cells, rows)):
        if row is None or min(row.values()) < 0:
            raise CellError(i, f"row {i}", f"{cell!r:.80} are no scores by class, numbers of at least 0.")
    classes = ordered({name for row in rows for name in row or ()})
    refuse_bomb(path, 8 * len(rows) * len(classes))
    column = {name: k for k, name in enumerate(classes)}
    made = np.zeros((len(rows), len(classes)))
    for i, row in enumerate(rows):
        for name, score in (row or {}).items():
            made[i, column[name]] = score
    return made, classes


def names_of(given: Sequence[str], what: str) -> list[Any]:
    """Names as given, or those of a file: one per line, a JSON list, .npy, or a column of a table."""
    path = Path(given[0]) if len(given) == 1 else None
    if path is None or not path.is_file():
        if path is not None and path.suffix.lower() in (*KINDS, ".txt"):
            raise DataError(f"there is no file {path} with {what}.")
        return list(given)
    ending = path.suffix.lower()
    if ending == ".json":
        names = read_json(path)
        if not isinstance(names, list):
            raise DataError(f"{path}: {what} are a JSON list, not {names!r:.80}.")
        return names
    if ending == ".npy":
        return read_matrix(path)[0].ravel().tolist()
    if ending not in KINDS:
        return read_lines(path)
    columns = read_table(path).columns
    name = column(columns, None, ID, path) if len(columns) > 1 else next(iter(columns))
    if name is None:
        raise DataError(
            f'{path}: which column holds the {what}? Call it "id"; it has the columns {short(columns, 20)}.'
        )
    return list(columns[name])
