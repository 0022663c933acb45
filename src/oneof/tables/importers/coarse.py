"""Labels that say less than a class: what a row is not, and the coarse labels of a taxonomy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oneof.candidates.annotations import Annotations
from oneof.candidates.rules import not_named
from oneof.candidates.taxonomy import Taxonomy
from oneof.tables.importers.assemble import Settings
from oneof.tables.importers.records import from_records


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
