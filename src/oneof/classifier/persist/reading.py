"""Reading a model folder that may be damaged or hostile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import class_array
from oneof.classifier.persist.errors import ModelError
from oneof.classifier.persist.folder import (
    CALIBRATION,
    ENCODER,
    FORMAT,
    MODEL,
    TRAINING,
    WEIGHTS,
    check_entries,
    read_json,
    read_manifest,
)
from oneof.classifier.persist.weights import load_nets, open_tensors
from oneof.classifier.persist.writing import STORED_APART, checked_names
from oneof.classifier.scoring.conformal import checked_scores
from oneof.datasets.scaling import Scaling
from oneof.methods import make_method
from oneof.nets import NETS, as_net

# what reading a description that lies, or weights that lack something, can end in
WRONG_CONTENT = (
    LookupError,
    TypeError,
    AttributeError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    SafetensorError,
)


def load(path: str | Path, net: Any = None) -> PartialLabelClassifier:
    """Read a model written by `PartialLabelClassifier.save`.

    Parameters
    ----------
    path : path
        The folder.
    net : nn.Module or (features, head), optional
        The network, where the model was trained with one of your own: its weights are stored, its
        code is not.
    """
    folder = Path(path)
    check_entries(folder)
    digests = read_manifest(folder)
    facts = read_json(folder / MODEL, digests)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ModelError(f"{folder / MODEL} is no description of a model of format {FORMAT}.")
    if net is not None:
        as_net(net)  # says what is wrong with it
    try:
        estimator = _rebuild(folder, facts, net)
        estimator.net_ = load_nets(folder / WEIGHTS, digests, facts, int(facts["net"]["copies"]), net)
        _read_more(estimator, folder, digests)
    except ModelError:
        raise
    except WRONG_CONTENT as error:
        raise ModelError(
            f"{folder / MODEL} is not complete or not well-formed: {type(error).__name__}: {error}"
        ) from error
    return estimator


def _rebuild(folder: Path, facts: dict[str, Any], net: Any) -> PartialLabelClassifier:
    """Everything of a model but its arrays."""
    file = folder / MODEL
    params: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts["estimator"].items()
    }
    _check_keys(file, params, set(PartialLabelClassifier().get_params(deep=False)) - STORED_APART)
    _check_keys(file, facts["net"], {"name", "copies"})
    name = facts["net"]["name"]
    if name == "custom" and net is None:
        raise ModelError(
            f"the model in {folder} was trained with a network of your own; its code is not stored.\n"
            "  Pass it: oneof.load(path, net=MyNetwork())."
        )
    if name != "custom" and name not in NETS:
        raise ModelError(f"{file} names the net {name!r:.80}; there are {', '.join(sorted(NETS))}.")
    method = make_method(str(facts["method"]["name"]), facts["method"]["params"])
    estimator = PartialLabelClassifier(
        method.info.name,
        method_params=dict(vars(method)),
        net=net if name == "custom" else name,
        **params,
    )
    if not _usable(estimator.device):
        estimator.device = "auto"  # trained on a machine with another device
    names = facts["classes"]
    if not isinstance(names, list) or len(set(checked_names(names))) != len(names):
        raise ModelError(f"{file}: the classes are not a list of different names.")
    estimator.classes_ = class_array(names)
    if facts["n_features_in"] is not None:
        estimator.n_features_in_ = int(facts["n_features_in"])
    estimator.input_shape_ = tuple(int(size) for size in facts["input_shape"])
    if facts["feature_names_in"]:
        estimator.feature_names_in_ = np.asarray(list(map(str, facts["feature_names_in"])), dtype=object)
    estimator.scaling_ = None if facts["scaling"] is None else Scaling.from_dict(facts["scaling"])
    _check_widths(file, estimator)
    estimator.method_ = method
    estimator.history_ = [dict(row) for row in facts["history"]]
    estimator.best_epoch_ = int(facts["best_epoch"])
    estimator.clean_source_ = str(facts["clean"]["source"])
    estimator.n_clean_, estimator.n_selection_ = int(facts["clean"]["rows"]), int(facts["clean"]["selection"])
    estimator.trained_on_ = dict(facts["trained_on"])
    return estimator


def _read_more(estimator: PartialLabelClassifier, folder: Path, digests: dict[str, str]) -> None:
    """What a model may have besides: calibration, an encoder of tables, its training rows."""
    if CALIBRATION in digests:
        with open_tensors(folder / CALIBRATION, digests) as file:
            scores = {key: file.get_tensor(key).numpy() for key in file.keys()}  # noqa: SIM118
        estimator.calibration_scores_ = checked_scores(scores)
    if ENCODER in digests:
        from oneof.tables.encoding import TableEncoder

        try:
            estimator.encoder_ = TableEncoder.from_dict(read_json(folder / ENCODER, digests))
        except ModelError:
            raise
        except WRONG_CONTENT as error:
            raise ModelError(f"{folder / ENCODER} describes no encoder: {error}") from error
        if len(estimator.encoder_.feature_names) != getattr(estimator, "n_features_in_", None):
            raise ModelError(f"{folder / ENCODER} does not give the features that {MODEL} declares.")
    training = folder / TRAINING
    if TRAINING in digests and training.exists():
        with open_tensors(training, digests) as file:
            estimator.transduction_ = file.get_tensor("transduction").numpy()
        if estimator.transduction_.shape[1:] != (len(estimator.classes_),):
            raise ModelError(f"{training} does not fit the {len(estimator.classes_)} classes of {MODEL}.")


def _check_keys(file: Path, found: dict[str, Any], known: set[str]) -> None:
    unknown = set(found) - known
    if unknown:
        raise ModelError(f"{file} has an unknown parameter {sorted(unknown)[0]!r:.80}.")


def _usable(device: Any) -> bool:
    if not isinstance(device, str):
        raise ModelError(f"{MODEL} names the device {device!r:.80}, which is no text.")
    try:
        return torch.device(device).type != "cuda" or torch.cuda.is_available()
    except RuntimeError:
        return device == "auto"


def _check_widths(file: Path, estimator: PartialLabelClassifier) -> None:
    """The number of features is said up to three times: it must be the same."""
    names, scaling = getattr(estimator, "feature_names_in_", None), estimator.scaling_
    said = {None if names is None else len(names), None if scaling is None else len(scaling.shift)}
    if said - {None, getattr(estimator, "n_features_in_", None)}:
        raise ModelError(f"{file}: feature names, scaling and n_features_in do not agree.")
