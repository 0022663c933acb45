"""Candidate sets that belong to a data set: its own, or ready-made ones in the data folder.

Ready-made sets lie in `candidates/` of the data folder:

    NAME_NET_r0.4.npz     one packed 0/1 matrix per seed, keys seed0, seed1, ...
    NAME_NET_q.npy        the generator's distribution over the wrong labels
    NAME_NET_*.json       facts: rule, generator, accuracies, checksums
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.datasets.registry import data_folder, load
from oneof.tables.candidate_files import load_candidates
from oneof.tables.errors import DataError
from oneof.tables.files import reading
from oneof.tables.unpacking import stored_arrays


@dataclass(frozen=True, eq=False)
class GeneratorBeliefs:
    """A generator's distribution over the wrong labels, and what is known about the generator."""

    q: np.ndarray
    facts: dict[str, Any]
    file: str


def ready_made_q(
    name: str, n: int, n_classes: int, folder: Path | str | None = None
) -> GeneratorBeliefs | None:
    """The stored q of a data set, if there is one with the right shape."""
    inside = data_folder(folder) / "candidates"
    for path in sorted(inside.glob(f"{name}_*_q.npy")):
        q = stored_arrays(path)["x"]
        if q.shape != (n, n_classes):
            raise DataError(f"{path}: q has shape {q.shape}, {name} needs {(n, n_classes)}; remove the file.")
        return GeneratorBeliefs(q, _facts(inside, path.name.removesuffix("_q.npy")), path.name)
    return None


def ready_made_sets(
    name: str,
    rate: float,
    seed: int,
    truth: np.ndarray,
    classes: tuple[Any, ...],
    folder: Path | str | None = None,
) -> Candidates | None:
    """The stored candidate matrix for this rate and seed, if there is one, compared with its checksum."""
    inside = data_folder(folder) / "candidates"
    for path in sorted(inside.glob(f"{name}_*_r{rate:g}.npz")):
        stored = stored_arrays(path, only=(f"seed{seed}",))
        if not stored:
            continue
        facts = _facts(inside, path.stem)
        with reading(path, "file of candidate sets", "fetch it again"):
            mask = np.unpackbits(stored[f"seed{seed}"], axis=1, count=len(classes))
            digest = hashlib.sha256(mask.tobytes()).hexdigest()
            stated = [d.get("sha256") for d in facts.get("draws", []) if d.get("seed") == seed]
            if stated and stated[0] != digest:
                raise DataError(
                    f"{path}: the matrix of seed {seed} does not have the checksum stated for it."
                )
            provenance = {"rule": "instance", "rate": rate, "seed": seed, "file": path.name, "sha256": digest}
            provenance["generator"] = facts.get("generator", {}).get("network", "unknown")
            made = Candidates(mask.astype(bool), classes, truth, provenance=provenance, source=path.name)
        return made.replace(provenance={**provenance, "hash": made.hash})
    return None


def candidates_of(source: Path | str) -> Candidates:
    """Candidate sets by the name of a data set that has some, or from a `.mat`, `.npz` or `.parquet` file."""
    if str(source).lower().endswith((".npz", ".parquet")):
        return load_candidates(source)
    data = load(source)
    if data.candidates is None:
        raise DataError(
            f"{data.name} has true labels but no candidate sets; make some with "
            f"`oneof candidates generate {data.name} --out FILE.npz` and describe that file."
        )
    return data.candidates


def _facts(inside: Path, stem: str) -> dict[str, Any]:
    """The JSON file beside a matrix: of the same name, or the first one of the same generator."""
    for path in [inside / f"{stem}.json", *sorted(inside.glob(f"{stem}*.json"))]:
        if path.is_file():
            with reading(path, "JSON file", "fetch it again"):
                return json.loads(path.read_text(encoding="utf-8"))
    return {}
