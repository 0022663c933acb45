"""One entry per row: a set, a set per annotator, what it is *not*, or a coarse label of a taxonomy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oneof.candidates.annotations import Annotations
from oneof.candidates.cells import COLLECTIONS, CandidateError, CellError, is_missing, tidy
from oneof.candidates.rules import not_named
from oneof.candidates.taxonomy import Taxonomy
from oneof.tables.importers.assemble import Line, Settings, assemble_lines, row_names


def from_records(
    labels: Iterable[Any],
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    column: str = "labels",
    **more: Any,
) -> Annotations:
    """From one entry per row.

    Parameters
    ----------
    labels : iterable
        Each entry is one of: a label; a list of labels, the candidate set as it is; a list of lists, one
        per annotator whose name is not known; a mapping {annotator: label or labels}.
    ids : sequence, optional
        Names of the rows.
    column : str
        What the entries are called in messages.
    settings, **more
        See `Settings`: `rule, classes, taxonomy, missing, truth_may_be_outside`.

    Examples
    --------
    >>> made = from_records([{"ann": "cat", "bob": ["cat", "dog"]}, {"bob": "dog"}])
    >>> made.candidates.sets()
    [['cat', 'dog'], ['dog']]
    """
    settings = (settings or Settings()).of("records", more)
    lines: list[Line] = []
    forms: dict[str, int] = {}
    n = 0
    for i, entry in enumerate(labels):
        n = i + 1
        form, answers = _answers(entry, i, column)
        if form:
            forms.setdefault(form, i)
        lines += [Line(i, name, label, i) for name, label in answers if not is_missing(label)]
    if not n:
        raise CandidateError("there is no record at all.")
    if not lines:
        raise CandidateError(f'no record has a label in "{column}".')
    named = "by annotator" in forms
    if named and len(forms) > 1:
        line = min(i for form, i in forms.items() if form != "by annotator")
        raise CellError(
            line,
            f'row {line}, "{column}"',
            f"this entry does not say who answered, the one of row {forms['by annotator']} does.\n"
            "  Use one form in the whole file.",
        )

    def place(line: int) -> str:
        return f'row {lines[line].row}, "{column}"'

    return assemble_lines(lines, named, row_names(ids, n), settings, place)


def _answers(entry: Any, i: int, column: str) -> tuple[str, list[tuple[Any, Any]]]:
    """The form of an entry, empty where it says nothing, and its (annotator, labels)."""
    if isinstance(entry, Mapping):
        return "by annotator", [(name, _labels(label, i, column)) for name, label in entry.items()]
    if not isinstance(entry, COLLECTIONS):
        value = tidy(entry)
        return ("", []) if is_missing(value) else ("a set", [(None, value)])
    parts = list(entry)
    nested = [isinstance(part, COLLECTIONS) for part in parts]
    if any(nested) and not all(nested):
        raise CellError(i, f'row {i}, "{column}"', f"{parts!r:.80} mixes labels and lists of labels.")
    if any(nested):
        return "sets", [(None, _labels(part, i, column)) for part in parts]
    return ("a set", [(None, tuple(parts))]) if parts else ("", [])


def _labels(label: Any, i: int, column: str) -> Any:
    if isinstance(label, Mapping):
        raise CellError(i, f'row {i}, "{column}"', f"{label!r:.80} is neither a label nor a list of labels.")
    return tuple(label) if isinstance(label, COLLECTIONS) else tidy(label)


def from_complementary(
    labels: Iterable[Any],
    classes: Sequence[Any] | None = None,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From what each row is *not*: all other classes are its candidates.

    Parameters
    ----------
    labels : iterable
        Per row a label, or several, that are wrong; as in `from_records` also by annotator.
    classes : sequence, optional
        All classes; default: the labels that occur. A class that is never excluded must be named here.
    ids : sequence, optional
        Names of the rows.
    settings, **more
        See `Settings`. `truth_may_be_outside` is False unless it is said otherwise: complementary labels
        are taken at their word.

    Examples
    --------
    >>> from_complementary(["cat", ["cat", "dog"]], ["bee", "cat", "dog"]).candidates.sets()
    [['bee', 'dog'], ['bee']]
    """
    base = settings or Settings(truth_may_be_outside=False)
    chosen = {"rule": not_named, "classes": classes if classes is not None else base.classes, **more}
    return from_records(labels, ids=ids, settings=base.of("complementary", chosen))


def from_taxonomy(
    labels: Iterable[Any],
    taxonomy: Taxonomy,
    *,
    ids: Sequence[Any] | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Annotations:
    """From labels of any level: a coarse one stands for all its leaves, which are the classes.

    Parameters
    ----------
    labels : iterable
        Per row a label of the taxonomy, or several; as in `from_records` also by annotator.
    taxonomy : Taxonomy
    ids : sequence, optional
        Names of the rows.
    settings, **more
        See `Settings`. `truth_may_be_outside` is False unless it is said otherwise.

    Examples
    --------
    >>> tree = Taxonomy.from_nested({"bird": ["robin", "sparrow"], "mammal": ["cat"]})
    >>> from_taxonomy(["bird", "cat"], tree).candidates.sets()
    [['robin', 'sparrow'], ['cat']]
    """
    base = settings or Settings(truth_may_be_outside=False)
    return from_records(labels, ids=ids, settings=base.of("taxonomy", {"taxonomy": taxonomy, **more}))
