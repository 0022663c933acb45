"""A taxonomy of labels: the classes are its leaves, and a coarse label stands for all leaves below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from oneof.candidates.cells import CandidateError, CellError, Place, is_missing, ordered, tidy, unknown


class Taxonomy:
    """A tree of labels, or a net in which a label has several parents.

    Parameters
    ----------
    edges : iterable of (parent, child)
        Every label but the top ones is somebody's child. The order does not matter.

    Attributes
    ----------
    names : tuple
        All labels.
    leaves : tuple
        Labels without children: the classes, sorted.

    Examples
    --------
    >>> tree = Taxonomy.from_nested({"bird": ["robin", "sparrow"], "mammal": ["cat"]})
    >>> tree.leaves
    ('cat', 'robin', 'sparrow')
    >>> tree.leaves_of("bird")
    ('robin', 'sparrow')
    """

    def __init__(self, edges: Iterable[tuple[Any, Any]], nodes: Iterable[Any] = ()) -> None:
        self._children: dict[str, dict[str, None]] = {str(tidy(node)): {} for node in nodes}
        for number, (parent, child) in enumerate(edges):
            upper, lower = tidy(parent), tidy(child)
            if is_missing(upper) or is_missing(lower):
                raise CandidateError(
                    f"edge {number} of the taxonomy is incomplete: parent {parent!r}, child {child!r}."
                )
            self._children.setdefault(str(upper), {})[str(lower)] = None
            self._children.setdefault(str(lower), {})
        if not self._children:
            raise CandidateError("the taxonomy has no label at all.")
        try:
            upwards = list(TopologicalSorter(self._children).static_order())
        except CycleError as error:
            raise CandidateError(
                f"the taxonomy goes in a circle: {' > '.join(reversed(error.args[1]))}.\n"
                "  A label cannot lie below itself."
            ) from None
        self._leaves_below: dict[str, tuple[str, ...]] = {}
        for node in upwards:
            below = {leaf: None for child in self._children[node] for leaf in self._leaves_below[child]}
            self._leaves_below[node] = tuple(ordered(below)) if below else (node,)
        self.names = tuple(self._children)
        self.leaves = tuple(ordered(node for node, below in self._children.items() if not below))
        self._column = {leaf: k for k, leaf in enumerate(self.leaves)}

    @classmethod
    def from_nested(cls, tree: Any) -> Taxonomy:
        """From nested mappings and lists as JSON holds them: {"bird": ["robin", {"owl": ["barn owl"]}]}.

        A mapping whose values are all text is read as child: parent.
        """
        if isinstance(tree, Mapping) and tree and all(isinstance(v, str) for v in tree.values()):
            return cls((parent, child) for child, parent in tree.items())
        edges = list(_edges(tree))
        tops = [name for above, name in edges if above is None]
        return cls([edge for edge in edges if edge[0] is not None], tops)

    def column(self, leaf: Any) -> int:
        """Number of a leaf among the classes."""
        return self._column[str(leaf)]

    def leaves_of(self, label: Any, line: int = 0, place: Place | None = None) -> tuple[str, ...]:
        """All leaves below a label; a leaf is its own. The error for an unknown label names the nearest."""
        name = str(tidy(label))
        if name not in self._leaves_below:
            what = unknown(name, self._children, "label of the taxonomy")
            raise CellError(line, place(line) if place else "taxonomy", what)
        return self._leaves_below[name]


def _edges(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(parent, child) of nested mappings and lists; the parent of a label at the top is None."""
    waiting: list[tuple[Any, Any]] = [(None, tree)]
    while waiting:
        above, below = waiting.pop()
        if below is None:
            continue
        items = below if isinstance(below, list | tuple) else [below]
        for item in items:
            for name, inside in item.items() if isinstance(item, Mapping) else [(item, None)]:
                if not isinstance(name, str | int | float) or is_missing(tidy(name)):
                    raise CandidateError(f"a label of the taxonomy is text or a number, not {name!r:.80}.")
                yield above, name
                waiting.append((name, inside))
