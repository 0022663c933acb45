"""Parquet files through polars, after a look at the sizes they claim.

polars believes every count: one flipped bit makes a page of -7 values, and the process ends because it asks
for 2⁶¹ bytes. So the description at the end of the file and the headers of all pages are read here first
(Thrift's compact protocol, as the Parquet format lays them down). Only sizes and counts are compared.
"""

from __future__ import annotations

import mmap
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneof.tables.errors import DataError, reading
from oneof.tables.unpacking import refuse_bomb

if TYPE_CHECKING:
    import polars

MAGIC = b"PAR1"
DEEPEST = 16
# numbers of fields in the structures of the format
GROUPS, ROWS = 4, 3  # of the file
COLUMNS, CHUNK = 1, 3  # of a row group; of a column
VALUES, PACKED, FIRST_PAGE, DICTIONARY = 5, 7, 9, 11  # of a column's chunk
PAGE_SIZE, PAGE_PACKED, DATA, WORDS, DATA_2 = 2, 3, 5, 7, 8  # of a page's header


def needs_polars() -> Any:
    """The library for Parquet files, an extra."""
    try:
        import polars
    except ImportError as error:
        raise DataError("Parquet files need polars: pip install 'oneof[tables]'.") from error
    return polars


def scan(path: Path, whole: bool = False) -> polars.LazyFrame:
    """The table of a file whose sizes make sense, to be read in parts.

    `whole`: or at once; then a file that would take far too much memory is refused.
    """
    found = needs_polars()
    with reading(path, "Parquet file"), open(path, "rb") as file:
        if path.stat().st_size > 2 * len(MAGIC) + 4:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                _check(path, content, whole)
        return found.scan_parquet(path)


def _check(path: Path, content: mmap.mmap, whole: bool) -> None:
    end = len(content) - len(MAGIC) - 4
    if content[end + 4 :] != MAGIC:
        return  # no Parquet file, or an encrypted one: polars says so
    begin = end - int.from_bytes(content[end : end + 4], "little")
    about = _Thrift(content, begin, end).struct()
    groups = [[column[CHUNK] for column in group[COLUMNS]] for group in about[GROUPS]]
    if whole:  # equal values take next to no room in the file
        refuse_bomb(path, 8 * _count(about[ROWS]) * max(map(len, groups), default=1))
    for column in chain.from_iterable(groups):
        place, left = column.get(DICTIONARY) or column[FIRST_PAGE], _count(column[VALUES])
        last = place + _count(column[PACKED])
        while place < last:
            thrift = _Thrift(content, place, end)
            page = thrift.struct()
            refuse_bomb(path, _count(page[PAGE_SIZE]))
            _count(page.get(WORDS, {}).get(1, 0))
            left -= _count((page.get(DATA) or page.get(DATA_2) or {}).get(1, 0))
            place = thrift.place + _count(page[PAGE_PACKED])
        if left < 0:
            raise ValueError("a page has more values than its column")


def _count(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"{number!r} is no count")
    return number


class _Thrift:
    """Structures as dicts by the numbers of their fields."""

    def __init__(self, content: mmap.mmap, place: int, end: int) -> None:
        if not 0 <= place < end:
            raise ValueError("it points outside itself")
        self.content, self.place, self.end = content, place, end

    def byte(self) -> int:
        if self.place >= self.end:
            raise ValueError("it ends too early")
        self.place += 1
        return self.content[self.place - 1]

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("a number is too long")

    def signed(self) -> int:
        found = self.number()
        return (found >> 1) ^ -(found & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        made: dict[int, Any] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.signed()
            made[field] = self.value(head & 15, depth)
        return made

    def value(self, kind: int, depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.signed()
        if kind in (7, 8):  # a double, or bytes: passed over
            length = 8 if kind == 7 else self.number()
            self.place += length
            return None
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.number()
            if count > self.end - self.place:
                raise ValueError("a list is longer than the file")
            inner = head & 15
            return [self.byte() if inner in (1, 2) else self.value(inner, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"a field is of the unknown kind {kind}")
