"""From a fitted model to the page: that of `oneof fit`, or one that was fitted in Python."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oneof
from oneof.app.fit_page.facts import Checked, FitFacts, FitOutcome
from oneof.app.fit_page.page import write_fit_report
from oneof.app.review.folder import ReviewData
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import as_candidates, as_numpy, label_columns
from oneof.training.recipe import choose_device


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
