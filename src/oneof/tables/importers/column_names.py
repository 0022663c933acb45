"""What columns are usually called, and which of them is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oneof.candidates.cells import cell_text, short
from oneof.tables.errors import DataError
from oneof.tables.table import ID_NAME

# earlier names win
TASK = ("task", "task_id", "item", "item_id", "id", "example", "unit", "question", "row", "image", "file")
PEOPLE = ("worker", "worker_id", "annotator", "annotator_id", "rater")
WORKER = (*PEOPLE, "user", "user_id", "labeler", "performer")
SAID = ("label", "labels", "answer", "answers", "candidates")
LABEL = (*SAID, "choice", "class", "response", "responses", "vote")
TRUTH = ("truth", "true_label", "true_class", "clean", *SAID, "class", "y")
ID = ("id", "task", "task_id", "item", "item_id", "image", "file", "filename", "file_name", "path", "name")


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


def ids_of(
    columns: dict[str, Any], given: str | None, guesses: Sequence[str], path: Path
) -> list[Any] | None:
    """The ids of the rows, taken out of the columns; None where no column has them."""
    name = column(columns, given, guesses, path)
    if name is None and guesses is ID:  # such as tree_id, where it is no annotator's
        other = (title for title in columns if ID_NAME.fullmatch(title.strip()))
        name = next((n for n in other if len(set(map(cell_text, columns[n]))) == len(columns[n])), None)
    ids = None if name is None else list(columns.pop(name))
    for cell, times in Counter(map(cell_text, ids or ())).items():
        if times > 1:
            raise DataError(
                f'{path}: {times} rows have {cell!r} in column "{name}"; ids name one row each.\n'
                "  Name another column with --id, or rename this one if it holds no ids. A file with a line "
                "per answer is --format crowd."
            )
    return ids
