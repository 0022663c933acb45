"""Predictions as a file that grows batch by batch and has its name only when it is whole."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.files import replacing
from oneof.tables.table import SEPARATOR

PART_BYTES = 32 << 20


@dataclass
class Predicted:
    """What a model says about some consecutive rows of a table."""

    first: int
    classes: np.ndarray
    best: np.ndarray
    """(n,): column of the most probable class."""
    confidence: np.ndarray
    """(n,): its probability."""
    rejected: np.ndarray
    """(n,): where no class is given."""
    probabilities: np.ndarray | None = None
    sets: np.ndarray | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    """Columns of the table that are copied."""


class Writer(Protocol):
    def write(self, part: Predicted) -> None: ...

    def finish(self) -> None:
        """All parts are there: complete the file."""

    def close(self) -> None:
        """Let go of everything that was opened."""


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A writer by the ending of the name; the file is there when the block ends well."""
    kinds: dict[str, Callable[[Path], Writer]] = {
        ".csv": CsvWriter,
        ".tsv": CsvWriter,
        ".parquet": ParquetWriter,
    }
    made = kinds.get(path.suffix.lower())
    if made is None:
        raise DataError(f"{path} ends in {path.suffix!r}; predictions are written as {', '.join(kinds)}.")
    with replacing(path) as beside:
        writer = made(beside)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


class CsvWriter:
    """Text: probabilities with four digits, sets as `cat|dog`, an empty label where a row is rejected."""

    def __init__(self, path: Path) -> None:
        self.file = open(path, "w", newline="", encoding="utf-8")  # noqa: SIM115 (closed by `close`)
        self.writer = csv.writer(self.file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        self.started = False

    def write(self, part: Predicted) -> None:
        names = part.classes.tolist()
        columns: dict[str, Any] = dict(part.kept)
        columns["row"] = range(part.first, part.first + len(part.best))
        columns["label"] = [
            "" if no else names[k] for k, no in zip(part.best.tolist(), part.rejected.tolist())
        ]
        columns["confidence"] = _digits(part.confidence)
        if part.sets is not None:
            texts = np.array([str(name) for name in names], dtype=object)
            columns["set"] = [SEPARATOR.join(texts[row]) for row in part.sets]
        if part.probabilities is not None:
            for k, name in enumerate(names):
                columns[f"p({name})"] = _digits(part.probabilities[:, k])
        if not self.started:
            self.writer.writerow(columns)
            self.started = True
        self.writer.writerows(zip(*columns.values(), strict=True))

    def finish(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()


def _digits(values: np.ndarray) -> list[str]:
    return [f"{v:.4f}" for v in values.tolist()]


class ParquetWriter:
    """Single precision, sets as lists, a missing label where a row is rejected.

    Parts of about 32 MB are collected in a folder beside and joined at the end, one after the other.
    """

    def __init__(self, path: Path) -> None:
        try:
            import polars
        except ImportError as error:
            raise DataError("writing Parquet needs polars: pip install 'oneof[tables]'.") from error
        self.polars: Any = polars
        self.path = path
        self.folder = path.with_name(path.name + ".parts")
        self.folder.mkdir()
        self.parts: list[Path] = []
        self.waiting: list[Any] = []

    def write(self, part: Predicted) -> None:
        pl = self.polars
        names = part.classes.tolist()
        same = len({type(name) for name in names}) == 1
        labels = pl.Series(names if same else list(map(str, names)))
        columns: dict[str, Any] = dict(part.kept)
        columns["row"] = np.arange(part.first, part.first + len(part.best))
        given = pl.Series(~part.rejected)
        columns["label"] = pl.select(pl.when(given).then(labels.gather(part.best))).to_series()
        columns["confidence"] = part.confidence.astype(np.float32)
        if part.sets is not None:
            rows, members = np.nonzero(part.sets)
            flat = pl.DataFrame({"row": rows, "member": labels.gather(members)})
            columns["set"] = flat.group_by("row", maintain_order=True).agg("member")["member"]
        if part.probabilities is not None:
            for k, name in enumerate(names):
                columns[f"p({name})"] = part.probabilities[:, k].astype(np.float32)
        self.waiting.append(pl.DataFrame(columns))
        if sum(frame.estimated_size() for frame in self.waiting) > PART_BYTES:
            self._flush()

    def _flush(self) -> None:
        self.parts.append(self.folder / f"{len(self.parts):06}.parquet")
        self.polars.concat(self.waiting).write_parquet(self.parts[-1], compression="lz4")
        self.waiting = []

    def finish(self) -> None:
        if self.waiting:
            self._flush()
        self.polars.scan_parquet(self.parts).sink_parquet(self.path, compression="lz4")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
