"""The one reader of files of rows: CSV, TSV, JSON lines, Parquet, npz and npy, batch by batch or whole.

Text and Parquet files are never read whole by `table_batches`; npz, npy and JSON files are. Each failure is
a `DataError` that says the file and, where there is one, the line.
"""

from __future__ import annotations

import csv
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.table import Table

MOST_ROWS = 32768
BATCH_BYTES = 32 << 20
SLICE = 3
"""Batches read from a Parquet file at once: a slice unpacks all of the pages it touches."""
LONGEST_CELL = 2**24
Names = set[str] | None


def rows_per_batch(numbers_per_row: int) -> int:
    """How many rows to work on at once, so that a batch of double precision takes at most 32 MB."""
    return min(MOST_ROWS, max(256, BATCH_BYTES // (8 * max(1, numbers_per_row))))


def table_batches(
    path: str | Path, rows: int, columns: Collection[str] | None = None, header: bool = True
) -> Iterator[tuple[int, Table]]:
    """Number of the first row, and a table of the next rows.

    Parameters
    ----------
    path : path
        A file that ends in one of `KINDS`.
    rows : int
        Rows per batch.
    columns : names, optional
        Columns that are needed; others may be left out. Names that the file lacks are not an error here.
    header : bool, default=True
        Whether the first line of a CSV file names the columns; else they are called 0, 1, 2, ...
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise DataError(f"{path} ends in {path.suffix!r}; a table is one of {', '.join(KINDS)}.")
    first = 0
    for table in KINDS[kind](path, rows, columns if columns is None else set(columns), header):
        yield first, table
        first += len(table)
    if not first:
        raise DataError(f"{path} has {'a header but ' if kind in ('.csv', '.tsv') else ''}no rows.")


def read_table(path: str | Path, header: bool = True) -> Table:
    """The whole file, all batches one below the other; equal texts share one string."""
    rows = sys.maxsize if Path(path).suffix.lower() in (".npz", ".npy") else MOST_ROWS  # arrays are whole
    parts = [table for _, table in table_batches(path, rows, header=header)]
    if len(parts) == 1:
        return parts[0]
    shared: dict[Any, Any] = {}
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        cells = [part.columns.get(name, [None] * len(part)) for part in parts]
        if all(isinstance(some, np.ndarray) for some in cells):
            columns[name] = np.concatenate(cells)
            continue
        columns[name] = made = []
        for some in cells:
            values = some.tolist() if isinstance(some, np.ndarray) else some
            made += [shared.setdefault(v, v) if isinstance(v, str) else v for v in values]
    return Table(parts[0].path, columns, parts[0].classes)


# ---- text -------------------------------------------------------------------------------------


def _csv(path: Path, rows: int, columns: Names, header: bool) -> Iterator[Table]:
    with _told_where(path), open(path, newline="", encoding="utf-8-sig") as file:
        # strict: a quote that is never closed would swallow the rest of the file
        lines = csv.reader(file, delimiter=_delimiter(path), strict=True)
        top = _next_rows(lines, 1, path)
        if not top:
            raise DataError(f"{path} is empty: there is no header with the names of the columns.")
        names = [name.strip() for name in top[0]] if header else [str(k) for k in range(len(top[0]))]
        _check_header(names, path)
        first = 0
        waiting = [] if header else top + _next_rows(lines, rows - 1, path)
        while waiting or (waiting := _next_rows(lines, rows, path)):
            wrong = next((i for i, row in enumerate(waiting) if len(row) != len(names)), None)
            if wrong is not None:
                raise DataError(
                    f"row {first + wrong} of {path} (line {line_of(path, first + wrong, header)}) has "
                    f"{len(waiting[wrong])} cells, the header has {len(names)} ({', '.join(names[:10])})."
                )
            yield Table(path, {name: list(cells) for name, cells in zip(names, zip(*waiting))})
            first += len(waiting)
            waiting = []


def _next_rows(lines: Any, rows: int, path: Path) -> list[list[str]]:
    """The next rows that are not empty; fewer than asked for only at the end of the file."""
    # long texts beside the labels are no reason to stop; the limit is that of the whole process
    before = csv.field_size_limit(LONGEST_CELL)
    made: list[list[str]] = []
    try:
        while len(made) < rows and (some := list(islice(lines, rows - len(made)))):
            made += [row for row in some if row]
    except csv.Error as error:
        raise DataError(f"{path}, line {_starts(path)[-1]}: not a readable table ({error}).") from None
    finally:
        csv.field_size_limit(before)
    return made


def _starts(path: Path, most: int | None = None) -> list[int]:
    """The lines on which the rows of a CSV file begin; the last one may be that of a row that is broken."""
    before = csv.field_size_limit(LONGEST_CELL)
    made: list[int] = []
    start = 1
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            lines = csv.reader(file, delimiter=_delimiter(path), strict=True)
            while len(made) != most and (row := next(lines, None)) is not None:
                made += [start] * bool(row)
                start = lines.line_num + 1
    except csv.Error:
        made.append(start)
    finally:
        csv.field_size_limit(before)
    return made


def line_of(path: Path, row: int, header: bool = True) -> int | None:
    """The line of a text file on which a row begins; rows may span lines, and lines be empty."""
    if path.suffix.lower() in (".csv", ".tsv"):
        wanted = row + 1 if header else row
        starts = _starts(path, wanted + 1)
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        wanted = row
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            starts = [number for number, line in enumerate(file, start=1) if line.strip()]
    else:
        return None
    return starts[wanted] if wanted < len(starts) else None


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _check_header(names: list[str], path: Path) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise DataError(
            f"{path} has one column, {names[0]!r}: cells are separated by commas in .csv and by tabs in "
            ".tsv files.\n  Write the file with that separator."
        )
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise DataError(
            f'{path}, line 1: two columns are called "{twice}".\n'
            "  Rename one; if this line is no header, say so where there is --no-header."
        )


def json_lines(path: Path, may_be_cut: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with the number of their line; empty lines do not count.

    `may_be_cut`: a last line without its end is left out where it is no JSON: a crash cut it short.
    """
    with _told_where(path), open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise ValueError("not {...}")
            except (ValueError, RecursionError) as error:
                if may_be_cut and not line.endswith("\n"):
                    return
                what = f"{line.strip():.80} is no JSON object ({error})"
                raise DataError(f"{path}, line {number}: {what}.") from None
            yield number, record


def _json_lines(path: Path, rows: int, columns: Names, header: bool) -> Iterator[Table]:
    records = json_lines(path)
    while some := [record for _, record in islice(records, rows)]:
        yield _of_records(path, some)


def _json(path: Path, rows: int, columns: Names, header: bool) -> Iterator[Table]:
    records = read_json(path)
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise DataError(f"{path}: a JSON table is a list of objects, with at least one.")
    yield _of_records(path, records)


def _of_records(path: Path, records: list[dict[str, Any]]) -> Table:
    """The fields of objects as columns; None where an object lacks a field."""
    names = dict.fromkeys(name for record in records for name in record)
    if not names:
        raise DataError(f"{path} has no records with a field.")
    return Table(path, {name: [record.get(name) for record in records] for name in names})


def read_json(path: Path) -> Any:
    with _told_where(path):
        try:
            return json.loads(path.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not JSON ({error}).") from None


def read_lines(path: Path) -> list[str]:
    """Names, one per line; empty lines do not count."""
    with _told_where(path):
        names = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not names:
        raise DataError(f"{path} names nothing.")
    return names


@contextmanager
def _told_where(path: Path) -> Iterator[None]:
    """Turn a failure to open or decode a file into a message with the line and the column."""
    try:
        yield
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _not_utf8(path: Path) -> DataError:
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                mark = {".csv": b",", ".tsv": b"\t"}.get(path.suffix.lower())
                cell = "" if mark is None else f", column {line[: error.start].count(mark) + 1}"
                what = f"{line[error.start : error.end]!r} is not UTF-8; save it again as UTF-8"
                return DataError(f"{path}, line {number}{cell}: {what}.")
    return DataError(f"{path}: not UTF-8 text; save it again as UTF-8.")


# ---- Parquet and arrays -----------------------------------------------------------------------


def needs_polars() -> Any:
    """The library for Parquet files, an extra."""
    try:
        import polars
    except ImportError as error:
        raise DataError("Parquet files need polars: pip install 'oneof[tables]'.") from error
    return polars


def _parquet(path: Path, rows: int, columns: Names, header: bool) -> Iterator[Table]:
    polars = needs_polars()
    try:
        frame = polars.scan_parquet(path)
        there = frame.collect_schema().names()
        # `wanted` is empty where the file has none of the columns: all are read then, for the error
        wanted = [name for name in there if columns is None or name in columns] or there
        total = frame.select(polars.len()).collect().item()
        for start in range(0, total, SLICE * rows):
            # slices, not polars' own batches: those keep several row groups in memory when the net is
            # slower than the reader, and a row group has no limit
            part = frame.select(wanted).slice(start, SLICE * rows).collect()
            for first in range(0, len(part), rows):
                yield Table(path, {name: _column(part[name][first : first + rows]) for name in wanted})
    except (polars.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error


def _column(series: Any) -> Any:
    """Numbers as an array, with NaN for missing floats; everything else as a list."""
    numeric = series.dtype.is_numeric() and not series.dtype.is_decimal()
    whole = numeric and (series.dtype.is_float() or not series.null_count())  # large ids are no floats
    return series.to_numpy() if whole else series.to_list()


def stored_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name; that of an npy file is called x. Pickles are refused."""
    kind = path.suffix.lower()[1:]
    try:
        if kind == "npy":
            values = np.load(path, allow_pickle=False, mmap_mode="r")
            if not isinstance(values, np.ndarray) or not values.ndim:
                raise ValueError("it holds no array with rows")
            return {"x": np.ascontiguousarray(values)}
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not a readable {kind} file without pickles: {error}") from error


def _arrays(path: Path, rows: int, columns: Names, header: bool) -> Iterator[Table]:
    arrays = stored_arrays(path)
    classes = arrays.pop("classes", None)
    sizes = {len(values) if values.ndim else None for values in arrays.values()}
    if None in sizes or len(sizes) > 1:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in arrays.items())
        raise DataError(
            f"the arrays of {path} do not have one entry per row each: {shapes}.\n"
            '  Only "classes", the names of the classes, may have another length.'
        )
    names = None if classes is None else classes.ravel().tolist()
    for first in range(0, sizes.pop() or 0 if sizes else 0, rows):
        yield Table(path, {name: values[first : first + rows] for name, values in arrays.items()}, names)


KINDS: dict[str, Callable[[Path, int, Names, bool], Iterator[Table]]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".npz": _arrays,
    ".npy": _arrays,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
}
"""Endings of the files that are read, and how."""
