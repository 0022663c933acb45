"""From tables to files of predictions, batch by batch: tables need not fit into memory.

A folder of tables goes to a Ray cluster, a call per table, each into a file of its own. One whose machine
went away is predicted again elsewhere, and one that has its file is not predicted twice: the same command
continues. Every machine reads, encodes and writes as for one table; Ray's own data sets have other rules.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.wishes import Wishes
from oneof.candidates.cells import short
from oneof.candidates.compact import restricted
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.prediction import allowed_mask
from oneof.classifier.scoring import sets_within
from oneof.tables.errors import DataError
from oneof.tables.files import write_text
from oneof.tables.reader import KINDS, rows_per_batch, table_batches
from oneof.tables.table import Table, stacked
from oneof.tables.text import TextForm
from oneof.tables.writers import WRITTEN, Predicted, writing
from oneof.training.cluster import Cluster
from oneof.training.run import digest_weights
from oneof.training.sources import ROWS_IN_CACHE, read_ahead


@dataclass
class Summary:
    """What was written."""

    rows: int = 0
    confidence: float = 0.0
    rejected: int = 0
    set_size: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    """Seconds in which the network had nothing to do because the next rows were not read yet."""

    def add(self, part: Predicted) -> None:
        n = len(part.best)
        share = n / (self.rows + n)
        self.confidence += share * (float(part.confidence.mean()) - self.confidence)
        if part.sets is not None:
            self.set_size += share * (float(part.sets.sum(axis=1).mean()) - self.set_size)
        self.rejected += int(part.rejected.sum())
        self.rows += n


def predict_file(
    model: PartialLabelClassifier,
    table: str | Path,
    out: str | Path,
    wishes: Wishes | None = None,
    progress: Callable[[int], None] | None = None,
    form: TextForm | None = None,
) -> Summary:
    """Predict every row of a table file and write the answers to another, in bounded memory.

    One thread reads the next rows while the network works on these.

    Parameters
    ----------
    model : PartialLabelClassifier
        A fitted model.
    table, out : paths
        CSV, TSV, Parquet, npz or npy file with the columns the model was trained on, or a folder of images;
        and a CSV, TSV or Parquet file that appears when it is whole.
    wishes : Wishes, optional
        What to write.
    progress : function, optional
        Called with the number of rows done so far.
    form : TextForm, optional
        Separator and encoding of a text file; default: found out.
    """
    wishes = wishes or Wishes()
    if Path(out).exists() and Path(out).resolve() == Path(table).resolve():
        raise DataError(f"{out} is the table itself; give another file for the predictions.")
    answer = _answering(model, wishes)
    summary = Summary()
    began = asked = time.perf_counter()
    with writing(Path(out)) as writer:
        for batch in read_ahead(_inputs(model, Path(table), wishes, form)):
            summary.waited += time.perf_counter() - asked
            part = answer(*batch)
            writer.write(part.columns(writer.text))
            summary.add(part)
            if progress is not None:
                progress(summary.rows)
            asked = time.perf_counter()
    summary.seconds = time.perf_counter() - began
    return summary


def _answering(model: PartialLabelClassifier, wishes: Wishes) -> Callable[..., Predicted]:
    """What to do with a batch; settings are looked at once, before anything is read."""
    if wishes.batch is not None and wishes.batch < 1:
        raise ValueError(f"batch is {wishes.batch}; give a number of rows, at least 1.")
    if wishes.reject_below is not None and not 0 <= wishes.reject_below <= 1:
        raise ValueError(f"reject_below is {wishes.reject_below!r}; give a probability such as 0.8.")
    taken = {"row", "label", "confidence", "set"} & set(wishes.keep)
    if taken:
        what = "cannot be kept: the predictions have one of that name."
        raise ValueError(f'the column "{min(taken)}" {what}')
    limit = None if wishes.coverage is None else model.set_limit(wishes.coverage, wishes.score)
    mask = allowed_mask(list(wishes.allowed), model.classes_, 1) if wishes.allowed else None

    def answer(first: int, x: np.ndarray, kept: dict[str, Any]) -> Predicted:
        raw = model.prepared_proba(x)
        p = raw if mask is None else restricted(raw, mask)
        confidence = p.max(axis=1)
        return Predicted(
            first,
            model.classes_,
            best=p.argmax(axis=1),
            confidence=confidence,
            rejected=confidence < (wishes.reject_below or 0),
            probabilities=p if wishes.probabilities else None,
            sets=None if limit is None else sets_within(raw, limit, wishes.score, mask),
            kept=kept,
        )

    return answer


IMAGES_AT_ONCE = 1024


def _images(
    model: PartialLabelClassifier, folder: Path, wishes: Wishes
) -> Iterator[tuple[int, np.ndarray, dict[str, Any]]]:
    """Images of a folder at the size the model knows; the names of the files are copied."""
    from oneof.tables.images import find_images, read_folder

    shape = model.input_shape_
    if model.scaling_ is None or model.scaling_.kind != "pixels" or shape[0] != 3 or shape[1] != shape[2]:
        raise DataError(
            f"{folder} is a folder, and this model was not trained on a folder of images; give a table."
        )
    if wishes.keep:
        raise DataError(f"{folder} is a folder of images: there is no column {wishes.keep[0]!r} to keep.")
    files, row = find_images(folder), 0
    for first in range(0, len(files), wishes.batch or IMAGES_AT_ONCE):
        part = read_folder(folder, shape[1], files[first : first + (wishes.batch or IMAGES_AT_ONCE)])
        for note in part.note():
            warnings.warn(f"{folder}: {note}", stacklevel=2)
        if len(part.images):
            yield row, part.images, {"file": list(part.ids)}
        row += len(part.images)
    if not row:
        raise DataError(f"{folder}: none of its {len(files)} images can be read.")


def _inputs(
    model: PartialLabelClassifier, path: Path, wishes: Wishes, form: TextForm | None = None
) -> Iterator[tuple[int, np.ndarray, dict[str, Any]]]:
    """First row, scaled features and copied columns of every batch; the work of the reading thread."""
    if path.is_dir():
        yield from _images(model, path, wishes)
        return
    encoder: Any = getattr(model, "encoder_", None)
    wanted = list(getattr(model, "feature_names_in_", []))
    needed: set[str] | None = None
    if encoder is not None:
        needed = {*encoder.column_names, *wishes.keep}
    elif wanted:
        needed = {*wanted, *(name.rpartition(".")[0] for name in wanted), *wishes.keep}
    rows = wishes.batch or rows_per_batch(max(math.prod(model.input_shape_), len(model.classes_)))
    for first, table in table_batches(path, rows, needed, form):
        with _naming_rows(first):
            kept = {name: table.column(name) for name in wishes.keep}
            if needed is None and kept:  # a model without names takes all columns that are left
                table = Table(path, {k: v for k, v in table.columns.items() if k not in kept}, table.classes)
            x = model_inputs(model, table)
        if x.ndim > 2:
            yield first, model.prepare(np.array(x)), kept  # torch warns of what it cannot write to
            continue
        scaled = np.empty(x.shape, dtype=np.float32)
        # rows are scaled in double precision, which is cheap as long as they stay in the cache
        for start in range(0, len(x), ROWS_IN_CACHE):
            with _naming_rows(first + start):
                scaled[start : start + ROWS_IN_CACHE] = model.prepare(x[start : start + ROWS_IN_CACHE])
        yield first, scaled, kept


@contextmanager
def _naming_rows(first: int) -> Iterator[None]:
    """Errors about a batch count its rows from 0: say where that is in the file."""
    try:
        yield
    except ValueError as error:
        where = f"\n  Rows are counted from row {first} of the file on." if first else ""
        raise DataError(f"{error}{where}") from error


def model_inputs(model: PartialLabelClassifier, table: Table) -> np.ndarray:
    """The features of a table that a model was trained on, in its order; or its one array of images."""
    if len(model.input_shape_) > 1:
        return model.as_fitted(_images_of(table, model.input_shape_))
    encoder: Any = getattr(model, "encoder_", None)
    wanted = list(getattr(model, "feature_names_in_", []))
    if encoder is None and wanted:
        return _by_name(table, wanted)
    x = encoder.transform(table) if encoder else stacked([v for name, v in table.columns.items() if name])
    if x is None:
        x, _ = table.features(advice="The model has no feature names: the table must hold only features.")
    if x.shape[1] != model.n_features_in_:
        raise DataError(
            f"{table.path} has {x.shape[1]} feature columns, the model was trained on "
            f"{model.n_features_in_} without names.\n  The table must hold these and nothing else."
        )
    return x


def _images_of(table: Table, shape: tuple[int, ...]) -> np.ndarray:
    found = [values for values in table.columns.values() if getattr(values, "ndim", 1) == len(shape) + 1]
    if len(found) != 1 or found[0].shape[1:] != shape:
        told = " and ".join(" x ".join(map(str, values.shape[1:])) for values in found) or "no images"
        raise DataError(
            f"{table.path} has {told}; the model was trained on images of {' x '.join(map(str, shape))}, "
            "and takes one array of them."
        )
    return found[0]


def _by_name(table: Table, wanted: list[str]) -> np.ndarray:
    if all(name in table.columns for name in wanted):
        x = stacked([table.columns[name] for name in wanted])
        if x is not None:
            return x
    # an npz file holds whole matrices; their columns carry the matrix' name and a number
    sources = {name: name if name in table.columns else name.rpartition(".")[0] for name in wanted}
    missing = [name for name in wanted if sources[name] not in table.columns]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f'{table.path} has no column "{missing[0]}"{others}, a feature the model was trained on.\n'
            f"  It has {short(table.columns, 20)}."
        )
    x, names = table.features(list(dict.fromkeys(sources.values())))
    if sorted(names) != sorted(wanted):
        different = sorted(set(names) ^ set(wanted))
        raise DataError(
            f"{table.path} has {len(names)} feature columns where the model was trained on {len(wanted)}; "
            f'"{different[0]}" is in one of them only.'
        )
    place = {name: k for k, name in enumerate(names)}
    return x[:, [place[name] for name in wanted]]


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
        calls = ((table, predict_file, shared, table, files[table], wishes, None, form) for table in left)
        for table, summary in cluster.results(calls):
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
