"""`report.html`: one page that needs no other file and no network, for the screen and for paper."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from oneof.app.fit_page import figures
from oneof.app.fit_page.facts import DECIDED, KEPT, FitFacts, FitOutcome, fit_facts
from oneof.app.fit_page.templates import fill
from oneof.candidates.cells import counted
from oneof.classifier.standings import further_criteria
from oneof.tables.files import write_text

REVIEWED = 50
SHOWN_CANDIDATES = 6
SHOWN_ANNOTATORS = 50
UNBROKEN = 40
"""Names and ids up to so many characters stay on one line."""


def write_fit_report(path: Path | str, outcome: FitOutcome) -> FitFacts:
    """Write the page, whole or not at all; returns the numbers on it."""
    facts = fit_facts(outcome)
    write_text(path, render(outcome, facts))
    return facts


def render(outcome: FitOutcome, facts: FitFacts) -> str:
    """The page as text."""
    return fill(
        "report.html",
        outcome=outcome,
        facts=facts,
        summary=summary(outcome, facts),
        figures=draw(outcome, facts),
        classes=outcome.data.candidates.classes,
        review=[outcome.listed.facts(row) for row in outcome.doubtful[:REVIEWED]],
        shown=SHOWN_CANDIDATES,
        shown_annotators=SHOWN_ANNOTATORS,
        unbroken=UNBROKEN,
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        kept=KEPT,
        further=further_criteria(outcome.selection),
        decided=DECIDED,
    )


def draw(outcome: FitOutcome, facts: FitFacts) -> dict[str, str | None]:
    """The figures by name; None where there is nothing to draw."""
    made: dict[str, str | None] = dict.fromkeys(("belief", "comparison", "reliability", "loss", "selection"))
    made |= {
        "confidence": figures.confidence_histogram(facts.confidence, "probability of the predicted class"),
        "sizes": figures.size_bars(facts.sizes_before, facts.sizes_after, KEPT),
    }
    if len(facts.belief):
        made["belief"] = figures.confidence_histogram(facts.belief, "mass of the label believed in")
    if facts.bins:
        made["reliability"] = figures.reliability_diagram(facts.bins)
    if sum(row["rounds"] > 0 for row in outcome.selection) > 1:
        made["comparison"] = figures.comparison(outcome.selection)
    history = outcome.history
    if len(history) > 1:
        made["loss"] = figures.curve([row.get("loss") for row in history], "loss")
    if any(row.get("selection") is not None for row in history):
        made["selection"] = figures.curve([row.get("selection") for row in history], "clean rows right", True)
    return made


# ---- in sentences -----------------------------------------------------------------------------


def summary(outcome: FitOutcome, facts: FitFacts) -> list[str]:
    """Plain sentences, the most important first."""
    made = []
    rows = f"{facts.learned:,} rows with {outcome.data.candidates.n_classes} classes"
    if facts.accuracy is not None:
        a = facts.accuracy
        made.append(
            f"The model learned from the candidates of {rows}. On {a.n} rows with a trusted label that it "
            f"never saw it is right {a.value:.1%} of the time; with so many rows the true value lies between "
            f"{a.low:.1%} and {a.high:.1%} (95 %)."
        )
        made.append(_calibrated(facts, a.n))
    else:
        made.append(
            f"The model learned from the candidates of {rows}. Nobody can say how often it is right: there "
            "are no rows with a trusted label that it did not learn from. "
            + (outcome.clean or "No trusted labels were given.")
        )
    expected = outcome.data.expected_errors
    if expected is not None:
        made.append(
            f"Of the {facts.learned:,} labels it chose among candidates about {expected:,} "
            f"({expected / max(1, facts.learned):.1%}) are expected to be wrong; the most doubtful "
            "ones are listed below."
        )
    if facts.resolved.n:
        made.append(
            f"Of the {facts.resolved.n:,} rows with more than one candidate it has made up its mind about "
            f"{facts.resolved.value:.0%} (one label has at least {DECIDED:.0%} of the mass)."
        )
    if facts.changed.k:
        made.append(
            f"In {counted(facts.changed.k, 'row')} ({facts.changed.value:.1%}) it predicts another label "
            f"than the one it was trained towards, in {facts.outside.k:,} of them one outside the candidates."
        )
    if facts.pairs and facts.pairs[0].rows > 1:
        pair = facts.pairs[0]
        made.append(
            f"The classes that stand together most often are “{pair.a}” and “{pair.b}” ({pair.rows:,} rows)."
        )
    if outcome.doubtful and expected is None:
        doubtful = len(outcome.doubtful)
        made.append(f"{doubtful:,} rows are worth a second look; the first of them are listed below.")
    return made


def _calibrated(facts: FitFacts, n: int) -> str:
    """Whether probabilities can be read as they are."""
    error = facts.ece
    excess = sum(b.right.n * (b.confidence - b.right.value) for b in facts.bins) / max(1, n)
    few = f" With {n} rows this is a rough figure." if n < 200 else ""
    if error is None or error < 0.05:
        return f"Its probabilities can be read as they are (calibration error {error:.1%}).{few}"
    if abs(excess) < 0.02:
        return f"Its probabilities are off in both directions (calibration error {error:.1%}).{few}"
    way, where = (
        ("surer than it should be", "above") if excess > 0 else ("less sure than it could be", "below")
    )
    return (
        f"It is {way}: its confidence is {abs(excess):.1%} {where} its accuracy on average "
        f"(calibration error {error:.1%}).{few}"
    )
