"""The page that `oneof demo` ends with: a table, the learning curves, and the rows worth a second look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from oneof.app.review.folder import ReviewData
from oneof.app.review.ranking import rank_rows
from oneof.candidates import Candidates
from oneof.lab.rendering import render
from oneof.tables.files import write_text
from oneof.training import Trained

SHOWN, COUNTED = 12, 50
"""Rows on the page, and rows at the head of the list whose labels are counted."""


def write_page(path: Path, x: np.ndarray, trained: Trained, candidates: Candidates, **shown: Any) -> None:
    """Also shown are `table`, which begins with its headings, `picture`, and the sentences of the page."""
    with torch.no_grad():
        logits = trained.method.logits(trained.state.eval(), torch.from_numpy(x))
    labels, truth = trained.pseudo_labels, np.asarray(candidates.truth)
    nobody = np.zeros(len(x), dtype=bool)
    data = ReviewData(candidates, logits.softmax(dim=-1).numpy(), transduction=labels, trusted=nobody)
    order = [doubt.row for doubt in rank_rows(data)]
    wrong, head = labels.argmax(axis=1) != truth, order[:COUNTED]  # here the truth is known
    found = (
        f"Of the first {len(head)} labels on this list {wrong[head].mean():.0%} are wrong, of all "
        f"{len(x):,} {wrong.mean():.0%}."
    )
    rows = [
        {
            "pixels": x[row].tolist(),
            "candidates": candidates.take([row]).positions.tolist(),
            "label": int(labels[row].argmax()),
            "belief": f"{labels[row].max():.0%}",
            "truth": int(truth[row]),
        }
        for row in order[:SHOWN]
    ]
    write_text(path, render("demo.html", Path(__file__).parent, found=found, rows=rows, **shown))
