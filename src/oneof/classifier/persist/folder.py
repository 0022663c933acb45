"""The files of a model folder, written whole or not at all. They may be damaged or hostile: what is read is
checked first."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from oneof.datasets.scaling import Scaling
from oneof.tables.files import only_plain_entries, sha256_of, why_not_written

FORMAT = 2
MANIFEST, MODEL, WEIGHTS = "manifest.json", "model.json", "model.safetensors"
ENCODER, CALIBRATION = "encoder.json", "calibration.safetensors"
TRAINING, CARD = "training.safetensors", "README.md"
MARK = "<!-- model card written by oneof -->"
"""The first line of a card that may be written over."""
NEEDED = (MODEL, WEIGHTS)
DELETABLE = (TRAINING,)
LISTED = (*NEEDED, ENCODER, CALIBRATION, *DELETABLE)

# endings of files that Python or torch would unpickle: they have no place in a model folder
PICKLES = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib", ".dill", ".p"}
PICKLE_START = re.compile(rb"\x80[\x02-\x05]")

LARGEST = 1e100
"""Of the numbers that a feature is shifted and divided by."""
JSON_LIMIT = 64 << 20
JSON_DEPTH = 64
TENSOR_LIMIT = 16 << 30


class ModelError(ValueError):
    """A model folder that cannot be used. The message names the file and the reason."""


def checked_scaling(scaling: Scaling | None, what: object) -> Scaling | None:
    """A scaling that rows can survive: beyond these sizes it makes infinities or zeros of any of them."""
    if scaling is None:
        return None
    for name, values in (("scale", scaling.scale), ("shift", scaling.shift)):
        sizes = abs(values)
        wrong = (sizes > LARGEST) | ((sizes < 1 / LARGEST) if name == "scale" else False)
        if wrong.any():
            k = int(wrong.argmax())
            raise ModelError(
                f"{what}: the {name} of feature {k} is {values[k]:g}, which no table needs; "
                f"{1 / LARGEST:g} to {LARGEST:g} can be used.\n  Multiply the feature and fit again."
            )
    return scaling


def check_weights(net: nn.Module, what: object, own_net: bool) -> None:
    """Refuse what makes every prediction NaN. Buffers of an own network may be infinite: masks are."""
    buffers = {name for name, _ in net.named_buffers()}
    for name, value in net.state_dict().items():
        if not value.is_floating_point():
            continue
        fine = ~value.isnan() if own_net and name in buffers else value.isfinite()
        if name.endswith("running_var"):  # batch normalisation takes its root
            fine &= value >= 0
        if not fine.all():
            wrong = value[~fine].flatten()[0].item()
            raise ModelError(
                f"{what}: the weight {name!r} holds {wrong}: the model can predict nothing.\n"
                "  Train it again, with a smaller learning rate or scaled features."
            )


class ModelFolder:
    """A folder whose manifest, names, kinds and sizes were checked; contents are when they are read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_entries(self.path)
        self.digests = self._read_manifest()

    def __contains__(self, name: str) -> bool:
        return name in self.digests and (self.path / name).exists()

    def json(self, name: str) -> Any:
        return parse(self.path / name, self._checked(name).read_bytes())

    def tensors(self, name: str) -> Any:
        """An open safetensors file; the library compares what its header claims with the file."""
        file = self._checked(name)
        try:
            return safe_open(file, framework="pt")
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} is not a safetensors file that can be used: {error}") from error

    def _checked(self, name: str) -> Path:
        """The file, after comparing its content with the digest in the manifest."""
        file = self.path / name
        found, expected = sha256_of(file), self.digests[name]
        if found != expected:
            raise ModelError(
                f"{file} has SHA-256 {found[:16]}…, but {MANIFEST} says {expected[:16]}…: "
                "the file is damaged or not the one that was saved."
            )
        return file

    def _read_manifest(self) -> dict[str, str]:
        """SHA-256 of every file of the model."""
        file = self.path / MANIFEST
        if not file.exists():
            older = (self.path / MODEL).exists()
            more = "\n  It was saved by an older version: fit and save the model again." if older else ""
            raise ModelError(f"there is no model in {self.path}: {MANIFEST} is missing.{more}")
        _size(file, JSON_LIMIT)
        facts = parse(file, file.read_bytes())
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            found = facts.get("format") if isinstance(facts, dict) else None
            raise ModelError(f"{file} has format {found!r}; this version of oneof reads format {FORMAT}.")
        listed = facts.get("files")
        if set(facts) != {"format", "files"} or not isinstance(listed, dict):
            raise ModelError(f"{file} holds {sorted(facts)}, not a format and a list of files.")
        for name, entry in listed.items():
            self._check_listed(name, entry)
        for name in LISTED:
            if name in NEEDED and name not in listed:
                raise ModelError(f"{file} does not list {name}, which every model has.")
            if name not in listed and (self.path / name).exists():
                raise ModelError(
                    f"{self.path / name} is not listed in {MANIFEST}: it belongs to another model."
                )
        return {name: str(entry["sha256"]) for name, entry in listed.items()}

    def _check_listed(self, name: str, entry: Any) -> None:
        manifest, place = self.path / MANIFEST, self.path / name
        if name not in LISTED:
            why = "a model has no such file"
            if Path(name).suffix.lower() in PICKLES:
                why = "pickles are never read"
            elif name != re.sub(r"[/\\:\x00]|^\.\.?$", "", name):
                why = "a file of a model has a plain name, without a path"
            raise ModelError(f"{manifest} lists {name!r:.120}: {why}.")
        if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"}:
            raise ModelError(f"{manifest}: the entry of {name} is no size and SHA-256: {entry!r:.80}.")
        if not place.exists():
            if name in DELETABLE:
                return
            raise ModelError(f"{place} is missing, though {MANIFEST} lists it.")
        size = _size(place, JSON_LIMIT if place.suffix == ".json" else TENSOR_LIMIT)
        if size != entry["bytes"]:
            raise ModelError(
                f"{place} has {size} bytes, but {MANIFEST} says {entry['bytes']!r:.40}: "
                "the file is damaged or not the one that was saved."
            )


def check_entries(folder: Path) -> None:
    """Refuse what a model folder never holds: links, and files that could be unpickled."""
    if not folder.is_dir():
        raise ModelError(f"there is no model in {folder}: it is no folder.")
    only_plain_entries(folder, error=ModelError)
    for file in sorted(folder.iterdir()):
        if file.is_file() and is_pickle(file):
            raise ModelError(
                f"{file} is a pickle, or a kind of file that holds one; pickles can run code and are never "
                "read.\n  A model folder holds safetensors and JSON: remove the file if you put it there, "
                "else do not trust the folder."
            )


def is_pickle(file: Path) -> bool:
    """Whether a file has the name of a pickle, or begins and ends like one."""
    if file.suffix.lower() in PICKLES:
        return True
    if file.suffix in (".json", ".safetensors") or not file.stat().st_size:
        return False  # read as what they are; the size of a safetensors header can look like a pickle
    with open(file, "rb") as stream:
        begins = PICKLE_START.match(stream.read(2)) is not None
        stream.seek(-1, os.SEEK_END)
        return begins and stream.read(1) == b"."


def _size(file: Path, limit: int) -> int:
    """Size of a plain file; links, devices and files beyond all reason are refused."""
    facts = file.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise ModelError(f"{file} is not a plain file.")
    if facts.st_size > limit:
        raise ModelError(f"{file} has {facts.st_size} bytes; more than {limit} are not read.")
    return facts.st_size


# ---- writing ----------------------------------------------------------------------------------


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside its place (or inside, where it is there already); then rename it, or
    its files. What is listed is added to the manifest here."""
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
        write(staged)
        listed = [file for file in sorted(staged.iterdir()) if file.name in LISTED]
        for file in listed:
            file.chmod((staged / MODEL).stat().st_mode)  # safetensors files are written for their owner only
        files = {file.name: {"bytes": file.stat().st_size, "sha256": sha256_of(file)} for file in listed}
        (staged / MANIFEST).write_text(as_json({"format": FORMAT, "files": files}), encoding="utf-8")
        if new:
            os.replace(staged, place)
        else:
            _move_files(staged, place)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"the model cannot be saved to {folder}: {why_not_written(error)}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _move_files(staged: Path, folder: Path) -> None:
    card = folder / CARD
    if card.exists() and MARK not in card.read_text(encoding="utf-8", errors="replace"):
        warnings.warn(f"{card} is not a model card of oneof, so it stays and none is written.", stacklevel=5)
        (staged / CARD).unlink()
    # the manifest first: beside the files of an older model it is refused, not believed
    names = sorted((file.name for file in staged.iterdir()), key=lambda name: name != MANIFEST)
    for name in names:
        os.replace(staged / name, folder / name)
    for name in set(LISTED) - set(names):
        (folder / name).unlink(missing_ok=True)


# ---- JSON -------------------------------------------------------------------------------------


def parse(file: Path, content: bytes) -> Any:
    """JSON of bounded depth, without a key that stands twice."""
    try:
        text = content.decode("utf-8")
        _check_depth(text)
        return json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is no JSON file that can be used: {error}") from error


def _check_depth(text: str) -> None:
    depth = 0
    # a string that never ends matches too: looking for its end from every quote would take forever
    for match in re.finditer(r'"(?:[^"\\]+|\\.?)*+"?|[\[\]{}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match.group(), 0)
        if depth > JSON_DEPTH:
            raise ValueError(f"it is nested deeper than {JSON_DEPTH} levels")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"a key stands twice among {sorted(key for key, _ in pairs)[:10]}")
    return made


def as_json(facts: Any) -> str:
    try:
        return json.dumps(facts, indent=1, default=_plain) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"this model cannot be saved as JSON: {error}.") from error


def _plain(value: Any) -> Any:
    """A setting that JSON has another word for: numbers of numpy, a device of torch."""
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}")
