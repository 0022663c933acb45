"""Tables with a candidate column: CSV, Parquet and npz, read into plain columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.data.errors import DataError

SEPARATOR = "|"


@dataclass
class Table:
    """Columns by name. A column is a 1-D array or list; an npz file may hold 2-D ones too."""

    path: Path
    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> Any:
        if name not in self.columns:
            raise DataError(
                f'there is no column "{name}" in {self.path}; it has {", ".join(map(repr, self.columns))}.'
            )
        return self.columns[name]

    def candidates(self, name: str, classes: list[Any] | None = None) -> Candidates:
        """A column of candidate sets: lists, or text such as `cat|dog`; in an npz file a mask (n, c)."""
        values = self.column(name)
        source = f'column "{name}" of {self.path.name}, row'
        if isinstance(values, np.ndarray) and values.ndim == 2:
            names = classes or (list(self.columns["classes"]) if "classes" in self.columns else None)
            return Candidates.from_mask(values, names, source=source)
        return Candidates.from_sets([cell_labels(v) for v in values], classes, source=source)

    def labels(self, name: str) -> np.ndarray:
        """A column of labels, None where a cell is empty."""
        cells = [None if is_empty(v) else v.strip() if isinstance(v, str) else v for v in self.column(name)]
        return np.array(cells, dtype=object)

    def features(
        self, wanted: list[str] | None = None, without: Collection[str] = ()
    ) -> tuple[np.ndarray, list[str]]:
        """The numeric columns as (n, d), and their names. Text in a feature column is an error."""
        names = wanted or [name for name in self.columns if name not in without]
        parts, titles = [], []
        for name in names:
            values = self.column(name)
            if isinstance(values, np.ndarray) and values.ndim >= 2:
                parts.append(np.asarray(values, dtype=np.float32).reshape(len(values), -1))
                titles += [f"{name}.{k}" for k in range(parts[-1].shape[1])]
                continue
            parts.append(self._numbers(name, values)[:, None])
            titles.append(name)
        if not parts:
            raise DataError(f"{self.path} has no feature column left.")
        return np.hstack(parts), titles

    def _numbers(self, name: str, values: Any) -> np.ndarray:
        try:
            return np.array([np.nan if is_empty(v) else v for v in values], dtype=np.float32)
        except (TypeError, ValueError):
            i = next(i for i, value in enumerate(values) if not (is_empty(value) or _is_number(value)))
            raise DataError(
                f'row {i} of column "{name}" in {self.path} is {values[i]!r}, not a number.\n'
                f"  Leave the column out with --ignore {name}, or name the features with --features."
            ) from None


def _is_number(value: Any) -> bool:
    try:
        np.float32(value)
    except (TypeError, ValueError):
        return False
    return True


def read_table(path: str | Path) -> Table:
    """Read a table by its ending."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    readers = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} ends in {path.suffix!r}; a table is one of {', '.join(readers)}.")
    table = Table(path, reader(path))
    if not len(table):
        raise DataError(f"{path} has no rows.")
    return table


def _read_csv(path: Path) -> dict[str, Any]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            header = next(rows, None)
            if header is None:
                raise DataError(f"{path} is empty.")
            columns: dict[str, list[str]] = {name: [] for name in header}
            if len(columns) != len(header):
                twice = next(name for name in header if header.count(name) > 1)
                raise DataError(f'{path} has two columns called "{twice}".')
            for i, row in enumerate(rows):
                if len(row) != len(header):
                    raise DataError(f"row {i} of {path} has {len(row)} cells, the header has {len(header)}.")
                for name, cell in zip(header, row):
                    columns[name].append(cell)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error}.") from error
    return dict(columns)


def _read_parquet(path: Path) -> dict[str, Any]:
    try:
        import polars
    except ImportError as error:
        raise DataError("reading Parquet needs polars: pip install 'oneof[tables]'.") from error
    try:
        frame = polars.read_parquet(path)
    except Exception as error:  # polars has no common base for what a broken file can raise
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    return {name: frame[name].to_list() for name in frame.columns}


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError) as error:
        raise DataError(f"{path} is not a readable npz file without pickles: {error}") from error


def is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip()) or cell != cell


def cell_labels(cell: Any) -> list[Any]:
    """The labels of one cell: a list, a JSON list, or text with `|` between labels."""
    if isinstance(cell, list | tuple | set | np.ndarray):
        return list(cell)
    if is_empty(cell):
        return []
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            try:
                return list(json.loads(text))
            except ValueError:
                pass
        return [part.strip() for part in text.split(SEPARATOR) if part.strip()]
    return [cell]


def write_csv(path: Path, columns: dict[str, Any]) -> None:
    """Write columns of equal length, whole or not at all."""
    from oneof.data.files import replacing

    with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
