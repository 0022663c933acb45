"""Names of one class in several spellings: Sandy Loam, SANDY LOAM, sandy_loam."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from oneof.candidates.cells import COLLECTIONS


def form(name: str) -> str:
    """What the spellings of a name have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())


def one_spelling(cells: Sequence[Any]) -> list[Any]:
    """Cells with a label or several, each label spelled as it is most often."""
    usual: dict[str, str] = {}
    times = Counter(v for cell in cells for v in _labels(cell) if isinstance(v, str))
    for label, _ in times.most_common():
        usual.setdefault(form(label), label)
    made = []
    for cell in cells:
        if labels := [usual[form(v)] for v in _labels(cell) if isinstance(v, str)]:
            cell = tuple(dict.fromkeys(labels)) if isinstance(cell, COLLECTIONS) else labels[0]
        made.append(cell)
    return made


def spelled_as(labels: np.ndarray, classes: Iterable[Any]) -> np.ndarray:
    """Labels in the spelling of these classes, where they are one of them."""
    names = {name for name in classes if isinstance(name, str)}
    usual = {form(name): name for name in names}
    made = labels.astype(object)
    made[:] = [usual.get(form(v), v) if isinstance(v, str) and v not in names else v for v in labels]
    return made


def _labels(cell: Any) -> Sequence[Any]:
    return list(cell) if isinstance(cell, COLLECTIONS) else [cell]
