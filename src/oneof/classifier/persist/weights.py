"""Safetensors files that may lie: what they declare is checked before memory is taken for it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from oneof.classifier.persist.errors import ModelError
from oneof.classifier.persist.folder import checked
from oneof.nets import as_net, build_net

HEADER_LIMIT = 8 << 20
# bytes of one number; models and candidate sets need no others
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def open_tensors(file: Path, digests: dict[str, str]) -> Any:
    """An open safetensors file, after its digest and its header were checked."""
    checked(file, digests)
    try:
        check_header(file)
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not a safetensors file that can be used: {error}") from error


def check_header(file: Path) -> None:
    """Compare the declared shapes with the size of the file, without reading anything but the header."""
    size = file.stat().st_size
    with open(file, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 2 <= length <= min(HEADER_LIMIT, size - 8):
            raise ValueError(f"its header claims {length} bytes, the file has {size}")
        header = json.loads(stream.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no list of tensors")
    header.pop("__metadata__", None)
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(*item)):
        begin, stop = _offsets(name, entry)
        shape, kind = entry.get("shape"), entry.get("dtype")
        if not isinstance(kind, str) or kind not in SIZES:
            raise ValueError(f"the tensor {name!r:.80} has the type {kind!r:.40}")
        if not isinstance(shape, list) or not all(type(k) is int and k >= 0 for k in shape):
            raise ValueError(f"the tensor {name!r:.80} has the shape {shape!r:.80}")
        if math.prod(shape) * SIZES[kind] != stop - begin or begin != end:
            raise ValueError(
                f"the tensor {name!r:.80} of shape {tuple(shape)!s:.80} claims bytes {begin} to {stop}, "
                "which it cannot fill"
            )
        end = stop
    if end != size - 8 - length:
        raise ValueError(f"its tensors claim {end} bytes, the file has {size - 8 - length} for them")


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(k) is int for k in offsets)):
        raise ValueError(f"the tensor {name!r:.80} has no place in the file: {entry!r:.80}")
    return offsets[0], offsets[1]


def load_nets(
    file: Path, digests: dict[str, str], facts: dict[str, Any], copies: int, own: Any
) -> tuple[nn.Module, ...]:
    """The networks of a description with their weights.

    A description that lies about sizes ends here: there are no more networks or layers than the file
    has weights for, and the declared network is built without memory first.
    """
    name = facts["net"]["name"]
    with open_tensors(file, digests) as weights:
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
            own_keys = [key for key in found if key.startswith(f"{i}.")]
            made.load_state_dict({key.partition(".")[2]: weights.get_tensor(key) for key in own_keys})
            made.eval()
    return tuple(nets)
