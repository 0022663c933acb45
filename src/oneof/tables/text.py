"""Text as people save it: the encoding of a file and the separator of its cells are found, or given."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from oneof.tables.errors import DataError
from oneof.tables.files import reading

LONGEST_CELL = 2**24
SEPARATORS = (",", ";", "\t", "|")
SAMPLE_CHARACTERS = 1 << 16
SAMPLE_ROWS = 20
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class TextForm:
    """How a text file is written. What is None is found out."""

    header: bool = True
    """Whether the first line of a CSV file names the columns; else they are called 0, 1, 2, ..."""
    sep: str | None = None
    """What stands between cells: one of , ; tab |."""
    encoding: str | None = None
    """UTF-8 or UTF-16; else the Windows code page 1252."""

    def of(self, path: Path) -> TextForm:
        """The form of a file, with everything known."""
        form = replace(self, encoding=self.encoding or found_encoding(path))
        if path.suffix.lower() not in (".csv", ".tsv"):
            return form
        sep = {"tab": "\t", "\\t": "\t"}.get(self.sep or "", self.sep)
        if sep is not None and (len(sep) != 1 or sep in '"\r\n'):
            raise DataError(f"the separator {self.sep!r} is no single character such as ; or tab.")
        return replace(form, sep=sep or _found_separator(path, form))

    def note(self, path: Path) -> list[str]:
        """What is unusual about a file, for people."""
        parts = []
        if self.encoding is not None and not self.encoding.startswith("utf-8"):
            parts.append(f"read as {self.encoding}")
        if self.sep is not None and self.sep != usual_separator(path):
            parts.append(f"cells separated by {'tabs' if self.sep == chr(9) else self.sep}")
        return [f"{path.name}: {', '.join(parts)}"] if parts else []


@contextmanager
def opened(path: Path, form: TextForm, **more: Any) -> Iterator[IO[str]]:
    """A text file; what cannot be decoded is an error with its line."""
    with reading(path, "text file"):
        try:
            with open(path, encoding=form.encoding or found_encoding(path), **more) as file:
                yield file
        except UnicodeDecodeError as error:
            raise _not_text(path, error) from None


# ---- encodings --------------------------------------------------------------------------------


def found_encoding(path: Path) -> str:
    """UTF-8 where the whole file is, UTF-16 by its mark or its zeros, else the code page of Windows.

    A file that is neither, or UTF-8 with damaged letters, is an error: a guess would garble names.
    """
    with reading(path, "text file"), open(path, "rb") as file:
        head = file.read(4096)
        for mark, name in _MARKS.items():
            if head.startswith(mark):
                return name
        zeros = [head[start::2].count(0) for start in (0, 1)]
        if max(zeros) > len(head) // 8 and min(zeros) == 0:
            return "utf-16-le" if zeros[1] else "utf-16-be"
        if any(zeros):
            raise DataError(f"{path}: not a text file: it holds zero bytes; a table is CSV, Parquet, npz, …")
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
            return "utf-8-sig"
        except UnicodeDecodeError as error:
            wrong = error
        file.seek(0)
        undefined = False
        while block := file.read(_BLOCK):
            # a letter of UTF-8 is no likely pair of letters in any code page
            if re.search(rb"[\xc3-\xdf][\x80-\xbf](?![\x80-\xbf])|[\xe0-\xef][\x80-\xbf]{2}", block):
                raise _not_text(path, wrong)
            undefined = undefined or re.search(rb"[\x81\x8d\x8f\x90\x9d]", block) is not None
        return "latin-1" if undefined else "cp1252"


def _not_text(path: Path, wrong: UnicodeDecodeError) -> DataError:
    advice = "or say its encoding (--encoding)."
    if wrong.encoding == "utf-8":
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    column = line[: error.start].count(usual_separator(path).encode()) + 1
                    cell = f", column {column}" if path.suffix.lower() in (".csv", ".tsv") else ""
                    what = f"{line[error.start : error.end]!r} is not UTF-8; save it again as UTF-8"
                    return DataError(f"{path}, line {number}{cell}: {what}, {advice}")
    return DataError(f"{path}: not {wrong.encoding} text; save it as UTF-8, {advice}")


# ---- separators -------------------------------------------------------------------------------


def usual_separator(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _found_separator(path: Path, form: TextForm) -> str:
    """The separator that gives the first rows equally many cells: the usual one where it does."""
    with opened(path, form, newline="") as file:
        text = file.read(SAMPLE_CHARACTERS)
        lines = list(io.StringIO(text, newline=""))  # not splitlines: a form feed in a cell ends no line
        if file.read(1) and len(lines) > 1:
            lines.pop()  # cut in the middle
    usual = usual_separator(path)
    cells = {sep: _equal_cells(lines, sep) for sep in SEPARATORS}
    return usual if cells[usual] > 1 or max(cells.values()) < 2 else max(SEPARATORS, key=cells.__getitem__)


def _equal_cells(lines: list[str], sep: str) -> int:
    """How many cells every one of the first rows has; 0 where it depends on the row."""
    try:
        with long_cells():
            rows = islice((row for row in csv.reader(lines, delimiter=sep, strict=True) if row), SAMPLE_ROWS)
            widths = {len(row) for row in rows}
    except csv.Error:
        return 0
    return widths.pop() if len(widths) == 1 else 0


@contextmanager
def long_cells() -> Iterator[None]:
    """Long texts beside the labels are no reason to stop; the limit is that of the whole process."""
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(before)
