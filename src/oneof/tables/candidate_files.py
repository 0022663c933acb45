"""Candidate sets in files of our own, `.npz` and `.parquet`, written whole or not at all.

A Parquet file has one line per row and is readable by any tool that knows Parquet:

    id          text or whole numbers, where the rows have names
    candidates  list of class names
    evidence    list of numbers, how strongly each of them is supported; only where that is known
    truth       name of the true class, empty where unknown; only where truth is known at all
    answers     list of {worker, label}; only where the answers are known

Class names, provenance and the hash of the sets lie in the metadata of the file, as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import UNKNOWN, Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.cells import json_value, native
from oneof.candidates.compact import CompactSets
from oneof.tables.errors import DataError
from oneof.tables.files import digest_of, read_sealed, reading, replacing, seal, write_with
from oneof.tables.unpacking import needs_polars, scan, stored_arrays

_KIND = "oneof candidates"
_KEY = "oneof"
_UNSEALED = ("kind", "classes", "truth_may_be_outside", "provenance", "hash", "workers", "named")
"""Facts of files that were written before there were digests."""


def save_candidates(candidates: Candidates, path: Path | str) -> None:
    """Write candidate sets, and who said what where they know it, to an `.npz` or `.parquet` file.

    Class names must be text or numbers.
    """
    save_annotations(Annotations(candidates), path)


def load_candidates(path: Path | str) -> Candidates:
    """Read candidate sets written by `save_candidates` or `save_annotations` and compare their hash."""
    return load_annotations(path).candidates


def save_annotations(annotations: Annotations, path: Path | str) -> None:
    """Write candidate sets with the names of their rows and all answers.

    `.npz`: what `save_candidates` writes, and the ids beside it. `.parquet`: a table that other
    tools read, with the columns `id`, `candidates`, `truth` and `answers` (needs polars).
    """
    path = Path(path)
    if path.suffix not in (".npz", ".parquet"):
        raise DataError(f"cannot save candidates as {path.name}: the name must end in .npz or .parquet.")
    candidates, answers = annotations.candidates, annotations.answers
    facts = {
        "kind": _KIND,
        "classes": list(candidates.classes),
        "truth_may_be_outside": candidates.truth_may_be_outside,
        "provenance": json.loads(json.dumps(candidates.provenance, default=json_value)),
        "hash": candidates.hash,
        "rest": _rest(annotations),
    }
    if answers is not None and path.suffix == ".parquet":
        facts |= {"workers": list(answers.workers), "named": answers.named}
    try:
        text = json.dumps(seal(facts))
    except TypeError as error:
        raise DataError(f"cannot save candidates to {path.name}: {error}; use text or numbers.") from None
    try:
        (_write_npz if path.suffix == ".npz" else _write_parquet)(annotations, text, path)
    except UnicodeEncodeError as error:  # JSON may hold half a character, Parquet not
        raise DataError(f"cannot save {path.name}: {error.object!r:.80} is no text; save as .npz.") from None


def load_annotations(path: Path | str) -> Annotations:
    """Read what `save_annotations` or `save_candidates` wrote and compare the sets with their hash."""
    path = Path(path)
    with reading(path, "file of candidates", "write it with save_candidates"):
        made, facts = (_read_parquet if path.suffix.lower() == ".parquet" else _read_npz)(path)
    if made.candidates.hash != facts.get("hash"):
        raise DataError(
            f"{path}: the sets have hash {made.candidates.hash}, the file says {facts.get('hash')}; "
            "it was changed."
        )
    if "rest" in facts and facts["rest"] != _rest(made):
        raise DataError(f"{path}: its true labels, ids or answers are not those that were written.")
    return made


def _rest(annotations: Annotations) -> str:
    """Digest of what the hash of the sets leaves out: Parquet files have no checksums of their own."""
    truth, answers = annotations.candidates.truth, annotations.answers
    arrays = [] if answers is None else [answers.row, answers.worker, answers.label]
    names = [annotations.ids, None if answers is None else [answers.workers, answers.named]]
    numbers = [np.ascontiguousarray(a, dtype=np.int64).tobytes() for a in arrays]
    told = b"" if truth is None else np.ascontiguousarray(truth, dtype=np.int64).tobytes()
    return digest_of([json.dumps(names, default=native).encode(), told, *numbers])


def _candidates(
    sets: CompactSets, facts: dict[str, Any], path: Path, **more: np.ndarray | None
) -> Candidates:
    """The sets as a file has them, in need of a check."""
    told = {"truth_may_be_outside": facts["truth_may_be_outside"], "provenance": facts["provenance"]}
    classes = facts["classes"]
    return Candidates.from_positions(sets.positions, sets.starts, classes, source=path.name, **told, **more)


# ---- npz --------------------------------------------------------------------------------------


def _write_npz(annotations: Annotations, facts: str, path: Path) -> None:
    candidates, answers = annotations.candidates, annotations.answers
    narrow = np.min_scalar_type(candidates.n_classes)
    arrays: dict[str, Any] = {"facts": facts, "positions": candidates.positions.astype(narrow)}
    arrays["sizes"] = candidates.sizes.astype(narrow)
    if candidates.truth is not None:
        arrays["truth"] = candidates.truth
    if candidates.evidence is not None:
        arrays["evidence"] = candidates.evidence
    if annotations.ids is not None:
        arrays["ids"] = _packed_names(annotations.ids)
    if answers is not None:
        arrays |= {f"answer_{name}": getattr(answers, name) for name in ("row", "worker", "label")}
        arrays |= {"answer_named": np.array(answers.named), "workers": _packed_names(answers.workers)}
    write_with(path, lambda out: np.savez_compressed(out, **arrays))


def _read_npz(path: Path) -> tuple[Annotations, dict[str, Any]]:
    stored = stored_arrays(path)
    facts = read_sealed(str(stored["facts"]), path, plain=_UNSEALED)
    if "mask" in stored:  # files of earlier versions hold the bits of a dense mask
        sets = CompactSets.of_bits(stored["mask"], len(facts["classes"]))
    else:
        sets = CompactSets.of_sizes(stored["positions"], stored["sizes"], len(facts["classes"]))
    more = {name: stored.get(name) for name in ("truth", "evidence")}
    made = _candidates(sets, facts, path, **more)
    ids = _unpacked_names(stored["ids"]) if "ids" in stored else None
    answers = None
    if "answer_row" in stored:
        row, worker, label = (stored[f"answer_{name}"] for name in ("row", "worker", "label"))
        workers = _unpacked_names(stored["workers"])
        answers = Answers(row, worker, label, workers, bool(stored["answer_named"]))
    return Annotations(made, ids, answers), facts


def _packed_names(names: tuple[str | int, ...]) -> np.ndarray:
    """Names as bytes: an array of text would give every name the room of the longest."""
    return np.frombuffer(json.dumps(names, default=native).encode(), dtype=np.uint8)


def _unpacked_names(packed: np.ndarray) -> tuple[Any, ...]:
    return tuple(json.loads(packed.tobytes()))


# ---- Parquet ----------------------------------------------------------------------------------


def _write_parquet(annotations: Annotations, facts: str, path: Path) -> None:
    polars = needs_polars()
    candidates, answers, ids = annotations.candidates, annotations.answers, annotations.ids
    names = _column_names(candidates.classes, path)
    columns: dict[str, Any] = {}
    if ids is not None:
        if len({type(native(name)) for name in ids if name is not None}) > 1:
            raise DataError(f"cannot save {path.name}: its ids are of several types; save as .npz.")
        columns["id"] = polars.Series("id", list(ids))
    row = candidates.compact.rows
    columns["candidates"] = _lists("candidates", names.gather(candidates.positions), row, len(candidates))
    if candidates.evidence is not None:
        evidence = polars.Series("evidence", candidates.evidence)
        columns["evidence"] = _lists("evidence", evidence, row, len(candidates))
    if candidates.truth is not None:
        places = [None if k == UNKNOWN else k for k in candidates.truth.tolist()]
        columns["truth"] = names.gather(polars.Series(places, dtype=polars.UInt32))
    if answers is not None:
        worker = polars.Series("worker", list(answers.workers), dtype=polars.String).gather(answers.worker)
        said = polars.DataFrame({"worker": worker, "label": names.gather(answers.label)}).to_struct("answers")
        columns["answers"] = _lists("answers", said, answers.row, len(candidates))
    with replacing(path) as beside:
        try:
            polars.DataFrame(columns).write_parquet(beside, metadata={_KEY: facts})
        except TypeError as error:  # the first versions had no place for metadata
            raise DataError("writing annotations as Parquet needs a newer polars; save as .npz.") from error


def _read_parquet(path: Path) -> tuple[Annotations, dict[str, Any]]:
    polars = needs_polars()
    with reading(path, "Parquet file"):
        frame, metadata = scan(path, whole=True).collect(), polars.read_parquet_metadata(path)
    if _KEY not in metadata or "candidates" not in frame.columns:
        raise DataError(
            f"{path}: not a file of candidates; write it with save_annotations, or make one from a table "
            "with `oneof candidates import`."
        )
    facts = read_sealed(metadata[_KEY], path, plain=_UNSEALED)
    names = _column_names(tuple(facts["classes"]), path)
    row, labels = _flat(frame["candidates"])
    known: dict[str, np.ndarray] = {}
    if "truth" in frame.columns:
        known["truth"] = _columns_of(frame["truth"], names).astype(np.int64)
    if "evidence" in frame.columns:
        rows_of_evidence, evidence = _flat(frame["evidence"])
        if not np.array_equal(rows_of_evidence, row):
            raise DataError(f"{path}: its evidence does not have one number per candidate; it was changed.")
        known["evidence"] = evidence.to_numpy()
    sizes = np.bincount(row, minlength=len(frame))
    sets = CompactSets.of_sizes(_columns_of(labels, names), sizes, len(names))
    made = _candidates(sets, facts, path, **known)
    answers = None
    if "answers" in frame.columns:
        row, said = _flat(frame["answers"])
        workers = polars.Series(facts["workers"], dtype=polars.String)
        worker = _columns_of(said.struct.field("worker"), workers)
        label = _columns_of(said.struct.field("label"), names)
        answers = Answers(row, worker, label, tuple(facts["workers"]), facts["named"])
    ids = tuple(frame["id"].to_list()) if "id" in frame.columns else None
    return Annotations(made, ids, answers), facts


def _column_names(classes: tuple[Any, ...], path: Path) -> Any:
    """The classes as one column of one type: whole numbers stay numbers, all else is text."""
    polars = needs_polars()
    if all(isinstance(name, int) and not isinstance(name, bool) and abs(name) < 2**63 for name in classes):
        return polars.Series("label", list(classes), dtype=polars.Int64)
    texts = [str(name) for name in classes]
    if len(set(texts)) < len(texts):
        raise DataError(f"cannot save {path.name}: two classes have the same text, {classes}; save as .npz.")
    return polars.Series("label", texts, dtype=polars.String)


def _columns_of(values: Any, names: Any) -> np.ndarray:
    """The place of every value among the names; `UNKNOWN` where it is empty, an error where it is none."""
    polars = needs_polars()
    places = polars.Series(range(len(names)), dtype=polars.Int64)
    return values.cast(names.dtype).replace_strict(names, places).fill_null(UNKNOWN).to_numpy()


def _lists(name: str, values: Any, row: np.ndarray, n: int) -> Any:
    """A column of lists: the values of row 0, of row 1, ...; `row` is sorted and may skip rows."""
    polars = needs_polars()
    single = polars.DataFrame({"row": row.astype(np.int64), name: values})
    grouped = single.group_by("row", maintain_order=True).agg(polars.col(name))
    rows = polars.DataFrame({"row": np.arange(n, dtype=np.int64)})
    return rows.join(grouped, on="row", how="left", maintain_order="left")[name]


def _flat(lists: Any) -> tuple[np.ndarray, Any]:
    """The values of a column of lists one below the other, and the row of each."""
    sizes = lists.list.len().fill_null(0).to_numpy()
    return np.repeat(np.arange(len(lists)), sizes), lists.filter(lists.list.len() > 0).explode()
