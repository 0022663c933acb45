"""The model card: for people, and only what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneof.candidates.cells import short
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.persist.folder import MARK
from oneof.classifier.prediction import why_not_calibrated
from oneof.classifier.scoring import SCORES
from oneof.training.run import VERSIONS

SHOWN = 20
SETTINGS = ("optimiser", "lr", "weight_decay", "schedule", "epochs", "batch_size", "patience")


def model_card(model: PartialLabelClassifier) -> str:
    """Markdown: what the model learned from and how, what is known about its quality, how to use it."""
    shape, features = model.input_shape_, list(getattr(model, "feature_names_in_", []))
    inputs = f"\n- {shape[0]} features{f': {_listed(features)}' if features else ', without names'}"
    if len(shape) > 1:
        inputs = f"\n- arrays of shape {shape}{', bytes' if model.of_bytes_ else ''}"
    if model.encoder_ is not None:
        inputs += f"\n- made from a table: {model.encoder_.describe()}"
    own_net = not isinstance(model.net, str)
    net = "one of the user's own" if own_net else _written({"": model.net, **model.net_options()})
    if len(model.net_) > 1:
        net += f", {len(model.net_)} copies whose logits are averaged"
    use = {"rows": "X", "what_rows": "X: the features, in the order of training"}
    if model.encoder_ is not None:
        use = {"rows": "table", "what_rows": "table: a data frame with the columns of training"}
    module = type(model.method_).__module__
    prediction_sets, predict_set = f"not calibrated; {why_not_calibrated(model)}", ""
    if hasattr(model, "calibration_scores_"):
        prediction_sets = f"calibrated on {len(model.calibration_scores_[SCORES[0]])} rows"
        predict_set = f"\nmodel.predict_set({use['rows']}, coverage=0.9)  # the classes that remain possible"
    shell = "\n\nor, in a shell: `oneof predict FOLDER TABLE --out predictions.parquet`."
    template = (Path(__file__).parent / "card.md").read_text(encoding="utf-8")
    return template.format(
        mark=MARK,
        model=model,
        about=model.method_.info,
        chosen=f" {model.selection_note_}" if hasattr(model, "selection_note_") else "",
        sets=model.trained_on_,
        n_classes=len(model.classes_),
        classes=_listed(model.classes_.tolist()),
        clean=_clean(model),
        inputs=inputs,
        params=_written(model.method_.params()) or "no settings",
        net=net,
        scaling="none" if model.scaling_ is None else model.scaling_.kind,
        training=_written({name: getattr(model, name) for name in SETTINGS}),
        epochs=len(model.history_),
        best_epoch=model.best_epoch_ + 1,
        accuracy=_accuracy(model),
        prediction_sets=prediction_sets,
        imports="" if module.startswith("oneof.") else f"import {module}  # which has the method\n",
        net_argument=", net=MyNetwork()" if own_net else "",
        predict_set=predict_set,
        shell="" if own_net else shell,
        calibrated="calibrated" if hasattr(model, "temperature_") else "not calibrated",
        versions=VERSIONS,
        **use,
    )


def _clean(model: PartialLabelClassifier) -> str:
    if not model.n_clean_:
        return "none"
    aside = f", {model.n_selection_} of them kept aside" if model.n_selection_ else ""
    source = {
        "given": "with labels that were given as right",
        "singletons": "taken from the rows with one candidate",
        "held-out sets": "with candidate sets, not labels",
    }.get(model.clean_source_, model.clean_source_)
    return f"{model.n_clean_} {source}{aside}"


def _accuracy(model: PartialLabelClassifier) -> str:
    """What was measured on rows the model did not learn from, and on how many."""
    if model.checked_ is not None:
        rows, accuracy = model.checked_["rows"], model.checked_["accuracy"]
        return f"accuracy on {rows} rows that nothing was learned from: {accuracy:.1%}"
    epoch = model.history_[model.best_epoch_] if model.best_epoch_ < len(model.history_) else {}
    value = epoch.get("selection")
    learned = not model.n_selection_ and (model.clean_weight_ > 0 or model.method_.clean_rows(256) > 0)
    if value is None or learned:
        return "no rows were kept aside from learning: nothing is known about the accuracy"
    sets = model.clean_source_ != "given"  # without clean rows, patience holds out rows with their sets
    what = "predictions in their candidate set" if sets else "accuracy"
    bias = " (optimistic: these rows also chose the epoch)" if model.patience is not None else ""
    return f"{what} on {model.n_selection_ or model.n_clean_} rows kept aside: {value:.1%}{bias}"


def _written(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}".strip() for name, value in values.items())


def _listed(names: list[Any]) -> str:
    # names come from data: whatever they hold is shown as text, not as markup
    return short(names, SHOWN, lambda name: f"`{' '.join(str(name).replace('`', ' ').split())}`")
