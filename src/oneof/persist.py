"""Saving and loading models: safetensors for numbers, JSON for the rest, never code.

A saved model is a folder with `model.json` (what it is), `model.safetensors` (its weights) and
`training.safetensors` (the disambiguated training rows; may be deleted). Loading reads these names
only, checks them against the digests in `model.json`, and compares the shapes of the weights with the
declared network before any memory is taken for it. The digests find damage, not forgery: a model from
somebody else can predict what it likes, but loading it runs none of its code.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import oneof
from oneof.data.files import replacing
from oneof.data.scaling import Scaling
from oneof.estimator import PartialLabelClassifier
from oneof.inputs import class_array
from oneof.methods import make_method
from oneof.nets import NETS, as_net, build_net

FORMAT = 1
STORED_APART = {"method", "method_params", "net", "run"}
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


class ModelError(ValueError):
    """A model folder that cannot be used. The message names the file and the reason."""


def save(estimator: PartialLabelClassifier, path: str | Path) -> None:
    """Write a fitted estimator to the folder `path`; a model that is there already is replaced.

    Everything is written beside its place first and renamed at the end, so that a failure leaves what
    was there.
    """
    check_is_fitted(estimator)
    folder = Path(path)
    weights = {
        f"{i}.{name}": value.detach().cpu().contiguous().clone()
        for i, net in enumerate(estimator.net_)
        for name, value in net.state_dict().items()
    }
    own_net = not isinstance(estimator.net, str)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "versions": {"oneof": oneof.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "classes": _checked_names(estimator.classes_.tolist()),
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names_in": list(getattr(estimator, "feature_names_in_", [])) or None,
        "scaling": None if estimator.scaling_ is None else estimator.scaling_.to_dict(),
        "net": {"name": "custom" if own_net else estimator.net, "copies": len(estimator.net_)},
        "net_options": None if own_net else estimator._net_options(),
        "method": {"name": estimator.method_.info.name, "params": estimator.method_.params()},
        "estimator": _plain_params(estimator),
        "clean": {
            "source": estimator.clean_source_,
            "rows": estimator.n_clean_,
            "selection": estimator.n_selection_,
        },
        "best_epoch": estimator.best_epoch_,
        "history": estimator.history_,
    }
    made = {"model.safetensors": weights}
    if hasattr(estimator, "transduction_"):  # not there after loading a folder without that file
        made["training.safetensors"] = {"transduction": torch.tensor(estimator.transduction_)}
    _text(facts)  # what cannot be written is noticed before any file is
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{folder} is a file; a model is saved to a folder.")
    with ExitStack() as files:
        facts["sha256"] = {}
        for name, tensors in made.items():
            beside = files.enter_context(replacing(folder / name))
            save_file(tensors, beside)
            facts["sha256"][name] = _digest(beside)
        # the description is renamed first: beside the files of an older model it is refused, not believed
        files.enter_context(replacing(folder / "model.json")).write_text(_text(facts), encoding="utf-8")
    if "training.safetensors" not in made:
        (folder / "training.safetensors").unlink(missing_ok=True)


def _text(facts: dict[str, Any]) -> str:
    try:
        return json.dumps(facts, indent=1) + "\n"
    except (TypeError, ValueError) as error:
        raise ModelError(f"this model cannot be saved as JSON: {error}.") from error


def _digest(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checked_names(names: list[Any]) -> list[Any]:
    strange = [name for name in names if not isinstance(name, str | int | float)]
    if strange:
        raise ModelError(
            f"the class {strange[0]!r} is a {type(strange[0]).__name__}; a model is saved with class names "
            "that are text or numbers."
        )
    return names


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
    facts = _read_facts(folder)
    if net is not None:
        as_net(net)  # says what is wrong with it
    try:
        return _rebuild(folder, facts, net)
    except ModelError:
        raise
    except WRONG_CONTENT as error:
        raise ModelError(
            f"{folder / 'model.json'} is not complete or not well-formed: {type(error).__name__}: {error}"
        ) from error


def _read_facts(folder: Path) -> dict[str, Any]:
    file = folder / "model.json"
    if not file.is_file():
        raise ModelError(f"there is no model in {folder}: {file.name} is missing.")
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is no JSON file: {error}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise ModelError(f"{file} has format {found!r}; this version of oneof reads format {FORMAT}.")
    return facts


def _rebuild(folder: Path, facts: dict[str, Any], net: Any) -> PartialLabelClassifier:
    params: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts["estimator"].items()
    }
    allowed = set(PartialLabelClassifier().get_params(deep=False)) - STORED_APART
    unknown = set(params) - allowed
    if unknown:
        raise ModelError(f"{folder / 'model.json'} has an unknown parameter {sorted(unknown)[0]!r}.")
    name, copies = facts["net"]["name"], facts["net"]["copies"]
    if name == "custom" and net is None:
        raise ModelError(
            f"the model in {folder} was trained with a network of your own; its code is not stored.\n"
            "  Pass it: oneof.load(path, net=MyNetwork())."
        )
    if name != "custom" and name not in NETS:
        raise ModelError(f"model.json names the net {name!r}; there are {', '.join(sorted(NETS))}.")
    method = make_method(str(facts["method"]["name"]), facts["method"]["params"])
    estimator = PartialLabelClassifier(
        method.info.name,
        method_params=facts["method"]["params"],
        net=net if name == "custom" else name,
        **params,
    )
    if not _usable(estimator.device):
        estimator.device = "auto"  # trained on a machine with another device
    names = facts["classes"]
    if not isinstance(names, list) or len(set(_checked_names(names))) != len(names):
        raise ModelError(f"{folder / 'model.json'}: the classes are not a list of different names.")
    estimator.classes_ = class_array(names)
    if facts["n_features_in"] is not None:
        estimator.n_features_in_ = int(facts["n_features_in"])
    if facts["feature_names_in"]:
        estimator.feature_names_in_ = np.asarray(list(map(str, facts["feature_names_in"])), dtype=object)
    estimator.scaling_ = None if facts["scaling"] is None else Scaling.from_dict(facts["scaling"])
    _check_widths(folder, estimator)
    estimator.method_ = method
    estimator.history_ = [dict(row) for row in facts["history"]]
    estimator.best_epoch_ = int(facts["best_epoch"])
    estimator.clean_source_ = str(facts["clean"]["source"])
    estimator.n_clean_, estimator.n_selection_ = int(facts["clean"]["rows"]), int(facts["clean"]["selection"])
    estimator.net_ = _load_nets(folder / "model.safetensors", facts, name, int(copies), net)
    training = folder / "training.safetensors"
    if training.is_file():
        with _open(training, facts) as file:
            estimator.transduction_ = file.get_tensor("transduction").numpy()
        if estimator.transduction_.shape[1:] != (len(estimator.classes_),):
            raise ModelError(f"{training} does not fit the {len(estimator.classes_)} classes of model.json.")
    return estimator


def _usable(device: Any) -> bool:
    if not isinstance(device, str):
        raise ModelError(f"model.json names the device {device!r}, which is no text.")
    try:
        return torch.device(device).type != "cuda" or torch.cuda.is_available()
    except RuntimeError:
        return device == "auto"


def _check_widths(folder: Path, estimator: PartialLabelClassifier) -> None:
    """The number of features is said up to three times: it must be the same."""
    names, scaling = getattr(estimator, "feature_names_in_", None), estimator.scaling_
    said = {None if names is None else len(names), None if scaling is None else len(scaling.shift)}
    if said - {None, getattr(estimator, "n_features_in_", None)}:
        raise ModelError(f"{folder / 'model.json'}: feature names, scaling and n_features_in do not agree.")


def _load_nets(file: Path, facts: dict[str, Any], name: str, copies: int, net: Any) -> tuple[nn.Module, ...]:
    if not file.is_file():
        raise ModelError(f"there are no weights: {file} is missing.")
    with _open(file, facts) as weights:
        found = {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
        # a file that lies about sizes ends here: no more networks or layers than it has weights for, and
        # the declared network is built without memory first
        layers = 0 if name == "custom" else len(facts["net_options"].get("hidden", ()))
        if copies != len({key.partition(".")[0] for key in found}) or layers > len(found):
            raise ModelError(f"{file} holds {len(found)} weights, not those of the network of model.json.")
        if name == "custom":
            nets = [as_net(net) for _ in range(copies)]
        else:
            with torch.device("meta"):
                sizes = (int(facts["n_features_in"]), len(facts["classes"]))
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
            values: dict[str, Tensor] = {
                key.partition(".")[2]: weights.get_tensor(key) for key in found if key.startswith(f"{i}.")
            }
            if name != "custom":
                made.to_empty(device="cpu")
            made.load_state_dict(values)
            made.eval()
    return tuple(nets)


def _open(file: Path, facts: dict[str, Any]) -> Any:
    """Open a safetensors file after comparing it with its digest in model.json."""
    digest, expected = _digest(file), facts["sha256"][file.name]
    if digest != expected:
        raise ModelError(
            f"{file} has SHA-256 {digest[:16]}…, but model.json says {str(expected)[:16]}…: "
            "the file is damaged or not the one that was saved."
        )
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        raise ModelError(f"{file} is not a safetensors file: {error}") from error


def _plain_params(estimator: PartialLabelClassifier) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the method and the net are stored on their own."""
    params = estimator.get_params(deep=False)
    for name in STORED_APART:
        params.pop(name)
    if isinstance(params["random_state"], np.random.RandomState):
        params["random_state"] = None
    return {
        name: value.tolist() if isinstance(value, np.generic | np.ndarray) else value
        for name, value in params.items()
    }
