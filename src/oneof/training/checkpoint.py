"""Checkpoints: nested dictionaries of tensors and plain values in one safetensors file.

The structure is JSON in the file's header and the tensors are its content, so that reading a
checkpoint never runs code. Files are written beside their place and renamed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from oneof.tables.files import replacing, write_text


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def save_tree(path: Path, tree: Any) -> None:
    """Write nested dicts, lists and tuples of tensors, numbers, strings, booleans and None."""
    tensors: dict[str, Tensor] = {}
    header = {"tree": json.dumps(_flatten(tree, tensors))}
    with replacing(path) as beside:
        save_file(tensors, beside, metadata=header)
        with open(beside, "rb") as file:
            os.fsync(file.fileno())  # a rename must not outlive the content it names


def load_tree(path: Path) -> Any:
    """Read what `save_tree` wrote, tensors on the CPU."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _unflatten(json.loads(file.metadata()["tree"]), tensors)


def tree_to_bytes(tree: Any) -> bytes:
    """A tree as the bytes of a safetensors file, to be sent to another process."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_flatten(tree, tensors)).encode()
    return save({**tensors, "tree": torch.frombuffer(bytearray(text), dtype=torch.uint8)})


def tree_from_bytes(content: bytes) -> Any:
    """What `tree_to_bytes` was given."""
    tensors = load(content)
    return _unflatten(json.loads(tensors.pop("tree").numpy().tobytes()), tensors)


def _flatten(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # a copy, since a file may not hold two names for the same memory
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, dict):
        return {"dict": [[key, _flatten(item, tensors)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_flatten(item, tensors) for item in value]}
    if isinstance(value, list):
        return {"list": [_flatten(item, tensors) for item in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}: {value!r}")


def _unflatten(node: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    ((kind, value),) = node.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: _unflatten(item, tensors) for key, item in value}
    if kind == "value":
        return value
    items = [_unflatten(item, tensors) for item in value]
    return tuple(items) if kind == "tuple" else items


def generator_states(device: torch.device, **own: torch.Generator) -> dict[str, Tensor]:
    """States of torch's default generators and of the given ones."""
    states = {"default": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states | {name: generator.get_state() for name, generator in own.items()}


def restore_generators(states: dict[str, Tensor], device: torch.device, **own: torch.Generator) -> None:
    torch.set_rng_state(states["default"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    for name, generator in own.items():
        generator.set_state(states[name])
