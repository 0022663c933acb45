"""`report.html`: one page that needs no other file and no network, for the screen and for paper."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from oneof.app.fit_page import figures
from oneof.app.fit_page.facts import DECIDED, KEPT, FitFacts, FitOutcome, fit_facts
from oneof.app.fit_page.words import headline, summary
from oneof.tables.errors import DataError
from oneof.tables.files import write_text

REVIEWED = 50
SHOWN_CANDIDATES = 6


def write_fit_report(path: Path | str, outcome: FitOutcome) -> FitFacts:
    """Write the page, whole or not at all; returns the numbers on it."""
    facts = fit_facts(outcome)
    write_text(path, render(outcome, facts))
    return facts


def render(outcome: FitOutcome, facts: FitFacts) -> str:
    """The page as text."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise DataError("the report needs jinja2: pip install 'oneof[report]'.") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda v: "–" if math.isnan(v) else f"{v:.1%}"
    drawn = {name: None if svg is None else Markup(svg) for name, svg in draw(outcome, facts).items()}
    return environment.get_template("report.html").render(
        outcome=outcome,
        facts=facts,
        tiles=headline(outcome, facts),
        summary=summary(outcome, facts),
        figures=drawn,
        review=review_rows(outcome),
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        kept=KEPT,
        decided=DECIDED,
    )


def draw(outcome: FitOutcome, facts: FitFacts) -> dict[str, str | None]:
    """The figures by name; None where there is nothing to draw."""
    made: dict[str, str | None] = dict.fromkeys(("belief", "reliability", "loss", "selection"))
    made |= {
        "confidence": figures.confidence_histogram(facts.confidence, "probability of the predicted class"),
        "sizes": figures.size_bars(facts.sizes_before, facts.sizes_after, KEPT),
    }
    if len(facts.belief):
        made["belief"] = figures.confidence_histogram(facts.belief, "mass of the label believed in")
    if facts.bins:
        made["reliability"] = figures.reliability_diagram(facts.bins)
    history = outcome.history
    if history:
        made["loss"] = figures.curve([row.get("loss") for row in history], "loss")
    if any(row.get("selection") is not None for row in history):
        made["selection"] = figures.curve([row.get("selection") for row in history], "clean rows right", True)
    return made


def review_rows(outcome: FitOutcome) -> list[dict[str, Any]]:
    """The list of doubtful rows, ready to be shown."""
    names = outcome.candidates.classes
    made = []
    for doubt in outcome.review[:REVIEWED]:
        p, mask = outcome.probabilities[doubt.row], outcome.candidates.mask[doubt.row]
        label = int(outcome.transduction[doubt.row].argmax())
        inside = [k for k in np.argsort(-p, kind="stable").tolist() if mask[k]]
        best = int(p.argmax())
        made.append(
            {
                "row": doubt.row,
                "name": doubt.row if outcome.ids is None else outcome.ids[doubt.row],
                "label": str(names[label]),
                "score": f"{doubt.score:.2f}",
                "candidates": [(str(names[k]), float(p[k])) for k in inside[:SHOWN_CANDIDATES]],
                "more": max(0, len(inside) - SHOWN_CANDIDATES),
                "other": None if mask[best] else (str(names[best]), float(p[best])),
                "reasons": list(doubt.reasons),
                "image": outcome.thumbnails.get(doubt.row),
            }
        )
    return made
