"""Annotations as a Parquet table: one line per row, readable by any tool that knows Parquet.

    id          text or whole numbers, where the rows have names
    candidates  list of class names
    truth       name of the true class, empty where unknown; only where truth is known at all
    answers     list of {worker, label}; only where the answers are known

Class names, provenance and the hash of the sets lie in the metadata of the file, as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import UNKNOWN, Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.tables.errors import DataError
from oneof.tables.files import replacing

_KEY = "oneof"


def write(annotations: Annotations, facts: str, path: Path) -> None:
    """Write the table beside `path` and rename it; `facts` is the JSON for its metadata."""
    polars = _polars()
    candidates, answers, ids = annotations.candidates, annotations.answers, annotations.ids
    names = _column_names(candidates.classes, path)
    columns: dict[str, Any] = {}
    if ids is not None:
        if len({isinstance(name, str) for name in ids}) > 1:
            raise DataError(f"cannot save {path.name}: some ids are text and some numbers; save as .npz.")
        columns["id"] = polars.Series("id", list(ids))
    row, column = np.nonzero(candidates.mask)
    columns["candidates"] = _lists(polars, "candidates", names.gather(column), row, len(candidates))
    if candidates.truth is not None:
        places = [None if k == UNKNOWN else k for k in candidates.truth.tolist()]
        columns["truth"] = names.gather(polars.Series(places, dtype=polars.UInt32))
    more = {}
    if answers is not None:
        worker = polars.Series("worker", list(answers.workers), dtype=polars.String).gather(answers.worker)
        said = polars.DataFrame({"worker": worker, "label": names.gather(answers.label)}).to_struct("answers")
        columns["answers"] = _lists(polars, "answers", said, answers.row, len(candidates))
        more = {"workers": list(answers.workers), "named": answers.named}
    metadata = {_KEY: json.dumps({**json.loads(facts), **more})}
    with replacing(path) as beside:
        try:
            polars.DataFrame(columns).write_parquet(beside, metadata=metadata)
        except TypeError as error:  # the first versions had no place for metadata
            raise DataError("writing annotations as Parquet needs a newer polars; save as .npz.") from error


def read(path: Path) -> tuple[Annotations, dict[str, Any]]:
    """The annotations, and the facts of the metadata."""
    polars = _polars()
    try:
        metadata, frame = polars.read_parquet_metadata(path), polars.read_parquet(path)
    except Exception as error:  # a broken file raises whatever the parser trips over
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    try:
        return _from_frame(frame, metadata, path)
    except polars.exceptions.PolarsError as error:
        raise DataError(f"{path}: not a file of candidates ({error}).") from None


def _from_frame(frame: Any, metadata: dict[str, str], path: Path) -> tuple[Annotations, dict[str, Any]]:
    if _KEY not in metadata or "candidates" not in frame.columns:
        raise DataError(
            f"{path}: not a file of candidates; write it with save_annotations, or make one from a table "
            "with `oneof candidates import`."
        )
    facts = json.loads(metadata[_KEY])
    classes = tuple(facts["classes"])
    column = {name: k for k, name in enumerate(_column_names(classes, path).to_list())}
    row, labels = _flat(frame["candidates"])
    mask = np.zeros((len(frame), len(classes)), dtype=bool)
    mask[row, [column[name] for name in labels.to_list()]] = True
    truth = None
    if "truth" in frame.columns:
        known = frame["truth"].to_list()
        truth = np.array([UNKNOWN if name is None else column[name] for name in known], dtype=np.int64)
    made = Candidates(
        mask, classes, truth, facts["truth_may_be_outside"], facts["provenance"], source=path.name
    )
    ids = tuple(frame["id"].to_list()) if "id" in frame.columns else None
    answers = None
    if "answers" in frame.columns:
        row, said = _flat(frame["answers"])
        number = {name: k for k, name in enumerate(facts["workers"])}
        worker = [number[name] for name in said.struct.field("worker").to_list()]
        label = [column[name] for name in said.struct.field("label").to_list()]
        names = tuple(facts["workers"])
        answers = Answers(row, np.array(worker, dtype=int), np.array(label, dtype=int), names, facts["named"])
    return Annotations(made, ids, answers), facts


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise DataError("Parquet files need polars: pip install 'oneof[tables]'; or use .npz.") from error
    return polars


def _column_names(classes: tuple[Any, ...], path: Path) -> Any:
    """The classes as one column of one type: whole numbers stay numbers, all else is text."""
    polars = _polars()
    if all(isinstance(name, int) and not isinstance(name, bool) and abs(name) < 2**63 for name in classes):
        return polars.Series("label", list(classes), dtype=polars.Int64)
    texts = [str(name) for name in classes]
    if len(set(texts)) < len(texts):
        raise DataError(f"cannot save {path.name}: two classes have the same text, {classes}; save as .npz.")
    return polars.Series("label", texts, dtype=polars.String)


def _lists(polars: Any, name: str, values: Any, row: np.ndarray, n: int) -> Any:
    """A column of lists: the values of row 0, of row 1, ...; `row` is sorted and may skip rows."""
    grouped = (
        polars.DataFrame({"row": row.astype(np.int64), name: values})
        .group_by("row", maintain_order=True)
        .agg(polars.col(name))
    )
    rows = polars.DataFrame({"row": np.arange(n, dtype=np.int64)})
    return rows.join(grouped, on="row", how="left", maintain_order="left")[name]


def _flat(lists: Any) -> tuple[np.ndarray, Any]:
    """The values of a column of lists one below the other, and the row of each."""
    sizes = lists.list.len().fill_null(0).to_numpy()
    filled = lists.filter(lists.list.len() > 0)
    return np.repeat(np.arange(len(lists)), sizes), filled.explode()
