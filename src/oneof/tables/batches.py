"""A table as batches of rows. Parquet and text files are never read whole; npz and npy files are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.table import Table, open_csv, read_table

MOST_ROWS = 32768
BATCH_BYTES = 32 << 20
SLICE = 3
"""Batches read from a Parquet file at once: a slice unpacks all of the pages it touches."""


def rows_per_batch(numbers_per_row: int) -> int:
    """How many rows to work on at once, so that a batch of double precision takes at most 32 MB."""
    return min(MOST_ROWS, max(256, BATCH_BYTES // (8 * max(1, numbers_per_row))))


def table_batches(
    path: str | Path, rows: int, columns: Collection[str] | None = None
) -> Iterator[tuple[int, Table]]:
    """Number of the first row, and a table of the next rows.

    Parameters
    ----------
    path : path
        CSV, TSV, Parquet, npz or npy file.
    rows : int
        Rows per batch.
    columns : names, optional
        Columns that are needed; others may be left out. Names that the file lacks are not an error here.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind == ".parquet" and path.is_file():
        yield from _parquet(path, rows, columns)
    elif kind in (".csv", ".tsv") and path.is_file():
        yield from _csv(path, rows)
    else:
        table = read_table(path)  # says what is wrong with other names
        for first in range(0, len(table), rows):
            part = {name: values[first : first + rows] for name, values in table.columns.items()}
            yield first, Table(path, part, table.classes)


def _parquet(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[tuple[int, Table]]:
    try:
        import polars
    except ImportError as error:
        raise DataError("reading Parquet needs polars: pip install 'oneof[tables]'.") from error
    try:
        frame = polars.scan_parquet(path)
        there = frame.collect_schema().names()
        # `wanted` is empty where the file has none of the columns: all are read then, for the error
        wanted = [name for name in there if columns is None or name in columns] or there
        total = frame.select(polars.len()).collect().item()
        if not total:
            raise DataError(f"{path} has no rows.")
        for start in range(0, total, SLICE * rows):
            # slices, not polars' own batches: those keep several row groups in memory when the net is
            # slower than the reader, and a row group has no limit
            part = frame.select(wanted).slice(start, SLICE * rows).collect()
            for first in range(0, len(part), rows):
                batch = part[first : first + rows]
                yield start + first, Table(path, {name: _column(batch[name]) for name in wanted})
    except polars.exceptions.PolarsError as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error


def _column(series: Any) -> Any:
    """Numbers as an array, with NaN for missing ones; everything else as a list."""
    plain = series.dtype.is_numeric() and not series.dtype.is_decimal()
    return series.to_numpy() if plain else series.to_list()


def _csv(path: Path, rows: int) -> Iterator[tuple[int, Table]]:
    first = 0
    with open_csv(path) as (header, cells):
        while lines := list(islice(cells, rows)):
            yield first, Table(path, {name: list(column) for name, column in zip(header, zip(*lines))})
            first += len(lines)
    if not first:
        raise DataError(f"{path} has no rows.")


def stacked(columns: list[Any]) -> np.ndarray | None:
    """(n, d): columns of finite numbers side by side; None where there is anything else among them.

    The quick way for large Parquet files; single precision stays single.
    """
    if not all(isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype.kind in "biuf" for v in columns):
        return None
    kind = np.result_type(np.float32, *{v.dtype for v in columns})
    made = np.empty((len(columns[0]), len(columns)), dtype=kind)
    # a block of rows at a time stays in the cache while it is filled column by column
    for start in range(0, len(made), 1024):
        block = made[start : start + 1024]
        for k, values in enumerate(columns):
            block[:, k] = values[start : start + 1024]
    return made if np.isfinite(made).all() else None
