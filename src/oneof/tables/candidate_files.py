"""Candidate sets in files of our own: `.npz` and `.parquet`."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import CandidateError, Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.tables import annotation_parquet
from oneof.tables.errors import DataError
from oneof.tables.files import write_with

_KIND = "oneof candidates"


def save_candidates(candidates: Candidates, path: Path | str) -> None:
    """Write candidate sets to an `.npz` file, whole or not at all; class names must be text or numbers."""
    path = Path(path)
    if path.suffix != ".npz":
        raise DataError(f"cannot save candidates as {path.name}: the name must end in .npz.")
    _write_npz(Annotations(candidates), path)


def load_candidates(path: Path | str) -> Candidates:
    """Read candidate sets written by `save_candidates` or `save_annotations` and compare their hash."""
    return load_annotations(path).candidates


def save_annotations(annotations: Annotations, path: Path | str) -> None:
    """Write candidate sets with the names of their rows and all answers, whole or not at all.

    `.npz`: what `save_candidates` writes, and ids and answers beside it. `.parquet`: a table that other
    tools read, with the columns `id`, `candidates`, `truth` and `answers` (needs polars).
    """
    path = Path(path)
    if path.suffix == ".npz":
        _write_npz(annotations, path)
    elif path.suffix == ".parquet":
        annotation_parquet.write(annotations, facts_text(annotations.candidates, path), path)
    else:
        raise DataError(f"cannot save annotations as {path.name}: the name must end in .npz or .parquet.")


def load_annotations(path: Path | str) -> Annotations:
    """Read what `save_annotations` or `save_candidates` wrote and compare the sets with their hash."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        made, facts = annotation_parquet.read(path) if path.suffix == ".parquet" else _read_npz(path)
    except DataError:
        raise
    except CandidateError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            f"{path}: not a file of candidates ({error}); write it with save_candidates."
        ) from None
    if made.candidates.hash != facts.get("hash"):
        raise DataError(
            f"{path}: the sets have hash {made.candidates.hash}, the file says {facts.get('hash')}; "
            "it was changed."
        )
    return made


def facts_text(candidates: Candidates, path: Path) -> str:
    """What a file of candidates says besides the sets themselves, as JSON."""
    facts = {
        "kind": _KIND,
        "classes": list(candidates.classes),
        "truth_may_be_outside": candidates.truth_may_be_outside,
        "provenance": dict(candidates.provenance),
        "hash": candidates.hash,
    }
    try:
        return json.dumps(facts)
    except TypeError as error:
        raise DataError(f"cannot save candidates to {path.name}: {error}; use text or numbers.") from None


def _write_npz(annotations: Annotations, path: Path) -> None:
    candidates, answers = annotations.candidates, annotations.answers
    arrays: dict[str, Any] = {
        "facts": facts_text(candidates, path),
        "mask": np.packbits(candidates.mask, axis=1),
    }
    if candidates.truth is not None:
        arrays["truth"] = candidates.truth
    if annotations.ids is not None:
        arrays["ids"] = _packed_names(annotations.ids)
    if answers is not None:
        arrays |= {
            "answer_row": answers.row,
            "answer_worker": answers.worker,
            "answer_label": answers.label,
            "answer_named": np.array(answers.named),
            "workers": _packed_names(answers.workers),
        }
    write_with(path, lambda out: np.savez_compressed(out, **arrays))


def _read_npz(path: Path) -> tuple[Annotations, dict[str, Any]]:
    with np.load(path, allow_pickle=False) as stored:
        facts = json.loads(str(stored["facts"]))
        classes = facts["classes"]
        mask = np.unpackbits(stored["mask"], axis=1, count=len(classes)).astype(bool)
        truth = stored["truth"] if "truth" in stored.files else None
        ids = _unpacked_names(stored["ids"]) if "ids" in stored.files else None
        answers = None
        if "answer_row" in stored.files:
            answers = Answers(
                stored["answer_row"],
                stored["answer_worker"],
                stored["answer_label"],
                _unpacked_names(stored["workers"]),
                bool(stored["answer_named"]),
            )
    made = Candidates(
        mask, tuple(classes), truth, facts["truth_may_be_outside"], facts["provenance"], source=path.name
    )
    return Annotations(made, ids, answers), facts


def _packed_names(names: tuple[str | int, ...]) -> np.ndarray:
    """Names as bytes: an array of text would give every name the room of the longest."""
    return np.frombuffer(json.dumps(names).encode(), dtype=np.uint8)


def _unpacked_names(packed: np.ndarray) -> tuple[Any, ...]:
    return tuple(json.loads(packed.tobytes()))
