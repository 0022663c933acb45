"""Writing a model folder, whole or not at all, with a card for people that says only what was recorded."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted

from oneof.candidates.cells import short
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.persist.folder import (
    CALIBRATION,
    CARD,
    ENCODER,
    FORMAT,
    LISTED,
    MANIFEST,
    MODEL,
    TRAINING,
    WEIGHTS,
    ModelError,
    check_entries,
    check_weights,
    checked_scaling,
)
from oneof.classifier.prediction import why_not_calibrated
from oneof.classifier.scoring import SCORES
from oneof.tables.files import HALF_CHARACTERS, sha256_of, why_not_written
from oneof.training.run import VERSIONS

STORED_APART = {"method", "method_params", "net", "run", "callbacks"}


def save(estimator: PartialLabelClassifier, path: str | Path) -> None:
    """Write a fitted estimator to the folder `path`; a model that is there already is replaced.

    A new folder is written beside its place and renamed. In one that is there, other files stay, and
    everything is written before the first file is renamed; killed in the few moments of renaming, the
    folder is refused by `load`, never believed with files of two models.
    """
    check_is_fitted(estimator)
    folder = Path(path)
    checked_scaling(estimator.scaling_, "this model cannot be saved")  # what loading would refuse is said now
    for net in estimator.net_:
        check_weights(net, "this model cannot be saved", own_net=not isinstance(estimator.net, str))
    texts = {MODEL: _text(description(estimator))}
    if estimator.encoder_ is not None:
        if not hasattr(estimator.encoder_, "to_dict"):
            raise ModelError(
                f"the encoder of this model is a {type(estimator.encoder_).__name__}, which cannot be saved; "
                "encode tables with oneof.tables.encoding.TableEncoder."
            )
        texts[ENCODER] = _text(estimator.encoder_.to_dict())
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{folder} is a file; a model is saved to a folder.")
    new = not folder.exists()
    if not new:
        check_entries(folder)
    place = Path(os.path.abspath(folder))
    staged = (place.with_name if new else place.joinpath)(f".{place.name}.{secrets.token_hex(4)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        staged.mkdir()
        _write_files(estimator, texts, staged)
        if new:
            os.replace(staged, place)
        else:
            _move_files(staged, place)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the model cannot be saved to {folder}: {why_not_written(error)}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write_files(estimator: PartialLabelClassifier, texts: dict[str, str], staged: Path) -> None:
    for name, text in texts.items():
        (staged / name).write_text(text, encoding="utf-8")
    tensors = {
        f"{i}.{name}": value.detach().cpu().contiguous().clone()
        for i, net in enumerate(estimator.net_)
        for name, value in net.state_dict().items()
    }
    save_file(tensors, staged / WEIGHTS)
    if hasattr(estimator, "calibration_scores_"):
        scores = {name: torch.tensor(v) for name, v in estimator.calibration_scores_.items()}
        save_file(scores, staged / CALIBRATION)
    # not there after loading a folder without that file; where it is large only if somebody has asked for it
    if not callable(vars(estimator).get("_transduction", callable)):
        save_file({"transduction": torch.tensor(estimator.transduction_)}, staged / TRAINING)
    for file in staged.iterdir():
        file.chmod((staged / MODEL).stat().st_mode)  # safetensors files are written for their owner only
    written = sorted(staged.iterdir())
    files = {file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in written}
    (staged / CARD).write_text(model_card(estimator), encoding="utf-8", errors=HALF_CHARACTERS)
    (staged / MANIFEST).write_text(_text({"format": FORMAT, "files": files}), encoding="utf-8")


def _move_files(staged: Path, folder: Path) -> None:
    card = folder / CARD
    if card.exists() and MARK not in card.read_text(encoding="utf-8", errors="replace"):
        warnings.warn(f"{card} is not a model card of oneof, so it stays and none is written.", stacklevel=4)
        (staged / CARD).unlink()
    # the manifest first: beside the files of an older model it is refused, not believed
    names = sorted((file.name for file in staged.iterdir()), key=lambda name: name != MANIFEST)
    for name in names:
        os.replace(staged / name, folder / name)
    for name in set(LISTED) - set(names):
        (folder / name).unlink(missing_ok=True)


def description(estimator: PartialLabelClassifier) -> dict[str, Any]:
    """Everything about a model that is no array, as plain values."""
    own_net = not isinstance(estimator.net, str)
    return {
        "format": FORMAT,
        "versions": VERSIONS,
        "classes": checked_names(estimator.classes_.tolist()),
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "input_shape": list(estimator.input_shape_),
        "feature_names_in": list(getattr(estimator, "feature_names_in_", [])) or None,
        "scaling": None if estimator.scaling_ is None else estimator.scaling_.to_dict(),
        "net": {"name": "custom" if own_net else estimator.net, "copies": len(estimator.net_)},
        "net_options": None if own_net else estimator.net_options(),
        "method": {"name": estimator.method_.info.name, "params": estimator.method_.params()},
        "estimator": _stored_params(estimator),
        "clean": {
            "source": estimator.clean_source_,
            "rows": estimator.n_clean_,
            "selection": estimator.n_selection_,
            "weight": estimator.clean_weight_,
        },
        "trained_on": estimator.trained_on_,
        "best_epoch": estimator.best_epoch_,
        "history": estimator.history_,
        "temperature": getattr(estimator, "temperature_", None),
        "choice": _choice(estimator),
    }


def _choice(estimator: PartialLabelClassifier) -> dict[str, Any] | None:
    """What `method="auto"` compared, where it did; scores of what was never judged are null."""
    if not hasattr(estimator, "selection_"):
        return None
    rows = [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in estimator.selection_
    ]
    return {"note": estimator.selection_note_, "selection": rows}


def checked_names(names: list[Any]) -> list[Any]:
    """Class names that JSON keeps what they are."""
    strange = [name for name in names if not isinstance(name, str | int | float)]
    if strange:
        raise ModelError(
            f"the class {strange[0]!r} is a {type(strange[0]).__name__}; a model is saved with class names "
            "that are text or numbers."
        )
    return names


def _text(facts: Any) -> str:
    try:
        return json.dumps(facts, indent=1) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"this model cannot be saved as JSON: {error}.") from error


def _stored_params(estimator: PartialLabelClassifier) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the method and the net are stored on their own."""
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in STORED_APART}
    if isinstance(params["random_state"], np.random.RandomState):
        params["random_state"] = None
    return {k: v.tolist() if isinstance(v, np.generic | np.ndarray) else v for k, v in params.items()}


# ---- the card ---------------------------------------------------------------------------------

MARK = "<!-- model card written by oneof -->"
SHOWN = 20
SETTINGS = ("optimiser", "lr", "weight_decay", "schedule", "epochs", "batch_size", "patience")


def model_card(model: PartialLabelClassifier) -> str:
    """Markdown: what the model learned from and how, what is known about its quality, how to use it."""
    width, features = getattr(model, "n_features_in_", None), list(getattr(model, "feature_names_in_", []))
    inputs = ""
    if width is not None:
        inputs += f"\n- {width} features{f': {_listed(features)}' if features else ', without names'}"
    if model.encoder_ is not None:
        inputs += f"\n- made from a table: {model.encoder_.describe()}"
    own_net = not isinstance(model.net, str)
    net = "one of the user's own" if own_net else _written({"": model.net, **model.net_options()})
    if len(model.net_) > 1:
        net += f", {len(model.net_)} copies whose logits are averaged"
    use = {"rows": "X", "what_rows": "X: the features, in the order of training"}
    if model.encoder_ is not None:
        use = {"rows": "model.encoder_.transform(table)", "what_rows": "table: a dictionary of columns"}
    module = type(model.method_).__module__
    prediction_sets, predict_set = f"not calibrated; {why_not_calibrated(model)}", ""
    if hasattr(model, "calibration_scores_"):
        prediction_sets = f"calibrated on {len(model.calibration_scores_[SCORES[0]])} rows"
        predict_set = "\nmodel.predict_set(X, coverage=0.9)  # the classes that remain possible"
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
