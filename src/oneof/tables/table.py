"""Tables with a candidate column: CSV, TSV, Parquet, npz and npy, read into plain columns.

In text files labels are text, exactly as written: `1` is the class "1" and `01` another one. Parquet and
npz files keep the types they have.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.tables.errors import DataError
from oneof.tables.files import replacing

SEPARATOR = "|"


@dataclass
class Table:
    """Columns by name. A column is a list, or an array whose first axis are the rows.

    `classes` are the names of the columns of a mask, where the file holds them (npz).
    """

    path: Path
    columns: dict[str, Any]
    classes: list[Any] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def take(self, rows: np.ndarray) -> Table:
        """Some rows by their numbers, in that order."""
        picked = rows.tolist()
        columns = {
            name: values[rows] if isinstance(values, np.ndarray) else [values[i] for i in picked]
            for name, values in self.columns.items()
        }
        return Table(self.path, columns, self.classes)

    def column(self, name: str) -> Any:
        if name not in self.columns:
            raise DataError(f'there is no column "{name}" in {self.path}; it has {self._names()}.')
        return self.columns[name]

    def _names(self) -> str:
        names = list(self.columns)
        text = ", ".join(map(repr, names[:20])) + (f", … {len(names)} in all" if len(names) > 20 else "")
        if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
            text += "\n  Cells are separated by commas in .csv and by tabs in .tsv files"
        return text

    def candidates(self, name: str) -> Candidates:
        """A column of candidate sets: lists, or text such as `cat|dog`; in an npz file a mask (n, c)."""
        values = self.column(name)
        source = f'column "{name}" of {self.path.name}, row'
        if isinstance(values, np.ndarray) and values.ndim >= 2:
            return Candidates.from_mask(values, self.classes, source=source)
        sets = []
        for i, cell in enumerate(values):
            try:
                sets.append(cell_labels(cell))
            except ValueError as error:
                raise DataError(f'row {i} of column "{name}" in {self.path}: {error}') from None
        return Candidates.from_sets(sets, source=source)

    def labels(self, name: str) -> np.ndarray:
        """A column of labels, None where a cell is empty."""
        values = self.column(name)
        if any(isinstance(v, list | np.ndarray) for v in values):
            raise DataError(f'column "{name}" of {self.path} holds more than one value per row, not labels.')
        made = np.empty(len(values), dtype=object)
        made[:] = [None if is_empty(v) else v.strip() if isinstance(v, str) else v for v in values]
        return made

    def features(
        self, wanted: Collection[str] = (), without: Collection[str] = (), advice: str = ""
    ) -> tuple[np.ndarray, list[str]]:
        """Numeric columns as (n, d), and their names. Text and empty cells in them are an error.

        Default: all columns that have a name and are not in `without`. A column without a name is
        the row number that data frames write in front of a table. `advice` is a line for the errors.
        """
        missing = [name for name in without if name not in self.columns]
        if missing:
            self.column(missing[0])
        names = wanted or [name for name in self.columns if name and name not in without]
        parts, titles = [], []
        for name in names:
            values = self._numbers(name, advice)
            parts.append(values.reshape(len(values), -1))
            titles += [name] if values.ndim == 1 else [f"{name}.{k}" for k in range(parts[-1].shape[1])]
        if not parts:
            raise DataError(f"{self.path} has no feature column left.")
        return np.hstack(parts), titles

    def _numbers(self, name: str, advice: str) -> np.ndarray:
        column = self.column(name)
        advice = f"\n  {advice}" if advice else ""
        try:
            if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
                values = column.astype(np.float64)
            else:
                values = np.array([np.nan if is_empty(v) else v for v in column], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            i = next((i for i, v in enumerate(column) if not (is_empty(v) or _is_number(v))), None)
            if i is None:
                raise DataError(
                    f'column "{name}" of {self.path} has lists of different lengths; a feature column has '
                    f"one number per row, or equally many.{advice}"
                ) from None
            raise DataError(
                f'row {i} of column "{name}" in {self.path} is {column[i]!r:.80}, not a number.{advice}'
            ) from None
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            i = int(wrong[0][0])
            what = "empty" if is_empty(column[i]) else f"{column[i]!s:.80}"
            raise DataError(
                f'row {i} of column "{name}" in {self.path} is {what}; every feature needs a finite number.\n'
                f"  Fill the cell or drop the row.{advice}"
            )
        return values


def _is_number(value: Any) -> bool:
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


# ---- reading ----------------------------------------------------------------------------------


def read_table(path: str | Path) -> Table:
    """Read a table by its ending."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".parquet": _read_parquet,
        ".npz": _read_npz,
        ".npy": _read_npy,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path} ends in {path.suffix!r}; a table is one of {', '.join(readers)}.")
    table = reader(path)
    if not len(table):
        raise DataError(f"{path} has no rows.")
    return table


def _read_csv(path: Path) -> Table:
    with open_csv(path) as (header, lines):
        rows = list(lines)
    return Table(path, {name: list(cells) for name, cells in zip(header, zip(*rows))})


@contextmanager
def open_csv(path: Path) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """Names of the columns and the rows of a CSV or TSV file; errors say where in it."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            header = [name.strip() for name in next(lines, [])]
            if not header:
                raise DataError(f"{path} has no header line with the names of its columns.")
            check_separator(header, path)
            twice = [name for name in header if header.count(name) > 1]
            if twice:
                raise DataError(f'{path} has two columns called "{twice[0]}".')
            yield header, _checked_rows(lines, header, path)
        except UnicodeDecodeError:
            raise not_utf8(path) from None
        except csv.Error as error:
            raise DataError(f"{path} is not a readable table, line {lines.line_num}: {error}.") from error


def not_utf8(path: Path) -> DataError:
    """What to say of a text file that is not UTF-8: the line, and in a table the column."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                mark = {".csv": b",", ".tsv": b"\t"}.get(path.suffix.lower())
                cell = "" if mark is None else f", column {line[: error.start].count(mark) + 1}"
                bad = line[error.start : error.end]
                return DataError(
                    f"{path}, line {number}{cell}: {bad!r} is not UTF-8; save it again as UTF-8."
                )
    return DataError(f"{path}: not UTF-8 text; save it again as UTF-8.")


def _checked_rows(lines: Any, header: list[str], path: Path) -> Iterator[list[str]]:
    count = 0
    for row in lines:
        if not row:  # an empty line
            continue
        if len(row) != len(header):
            raise DataError(
                f"row {count} of {path} (line {lines.line_num}) has {len(row)} cells, "
                f"the header has {len(header)}."
            )
        count += 1
        yield row


def check_separator(header: list[str], path: Path) -> None:
    """Raise where a header looks like one of a file with another separator."""
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise DataError(
            f"{path} has one column, {header[0]!r}: cells are separated by commas in .csv and by tabs in "
            ".tsv files.\n  Write the file with that separator."
        )


def _read_parquet(path: Path) -> Table:
    try:
        import polars
    except ImportError as error:
        raise DataError("reading Parquet needs polars: pip install 'oneof[tables]'.") from error
    try:
        frame = polars.read_parquet(path)
    except Exception as error:  # polars has no common base for what a broken file can raise
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    return Table(path, {name: frame[name].to_list() for name in frame.columns})


def _read_npz(path: Path) -> Table:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:
            columns = {name: file[name] for name in file.files}
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not a readable npz file without pickles: {error}") from error
    classes = columns.pop("classes", None)
    sizes = {name: len(values) if values.ndim else None for name, values in columns.items()}
    if None in sizes.values() or len(set(sizes.values())) > 1:
        raise DataError(
            f"the arrays of {path} do not have one entry per row each: "
            + ", ".join(f"{name} {values.shape}" for name, values in columns.items())
            + '.\n  Only "classes", the names of the classes, may have another length.'
        )
    return Table(path, columns, None if classes is None else classes.ravel().tolist())


def _read_npy(path: Path) -> Table:
    """One array, such as embeddings: the column "x"."""
    try:
        values = np.load(path, allow_pickle=False, mmap_mode="r")
        if not isinstance(values, np.ndarray) or not values.ndim:
            raise ValueError("it holds no array with rows")
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a readable npy file without pickles: {error}") from error
    return Table(path, {"x": np.ascontiguousarray(values)})


# ---- cells ------------------------------------------------------------------------------------


def is_empty(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or (isinstance(cell, float | np.floating) and bool(np.isnan(cell)))


def cell_labels(cell: Any) -> list[Any]:
    """The labels of one cell: a list, a list written as text, or text with `|` between labels."""
    if isinstance(cell, list | tuple | set | np.ndarray):
        return list(cell)
    if is_empty(cell):
        return []
    if not isinstance(cell, str):
        return [cell]
    text = cell.strip()
    listed = _written_list(text) if text[0] + text[-1] in ("[]", "{}", "()") else None
    return [label.strip() for label in listed or text.split(SEPARATOR) if label.strip()]


def _written_list(text: str) -> list[str] | None:
    """The labels of a list as JSON or Python writes it; None where the text is a label in brackets."""
    try:
        # numbers stay as they are written, so that [1, 2] and 1|2 mean the same classes
        values = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        values = _python_list(text)
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return values or [""]
    several = SEPARATOR not in text and re.search(r"[,'\"\s]", text)
    if text[0] == "[" and (isinstance(values, list) or several):
        raise ValueError(
            f'{text!r:.80} looks like a list but cannot be read.\n  Write ["cat", "dog"] or cat|dog.'
        )
    return None


def _python_list(text: str) -> list[str] | None:
    """What a data frame makes of lists when it writes CSV: ['cat', 'dog']."""
    if re.search(r"['\"]\s+['\"]", text):
        return None  # a numpy array as text: Python would read ['cat' 'dog'] as one label, catdog
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of a backslash in a label
            values = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(values, list | tuple | set) or not all(
        isinstance(v, str | int | float) for v in values
    ):
        return None
    return [str(value) for value in values]


# ---- writing ----------------------------------------------------------------------------------


def write_csv(path: Path, columns: dict[str, Any]) -> None:
    """Write columns of equal length, whole or not at all."""
    with replacing(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
