"""The model card: a page for people beside a saved model. It says only what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import oneof
from oneof.classifier.prediction import why_not_calibrated
from oneof.classifier.scoring import SCORES

if TYPE_CHECKING:
    from oneof.classifier.estimator import PartialLabelClassifier

MARK = "<!-- model card written by oneof -->"
SHOWN = 20
SETTINGS = ("optimiser", "lr", "weight_decay", "schedule", "epochs", "batch_size", "patience")


def model_card(model: PartialLabelClassifier) -> str:
    """Markdown: what the model learned from and how, what is known about its quality, how to use it."""
    about = model.method_.info
    chosen = f" {model.selection_note_}" if hasattr(model, "selection_note_") else ""
    sections = [
        f"{MARK}\n# A classifier learned from candidate labels",
        f"Learned by the method **{about.name}** ({about.venue} {about.year}) from rows that carry one of "
        f"several possible labels.{chosen}",
        "## Trained on\n" + _lines(_training(model)),
        "## Method and settings\n" + _lines(_settings(model)),
        "## Quality\n" + _lines(_quality(model)),
        "## Use\n" + _use(model),
        "## Limits\n" + _lines(_limits(model)),
        f"Saved with oneof {oneof.__version__}, torch {torch.__version__}, numpy {np.__version__}.",
    ]
    return "\n\n".join(sections) + "\n"


def _lines(facts: list[str]) -> str:
    return "\n".join(f"- {fact}" for fact in facts)


def _training(model: PartialLabelClassifier) -> list[str]:
    sets, names = model.trained_on_, model.classes_.tolist()
    facts = [
        f"{sets['rows']} rows with {sets['mean_set_size']:.2f} candidates on average (at most "
        f"{sets['largest_set']}); {sets['singletons']} rows have only one",
        f"{len(names)} classes: {_listed(names)}",
        f"clean rows: {_clean(model)}",
    ]
    width = getattr(model, "n_features_in_", None)
    features = list(getattr(model, "feature_names_in_", []))
    if width is not None:
        facts.append(f"{width} features{f': {_listed(features)}' if features else ', without names'}")
    if model.encoder_ is not None:
        facts.append(f"made from a table: {model.encoder_.describe()}")
    return facts


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


def _settings(model: PartialLabelClassifier) -> list[str]:
    own = not isinstance(model.net, str)
    options = {} if own else model.net_options()
    net = "one of the user's own" if own else _written({"": model.net, **options})
    copies = f", {len(model.net_)} copies whose logits are averaged" if len(model.net_) > 1 else ""
    return [
        f"method: {model.method_.info.name}; {_written(model.method_.params()) or 'no settings'}",
        f"network: {net}{copies}",
        f"scaling of the features: {'none' if model.scaling_ is None else model.scaling_.kind}",
        f"training: {_written({name: getattr(model, name) for name in SETTINGS})}, clean_weight "
        f"{model.clean_weight_:g}",
        f"{len(model.history_)} epochs were run, the weights are those after epoch {model.best_epoch_ + 1}",
        f"random_state: {model.random_state!r}",
    ]


def _quality(model: PartialLabelClassifier) -> list[str]:
    """What was measured on rows the model did not learn from, and on how many."""
    facts = []
    epoch = model.history_[model.best_epoch_] if model.best_epoch_ < len(model.history_) else {}
    value = epoch.get("selection")
    rows = model.n_selection_ or model.n_clean_
    learned = not model.n_selection_ and (model.clean_weight_ > 0 or model.method_.clean_rows(256) > 0)
    if model.checked_ is not None:
        facts.append(
            f"accuracy on {model.checked_['rows']} rows that nothing was learned from: "
            f"{model.checked_['accuracy']:.1%}"
        )
    elif value is None or learned:
        facts.append("no rows were kept aside from learning: nothing is known about the accuracy")
    else:
        sets = model.clean_source_ != "given"  # without clean rows, patience holds out rows with their sets
        what = "predictions in their candidate set" if sets else "accuracy"
        bias = " (optimistic: these rows also chose the epoch)" if model.patience is not None else ""
        facts.append(f"{what} on {rows} rows kept aside: {value:.1%}{bias}")
    scores = getattr(model, "calibration_scores_", None)
    if scores is None:
        facts.append(f"prediction sets: not calibrated; {why_not_calibrated(model)}")
    else:
        facts.append(f"prediction sets: calibrated on {len(scores[SCORES[0]])} rows")
    return facts


def _use(model: PartialLabelClassifier) -> str:
    own = ", net=MyNetwork()" if not isinstance(model.net, str) else ""
    lines = [
        "import oneof",
        "",
        f'model = oneof.load("FOLDER"{own})  # safetensors and JSON, no code is run',
        "model.predict(X)  # X: the features, in the order of training",
        "model.predict(X, reject_below=0.8)  # None where the model is not sure enough",
    ]
    if hasattr(model, "calibration_scores_"):
        lines.append("model.predict_set(X, coverage=0.9)  # the classes that remain possible")
    if model.encoder_ is not None:
        lines[3] = "model.predict(model.encoder_.transform(table))  # table: a dictionary of columns"
    shell = "" if own else "\n\nor, in a shell: `oneof predict FOLDER TABLE --out predictions.parquet`."
    return "```python\n" + "\n".join(lines) + "\n```" + shell


def _limits(model: PartialLabelClassifier) -> list[str]:
    return [
        f"It knows {len(model.classes_)} classes and gives one of them for every row, also for rows that are "
        "none of them.",
        "The label of a training row was only known to be among its candidates; habits of whoever gave the "
        "candidates may have been learned with it.",
        f"Probabilities were {'' if hasattr(model, 'temperature_') else 'not '}calibrated; the coverage of "
        "prediction sets holds on average, for rows from the same source as the calibration rows.",
    ]


def _written(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}".strip() for name, value in values.items())


def _listed(names: list[Any]) -> str:
    # names come from data: whatever they hold is shown as text, not as markup
    shown = [f"`{' '.join(str(name).replace('`', ' ').split())}`" for name in names[:SHOWN]]
    return ", ".join(shown) + (f", … {len(names)} in all" if len(names) > SHOWN else "")
