"""Training rows as people have them: one table, features and a candidate file, a folder of images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.fit.columns import about_columns, people_in
from oneof.app.fit.ids import about_other_ids, as_ids, distinct_rows, id_column, positions, row_numbers
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import cell_text, counted, is_missing, spelling_of
from oneof.candidates.compact import DENSE, row_blocks
from oneof.candidates.questions import ask
from oneof.tables.candidate_files import load_annotations
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.importers.assemble import NUMBERED
from oneof.tables.reader import read_table
from oneof.tables.table import Table
from oneof.tables.text import TextForm

ENOUGH = 1000
"""Rows to learn an encoder from that has nothing to learn."""


@dataclass
class TrainingData:
    """Rows with candidate sets, before any number is made of them."""

    source: str
    """The files they come from, for people."""
    candidates: Candidates
    whole: Table | None = None
    """The table as it is in its file."""
    known: np.ndarray | None = None
    """Which of its rows have candidates, in the order of these; default: all."""
    pixels: np.ndarray | None = None
    """uint8 (n, channels, height, width), where rows are images."""
    image_files: tuple[Path, ...] = ()
    image_folder: Path | None = None
    ids: tuple[str, ...] | None = None
    id_column: str | None = None
    """The column of the table that the ids come from."""
    answers: Answers | None = None
    taken: list[str] = field(default_factory=list)
    """Columns of the table that are no features."""
    notes: list[str] = field(default_factory=list)
    """What was decided on the way, for people."""
    accept: Sequence[str] = ()
    """Answers to questions about the data; see `oneof.candidates.questions`."""

    def __post_init__(self) -> None:
        everything = np.arange(len(self) if self.whole is None else len(self.whole))
        # where the rows with candidates stand in the table, and those without
        self.numbers = everything if self.known is None else self.known
        self.rest_numbers = np.setdiff1d(everything, self.numbers)
        self.table = None if self.whole is None else self.whole.take(self.numbers)
        if len(self.rest_numbers):
            self.notes.append(
                f"{len(self.rest_numbers)} of {len(everything)} rows have no candidates: nothing is learned "
                "from them, labels.csv has what the model says of them"
            )

    def __len__(self) -> int:
        return len(self.candidates)

    def name_of(self, row: int) -> Any:
        return int(self.numbers[row]) if self.ids is None else self.ids[row]

    @property
    def rest(self) -> Table | None:
        """Rows of the table without candidates: nothing is learned from them, but they are predicted."""
        return self.whole.take(self.rest_numbers) if self.whole and len(self.rest_numbers) else None

    @property
    def rest_ids(self) -> tuple[str, ...]:
        """Their ids; where the table has none, their numbers in it."""
        names: Any = range(len(self.whole or ()))
        if self.whole is not None and self.id_column is not None:
            names = self.whole.column(self.id_column)
        return tuple(str(cell_text(names[i])) for i in self.rest_numbers.tolist())

    def places(self, by_number: bool) -> dict[str, int]:
        """The row that an id, or a number in the table, names; -1 for one without candidates."""
        names, rest = (self.numbers, self.rest_numbers) if by_number else (self.ids or (), self.rest_ids)
        return {str(name): row for row, name in enumerate(names)} | dict.fromkeys(map(str, rest), -1)

    @property
    def names(self) -> tuple[str, ...] | None:
        """What people call the rows: by their ids or, where a table has gaps, by their numbers in it."""
        return tuple(map(str, self.numbers)) if self.ids is None and len(self.rest_numbers) else self.ids

    @cached_property
    def fingerprint(self) -> str:
        """Digest of sets and cells: the sets alone are the same when rows with equal sets change places."""
        made = hashlib.sha256(self.candidates.hash.encode())
        for name, values in sorted(self.table.columns.items() if self.table else ()):
            made.update(repr(name).encode())
            numbers = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
            made.update(np.ascontiguousarray(values).data if numbers else repr(list(values)).encode())
        return made.hexdigest()

    def name_rows_by(self, column: str) -> None:
        """Take the ids of the rows from a column, which then is no feature."""
        assert self.whole is not None
        names = as_ids(self.whole.column(column), f'column "{column}" of {self.whole.path}')
        self.ids = tuple(names[i] for i in self.numbers.tolist())
        self.id_column = column
        self.taken.append(column)

    def inputs(
        self,
        rows: np.ndarray,
        features: Sequence[str] = (),
        taken: Sequence[str] = (),
        texts: Sequence[str] = (),
        sentences: str | None = None,
    ) -> tuple[np.ndarray, TableEncoder | None]:
        """What the network sees of every row. A table is encoded as the training `rows` ask for."""
        if self.pixels is not None:
            return self.pixels, None
        assert self.table is not None
        without = list(dict.fromkeys([*self.taken, *taken]))
        if both := sorted({*features} & {*without}):
            raise DataError(f"--features {both[0]}: it holds candidates, ids, trusted labels, or is ignored.")
        if not features:
            labels = [name for name in self.label_columns() if name not in without]
            without += labels
            self.notes.extend(
                f'left out: column "{name}" holds an annotator\'s answers, as --ignore {name} would do'
                if name in people_in(self.answers)
                else f'left out: column "{name}" holds class names; use it with --clean, or with --features'
                for name in labels
            )
            self._ask_about({n: values for n, values in self.table.columns.items() if n not in without})
        mapped = self._in_a_file()
        # without gaps nothing depends on the rows that an encoder of vectors is learned from
        fitted = self.table.take(rows if mapped is None else rows[:ENOUGH])
        how = features, without, texts, sentences
        try:
            encoder = TableEncoder.fit(fitted, *how)
            return (encoder.transform(self.table) if mapped is None else mapped), encoder
        except DataError:
            if self.whole is not None:  # the same error, with rows counted as in the file
                TableEncoder.fit(self.whole, *how).transform(self.whole)
            raise

    def _ask_about(self, features: dict[str, Any]) -> None:
        """Whether a feature tells the label; vectors do not, and of a large table some rows will do."""
        assert self.table is not None
        if any(getattr(values, "ndim", 1) == 1 for values in features.values()):
            n, c = self.candidates.shape
            some = np.linspace(0, n - 1, min(n, DENSE // c)).astype(np.int64)
            seen = Table(self.table.path, features).take(some).columns
            mask = self.candidates.rows(some)
            ask(about_columns(seen, mask, people_in(self.answers)), self.accept, self.source)

    def _in_a_file(self) -> np.ndarray | None:
        """The features, where they are one memory-mapped array of float32 without gaps, else None."""
        assert self.table is not None
        values = next(iter(self.table.columns.values()))
        mapped = len(self.table.columns) == 1 and isinstance(values, np.memmap)
        if not mapped or values.ndim != 2 or values.dtype != np.float32:
            return None
        blocks = row_blocks(*values.shape)
        return values if all(np.isfinite(values[some[0] : some[-1] + 1]).all() for some in blocks) else None

    def rest_inputs(self, encoder: TableEncoder | None) -> np.ndarray | None:
        """What the network sees of the rows without candidates, where there are some."""
        rest = self.rest
        if rest is None or encoder is None:
            return None if rest is None else _image_arrays(rest)[0]
        return encoder.transform(rest)

    def label_columns(self) -> list[str]:
        """Columns of texts that are all names of classes, in any spelling: an answer, not a feature."""
        assert self.table is not None
        classes = {spelling_of(str(name)) for name in self.candidates.classes}
        people, found = people_in(self.answers), []
        for name, values in self.table.columns.items():
            if isinstance(values, list) and all(isinstance(v, str) or is_missing(v) for v in values):
                texts = {v.strip() for v in values if not is_missing(v)}
                labels = (spelling_of(part) for text in texts for part in text.split("|"))
                if texts and not _numbers(texts) and (name in people or all(v in classes for v in labels)):
                    found.append(name)
        return found

    def with_pixels(self) -> TrainingData:
        """The same with the one array of images in its table as what the network sees."""
        assert self.table is not None
        found = _image_arrays(self.table)
        if len(found) != 1:
            raise DataError(
                f"{self.source} has {len(found)} arrays of images (rows, channels, height, width); a net for "
                "images needs one.\n  Use --net mlp for tables and embeddings, or --images FOLDER."
            )
        self.pixels = found[0]
        return self


def _image_arrays(table: Table) -> list[np.ndarray]:
    return [values for values in table.columns.values() if getattr(values, "ndim", 1) == 4]


def _numbers(texts: set[Any]) -> bool:
    """Whether these are all numbers: a count that happens to name a class is still a count."""
    return all(text.replace(".", "", 1).lstrip("-").isdigit() for text in texts)


# ---- a table ----------------------------------------------------------------------------------


def from_table(
    path: Path,
    candidates: str,
    ids: str | None = None,
    form: TextForm | None = None,
    accept: Sequence[str] = (),
) -> TrainingData:
    """A table whose candidates are in one of its columns, or in a file made by `oneof candidates import`."""
    whole = read_table(path, form)
    kept = np.arange(len(whole)) if ids is None else distinct_rows(whole, ids)
    table = whole.take(kept)
    if candidates not in table.columns and not Path(candidates).is_file():
        try:
            table.column(candidates)
        except DataError as error:
            raise DataError(f"{error}\n  Nor is there a file of candidates with that name.") from None
    if candidates in table.columns:
        data = _from_column(table, candidates, ids, accept)
    else:
        data = _with_file(table, Path(candidates), ids, accept)
    data.accept = accept
    data.notes[:0] = table.form.note(path) if table.form is not None else []
    if len(table) < len(whole):
        data.notes.append(f"rows that stand in {path} twice, counted once: {len(whole) - len(table)}")
        data.whole, data.numbers, data.rest_numbers = whole, kept[data.numbers], kept[data.rest_numbers]
    return data


def _from_column(table: Table, candidates: str, ids: str | None, accept: Sequence[str]) -> TrainingData:
    known = np.arange(len(table))
    if getattr(table.columns[candidates], "ndim", 1) == 1:
        labels = table.label_sets(candidates, accept)
        known = np.flatnonzero([not is_missing(some) for some in labels])
    if not len(known):
        raise DataError(f'column "{candidates}" of {table.path} is empty in every row: nothing to learn.')
    sets = table.take(known).candidates(candidates, accept)
    data = TrainingData(str(table.path), sets, table, known, taken=[candidates])
    if ids is not None:
        data.name_rows_by(ids)
    return data


def _with_file(table: Table, file: Path, ids: str | None, accept: Sequence[str]) -> TrainingData:
    """Rows of a table joined with the candidate sets of a file; sets without a row are an error.

    They are matched by a column of ids, named or found, else by ids that are row numbers, else by order.
    """
    found, path, known = _annotations(file), table.path, np.arange(len(table))
    names = None if found.ids is None else tuple(map(str, found.ids))
    if found.candidates.provenance.get(NUMBERED):
        names = tuple(map(str, range(len(found))))
    notes = []
    if names is None:
        notes.append(f"{file} has no ids: rows are matched by their order")
    elif column := ids or id_column(table, names):
        ids, where = column, f'column "{column}" of {path}'
        there = as_ids(table.columns[column], where)
        inside = np.isin(names, there)
        if "unknown-tasks" in accept and not inside.all():
            notes.append(f"{int((~inside).sum())} candidate sets are about rows that {path} does not have")
            found, names = found.take(inside), tuple(np.array(names)[inside].tolist())
        known = positions(names, there, str(file), where, "\n  To leave them out: --accept unknown-tasks.")
        in_order = np.argsort(known)  # of the table
        found, known = found.take(in_order), known[in_order]
        notes.append(f'rows are matched by the column "{column}"')
    elif (numbers := row_numbers(names, len(table))) is not None:
        known = numbers
        notes.append("ids are row numbers: rows are matched by them")
    else:
        notes.append(f"no column of {path} has the ids of {file}: rows are matched by their order")
    if len(known) != len(found):
        example = "" if names is None else f", such as {names[0]!r}"
        raise DataError(
            f"{path} has {len(table)} rows, {file} has {len(found)} candidate sets{example}.\n"
            "  Name the column with the ids: --id COLUMN."
        )
    ask(about_other_ids(table, names or (), notes[-1]) if ids is None else (), accept, str(file))
    source = f"{path} with {file}"
    data = TrainingData(source, found.candidates, table, known, ids=names, answers=found.answers, notes=notes)
    if ids is not None:
        data.name_rows_by(ids)
    return data


# ---- a folder of images -----------------------------------------------------------------------


def from_images(folder: Path, candidates: str, size: int) -> TrainingData:
    """A folder of images and a candidate file whose ids are the files' names inside the folder."""
    from oneof.tables.images import find_images, names_inside, read_folder

    file, files, notes = Path(candidates), find_images(folder), []
    annotations = _annotations(file)
    if annotations.ids is None:
        if len(annotations) != len(files):
            raise DataError(
                f"{folder} has {len(files)} images, {file} has {len(annotations)} candidate sets without ids."
                "\n  Import the candidates with ids: the names of the files inside the folder."
            )
        notes.append(f"{file} has no ids: images are matched by the order of their names")
    else:
        names = names_inside(folder, files)
        place = positions([str(v) for v in annotations.ids], names, str(file), str(folder))
        if len(place) < len(files):
            notes.append(f"{counted(len(files) - len(place), 'image')} without candidates left out")
        files = tuple(files[i] for i in place)
    read = read_folder(folder, size, files)
    if len(read.skipped) == len(files):
        raise DataError(f"none of the {len(files)} images can be read; the first: {read.skipped[0]}")
    if read.skipped:
        annotations = annotations.take([i for i in range(len(files)) if i not in read.skipped])
        notes += read.note()
    return TrainingData(
        f"{folder} with {file}",
        annotations.candidates,
        pixels=read.images,
        image_files=read.files,
        image_folder=folder,
        ids=read.ids,
        answers=annotations.answers,
        notes=notes,
    )


def _annotations(file: Path) -> Annotations:
    if not file.is_file():
        raise DataError(f"there is no file {file} with candidates.")
    if file.suffix not in (".npz", ".parquet"):
        what = f"{file} is no file of candidates: these end in .npz or .parquet."
        raise DataError(f"{what}\n  Make one with `oneof candidates import {file} --out FILE.npz`.")
    return load_annotations(file)
