"""Records: one line of JSON per finished job, appended and never changed.

A record is `{"job": hash, "status": "ok", "config": ..., "result": ..., "seconds": ...}`, or with
`"status": "failed"` an `error` in place of the result. One process, the one that holds the folder's
lock, writes; each record is one write that reaches the disk before the job counts as done. A line that
a power cut or a kill left unfinished is skipped by readers and its job runs again. `pack` compresses what
is there for publication; a packed folder is read, continued and reported like any other.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from oneof.lab.errors import LabError
from oneof.tables.files import write_with

FILE = "records.jsonl"
PACKED = "records.jsonl.gz"

Record = dict[str, Any]


class Records:
    """The records of a folder, by job. The last record of a job counts."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.file = self.folder / FILE
        found = [record for file in (self.folder / PACKED, self.file) for record in read(file)]
        self.by_job: dict[str, Record] = {record["job"]: record for record in found}

    def __len__(self) -> int:
        return len(self.by_job)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.by_job.values())

    def get(self, job: str) -> Record | None:
        return self.by_job.get(job)

    def add(self, record: Record) -> None:
        """Append a record; it is on the disk when this returns."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.file, "a+b", buffering=0) as out:
            end = out.seek(0, os.SEEK_END)
            out.seek(max(0, end - 1))
            torn = end and out.read(1) != b"\n"  # by a kill; that line must not swallow this one
            out.write((b"\n" if torn else b"") + as_line(record).encode())
            os.fsync(out.fileno())
        self.by_job[record["job"]] = record


def as_line(record: Record) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n"


def read(file: Path) -> Iterator[Record]:
    """All records of a file in their order; lines that are no records are left out."""
    if not file.exists():
        return
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "job" in record:
                yield record


def pack(folder: str | os.PathLike[str]) -> Path:
    """Move all records of a folder into one compressed file, in the order of their jobs' hashes."""
    records = Records(folder)
    text = "".join(as_line(record) for _, record in sorted(records.by_job.items()))
    packed = records.folder / PACKED
    write_with(packed, lambda out: out.write(gzip.compress(text.encode(), mtime=0)))
    records.file.unlink(missing_ok=True)
    return packed


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One lab at a time in a folder; its lock is freed however the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LabError(
            f"another lab is writing to {folder}.\n  Wait until it is done, or give another folder with --to."
        ) from None
    try:
        yield
    finally:
        lock.release()
