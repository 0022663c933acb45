"""The rows in the order of doubt, and what the page shows of one: plain values, ready for JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData
from oneof.app.review.ranking import Signs

View = Literal["doubtful", "all", "decided", "skipped"]
SHOWN_OUTSIDE = 3
SHOWN_FEATURES = 40
IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
}


class Queue:
    """Which rows to look at, and the facts about each."""

    def __init__(self, data: ReviewData) -> None:
        self.data = data
        self.signs = Signs(data)

    def rows(self, view: View, decisions: Decisions, column: int | None = None) -> list[int]:
        """Row numbers, the most doubtful first; `column` keeps rows that may be, or look like, that class."""
        keep = np.ones(len(self.data), dtype=bool)
        if view == "doubtful":
            keep = self.signs.doubtful.copy()
        elif view == "decided":
            keep = _among(decisions.decided, len(self.data))
        elif view == "skipped":
            keep = _among(decisions.skipped, len(self.data))
        if column is not None:
            keep &= self.data.candidates.mask[:, column] | (self.signs.prediction == column)
        order = self.signs.order
        return order[keep[order]].tolist()

    def facts(self, row: int) -> dict[str, Any]:
        """What the page shows of a row. Classes are columns; the page knows their names."""
        data, signs = self.data, self.signs
        mask, p = data.candidates.mask[row], signs.p[row]
        by_belief = np.argsort(-p, kind="stable")
        inside = by_belief[mask[by_belief]].tolist()
        outside = by_belief[~mask[by_belief]][:SHOWN_OUTSIDE].tolist()
        return {
            "row": row,
            "name": str(data.name_of(row)),
            "score": round(float(signs.score[row]), 3),
            "reasons": list(signs.reasons(row)),
            "candidates": [[k, round(float(p[k]), 4)] for k in inside],
            "outside": [[k, round(float(p[k]), 4)] for k in outside],
            "trained_as": None if data.transduction is None else int(signs.pseudo_label[row]),
            "answers": []
            if data.answers is None
            else [[str(who), said] for who, said in data.answers.of(row).items()],
            "features": [
                [str(name), _text(values[row])]
                for name, values in list((data.features or {}).items())[:SHOWN_FEATURES]
            ],
            "image": data.images is not None,
        }

    def image(self, row: int) -> tuple[Path, str] | None:
        """File and type of a row's image; None if there is none that may and can be shown.

        Links are followed first: what matters is where the file really is.
        """
        if self.data.images is None or self.data.image_folder is None:
            return None
        path = Path(os.path.realpath(self.data.images[row]))
        kind = IMAGE_TYPES.get(path.suffix.lower())
        if kind is None or not path.is_relative_to(os.path.realpath(self.data.image_folder)):
            return None
        return (path, kind) if path.is_file() else None


def _among(rows: Any, n: int) -> np.ndarray:
    chosen = np.zeros(n, dtype=bool)
    chosen[list(rows)] = True
    return chosen


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
