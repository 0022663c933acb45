"""`import_file`: from a file and the user's options to `Annotations`, one function per shape of table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import UNKNOWN
from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import CellError, cell_text, in_column, is_missing, ordered, short
from oneof.candidates.describe import describe
from oneof.candidates.questions import QuestionError, read_labels, scores_of
from oneof.tables import importers as arrays
from oneof.tables.errors import DataError
from oneof.tables.files import refuse_bomb, sha256_of
from oneof.tables.importers import Settings, Taxonomy, make_rule
from oneof.tables.importers.assemble import NUMBERED
from oneof.tables.importers.column_names import ID, LABEL, TASK, TRUTH, WORKER, column, ids_of, needed
from oneof.tables.importers.options import ImportOptions
from oneof.tables.mat import read_mat
from oneof.tables.reader import KINDS, naming_lines, read_json, read_lines, read_table
from oneof.tables.table import numbers, numbers_of
from oneof.tables.text import TextForm
from oneof.tables.unpacking import stored_arrays


def import_file(path: Path | str, format: str, options: ImportOptions | None = None) -> Annotations:
    """Read a file of a format in `FORMATS`; errors name the file, the line and the column."""
    path, options = Path(path), options or ImportOptions()
    if format not in FORMATS:
        raise DataError(f"there is no format {format!r}; there are {', '.join(FORMATS)}.")
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    read, taken = FORMATS[format]
    for field in fields(ImportOptions):
        if getattr(options, field.name) != field.default and field.name not in (*taken, "truth", "accept"):
            raise DataError(
                f"--{field.name.replace('_', '-')} has no meaning for the format {format}; leave it out."
            )
    if path.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl", ".ndjson"):
        options = replace(options, **vars(options.form.of(path)))  # found out once
    with naming_lines(path, options.form):
        made = read(path, options, format)
        return made if options.truth is None else _with_truth(made, Path(options.truth))


# ---- one function per shape of table ----------------------------------------------------------


def _crowd(path: Path, options: ImportOptions, format: str) -> Annotations:
    columns = read_table(path, options.form).columns
    task = needed(columns, options.task, TASK, "task", path)
    worker = column(columns, options.worker, WORKER, path)
    label = needed(columns, options.label, LABEL, "label", path)
    silent = f"no column names the annotators (the columns {short(columns, 20)}): every line is one answer"
    others = sorted(filter(None, columns.keys() - {task, worker, label}))
    notes = [f"columns that are not read: {short(others)}"] if others else []
    settings = _settings(path, options, notes if worker else [silent])
    return arrays.from_answers(
        columns[task],
        columns[worker] if worker else None,
        _labels(columns[label], label, settings),
        ids=names_of((options.ids,), "ids") if options.ids is not None else None,
        n_rows=options.n_rows,
        settings=settings,
        columns=(task, worker or "worker", label),
    )


def _wide(path: Path, options: ImportOptions, format: str) -> Annotations:
    if path.suffix.lower() in (".npy", ".npz"):
        values, _, ids = read_matrix(path, array=options.array, id_column=options.id)
        workers, settings = options.annotators or None, _settings(path, options)
        return arrays.from_wide(values, ids=ids, workers=workers, settings=settings)
    columns = read_table(path, options.form).columns
    ids = ids_of(columns, options.id, ID, path)
    chosen = options.annotators or tuple(filter(None, columns))  # data frames count rows without a name
    for title in chosen:
        column(columns, title, (), path)
    # said in the description: a column of remarks among them is seen at once
    settings = _settings(path, options, [f"annotators are the columns {short(chosen)}"])
    cells = {title: _labels(columns[title], title, settings) for title in chosen}
    try:
        return arrays.from_wide(cells, ids=ids, settings=settings)
    except QuestionError as error:
        if options.annotators:
            raise
        what = f"Every column counts as an annotator ({short(chosen)})."
        raise QuestionError(f"{error}\n  {what} Name those that are: --annotators COLUMN …") from None


def _label_studio(path: Path, options: ImportOptions, format: str) -> Annotations:
    tasks, name = read_json(path, options.form), options.id or "id"
    settings = _settings(path, options)
    return arrays.from_label_studio(tasks, control=options.control, id_field=name, settings=settings)


def _records(path: Path, options: ImportOptions, format: str) -> Annotations:
    """A table with a column of labels, and perhaps one of ids."""
    if format == "taxonomy" and options.taxonomy is None:
        raise DataError(f"{path}: the format taxonomy needs --taxonomy FILE, the tree of the labels.")
    columns = read_table(path, options.form).columns
    label = needed(columns, options.label, LABEL, "label", path)
    cells = columns.pop(label)
    ids = ids_of(columns, options.id, ID, path)
    # what is not, and trees, are taken at their word that the true label is inside
    settings = _settings(path, options, promised=format != "records").of(format, {})
    if format == "complementary":
        settings = replace(settings, rule=arrays.not_named)
    labels = _labels(cells, label, settings)
    asked = format == "records" and not options.classes and options.taxonomy is None
    for i, cell in enumerate(labels if asked else ()):
        if scores_of(cell) is not None:
            what = f"{cell!r:.80} are numbers. Of classes? Then import them with --format counts or scores.\n"
            what += "  Are they the classes that annotators named? Then list all classes with --classes."
            raise CellError(i, in_column(label)(i), what)
    return arrays.from_records(labels, ids=ids, settings=settings, column=label)


def _matrix(path: Path, options: ImportOptions, format: str) -> Annotations:
    """Numbers with a column per class."""
    if format == "sets" and options.level is None:
        raise DataError(f"{path}: the format sets needs --level, the coverage of the sets, such as 0.9.")
    values, classes, ids = read_matrix(path, array=options.array, form=options.form, id_column=options.id)
    if options.classes:
        given = names_of(options.classes, "classes")
        place = {str(name): k for k, name in enumerate(classes or ())}
        if place.keys() == {str(name) for name in given}:  # the file names its columns, in another order
            values = values[:, [place[str(name)] for name in given]]
        classes = given
    if format == "counts":
        return arrays.from_counts(values, classes, ids=ids, settings=_settings(path, options))
    more: dict[str, Any] = {"ids": ids, "provenance": _origin(path)}
    if format == "sets":
        assert options.level is not None
        return arrays.from_prediction_sets(values, options.level, classes, missing=options.missing, **more)
    more |= {"top_k": options.top_k, "top_p": options.top_p, "threshold": options.threshold}
    return arrays.from_scores(values, classes, **more)


def _mat(path: Path, options: ImportOptions, format: str) -> Annotations:
    found = read_mat(path, need_truth=False, truth_may_be_outside=not options.truth_inside).candidates
    known = {**found.provenance, "format": format}
    told = found.truth is not None and bool((found.truth != UNKNOWN).all())
    # where the file tells the truth of every row, it shows whether it is always inside
    outside = not options.truth_inside and not (told and describe(found)["truth_inside"] == 1.0)
    return Annotations(found.replace(truth_may_be_outside=outside, provenance=known, source=path.name))


_TEXT = ("header", "sep", "encoding")
_ANSWERS = ("rule", "at_least", "keep", "classes", "taxonomy", "missing", "truth_inside", *_TEXT)
_MATRIX = ("classes", "array", "id", *_TEXT)

FORMATS: dict[str, tuple[Callable[[Path, ImportOptions, str], Annotations], tuple[str, ...]]] = {
    "crowd": (_crowd, ("task", "worker", "label", "ids", "n_rows", "skip_empty", *_ANSWERS)),
    "wide": (_wide, ("id", "annotators", "array", *_ANSWERS)),
    "label-studio": (_label_studio, ("control", "id", *_ANSWERS)),
    "records": (_records, ("label", "id", *_ANSWERS)),
    "scores": (_matrix, ("top_k", "top_p", "threshold", *_MATRIX)),
    "counts": (_matrix, ("rule", "at_least", "missing", "truth_inside", *_MATRIX)),
    "sets": (_matrix, ("level", "missing", *_MATRIX)),
    "complementary": (_records, ("label", "id", "classes", "missing", "truth_inside", *_TEXT)),
    "taxonomy": (_records, ("label", "id", "taxonomy", "missing", "truth_inside", *_TEXT)),
    "mat": (_mat, ("truth_inside",)),
}
"""For every format its reader and the options it takes."""


# ---- shared -----------------------------------------------------------------------------------


def _settings(
    path: Path, options: ImportOptions, notes: Sequence[str] = (), promised: bool = False
) -> Settings:
    """`promised`: whether the format is taken at its word that the true label is inside."""
    inside = promised if options.truth_inside is None else options.truth_inside
    return Settings(
        rule=make_rule(options.rule, at_least=options.at_least, keep=options.keep),
        classes=names_of(options.classes, "classes") if options.classes else None,
        taxonomy=read_taxonomy(options.taxonomy) if options.taxonomy is not None else None,
        missing=options.missing,
        skip_empty=options.skip_empty,
        truth_may_be_outside=not inside,
        accept=options.accept,
        provenance={**_origin(path), "notes": [*options.form.note(path), *notes]},
    )


def _labels(cells: Any, name: str, settings: Settings) -> list[Any]:
    return read_labels(cells, name, settings.accept or (), settings.known)


def read_taxonomy(path: Path) -> Taxonomy:
    """A tree of labels: nested JSON, or a table with the columns parent and child."""
    if not path.is_file():
        raise DataError(f"there is no file {path}.")
    with naming_lines(path):
        if path.suffix.lower() == ".json":
            return Taxonomy.from_nested(read_json(path))
        if path.suffix.lower() not in (".csv", ".tsv"):
            raise DataError(f"{path}: a taxonomy is a .json, .csv or .tsv file.")
        columns = read_table(path).columns
        parent = needed(columns, None, ("parent", "parent_id", "broader"), "parent", path)
        child = needed(columns, None, ("child", "child_id", "label", "id", "name", "narrower"), "child", path)
        # a label at the top may have a line of its own, without a parent
        pairs = list(zip(columns[parent], columns[child]))
        edges = [(above, below) for above, below in pairs if above.strip()]
        return Taxonomy(edges, [below for above, below in pairs if not above.strip()])


def _origin(path: Path) -> dict[str, Any]:
    return {"file": path.name, "sha256": sha256_of(path)}


# ---- arrays and names in whatever file they are ---------------------------------------------


def read_matrix(
    path: Path, *, array: str | None = None, form: TextForm | None = None, id_column: str | None = None
) -> tuple[np.ndarray, list[Any] | None, list[Any] | None]:
    """An array, the names of its columns and the ids of its rows, where the file has them."""
    if path.suffix.lower() in (".npy", ".npz"):
        arrays = stored_arrays(path)
        classes = arrays.pop("classes", None)
        guessed = next((name for name in ("id", "ids") if name in arrays and len(arrays) > 1), None)
        name = guessed if id_column is None else id_column
        if id_column is not None and id_column not in arrays:
            raise DataError(f"{path}: there is no array {id_column!r} with ids; it has {short(arrays)}.")
        ids = None if name is None or name == array else arrays.pop(name).ravel().tolist()
        if (array is None and len(arrays) != 1) or (array is not None and array not in arrays):
            what = "which array (--array)?" if array is None else f"there is no array {array!r}."
            raise DataError(f"{path}: {what} It has {short(arrays)}.")
        found = arrays[array or next(iter(arrays))]
        return found, None if classes is None else classes.ravel().tolist(), ids
    columns = read_table(path, form).columns
    ids = ids_of(columns, id_column, ("id",), path)  # other usual names may well be classes
    if not columns:
        raise DataError(f"{path} has no column besides that of the ids.")
    given = {title: next((v for v in cells if not is_missing(v)), None) for title, cells in columns.items()}
    by_class = next((columns[title] for title, cell in given.items() if scores_of(cell) is not None), None)
    if by_class is not None:
        return *_score_matrix(by_class, path), ids
    first = next(iter(columns))
    what = f'{path}: are the cells of the first column, "{first}", such as {given[first]!r:.80}, ids of rows?'
    what += "\n  Then name the column with --id, or call it id in the file."
    named = ids is not None or len(columns) == 1
    if not named and isinstance(given[first], str) and numbers([given[first]]) is None:
        raise DataError(what)
    parts = [numbers_of(cells, title) for title, cells in columns.items()]
    if any(part.ndim > 1 for part in parts):
        raise DataError(f"{path} has lists in its cells; a matrix has one number in each.")
    if not named and _counts_rows(parts[0]) and not any(map(_counts_rows, parts[1:])):
        raise DataError(what)
    if form is not None and not form.header:
        return np.stack(parts, axis=1), None, ids
    titles = numbers(list(columns)) if path.suffix.lower() in (".csv", ".tsv") else None
    if titles is not None and (np.nan_to_num(titles) % 1).any():
        raise DataError(
            f"{path}: are these the names of classes, or the numbers of a first row: {short(columns, 3)}?\n"
            "  Of a row: say --no-header. Of classes: name them by more than a number."
        )
    return np.stack(parts, axis=1), list(columns), ids


def _counts_rows(values: np.ndarray) -> bool:
    """Whether there is a different whole number in each of many rows."""
    return len(values) >= 20 and bool((values == np.rint(values)).all()) and len(set(values)) == len(values)


def _score_matrix(cells: Sequence[Any], path: Path) -> tuple[np.ndarray, list[Any]]:
    """Scores that every row names by class; a class that a row leaves out has none, 0."""
    rows = [scores_of(cell) for cell in cells]
    for i, (cell, row) in enumerate(zip(cells, rows)):
        if row is None or min(row.values()) < 0:
            raise CellError(i, f"row {i}", f"{cell!r:.80} are no scores by class, numbers of at least 0.")
    classes = ordered({name for row in rows for name in row or ()})
    refuse_bomb(path, 8 * len(rows) * len(classes))
    column = {name: k for k, name in enumerate(classes)}
    made = np.zeros((len(rows), len(classes)))
    for i, row in enumerate(rows):
        for name, score in (row or {}).items():
            made[i, column[name]] = score
    return made, classes


def names_of(given: Sequence[str], what: str) -> list[Any]:
    """Names as given, or those of a file."""
    path = Path(given[0]) if len(given) == 1 else None
    if path is not None and (path.is_file() or path.suffix.lower() in (*KINDS, ".txt")):
        return read_names(path, what, ID)[0]
    return list(given)


def read_names(path: Path, what: str, guesses: Sequence[str]) -> tuple[list[Any], list[Any] | None]:
    """Names of a file, one per line, a JSON list, .npy, or a column of a table; and the ids beside them."""
    if not path.is_file():
        raise DataError(f"there is no file {path} with {what}.")
    ending = path.suffix.lower()
    if ending == ".json":
        names = read_json(path)
        if not isinstance(names, list):
            raise DataError(f"{path}: {what} are a JSON list, not {names!r:.80}.")
        return names, None
    if ending == ".npy":
        return read_matrix(path)[0].ravel().tolist(), None
    if ending not in KINDS:
        return read_lines(path), None
    columns = read_table(path).columns
    name = column(columns, None, guesses, path) if len(columns) > 1 else next(iter(columns))
    sole = len(columns) == 1 and guesses is ID and ending in (".csv", ".tsv")
    if sole and column(columns, None, (*ID, *LABEL, what, "names", "class_name"), path) is None:
        raise DataError(
            f"{path}: is its first line, {name!r}, the header, or the first of the {what}?\n"
            f'  Call the header "{what}", or list the {what} in a .txt file, one per line.'
        )
    if name is None:
        raise DataError(
            f'{path}: which column holds the {what}? Call it "{guesses[0]}"; it has the columns '
            f"{short(columns, 20)}."
        )
    named = column({k: v for k, v in columns.items() if k != name}, None, ID, path)
    return list(columns[name]), None if named is None else list(columns[named])


def _with_truth(made: Annotations, path: Path) -> Annotations:
    """The same with the true labels of a file, in the order of the rows or, where they have ids, by these."""
    labels, ids = read_names(path, "true labels", TRUTH)
    if ids is not None:
        known = {cell_text(name): label for name, label in zip(ids, labels)}
        if len(known) < len(ids):
            raise DataError(f"{path}: one of its ids stands there twice; a row has one true label.")
        rows = [cell_text(made.id_of(row)) for row in range(len(made))]
        others = known.keys() - set(rows)
        named = made.ids is not None or NUMBERED in made.candidates.provenance
        if len(others) == len(known) or (others and not named):
            raise DataError(
                f"{path}: its ids, {short(ids, 3)}, are not those of the rows, {short(rows, 3)}.\n"
                "  Leave the ids out where the labels are in the order of the rows."
            )
        labels = [known.get(row) for row in rows]
    return made.with_truth(labels)
