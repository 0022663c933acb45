"""The report for a model that was fitted in Python, with any network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oneof
from oneof.app.fit_page.facts import Checked, FitFacts, FitOutcome
from oneof.app.fit_page.page import REVIEWED, write_fit_report
from oneof.app.review import ReviewData, rank_rows
from oneof.app.review.ranking import Signs
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import as_candidates, label_columns, plain


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
        columns = label_columns(np.asarray(plain(checked[1])), model.classes_, "y of the checked rows")
        rows = Checked(model.predict_proba(checked[0]), columns)
    review = ReviewData(
        candidates,
        model.predict_proba(X).astype(np.float32),
        transduction,
        None if ids is None else tuple(ids),
        trusted=np.zeros(len(candidates), dtype=bool),
    )
    given = f"{len(rows.columns)} rows with a known label were given to check by." if rows else ""
    return write_fit_report(
        path,
        FitOutcome(
            title=title,
            candidates=candidates,
            probabilities=review.probabilities,
            transduction=transduction,
            history=model.history_,
            checked=rows,
            clean=given,
            choice=f"Method: {model.method_.info.name}.",
            settings=_settings(model),
            ids=review.ids,
            review=[doubt for doubt in rank_rows(review, REVIEWED) if doubt.reasons],
            n_doubtful=int(Signs(review).doubtful.sum()),
        ),
    )


def _settings(model: PartialLabelClassifier) -> dict[str, str]:
    params = ", ".join(f"{name} {value}" for name, value in model.method_.params().items())
    parameters = sum(p.numel() for net in model.net_ for p in net.parameters())
    net = model.net if isinstance(model.net, str) else type(model.net).__name__
    return {
        "method": model.method_.info.name + (f" ({params})" if params else ""),
        "clean rows": f"{model.n_clean_} ({model.clean_source_}), weight in the loss {model.clean_weight:g}",
        "network": f"{net}, {parameters:,} parameters",
        "optimiser": f"{model.optimiser}, learning rate {model.lr:g}, {len(model.history_)} epochs",
        "seed": str(model.random_state),
        "versions": f"oneof {oneof.__version__}, torch {torch.__version__}, numpy {np.__version__}",
        "curve": "Clean rows, or rows held out of training, predicted right (or inside their set), by epoch.",
    }
