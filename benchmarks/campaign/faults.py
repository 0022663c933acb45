"""Damaged files: an error of ours or an exact recovery, no silent change. Some attempts are `troubles`."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign import Attempt, Failed, begin
from benchmarks.campaign.subjects import (
    SETS,
    model,
    predictions,
    record,
    records,
    review_data,
    run,
    stop_after,
)
from benchmarks.campaign.troubles import trouble
from oneof.app.review import ReviewData
from oneof.app.review.decisions import Decisions
from oneof.candidates.annotations import Annotations
from oneof.classifier.persist import ModelError
from oneof.lab import LabError
from oneof.lab.records import Records, pack
from oneof.tables.candidate_files import load_candidates, save_annotations
from oneof.tables.errors import DataError
from oneof.training import RunError

TROUBLES = 0.12
"""Share of attempts that are no damage."""


def sets(folder: Path) -> list[Any]:
    return [load_candidates(file) for file in sorted(folder.iterdir())]


def reviewed(folder: Path) -> list[Any]:
    found = ReviewData.load(folder)
    arrays = [found.probabilities, found.transduction, found.trusted]
    return [
        found.candidates,
        found.ids,
        found.fingerprint,
        *(a if a is None else a.tobytes() for a in arrays),
    ]


def decided(folder: Path) -> list[Any]:
    return [(event.row, event.label) for event in Decisions(folder, review_data()).events]


def whole(expected: Any) -> Callable[[Any], bool]:
    return lambda found: found == expected


def start(templates: Path) -> Attempt:
    templates.mkdir()
    run(templates / "stopped run", stop_after(5))
    run(templates / "finished run")
    model(2).save(templates / "model")
    for name in ("records", "packed records"):
        for i in range(12):
            Records(templates / name).add(record(i))
    pack(templates / "packed records")
    (templates / "candidates").mkdir()
    for ending in ("npz", "parquet"):
        save_annotations(Annotations(SETS), templates / "candidates" / f"sets.{ending}")
    (templates / "review").mkdir()
    review_data().save(templates / "review")
    decisions = Decisions(templates / "decisions" / "decisions.jsonl", review_data())
    decisions.path.parent.mkdir()
    for i in range(12):
        decisions.append(i, "decide", i % 3)
    decisions.path.with_suffix(".lock").unlink(missing_ok=True)
    trained = run(None)
    all_records = records(templates / "records")

    def records_are_fine(found: dict[str, Any]) -> bool:
        """A damaged record is left out, and its job runs again; none is changed."""
        return all(all_records.get(job) == there for job, there in found.items())

    def decisions_are_fine(found: list[Any]) -> bool:
        """The end may be missing: a last line without its end was never confirmed."""
        return found == [(i, i % 3) for i in range(len(found))]

    kinds: dict[str, tuple[Callable[[Path], Any], Callable[[Any], bool], tuple[type[Exception], ...]]] = {
        "stopped run": (run, whole(trained), (RunError,)),
        "finished run": (run, whole(trained), (RunError,)),
        "model": (predictions, whole(predictions(templates / "model")), (ModelError,)),
        "records": (records, records_are_fine, (LabError,)),
        "packed records": (records, records_are_fine, (LabError,)),
        "candidates": (sets, whole([SETS, SETS]), (DataError,)),
        "review": (reviewed, whole(reviewed(templates / "review")), (DataError,)),
        "decisions": (decided, decisions_are_fine, (DataError,)),
    }

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        if rng.random() < TROUBLES:
            return trouble(rng, folder, templates, trained)
        kind = list(kinds)[rng.integers(len(kinds))]
        read, fine, errors = kinds[kind]
        begin(folder, kind)
        damaged = shutil.copytree(templates / kind, folder / "damaged")
        changed = damage(rng, damaged)
        shutil.copytree(damaged, folder / "input")  # reading may repair it
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = read(damaged)
            except errors:
                return kind, 1
        if not fine(found):
            raise Failed(f"a damaged {changed} was believed")
        return kind, int(any("damaged" in str(warning.message) for warning in said))

    return attempt


# ---- damage ---------------------------------------------------------------------------------------


def damage(rng: np.random.Generator, folder: Path) -> str:
    """Change one file of a folder; its name."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    file = files[rng.integers(len(files))]
    content = bytearray(file.read_bytes())
    # half of them where headers are
    place = int(rng.integers(min(len(content), 600) if rng.random() < 0.5 else len(content)))
    way = rng.choice(["bit", "bit", "bits", "cut", "zeros", "insert"])
    if way == "bit":
        content[place] ^= 1 << int(rng.integers(8))
    elif way == "bits":
        for i in rng.integers(len(content), size=5):
            content[i] ^= 1 << int(rng.integers(8))
    elif way == "cut":
        del content[place:]
    elif way == "zeros":
        end = min(len(content), place + int(rng.integers(1, 512)))
        content[place:end] = bytes(end - place)
    else:
        content[place:place] = rng.bytes(int(rng.integers(1, 9)))
    file.write_bytes(content)
    return f"{file.relative_to(folder)} ({way} at {place})"
