"""`report.html`: one page that needs no other file and no network, for the screen and for paper."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oneof
from oneof.app.fit_page import figures
from oneof.app.fit_page.facts import DECIDED, KEPT, Checked, FitFacts, FitOutcome, fit_facts
from oneof.app.review.folder import ReviewData
from oneof.candidates.cells import counted
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import as_candidates, as_numpy, label_columns
from oneof.classifier.standings import further_criteria
from oneof.lab import rendering
from oneof.tables.files import write_text
from oneof.training.recipe import choose_device

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
    return rendering.render(
        "report.html",
        figures.TEMPLATES,
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


# ---- from a fitted model: that of `oneof fit`, or one that was fitted in Python --------------


def write_model_report(
    path: Path | str,
    model: PartialLabelClassifier,
    X: Any,
    y: Any,
    *,
    checked: tuple[Any, Any] | None = None,
    ids: Sequence[Any] | None = None,
    title: str = "training rows",
) -> FitFacts:
    """Write the page about a fitted model; returns the numbers on it.

    Parameters
    ----------
    path : path
        The page, such as "report.html".
    model : PartialLabelClassifier
        Fitted.
    X, y
        What it was fitted with.
    checked : (X, y), optional
        Rows with true labels that nothing was learned from. Without them the page gives no accuracy.
    ids : sequence, optional
        What you call the rows.
    title : str
        Heading of the page.

    Examples
    --------
    >>> write_model_report("report.html", model, X, mask, checked=(X_test, y_test))  # doctest: +SKIP
    """
    candidates = as_candidates(y)
    transduction = getattr(model, "transduction_", None)
    if transduction is None or len(transduction) != len(candidates):
        known = 0 if transduction is None else len(transduction)
        raise ValueError(
            f"y has {len(candidates)} rows, but the model has a transduction_ of {known}; give the X and y "
            "it was fitted with."
        )
    rows = None
    if checked is not None:
        columns = label_columns(np.asarray(as_numpy(checked[1])), model.classes_, "y of the checked rows")
        rows = Checked(model.predict_proba(checked[0]), columns)
    nobody = np.zeros(len(candidates), dtype=bool)
    ids = None if ids is None else tuple(ids)
    errors = getattr(model, "label_errors_", None)
    wrong = None if errors is None else errors.wrong
    review = ReviewData(
        candidates,
        model.predict_proba(X),
        transduction,
        ids,
        answers=candidates.answers,
        trusted=nobody,
        wrong=wrong,
    )
    settings = model_settings(model)
    settings["clean rows"] = (
        f"{model.n_clean_} ({model.clean_source_}), weight in the loss {model.clean_weight_:g}"
    )
    settings["curve"] = (
        "Clean rows, or rows held out of training, predicted right (or inside their set), by epoch."
    )
    outcome = FitOutcome(
        title,
        review,
        model.history_,
        checked=rows,
        clean=f"{len(rows.columns)} rows with a known label were given to check by." if rows else "",
        choice=getattr(model, "selection_note_", f"Method: {model.method_.info.name}."),
        selection=getattr(model, "selection_", []),
        settings=settings,
    )
    return write_fit_report(path, outcome)


def model_settings(model: PartialLabelClassifier) -> dict[str, str]:
    """How a model was made, in names and values for people."""
    model = model.chosen_model()
    params = ", ".join(f"{name} {value}" for name, value in model.method_.params().items())
    parameters = sum(p.numel() for net in model.net_ for p in net.parameters())
    recipe = model.recipe(model.trained_on_["rows"])
    batch = recipe.rows_per_step(model.trained_on_["rows"])
    chosen = getattr(model, "selection_", None)
    training = (
        f"{model.optimiser}, learning rate {model.lr:g}, weight decay {model.weight_decay:g}, "
        f"{model.schedule}, {len(model.history_)} of {recipe.epochs} epochs, batches of {batch}"
    )
    method = model.method_.info.name + (f" ({params})" if params else "")
    if chosen and chosen[0]["kind"] == "baseline":
        method, training = f"{chosen[0]['name']} (a baseline)", "logistic regression"
    return {
        "method": method,
        "network": f"{model.net if isinstance(model.net, str) else type(model.net).__name__}, "
        f"{parameters:,} parameters",
        "scaling": str(model.scaling),
        "optimiser": training,
        "seed": str(model.random_state),
        "device": str(choose_device(model.device)),
        "versions": f"oneof {oneof.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    }
