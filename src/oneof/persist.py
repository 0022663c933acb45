"""Saving and loading models: safetensors for numbers, JSON for the rest, never code.

A saved model is a folder with `model.json` (what it is), `model.safetensors` (its weights) and
`training.safetensors` (the disambiguated training rows; may be deleted). Loading reads these names
only, checks the weights against the digest in `model.json`, and compares their shapes with the
declared network before any memory is taken for it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

import oneof
from oneof.data.files import replacing, write_text
from oneof.data.scaling import Scaling
from oneof.estimator import PartialLabelClassifier
from oneof.methods import make_method
from oneof.nets import NETS, as_net, build_net

FORMAT = 1


class ModelError(ValueError):
    """A model folder that cannot be used. The message names the file and the reason."""


def save(estimator: PartialLabelClassifier, path: str | Path) -> None:
    """Write a fitted estimator to the folder `path`; an older model there is replaced file by file."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        f"{i}.{name}": value.detach().cpu().contiguous().clone()
        for i, net in enumerate(estimator.net_)
        for name, value in net.state_dict().items()
    }
    own_net = not isinstance(estimator.net, str)
    facts = {
        "format": FORMAT,
        "versions": {"oneof": oneof.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "classes": estimator.classes_.tolist(),
        "n_features_in": getattr(estimator, "n_features_in_", None),
        "feature_names_in": list(getattr(estimator, "feature_names_in_", [])) or None,
        "scaling": None if estimator.scaling_ is None else estimator.scaling_.to_dict(),
        "net": {"name": "custom" if own_net else estimator.net, "copies": len(estimator.net_)},
        "net_options": None if own_net else estimator._net_options(),
        "method": {"name": estimator.method_.info.name, "params": estimator.method_.params()},
        "estimator": _plain_params(estimator),
        "clean": {"source": estimator.clean_source_, "rows": estimator.n_clean_},
        "best_epoch": estimator.best_epoch_,
        "history": estimator.history_,
    }
    with replacing(folder / "model.safetensors") as beside:
        save_file(weights, beside)
        facts["sha256"] = hashlib.sha256(beside.read_bytes()).hexdigest()
    with replacing(folder / "training.safetensors") as beside:
        save_file({"transduction": torch.from_numpy(np.ascontiguousarray(estimator.transduction_))}, beside)
    write_text(folder / "model.json", json.dumps(facts, indent=1) + "\n")


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
    try:
        return _rebuild(folder, facts, net)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{folder / 'model.json'} is not complete or not well-formed: {error!r}") from error


def _read_facts(folder: Path) -> dict[str, Any]:
    file = folder / "model.json"
    if not file.is_file():
        raise ModelError(f"there is no model in {folder}: {file.name} is missing.")
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{file} is no JSON file: {error}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise ModelError(f"{file} has format {found!r}; this version of oneof reads format {FORMAT}.")
    return facts


def _rebuild(folder: Path, facts: dict[str, Any], net: Any) -> PartialLabelClassifier:
    params = facts["estimator"]
    allowed = set(PartialLabelClassifier().get_params(deep=False)) - {"method", "method_params", "net", "run"}
    unknown = set(params) - allowed
    if unknown:
        raise ModelError(f"{folder / 'model.json'} has an unknown parameter {sorted(unknown)[0]!r}.")
    name, copies = facts["net"]["name"], int(facts["net"]["copies"])
    if name == "custom" and net is None:
        raise ModelError(
            f"the model in {folder} was trained with a network of your own; its code is not stored.\n"
            "  Pass it: oneof.load(path, net=MyNetwork())."
        )
    method = make_method(facts["method"]["name"], facts["method"]["params"])
    estimator = PartialLabelClassifier(
        facts["method"]["name"],
        method_params=facts["method"]["params"],
        net=net if name == "custom" else name,
        **params,
    )
    estimator.classes_ = np.asarray(facts["classes"])
    if facts["n_features_in"] is not None:
        estimator.n_features_in_ = int(facts["n_features_in"])
    if facts["feature_names_in"]:
        estimator.feature_names_in_ = np.asarray(facts["feature_names_in"], dtype=object)
    estimator.scaling_ = None if facts["scaling"] is None else Scaling.from_dict(facts["scaling"])
    estimator.method_ = method
    estimator.history_ = facts["history"]
    estimator.best_epoch_ = facts["best_epoch"]
    estimator.clean_source_, estimator.n_clean_ = facts["clean"]["source"], facts["clean"]["rows"]
    estimator.net_ = _load_nets(folder / "model.safetensors", facts, name, copies, net)
    training = folder / "training.safetensors"
    if training.is_file():
        with _open(training) as file:
            estimator.transduction_ = file.get_tensor("transduction").numpy()
    return estimator


def _load_nets(file: Path, facts: dict[str, Any], name: str, copies: int, net: Any) -> tuple[nn.Module, ...]:
    if not file.is_file():
        raise ModelError(f"there are no weights: {file} is missing.")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != facts["sha256"]:
        raise ModelError(
            f"{file} has SHA-256 {digest[:16]}…, but model.json says {str(facts['sha256'])[:16]}…: "
            "the file is damaged or not the one that was saved."
        )
    if name != "custom" and name not in NETS:
        raise ModelError(f"model.json names the net {name!r}; there are {', '.join(sorted(NETS))}.")
    with _open(file) as weights:
        found = {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
        # the declared network is built without memory first: a file that lies about sizes ends here
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
                f"{file}: the weight {wrong!r} has shape {found.get(wrong)}, "
                f"the network of model.json needs {expected.get(wrong)}."
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


def _open(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except SafetensorError as error:
        raise ModelError(f"{file} is not a safetensors file: {error}") from error


def _plain_params(estimator: PartialLabelClassifier) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the method and the net are stored on their own."""
    params = estimator.get_params(deep=False)
    for name in ("method", "method_params", "net", "run"):
        params.pop(name)
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in params.items()}
