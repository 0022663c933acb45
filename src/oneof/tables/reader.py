"""The one reader of files of rows: CSV, TSV, JSON lines, Parquet, npz and npy, batch by batch or whole.

Text and Parquet files are never read whole by `table_batches`; npz, npy and JSON files are. Each failure is
a `DataError` that says the file and, where there is one, the line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates.cells import CandidateError, CellError
from oneof.candidates.questions import QuestionError, scores_of
from oneof.tables.errors import DataError
from oneof.tables.files import reading, refuse_bomb
from oneof.tables.table import Table
from oneof.tables.text import TextForm, long_cells, opened
from oneof.tables.unpacking import needs_polars, scan, stored_arrays

MOST_ROWS = 32768
BATCH_BYTES = 32 << 20
SAMPLE_BYTES = 1 << 20
"""Of a text file, to tell the length of its lines."""
SLICE = 3
"""Batches read from a Parquet file at once: a slice unpacks all of the pages it touches."""
Names = set[str] | None


def rows_per_batch(numbers_per_row: int) -> int:
    """How many rows to work on at once, so that a batch of double precision takes at most 32 MB."""
    return min(MOST_ROWS, max(256, BATCH_BYTES // (8 * max(1, numbers_per_row))))


def table_batches(
    path: str | Path, rows: int, columns: Collection[str] | None = None, form: TextForm | None = None
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
    form : TextForm, optional
        What is known about a text file; the rest is found out.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise DataError(f"{path} ends in {path.suffix!r}; a table is one of {', '.join(KINDS)}.")
    first = 0
    for table in KINDS[kind](path, rows, columns if columns is None else set(columns), form or TextForm()):
        yield first, table
        first += len(table)
    if not first:
        raise DataError(f"{path} has {'a header but ' if kind in ('.csv', '.tsv') else ''}no rows.")


def read_table(path: str | Path, form: TextForm | None = None) -> Table:
    """The whole file, all batches one below the other; equal texts share one string."""
    path = Path(path)
    rows = sys.maxsize if path.suffix.lower() in (".npz", ".npy") else MOST_ROWS  # arrays are whole
    parts = []
    if path.suffix.lower() == ".parquet" and path.is_file():
        scan(path, whole=True)
    for first, table in table_batches(path, rows, form=form):
        parts.append(table)
        refuse_bomb(path, 8 * (first + len(table)) * len(table.columns))
    if len(parts) == 1:
        return parts[0]
    shared: dict[Any, Any] = {}
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        cells = [part.columns.get(name, [None] * len(part)) for part in parts]
        shapes = {some.shape[1:] if isinstance(some, np.ndarray) else None for some in cells}
        if len(shapes) == 1 and None not in shapes:
            columns[name] = np.concatenate(cells)
            continue
        columns[name] = made = []
        for some in cells:
            values = some.tolist() if isinstance(some, np.ndarray) else some
            made += [shared.setdefault(v, v) if isinstance(v, str) else v for v in values]
    return Table(path, columns, parts[0].classes, parts[0].form)


def expected_rows(path: Path) -> int | None:
    """About how many rows a file has, where that is known without reading it: for the time left."""
    kind = path.suffix.lower()
    if not path.is_file():
        return None
    if kind == ".parquet":
        with reading(path, "Parquet file"):
            return int(scan(path).select(needs_polars().len()).collect().item())
    if kind not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        return None
    with path.open("rb") as file:
        start = file.read(SAMPLE_BYTES)
    header = kind in (".csv", ".tsv")
    return round(start.count(b"\n") * path.stat().st_size / max(1, len(start))) - header


# ---- text -------------------------------------------------------------------------------------


def _csv(path: Path, rows: int, columns: Names, form: TextForm) -> Iterator[Table]:
    form = form.of(path)
    assert form.sep is not None
    with opened(path, form, newline="") as file:
        # strict: a quote that is never closed would swallow the rest of the file
        lines = csv.reader(file, delimiter=form.sep, strict=True)
        top = _next_rows(lines, 1, path, form)
        if not top:
            raise DataError(f"{path} is empty: there is no header with the names of the columns.")
        names = [name.strip() for name in top[0]] if form.header else [str(k) for k in range(len(top[0]))]
        _check_header(names, path)
        first = 0
        waiting = [] if form.header else top + _next_rows(lines, rows - 1, path, form)
        while waiting or (waiting := _next_rows(lines, rows, path, form)):
            wrong = next((i for i, row in enumerate(waiting) if len(row) != len(names)), None)
            if wrong is not None:
                raise DataError(
                    f"row {first + wrong} of {path} (line {line_of(path, first + wrong, form)}) has "
                    f"{len(waiting[wrong])} cells, the header has {len(names)} ({', '.join(names[:10])})."
                )
            for i, row in enumerate(waiting if form.header else ()):
                if row[0].removeprefix("\ufeff") == top[0][0] and row[1:] == top[0][1:]:
                    raise DataError(
                        f"{path}, line {line_of(path, first + i, form)}: the header stands there again, as "
                        "when files are put one after the other.\n  Remove this line; if the first is no "
                        "header, say so with --no-header, where there is one."
                    )
            yield Table(path, {name: list(cells) for name, cells in zip(names, zip(*waiting))}, form=form)
            first += len(waiting)
            waiting = []


def _next_rows(lines: Any, rows: int, path: Path, form: TextForm) -> list[list[str]]:
    """The next rows that are not empty; fewer than asked for only at the end of the file."""
    made: list[list[str]] = []
    try:
        with long_cells():
            while len(made) < rows and (some := list(islice(lines, rows - len(made)))):
                made += [row for row in some if row]
    except csv.Error as error:
        raise DataError(f"{path}, line {_starts(path, form)[-1]}: not a readable table ({error}).") from None
    return made


def _starts(path: Path, form: TextForm, most: int | None = None) -> list[int]:
    """The lines on which the rows of a CSV file begin; the last one may be that of a row that is broken."""
    made: list[int] = []
    start = 1
    assert form.sep is not None
    try:
        with long_cells(), opened(path, form, newline="", errors="replace") as file:
            lines = csv.reader(file, delimiter=form.sep, strict=True)
            while len(made) != most and (row := next(lines, None)) is not None:
                made += [start] * bool(row)
                start = lines.line_num + 1
    except DataError:
        made.append(start)
    return made


def line_of(path: Path, row: int, form: TextForm | None = None) -> int | None:
    """The line of a text file on which a row begins; rows may span lines, and lines be empty."""
    form = form or TextForm()
    if path.suffix.lower() in (".csv", ".tsv"):
        wanted = row + 1 if form.header else row
        starts = _starts(path, form.of(path), wanted + 1)
    elif path.suffix.lower() in (".jsonl", ".ndjson"):
        wanted = row
        with opened(path, form, errors="replace") as file:
            starts = [number for number, line in enumerate(file, start=1) if line.strip()]
    else:
        return None
    return starts[wanted] if wanted < len(starts) else None


@contextmanager
def naming_lines(path: Path, form: TextForm | None = None) -> Iterator[None]:
    """Say the file, and its line where it can be told, in front of what is wrong with a value."""
    try:
        yield
    except CellError as error:
        line = line_of(path, error.line, form)
        raise DataError(f"{path}{f', line {line}' if line else ''}, {error}") from None
    except QuestionError as error:  # it names the file or the column itself
        raise DataError(str(error) if path.name in str(error) else f"{path}, {error}") from None
    except CandidateError as error:
        raise DataError(f"{path}: {error}") from None


def _check_header(names: list[str], path: Path) -> None:
    if names[0].lower().startswith("sep="):
        raise DataError(f"{path}, line 1: {names[0]!r} tells Excel the separator. Remove this line.")
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise DataError(
            f'{path}, line 1: two columns are called "{twice}".\n'
            "  Rename or remove one; if this line is no header, say so where there is --no-header."
        )


def _json_lines(path: Path, rows: int, columns: Names, form: TextForm) -> Iterator[Table]:
    records, elsewhere = _json_records(path, form), None
    while some := list(islice(records, rows)):
        table = _of_records(path, some)
        if columns and not columns <= table.columns.keys():  # records may leave fields out: others have them
            if elsewhere is None:
                elsewhere = {name for record in _json_records(path, form) for name in columns & record.keys()}
            table.columns |= {name: [None] * len(some) for name in elsewhere - table.columns.keys()}
        yield table


def _json_records(path: Path, form: TextForm) -> Iterator[dict[str, Any]]:
    with opened(path, form) as file:
        yield from (_json_object(path, n, line) for n, line in enumerate(file, start=1) if line.strip())


def _json_object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        if isinstance(record, list) and scores_of(record) is not None:
            record = {"scores": record}  # what pipelines of models print
        if not isinstance(record, dict):
            raise ValueError("not {...}")
    except (ValueError, RecursionError) as error:
        what = f"{line.strip():.80} is no JSON object ({error})"
        raise DataError(f"{path}, line {number}: {what}.") from None
    return record


def _json(path: Path, rows: int, columns: Names, form: TextForm) -> Iterator[Table]:
    records = read_json(path, form)
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise DataError(f"{path}: a JSON table is a list of objects, with at least one.")
    yield _of_records(path, records)


def _of_records(path: Path, records: list[dict[str, Any]]) -> Table:
    """The fields of objects as columns; None where an object lacks a field."""
    names = dict.fromkeys(name for record in records for name in record)
    if not names:
        raise DataError(f"{path} has no records with a field.")
    refuse_bomb(path, 8 * len(names) * len(records))  # every record may have fields of its own
    return Table(path, {name: [shared(record.get(name)) for record in records] for name in names})


def shared(cell: Any) -> Any:
    """A cell in which equal texts of lists are one object: a million sets of few labels stay small."""
    if not isinstance(cell, list):
        return cell
    return [sys.intern(part) if isinstance(part, str) else part for part in cell]


def read_json(path: Path, form: TextForm | None = None) -> Any:
    with opened(path, form or TextForm()) as file:
        try:
            return json.loads(file.read())
        except (json.JSONDecodeError, RecursionError) as error:
            raise DataError(f"{path}: not JSON ({error}).") from None


def read_lines(path: Path) -> list[str]:
    """Names, one per line; empty lines do not count."""
    with opened(path, TextForm()) as file:
        names = [line.strip() for line in file if line.strip()]
    if not names:
        raise DataError(f"{path} names nothing.")
    return names


# ---- Parquet and arrays -----------------------------------------------------------------------


def _parquet(path: Path, rows: int, columns: Names, form: TextForm) -> Iterator[Table]:
    polars = needs_polars()
    with reading(path, "Parquet file"):
        frame = scan(path)
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


def _column(series: Any) -> Any:
    """Numbers as an array, with NaN for missing floats; lists of equally many floats as one, (n, d); all else
    as a list. Lists of whole numbers may be candidates, and stay lists."""
    dtype = series.dtype
    numeric = dtype.is_numeric() and not dtype.is_decimal()
    whole = numeric and (dtype.is_float() or not series.null_count())  # large ids are no floats
    if whole:
        return series.to_numpy()
    inner = getattr(dtype, "inner", None)
    if inner is not None and inner.is_float() and not series.null_count():
        listed = dtype.base_type().__name__ == "List"
        widths = series.list.len().unique().to_list() if listed else [dtype.size]
        if len(widths) == 1 and widths[0] and not series.explode().null_count():
            return series.explode().to_numpy().reshape(len(series), widths[0])
    return [shared(cell) for cell in series.to_list()] if inner is not None else series.to_list()


def _arrays(path: Path, rows: int, columns: Names, form: TextForm) -> Iterator[Table]:
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


KINDS: dict[str, Callable[[Path, int, Names, TextForm], Iterator[Table]]] = {
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
