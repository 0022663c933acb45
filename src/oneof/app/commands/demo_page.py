"""The page that `oneof demo` ends with: a table, the learning curves, and the rows worth a second look."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch

from oneof.app.review.folder import ReviewData
from oneof.app.review.ranking import rank_rows
from oneof.candidates import Candidates
from oneof.tables.files import write_text
from oneof.training import Trained

SHOWN, COUNTED = 12, 50
"""Rows on the page, and rows at the head of the list whose labels are counted."""


def write_page(
    path: Path,
    x: np.ndarray,
    trained: Trained,
    candidates: Candidates,
    table: Sequence[Sequence[str]],
    words: dict[str, str],
    picture: Path | None,
) -> None:
    """`table` begins with its headings; `words` has the page's sentences `setting` and `spread`."""
    rows, found = doubtful_rows(x, trained, candidates)
    head, *body = (
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in line)}</tr>"
        for tag, line in zip(["th"] + ["td"] * len(table), table)
    )
    page = Template(Path(__file__).with_name("demo.html").read_text(encoding="utf-8"))
    filled = page.substitute(
        {name: escape(text) for name, text in words.items()},
        table=f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>",
        curves=f'<img class="curves" src="{picture.name}" alt="Learning curves of all methods">'
        if picture
        else "",
        rows="\n".join(rows),
        found=found,
    )
    write_text(path, filled)


def doubtful_rows(x: np.ndarray, trained: Trained, candidates: Candidates) -> tuple[list[str], str]:
    """The cards of the page, and a sentence that says how good the list is: here the truth is known."""
    with torch.no_grad():
        logits = trained.method.logits(trained.state.eval(), torch.from_numpy(x))
    labels, truth = trained.pseudo_labels, np.asarray(candidates.truth)
    nothing_trusted = np.zeros(len(x), dtype=bool)
    data = ReviewData(
        candidates, logits.softmax(dim=-1).numpy(), transduction=labels, trusted=nothing_trusted
    )
    order = [doubt.row for doubt in rank_rows(data)]
    wrong = labels.argmax(axis=1) != truth
    head = order[: min(COUNTED, len(order))]
    found = (
        f"Of the first {len(head)} labels on this list {wrong[head].mean():.0%} are wrong, of all "
        f"{len(x):,} {wrong.mean():.0%}."
    )
    cards = [
        card(x[row], np.flatnonzero(candidates.rows(np.array([row]))[0]), labels[row], int(truth[row]))
        for row in order[:SHOWN]
    ]
    return cards, found


def card(pixels: np.ndarray, names: Any, label: np.ndarray, truth: int) -> str:
    """One row: its picture, its candidates, what the model believes, and what is true."""
    best = int(label.argmax())
    verdict = "right" if best == truth else f'<span class="wrong">wrong, it is a {truth}</span>'
    return (
        f'<div class="row">{drawn(pixels)}<div>candidates {" ".join(map(str, names))}<br>'
        f"believes <b>{best}</b> ({label[best]:.0%})<br>{verdict}</div></div>"
    )


def drawn(pixels: np.ndarray) -> str:
    """A digit of 8 x 8 pixels, which are between 0 and 1."""
    dots = "".join(
        f'<rect x="{k % 8}" y="{k // 8}" width="1.02" height="1.02" fill="#fff" opacity="{value:.2f}"/>'
        for k, value in enumerate(pixels)
        if value > 0
    )
    return f'<svg viewBox="0 0 8 8" role="img" aria-label="a digit">{dots}</svg>'
