"""The one writer of rows: CSV, TSV and Parquet files that grow by batches and appear when they are whole."""

from __future__ import annotations

import csv
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates.cells import SEPARATOR
from oneof.tables.errors import DataError
from oneof.tables.files import HALF_CHARACTERS, replacing
from oneof.tables.unpacking import needs_polars

PART_BYTES = 32 << 20
WRITTEN = (".csv", ".tsv", ".parquet")
STARTS = frozenset("=@+-\t\r")
FORMULA = re.compile(r"[=@\t\r]|[+-].*[(|!]", re.DOTALL)
"""Cells that are computed by a spreadsheet; -1.5 and -cat are none."""


@contextmanager
def writing(path: Path | str) -> Iterator[CsvWriter | ParquetWriter]:
    """A writer by the ending of the name; the file is there when the block ends well."""
    path = Path(path)
    if path.suffix.lower() not in WRITTEN:
        raise DataError(f"{path} ends in {path.suffix!r}; rows are written as {', '.join(WRITTEN)}.")
    with replacing(path) as beside:
        writer = ParquetWriter(beside) if path.suffix.lower() == ".parquet" else CsvWriter(beside)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()
    if isinstance(writer, CsvWriter) and writer.formula is not None:
        warnings.warn(
            f"{path} has cells that begin like a formula, such as {writer.formula!r:.60}: a spreadsheet "
            "would compute them. Do not open it there by a click; import it with all columns as text.",
            stacklevel=3,
        )


def write_lines(path: Path | str, lines: Sequence[Mapping[str, Any]]) -> None:
    """A whole table from its lines, which all have the same columns; at least one."""
    with writing(path) as writer:
        writer.write({name: [line[name] for line in lines] for name in lines[0]})


class CsvWriter:
    """Rows as text, one line each."""

    text = True

    def __init__(self, path: Path) -> None:
        self.file = open(  # noqa: SIM115 (closed by `close`)
            path, "w", newline="", encoding="utf-8", errors=HALF_CHARACTERS
        )
        self.writer = csv.writer(self.file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        self.started = False
        self.formula: str | None = None
        """The first cell that a spreadsheet would compute instead of showing it."""

    def write(self, columns: dict[str, Any]) -> None:
        """Append rows: columns of equal length, always the same ones."""
        if not self.started:
            self.writer.writerow(columns)
            self.started = True
        for cells in (columns, *columns.values()) if self.formula is None else ():
            odd = (c for c in cells if isinstance(c, str) and c[:1] in STARTS and FORMULA.match(c))
            self.formula = self.formula or next(odd, None)
        # numpy's text of a vector has no commas, and "..." in its middle from a thousand numbers on
        plain = (v.tolist() if getattr(v, "ndim", 1) > 1 else v for v in columns.values())
        self.writer.writerows(zip(*plain, strict=True))

    def finish(self) -> None:
        self.file.flush()

    def close(self) -> None:
        self.file.close()


class ParquetWriter:
    """Parts of about 32 MB are collected in a folder beside and joined at the end, one after the other."""

    text = False

    def __init__(self, path: Path) -> None:
        self.polars = needs_polars()
        self.path = path
        self.folder = path.with_name(path.name + ".parts")
        self.folder.mkdir()
        self.parts: list[Path] = []
        self.waiting: list[Any] = []

    def write(self, columns: dict[str, Any]) -> None:
        """Append rows: columns of equal length, always the same ones. Of a column that is empty at first, or
        holds numbers and then texts, the type shows late: it is one that all values fit."""
        self.waiting.append(self.polars.DataFrame(columns, strict=False))
        if sum(frame.estimated_size() for frame in self.waiting) > PART_BYTES:
            self._flush()

    def _flush(self) -> None:
        self.parts.append(self.folder / f"{len(self.parts):06}.parquet")
        self._joined(self.waiting).write_parquet(self.parts[-1], compression="lz4")
        self.waiting = []

    def finish(self) -> None:
        if self.waiting:
            self._flush()
        parts = [self.polars.scan_parquet(part) for part in self.parts]
        self._joined(parts).sink_parquet(self.path, compression="lz4")

    def _joined(self, frames: list[Any]) -> Any:
        return self.polars.concat(frames, how="vertical_relaxed")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


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

    def columns(self, text: bool) -> dict[str, Any]:
        """As text: four digits, sets as `cat|dog`, an empty label where a row is rejected. Else single
        precision, sets as lists, a missing label."""
        names = self.classes.tolist()
        number: Any = _digits if text else np.float32
        made = {**self.kept, "row": np.arange(self.first, self.first + len(self.best))}
        if text:
            made["label"] = ["" if no else names[k] for k, no in zip(self.best, self.rejected)]
        else:
            polars = needs_polars()
            labels = polars.Series(names if len(set(map(type, names))) == 1 else list(map(str, names)))
            given = polars.when(polars.Series(~self.rejected)).then(labels.gather(self.best))
            made["label"] = polars.select(given).to_series()
        made["confidence"] = number(self.confidence)
        if self.sets is not None and text:
            texts = np.array([str(name) for name in names], dtype=object)
            made["set"] = [SEPARATOR.join(texts[row]) for row in self.sets]
        elif self.sets is not None:
            rows, members = np.nonzero(self.sets)
            flat = polars.DataFrame({"row": rows, "member": labels.gather(members)})
            made["set"] = flat.group_by("row", maintain_order=True).agg("member")["member"]
        if self.probabilities is not None:
            titles = [f"p({name})" for name in names]
            for title in made.keys() & set(titles):
                what = "cannot be kept: the predictions have one of that name."
                raise DataError(f'the column "{title}" {what}')
            made |= {title: number(self.probabilities[:, k]) for k, title in enumerate(titles)}
        return made


def _digits(values: np.ndarray) -> list[str]:
    return [f"{v:.4f}" for v in values.tolist()]
