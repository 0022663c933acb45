"""The files of a model folder: which there may be, and the checks before any of them is read."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from oneof.classifier.persist.errors import ModelError

FORMAT = 2
MANIFEST, MODEL, WEIGHTS = "manifest.json", "model.json", "model.safetensors"
ENCODER, CALIBRATION, TRAINING, CARD = (
    "encoder.json",
    "calibration.safetensors",
    "training.safetensors",
    "README.md",
)
NEEDED = (MODEL, WEIGHTS)
DELETABLE = (TRAINING,)
LISTED = (*NEEDED, ENCODER, CALIBRATION, *DELETABLE)

# endings of files that Python or torch would unpickle: they have no place in a model folder
PICKLES = {".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib", ".dill", ".p"}
PICKLE_START = re.compile(rb"\x80[\x02-\x05]")

JSON_LIMIT = 64 << 20
JSON_DEPTH = 64
TENSOR_LIMIT = 16 << 30


def check_entries(folder: Path) -> None:
    """Refuse what a model folder never holds: links, and files that could be unpickled."""
    if not folder.is_dir():
        raise ModelError(f"there is no model in {folder}: it is no folder.")
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                raise ModelError(
                    f"{folder / entry.name} is a link; a model folder holds its own files.\n"
                    "  Copy the folder with the files themselves (cp -rL), if you trust where it points."
                )
            if entry.is_file() and is_pickle(Path(entry.path)):
                raise ModelError(
                    f"{folder / entry.name} is a pickle, or a kind of file that holds one; pickles can run "
                    "code and are never read.\n  A model folder holds safetensors and JSON: remove the file "
                    "if you put it there, else do not trust the folder."
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


def read_manifest(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of the model. Names, kinds and sizes are checked, contents are not yet."""
    file = folder / MANIFEST
    if not file.exists():
        older = (folder / MODEL).exists()
        more = "\n  It was saved by an older version: fit and save the model again." if older else ""
        raise ModelError(f"there is no model in {folder}: {MANIFEST} is missing.{more}")
    _regular(file, JSON_LIMIT)
    facts = parse(file, file.read_bytes())
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise ModelError(f"{file} has format {found!r}; this version of oneof reads format {FORMAT}.")
    listed = facts.get("files")
    if set(facts) != {"format", "files"} or not isinstance(listed, dict):
        raise ModelError(f"{file} holds {sorted(facts)}, not a format and a list of files.")
    for name, entry in listed.items():
        _check_name(file, name)
        if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"}:
            raise ModelError(f"{file}: the entry of {name} is no size and SHA-256: {entry!r:.80}.")
        place = folder / name
        if not place.exists():
            if name in DELETABLE:
                continue
            raise ModelError(f"{place} is missing, though {MANIFEST} lists it.")
        size = _regular(place, JSON_LIMIT if place.suffix == ".json" else TENSOR_LIMIT)
        if size != entry["bytes"]:
            raise ModelError(
                f"{place} has {size} bytes, but {MANIFEST} says {entry['bytes']!r:.40}: "
                "the file is damaged or not the one that was saved."
            )
    for name in LISTED:
        if name in NEEDED and name not in listed:
            raise ModelError(f"{file} does not list {name}, which every model has.")
        if name not in listed and (folder / name).exists():
            raise ModelError(f"{folder / name} is not listed in {MANIFEST}: it belongs to another model.")
    return {name: str(entry["sha256"]) for name, entry in listed.items()}


def _check_name(manifest: Path, name: str) -> None:
    if name in LISTED:
        return
    why = "a model has no such file"
    if Path(name).suffix.lower() in PICKLES:
        why = "pickles are never read"
    elif name != re.sub(r"[/\\:\x00]|^\.\.?$", "", name):
        why = "a file of a model has a plain name, without a path"
    raise ModelError(f"{manifest} lists {name!r:.120}: {why}.")


def _regular(file: Path, limit: int) -> int:
    """Size of a plain file; links, devices and files beyond all reason are refused."""
    facts = file.lstat()
    if not stat.S_ISREG(facts.st_mode):
        raise ModelError(f"{file} is not a plain file.")
    if facts.st_size > limit:
        raise ModelError(f"{file} has {facts.st_size} bytes; more than {limit} are not read.")
    return facts.st_size


def checked(file: Path, digests: dict[str, str]) -> Path:
    """The file, after comparing its content with the digest in the manifest."""
    found, expected = digest(file), digests[file.name]
    if found != expected:
        raise ModelError(
            f"{file} has SHA-256 {found[:16]}…, but {MANIFEST} says {expected[:16]}…: "
            "the file is damaged or not the one that was saved."
        )
    return file


def read_json(file: Path, digests: dict[str, str]) -> Any:
    """The content of a listed JSON file."""
    return parse(file, checked(file, digests).read_bytes())


def digest(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
        mark = match.group()
        if mark in "[{":
            depth += 1
            if depth > JSON_DEPTH:
                raise ValueError(f"it is nested deeper than {JSON_DEPTH} levels")
        elif mark in "]}":
            depth -= 1


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"a key stands twice among {sorted(key for key, _ in pairs)[:10]}")
    return made
