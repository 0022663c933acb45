"""Checkpoints: nested dictionaries of tensors and plain values in one safetensors file.

The structure is JSON in the file's header and the tensors are its content, so that reading a
checkpoint never runs code. Files are written beside their place and renamed. The header also has a digest of
structure and tensors: what is read back is what was written, or an error.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from oneof.tables.files import SEAL, DamagedError, digest_of, replacing

# what reading a damaged file can end in
NO_TREE = (SafetensorError, LookupError, TypeError, ValueError, AttributeError, RecursionError)


def save_tree(path: Path, tree: Any) -> None:
    """Write nested dicts, lists and tuples of tensors, numbers, strings, booleans and None."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_flatten(tree, tensors))
    header = {"tree": text, SEAL: tree_digest(text, tensors)}
    with replacing(path) as beside:
        save_file(tensors, beside, metadata=header)
        with open(beside, "rb") as file:
            os.fsync(file.fileno())  # a rename must not outlive the content it names


def load_tree(path: Path, needs_digest: bool = False) -> Any:
    """Read what `save_tree` wrote, tensors on the CPU.

    Early versions wrote no digest: such a file is believed, unless there must be one.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = file.metadata()
        expected = header.get(SEAL)
        if (expected or needs_digest) and expected != tree_digest(header["tree"], tensors):
            raise DamagedError(
                f"{path} is damaged: its content does not have the digest it was written with."
            )
        return _unflatten(json.loads(header["tree"]), tensors)
    except DamagedError:
        raise
    except NO_TREE as error:
        raise DamagedError(f"{path} is damaged: {type(error).__name__}: {error!s:.200}") from error


def tree_digest(text: str, tensors: dict[str, Tensor]) -> str:
    """A digest of the structure and of every tensor's name, type, shape and bytes."""
    parts: list[bytes | memoryview] = [text.encode()]
    for name in sorted(tensors):
        parts += [name.encode(), content_bytes(tensors[name])]
        parts.append(f"{tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
    return digest_of(parts)


def content_bytes(tensor: Tensor) -> memoryview:
    """The numbers of a tensor as they lie in memory."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


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
