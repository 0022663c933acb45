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
from pathlib import Path
from typing import IO, Any

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
        self.by_job: dict[str, Record] = {}
        for file in (self.folder / PACKED, self.file):
            for record in read(file):
                self.by_job[record["job"]] = record

    def __len__(self) -> int:
        return len(self.by_job)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.by_job.values())

    def get(self, job: str) -> Record | None:
        return self.by_job.get(job)

    def add(self, record: Record) -> None:
        """Append a record; it is on the disk when this returns."""
        line = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.file, "ab", buffering=0) as out:
            if not _ends_with_newline(self.file):
                line = b"\n" + line  # what a kill left of the line before must not swallow this one
            out.write(line)
            os.fsync(out.fileno())
        self.by_job[record["job"]] = record


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
    lines = [json.dumps(r, sort_keys=True, separators=(",", ":")) for _, r in sorted(records.by_job.items())]
    content = gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0)
    packed = records.folder / PACKED
    write_with(packed, lambda out: out.write(content))
    records.file.unlink(missing_ok=True)
    return packed


def _ends_with_newline(file: Path) -> bool:
    with open(file, "rb") as content:
        content.seek(0, os.SEEK_END)
        if content.tell() == 0:
            return True
        content.seek(-1, os.SEEK_END)
        return content.read(1) == b"\n"


class Lock:
    """One lab at a time in a folder: its records file is locked, and freed however the process ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def __enter__(self) -> Lock:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.path, "ab")  # held until __exit__
        if not _try_lock(self.file):
            self.file.close()
            raise LabError(
                f"another lab is writing to {self.path.parent}.\n"
                "  Wait until it is done, or give another folder with --to."
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _try_lock(file: IO[bytes]) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows, where a locked byte cannot be read: one far behind the end is taken
        import msvcrt

        try:
            file.seek(1 << 30)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
