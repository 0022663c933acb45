"""Mutated files to every reader: a result or an error of ours, within 10 seconds and 1 GB."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.campaign import Attempt, Failed, begin
from benchmarks.campaign.guarded import Guarded
from benchmarks.campaign.inputs import folder_targets, importer_targets, table_targets
from benchmarks.campaign.mutations import mutated_file
from oneof.candidates import CandidateError
from oneof.classifier.persist import ModelError
from oneof.classifier.persist.folder import LISTED, MANIFEST
from oneof.lab import LabError
from oneof.tables.errors import DataError
from oneof.tables.files import sha256_of

OURS = (DataError, CandidateError, ModelError, LabError)


def start(templates: Path) -> Attempt:
    return Guarded(make, templates)


def make(templates: Path) -> Attempt:
    templates.mkdir(exist_ok=True)
    targets = {**importer_targets(templates), **table_targets(templates), **folder_targets(templates)}
    for name, (files, read) in targets.items():  # as they are, they can be read
        put(files, folder := templates / "whole" / name)
        read(folder)
    kinds = sorted({name.split("/")[0] for name in targets})
    by_kind = {kind: [name for name in targets if name.split("/")[0] == kind] for kind in kinds}

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        kind = kinds[rng.integers(len(kinds))]
        name = by_kind[kind][rng.integers(len(by_kind[kind]))]
        begin(folder, kind)
        (folder / "target").write_text(name, encoding="utf-8")
        files, read = targets[name]
        changed = list(files)[rng.integers(len(files))]
        content = mutated_file(rng, changed, files[changed])
        put({**files, changed: content}, folder)
        if MANIFEST in files and changed != MANIFEST and rng.random() < 0.8:
            sign(folder)
        try:
            read(folder)
        except OURS as error:
            cause: BaseException | None = error
            while cause is not None:
                if isinstance(cause, MemoryError):
                    raise Failed(f"it takes too much memory: {error!s:.200}") from error
                cause = cause.__cause__ or cause.__context__
            return kind, 1
        return kind, 0

    return attempt


def put(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def sign(folder: Path) -> None:
    """Make the manifest right for the files that are there: what is tried lies behind it."""
    files = {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)}
        for name in LISTED
        if (folder / name).exists()
    }
    (folder / MANIFEST).write_text(json.dumps({"format": 2, "files": files}), encoding="utf-8")
