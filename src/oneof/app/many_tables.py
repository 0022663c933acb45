"""Predictions for a folder of tables on a Ray cluster: a call per table, each into a file of its own.

A table whose machine went away is predicted again elsewhere, and one that has its file is not predicted
twice: the same command continues. Ray's own data sets would read the columns by rules of their own; here
every machine reads, encodes and writes as `oneof predict` does for one table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneof.app.streaming import Summary, predict_file
from oneof.app.wishes import Wishes
from oneof.candidates.cells import short
from oneof.tables.errors import DataError
from oneof.tables.files import write_text
from oneof.tables.reader import KINDS
from oneof.tables.text import TextForm
from oneof.tables.writers import WRITTEN
from oneof.training.cluster import Cluster
from oneof.training.run import digest_weights

if TYPE_CHECKING:
    from oneof.classifier.estimator import PartialLabelClassifier

MADE_BY = "made-by.json"


def predict_tables(
    model: PartialLabelClassifier,
    folder: Path,
    out: Path,
    address: str = "auto",
    wishes: Wishes | None = None,
    form: TextForm | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Predict every table of a folder; the number of rows in all that were predicted by this call.

    Tables, wishes and form are those of `predict_file`, the address that of `Cluster`. Every machine must see
    both folders. `progress` is called with the numbers of tables that are done and there.
    """
    wishes, form = wishes or Wishes(), form or TextForm()
    tables = sorted(path for path in folder.iterdir() if path.suffix.lower() in KINDS and path.is_file())
    if not tables:
        raise DataError(f"{folder} holds no table: none of its files ends in {', '.join(KINDS)}.")
    endings = {table: table.suffix if table.suffix.lower() in WRITTEN else ".csv" for table in tables}
    files = {table: out / f"{table.stem}{ending}" for table, ending in endings.items()}
    twice = [table.name for table in tables if list(files.values()).count(files[table]) > 1]
    if twice:
        raise DataError(f"{short(twice)} in {folder} would be written to one file; give them other names.")
    _claim(out, model, wishes)
    left = [table for table in tables if not files[table].exists()]
    rows, done = 0, len(tables) - len(left)
    with Cluster(address) as cluster:
        shared = cluster.share(model)
        while left or cluster.waiting:
            while left and not cluster.full:
                table = left.pop(0)
                cluster.call(table, predict_file, shared, table, files[table], wishes, None, form)
            for table, summary in cluster.ready():
                if not isinstance(summary, Summary):
                    raise DataError(f"{table} was not predicted: {summary}")
                rows, done = rows + summary.rows, done + 1
                if progress is not None:
                    progress(done, len(tables))
    return rows


def _claim(out: Path, model: PartialLabelClassifier, wishes: Wishes) -> None:
    """A folder holds the predictions of one model and one wish, whenever they are made."""
    facts: dict[str, Any] = {"weights": [digest_weights(net) for net in model.net_], "wishes": repr(wishes)}
    note = out / MADE_BY
    if note.exists():
        if json.loads(note.read_text(encoding="utf-8")) != facts:
            raise DataError(f"{out} holds predictions of another model, or other wishes; give another --out.")
    elif out.exists() and any(out.iterdir()):
        raise DataError(f"{out} is there already and holds other files; give another --out.")
    else:
        out.mkdir(parents=True, exist_ok=True)
        write_text(note, json.dumps(facts, indent=1) + "\n")
