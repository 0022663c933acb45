"""A model as the content of a folder, and back: `save` and `load`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import nn

from oneof.candidates.cells import native
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.classifier.inputs import class_array, label_columns
from oneof.classifier.persist.card import model_card
from oneof.classifier.persist.folder import (
    CALIBRATION,
    CARD,
    ENCODER,
    FORMAT,
    MODEL,
    TRAINING,
    WEIGHTS,
    ModelError,
    ModelFolder,
    as_json,
    check_weights,
    checked_scaling,
    write_folder,
)
from oneof.classifier.scoring import checked_scores
from oneof.datasets.scaling import Scaling
from oneof.methods import list_methods, make_method
from oneof.nets import NETS, as_net, build_net
from oneof.tables.encoding import TableEncoder
from oneof.tables.files import HALF_CHARACTERS
from oneof.training.run import VERSIONS

STORED_APART = {"method", "method_params", "net", "run", "callbacks"}
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


def save(estimator: PartialLabelClassifier, path: str | Path) -> None:
    """Write a fitted estimator to the folder `path`; a model that is there already is replaced.

    A new folder is written beside its place and renamed. In one that is there, other files stay, and
    everything is written before the first file is renamed; killed in the few moments of renaming, the
    folder is refused by `load`, never believed with files of two models.
    """
    check_is_fitted(estimator)
    checked_scaling(estimator.scaling_, "this model cannot be saved")  # what loading would refuse is said now
    for net in estimator.net_:
        check_weights(net, "this model cannot be saved", own_net=not isinstance(estimator.net, str))
    texts = {MODEL: as_json(description(estimator))}
    if estimator.encoder_ is not None:
        if not hasattr(estimator.encoder_, "to_dict"):
            raise ModelError(
                f"the encoder of this model is a {type(estimator.encoder_).__name__}, which cannot be saved; "
                "encode tables with oneof.tables.encoding.TableEncoder."
            )
        texts[ENCODER] = as_json(estimator.encoder_.to_dict())
    texts[CARD] = model_card(estimator)

    def write(staged: Path) -> None:
        for name, text in texts.items():
            (staged / name).write_text(text, encoding="utf-8", errors=HALF_CHARACTERS)
        for name, tensors in arrays(estimator):
            save_file(tensors, staged / name)

    write_folder(Path(path), write)


def arrays(estimator: PartialLabelClassifier) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """What of a model is numbers, by file."""
    yield (
        WEIGHTS,
        {
            f"{i}.{name}": value.detach().cpu().contiguous().clone()
            for i, net in enumerate(estimator.net_)
            for name, value in net.state_dict().items()
        },
    )
    if hasattr(estimator, "calibration_scores_"):
        yield CALIBRATION, {name: torch.tensor(v) for name, v in estimator.calibration_scores_.items()}
    # not there after loading a folder without that file; where it is large only if somebody has asked for it
    if not callable(vars(estimator).get("_transduction", callable)):
        yield TRAINING, {"transduction": torch.tensor(estimator.transduction_)}


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
        "checked": estimator.checked_,
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


def _stored_params(estimator: PartialLabelClassifier) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the method and the net are stored on their own."""
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in STORED_APART}
    if isinstance(params["random_state"], np.random.RandomState):
        params["random_state"] = None
    if isinstance(params["class_weight"], Mapping):  # the names are text in JSON, and classes again when read
        params["class_weight"] = {str(native(k)): float(v) for k, v in params["class_weight"].items()}
    return params


# ---- and back ---------------------------------------------------------------------------------


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
    folder = ModelFolder(path)
    facts = folder.json(MODEL)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ModelError(f"{folder.path / MODEL} is no description of a model of format {FORMAT}.")
    if net is not None:
        as_net(net)  # says what is wrong with it
    with _told(f"{folder.path / MODEL} is not complete or not well-formed"):
        estimator = _rebuilt(folder.path, facts, net)
        estimator.net_ = _nets(folder, facts, net)
        if CALIBRATION in folder:
            with folder.tensors(CALIBRATION) as file:
                scores = {key: file.get_tensor(key).numpy() for key in file.keys()}  # noqa: SIM118
            estimator.calibration_scores_ = checked_scores(scores)
        if TRAINING in folder:
            with folder.tensors(TRAINING) as file:
                estimator.transduction_ = file.get_tensor("transduction").numpy()
            if estimator.transduction_.shape[1:] != (len(estimator.classes_),):
                raise ModelError(
                    f"{folder.path / TRAINING} does not fit the {len(estimator.classes_)} classes of {MODEL}."
                )
    if ENCODER in folder:
        file = folder.path / ENCODER
        with _told(f"{file} describes no encoder"):
            estimator.encoder_ = encoder = TableEncoder.from_dict(folder.json(ENCODER))
        if len(encoder.feature_names) != getattr(estimator, "n_features_in_", None):
            raise ModelError(f"{file} does not give the features that {MODEL} declares.")
    return estimator


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Whatever wrong content ends in becomes a `ModelError`."""
    try:
        yield
    except ModelError:
        raise
    except WRONG_CONTENT as error:
        raise ModelError(f"{what}: {type(error).__name__}: {error}") from error


def _rebuilt(folder: Path, facts: dict[str, Any], net: Any) -> PartialLabelClassifier:
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
    trained_with = str(facts["method"]["name"])
    if trained_with not in (info.name for info in list_methods()):
        raise ModelError(
            f"the model in {folder} was trained with {trained_with!r:.80}, a method that is not known here, "
            "and its code is not stored.\n"
            "  Import the module that registers it first, or add --plugin FILE.py."
        )
    method = make_method(trained_with, facts["method"]["params"])
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
    if isinstance(estimator.class_weight, dict):
        columns = label_columns(class_array(estimator.class_weight), estimator.classes_, "class_weight")
        estimator.class_weight = {names[k]: w for k, w in zip(columns, estimator.class_weight.values())}
    if facts["n_features_in"] is not None:
        estimator.n_features_in_ = int(facts["n_features_in"])
    estimator.input_shape_ = tuple(int(size) for size in facts["input_shape"])
    if facts["feature_names_in"]:
        estimator.feature_names_in_ = np.asarray(list(map(str, facts["feature_names_in"])), dtype=object)
    scaling = None if facts["scaling"] is None else Scaling.from_dict(facts["scaling"])
    estimator.scaling_ = checked_scaling(scaling, file)
    estimator.of_bytes_ = scaling is not None and scaling.kind == "pixels"
    widths = [len(estimator.feature_names_in_)] if facts["feature_names_in"] else []
    widths += [] if estimator.scaling_ is None else [len(estimator.scaling_.shift)]
    if set(widths) - {facts["n_features_in"]}:
        raise ModelError(f"{file}: feature names, scaling and n_features_in do not agree.")
    estimator.method_ = method
    estimator.history_ = [dict(row) for row in facts["history"]]
    estimator.best_epoch_ = int(facts["best_epoch"])
    estimator.clean_source_ = str(facts["clean"]["source"])
    estimator.n_clean_, estimator.n_selection_ = int(facts["clean"]["rows"]), int(facts["clean"]["selection"])
    estimator.clean_weight_ = float(facts["clean"].get("weight", estimator.clean_weight or 0.0))
    if facts.get("temperature") is not None:
        estimator.temperature_ = float(facts["temperature"])
    if facts.get("choice") is not None:
        estimator.selection_note_ = str(facts["choice"]["note"])
        estimator.selection_ = [dict(row) for row in facts["choice"]["selection"]]
    estimator.trained_on_ = dict(facts["trained_on"])
    estimator.encoder_ = estimator.checked_ = None
    if facts.get("checked") is not None:  # models saved earlier have none
        found = facts["checked"]
        estimator.checked_ = {"rows": int(found["rows"]), "accuracy": float(found["accuracy"])}
    return estimator


def _check_keys(file: Path, found: dict[str, Any], known: set[str]) -> None:
    unknown = set(found) - known
    if unknown:
        raise ModelError(f"{file} has an unknown parameter {sorted(unknown)[0]!r:.80}.")


def _usable(device: Any) -> bool:
    if not isinstance(device, str):
        raise ModelError(f"{MODEL} names the device {device!r:.80}, which is no text.")
    try:
        here = torch.accelerator.current_accelerator(check_available=True)
        return torch.device(device).type in ("cpu", here and here.type)
    except RuntimeError:
        return device == "auto"


def _nets(folder: ModelFolder, facts: dict[str, Any], own: Any) -> tuple[nn.Module, ...]:
    """The networks of a description with their weights.

    A description that lies about sizes ends here: there are no more networks or layers than the file
    has weights for, and the declared network is built without memory first.
    """
    file, name, copies = folder.path / WEIGHTS, facts["net"]["name"], int(facts["net"]["copies"])
    with folder.tensors(WEIGHTS) as weights:
        found = {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
        layers = 0 if name == "custom" else len(facts["net_options"].get("hidden", ()))
        if copies != len({key.partition(".")[0] for key in found}) or layers > len(found):
            raise ModelError(f"{file} holds {len(found)} weights, not those of the network of model.json.")
        if name == "custom":
            nets = [as_net(own) for _ in range(copies)]
        else:
            with torch.device("meta"):
                shape = tuple(int(size) for size in facts["input_shape"])
                sizes = (shape[0] if len(shape) == 1 else shape, len(facts["classes"]))
                nets = [build_net(name, *sizes, **facts["net_options"]) for _ in range(copies)]
        expected = {
            f"{i}.{key}": tuple(value.shape)
            for i, made in enumerate(nets)
            for key, value in made.state_dict().items()
        }
        if found != expected:
            wrong = sorted(k for k in found.keys() | expected.keys() if found.get(k) != expected.get(k))[0]
            raise ModelError(
                f"{file}: the weight {wrong!r} has shape {found.get(wrong)}, the network "
                f"{'you passed' if name == 'custom' else 'of model.json'} needs {expected.get(wrong)}."
            )
        for i, made in enumerate(nets):
            if name != "custom":
                made.to_empty(device="cpu")
            made.load_state_dict({key: weights.get_tensor(f"{i}.{key}") for key in made.state_dict()})
            check_weights(made, file, own_net=name == "custom")
            made.eval()
    return tuple(nets)
