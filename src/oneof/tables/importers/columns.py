"""Finding the columns and arrays an import needs in whatever file they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates.cells import short
from oneof.tables.errors import DataError
from oneof.tables.importers import CellError
from oneof.tables.importers.text import read_csv, read_json, read_jsonl, read_lines
from oneof.tables.table import cell_labels, read_table

TABLES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson", ".json")
ARRAYS = (".npy", ".npz", ".csv", ".tsv", ".parquet")

# what columns are usually called; earlier names win
TASK = ("task", "task_id", "item", "item_id", "id", "example", "unit", "question", "row", "image", "file")
WORKER = (
    "worker",
    "worker_id",
    "annotator",
    "annotator_id",
    "rater",
    "user",
    "user_id",
    "labeler",
    "performer",
)
LABEL = (
    "label",
    "labels",
    "answer",
    "answers",
    "candidates",
    "choice",
    "class",
    "response",
    "responses",
    "vote",
)
ID = ("id", "task", "task_id", "item", "item_id", "image", "file", "filename", "name")


def read_columns(path: Path, header: bool = True) -> dict[str, Any]:
    """The columns of a table by name: CSV, TSV, Parquet, JSONL, or a JSON list of objects."""
    ending = _checked_ending(path, TABLES, "a table")
    if ending in (".csv", ".tsv"):
        return read_csv(path, header)
    if ending == ".parquet":
        return read_table(path).columns
    if ending != ".json":
        return read_jsonl(path)
    records = _objects(path)
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def column(columns: dict[str, Any], given: str | None, guesses: Sequence[str], path: Path) -> str | None:
    """The name of a column: the one that was given, or the first of the usual names that is there."""
    if given is not None:
        if given not in columns:
            raise DataError(f'{path} has no column "{given}"; it has {listed(columns)}.')
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
            f"{path}: which column holds the {option}? It has {listed(columns)}.\n  Name it with --{option}."
        )
    return found


def listed(columns: Iterable[str]) -> str:
    names = list(columns)
    hint = ""
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        hint = " (cells are separated by commas in .csv and by tabs in .tsv files)"
    return f"the columns {short(names, 20)}{hint}"


def cells_as_labels(values: Sequence[Any], name: str) -> list[Any]:
    """Cells of a table: text such as cat|dog is several labels. Each distinct text is read once."""
    known: dict[str, Any] = {}
    made = []
    for i, cell in enumerate(values):
        if not isinstance(cell, str):
            made.append(cell)
            continue
        if cell not in known:
            try:
                labels = cell_labels(cell)
            except ValueError as error:
                raise CellError(i, f'row {i}, column "{name}"', str(error)) from None
            known[cell] = tuple(labels) if len(labels) > 1 else labels[0] if labels else None
        made.append(known[cell])
    return made


# ---- arrays -----------------------------------------------------------------------------------


def read_matrix(
    path: Path, *, array: str | None = None, header: bool = True, id_column: str | None = None
) -> tuple[np.ndarray, list[str] | None, list[Any] | None]:
    """An array, the names of its columns and the ids of its rows, where the file has them."""
    ending = _checked_ending(path, ARRAYS, "a matrix")
    if ending in (".npy", ".npz"):
        return _stored_array(path, array)
    columns = read_columns(path, header)
    found = column(columns, id_column, ("id",), path)  # other usual names may well be classes
    ids = columns.pop(found) if found is not None else None
    if not columns:
        raise DataError(f"{path} has no column besides the ids in {found!r}.")
    parts = [_numbers(values, name, path) for name, values in columns.items()]
    return np.stack(parts, axis=1), list(columns) if header else None, ids


def _numbers(values: Any, name: str, path: Path) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        for i, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError):
                what = "empty" if value is None or value == "" else f"{value!r:.80}, not a number"
                raise CellError(i, f'row {i}, column "{name}"', f"the cell is {what}.") from None
        raise


def _stored_array(path: Path, wanted: str | None) -> tuple[np.ndarray, list[str] | None, None]:
    classes = None
    try:
        stored = np.load(path, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            return stored, None, None
        with stored:
            names = [name for name in stored.files if name != "classes"]
            if (wanted is None and len(names) != 1) or (wanted is not None and wanted not in names):
                what = "which array (--array)?" if wanted is None else f"there is no array {wanted!r}."
                raise DataError(f"{path}: {what} It has {short(names)}.")
            if "classes" in stored.files:
                classes = stored["classes"].ravel().tolist()
            return stored[wanted or names[0]], classes, None
    except DataError:
        raise
    except Exception as error:  # damaged archives raise whatever the reader trips over
        raise DataError(f"{path}: not a readable array without pickles ({error}).") from None


# ---- lists of names ---------------------------------------------------------------------------


def names_of(given: Sequence[str], what: str) -> list[Any]:
    """Names as given, or those of a file: one per line, a JSON list, .npy, or a column of a table."""
    if len(given) != 1 or not Path(given[0]).is_file():
        if len(given) == 1 and Path(given[0]).suffix.lower() in (*TABLES, *ARRAYS, ".txt"):
            raise DataError(f"there is no file {given[0]} with {what}.")
        return list(given)
    path = Path(given[0])
    ending = path.suffix.lower()
    if ending == ".json":
        names = read_json(path)
        if not isinstance(names, list):
            raise DataError(f"{path}: {what} are a JSON list, not {names!r:.80}.")
        return names
    if ending == ".npy":
        return _stored_array(path, None)[0].ravel().tolist()
    if ending in TABLES:
        columns = read_columns(path)
        name = column(columns, None, ID, path) if len(columns) > 1 else next(iter(columns))
        if name is None:
            raise DataError(f'{path}: which column holds the {what}? Call it "id"; it has {listed(columns)}.')
        return list(columns[name])
    return read_lines(path)


def _objects(path: Path) -> list[dict[str, Any]]:
    records = read_json(path)
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise DataError(f"{path}: a JSON table is a list of objects, with at least one.")
    return records


def _checked_ending(path: Path, endings: Sequence[str], what: str) -> str:
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    if path.suffix.lower() not in endings:
        raise DataError(f"{path} ends in {path.suffix!r}; {what} is one of {', '.join(endings)}.")
    return path.suffix.lower()
