"""How a model was made, in a few lines for people."""

from __future__ import annotations

import platform

import numpy as np
import torch

import oneof
from oneof.app.fit.division import Division
from oneof.app.fit.estimate import as_time
from oneof.app.fit.training_data import TrainingData
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.tables.encoding import TableEncoder
from oneof.training.recipe import choose_device


def settings_of(
    model: PartialLabelClassifier,
    data: TrainingData,
    encoder: TableEncoder | None,
    division: Division,
    seconds: float,
) -> dict[str, str]:
    """Names and values for the end of the report."""
    params = ", ".join(f"{name} {value}" for name, value in model.method_.params().items())
    parameters = sum(p.numel() for net in model.net_ for p in net.parameters())
    batch = model._recipe().rows_per_step(len(division.rows))
    made = {
        "rows": f"{len(data):,}, {len(division.rows):,} of them in training",
        "candidates": data.candidates.describe(),
        "features": "images" if encoder is None else encoder.describe(),
        "method": f"{model.method_.info.name}" + (f" ({params})" if params else ""),
        "clean rows": f"{division.sentence()} Weight in the loss: {model.clean_weight:g}.",
        "network": f"{model.net}, {parameters:,} parameters",
        "scaling": str(model.scaling),
        "optimiser": f"{model.optimiser}, learning rate {model.lr:g}, weight decay {model.weight_decay:g}, "
        f"{model.schedule}, {len(model.history_)} of {model.epochs} epochs, batches of {batch}",
        "seed": str(model.random_state),
        "device": str(choose_device(model.device)),
        "time": as_time(seconds),
        "versions": f"oneof {oneof.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}",
    }
    if encoder is not None and encoder.left_out:
        made["left out"] = "; ".join(f"{name} {why}" for name, why in encoder.left_out.items())
    provenance = {k: v for k, v in data.candidates.provenance.items() if k in ("format", "rule", "file")}
    if provenance:
        made["origin of the candidates"] = ", ".join(f"{k} {v}" for k, v in provenance.items())
    made["curve"] = _curve_caption(model, division)
    return made


def _curve_caption(model: PartialLabelClassifier, division: Division) -> str:
    if model.clean_source_ == "held-out sets":
        return "Rows held out of training whose prediction is among their candidates, by epoch."
    if not division.learns:
        return "Clean rows predicted right, by epoch. Nothing was learned from them."
    return "Clean rows predicted right, by epoch. These rows were learned from: this is no test."
