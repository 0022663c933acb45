"""Reading text files for the importers: CSV and TSV of any length, JSON, JSONL, lists of names.

Each failure is a `DataError` that says the file, the line and, where there is one, the column.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oneof.tables.errors import DataError
from oneof.tables.table import check_separator, not_utf8

_LONGEST_CELL = 2**24


def read_csv(path: Path, header: bool = True) -> dict[str, list[str]]:
    """The columns of a CSV or TSV file by name; without header they are called 0, 1, 2, ...

    Equal cells share one string, so that a million answers stay small.
    """
    shared: dict[str, str] = {}
    with _told_where(path), open(path, newline="", encoding="utf-8-sig") as file:
        lines = _rows(file, path)
        first = next(lines, None)
        if first is None:
            raise DataError(f"{path} is empty.")
        names = [name.strip() for name in first[1]] if header else [str(k) for k in range(len(first[1]))]
        _check_header(names, path)
        columns: list[list[str]] = [[] for _ in names]
        for number, row in lines if header else _again(first, lines):
            if len(row) != len(names):
                raise DataError(
                    f"{path}, line {number}: there are {len(row)} cells, the header has {len(names)} "
                    f"({', '.join(names[:10])})."
                )
            for cells, cell in zip(columns, row):
                cells.append(shared.setdefault(cell, cell))
    if not columns[0]:
        raise DataError(f"{path} has a header but no rows.")
    return dict(zip(names, columns))


def line_of(path: Path, row: int, header: bool = True) -> int | None:
    """The line of the file on which a row begins, for messages; rows may span lines, and lines be empty."""
    if path.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        return None
    if path.suffix.lower() in (".csv", ".tsv"):
        with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
            wanted = row + (1 if header else 0)
            return next((number for k, (number, _) in enumerate(_rows(file, path)) if k == wanted), None)
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        full = (number for number, line in enumerate(file, start=1) if line.strip())
        return next((number for k, number in enumerate(full) if k == row), None)


def read_jsonl(path: Path) -> dict[str, list[Any]]:
    """The fields of one object per line, as columns; None where an object lacks a field.

    Empty lines do not count. Equal texts share one string.
    """
    columns: dict[str, list[Any]] = {}
    shared: dict[str, str] = {}
    n = 0
    with _told_where(path), open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not JSON ({error}).") from None
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: {line.strip()!r:.80} is no JSON object {{...}}.")
            for name, value in record.items():
                cells = columns.setdefault(name, [])
                cells += [None] * (n - len(cells))
                cells.append(shared.setdefault(value, value) if isinstance(value, str) else value)
            n += 1
    if not columns:
        raise DataError(f"{path} has no records.")
    for cells in columns.values():
        cells += [None] * (n - len(cells))
    return columns


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


def _rows(file: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with the line each begins on."""
    # strict: a quote that is never closed would swallow the rest of the file
    reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    start = 1
    while True:
        # long texts beside the labels are no reason to stop; the limit is the whole process's, so it is
        # put back after every row, and not when this generator ends: that may be late, or never
        before = csv.field_size_limit(_LONGEST_CELL)
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}, line {start}: not a readable table ({error}).") from None
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        if row:
            yield start, row
        start = reader.line_num + 1


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _check_header(names: list[str], path: Path) -> None:
    check_separator(names, path)
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise DataError(
            f'{path}, line 1: two columns are called "{twice}".\n'
            "  If this line is no header, say so with --no-header."
        )


@contextmanager
def _told_where(path: Path) -> Iterator[None]:
    """Turn a failure to open or decode a file into a message with the line and the column."""
    try:
        yield
    except UnicodeDecodeError:
        raise not_utf8(path) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
