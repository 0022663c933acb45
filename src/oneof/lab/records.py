"""Jobs, named by the hash of everything that decides their result, and records: one line of JSON per finished
job, appended and never changed.

A record is `{"job": hash, "status": "ok", "config": ..., "result": ..., "seconds": ...}`, or with
`"status": "failed"` an `error` in place of the result; its line also has a digest of it. One process, the
one that holds the folder's lock, writes; a record is on the disk before its job counts as done. A line that
a kill left unfinished or that was changed later is left out and named, and its job runs again. `pack`
compresses what is there for publication; a packed folder is read, continued and reported like any other.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

import oneof
from oneof.lab import LAB_VERSION, LabError
from oneof.tables.errors import DataError
from oneof.tables.files import only_plain_entries, read_sealed, sealed_json, why_not_written, write_with
from oneof.tables.unpacking import unzipped

FILE = "records.jsonl"
PACKED = "records.jsonl.gz"

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One training, by its JSON-like and complete configuration: `data` (name, candidates, hash), `split`,
    `scaling`, `net`, `method` (all hyper-parameters), `recipe`, `information`, `epoch_by`, `curves`.

    Which protocol asked for it is not part of it: the same training in two protocols is the same job.
    """

    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        # through JSON once, so that a job read from a file equals the one that was planned
        object.__setattr__(self, "config", json.loads(json.dumps(self.config, sort_keys=True)))

    @cached_property
    def hash(self) -> str:
        """Sixteen digits from the configuration and the code version."""
        text = json.dumps([dict(self.config), LAB_VERSION, oneof.__version__], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Records:
    """The records of a folder, by job. The last record of a job counts."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.file = self.folder / FILE
        only_plain_entries(self.folder, (FILE, PACKED), LabError)
        self.damaged: list[str] = []
        """Lines that are no whole records: where they are, and what is wrong with them."""
        found = [r for file in (self.folder / PACKED, self.file) for r in read(file, self.damaged)]
        self.by_job: dict[str, Record] = {record["job"]: record for record in found}

    def __len__(self) -> int:
        return len(self.by_job)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.by_job.values())

    def get(self, job: str) -> Record | None:
        return self.by_job.get(job)

    def add(self, record: Record) -> None:
        """Append a record; it is on the disk when this returns, and no part of it when this fails."""
        line = as_line(record).encode()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.file, "a+b", buffering=0) as out:
                end, before = _end_of_lines(out)
                try:
                    left = before + line
                    while left:  # a disk that is nearly full takes a part and says so
                        left = left[os.write(out.fileno(), left) :]
                    os.fsync(out.fileno())
                except OSError:
                    with suppress(OSError):
                        out.truncate(end)
                    raise
        except OSError as error:
            raise LabError(
                f"{self.file}: a record could not be written: {why_not_written(error)}\n"
                "  The same command continues."
            ) from error
        self.by_job[record["job"]] = record


def _end_of_lines(out: IO[bytes]) -> tuple[int, bytes]:
    """Where to go on, and what the last line lacks. Half a line, which a kill left, is cut off."""
    end = out.seek(0, os.SEEK_END)
    out.seek(max(0, end - 1))
    if not end or out.read(1) == b"\n":
        return end, b""
    out.seek(0)
    *_, last = out.read().split(b"\n")
    try:
        record_of(last)
    except ValueError:
        return out.truncate(end - len(last)), b""
    return end, b"\n"


# ---- lines ----------------------------------------------------------------------------------------

UNSEALED = ("job", "status", "config", "result", "error", "seconds", "place")
"""What records from before the digests have."""


as_line = sealed_json


def record_of(line: bytes) -> Record:
    """The record of a line; a ValueError says why there is none."""
    record = read_sealed(line, "it", plain=UNSEALED)
    if not isinstance(record.get("job"), str) or record.get("status") not in ("ok", "failed"):
        raise ValueError("it is no record of a job")
    return record


# ---- files ----------------------------------------------------------------------------------------


def read(file: Path, damaged: list[str] | None = None) -> Iterator[Record]:
    """All records of a file in their order. Lines that are no records are named in `damaged`; without
    such a list they are an error."""
    for number, line in enumerate(_content(file).split(b"\n"), start=1):
        if not line:
            continue
        try:
            record = record_of(line)
        except ValueError as error:
            reason = f"{file.name}, line {number}: no whole record, {error}"
            if damaged is None:
                raise LabError(f"{file.parent}: {reason}.") from None
            damaged.append(reason)
        else:
            yield record


def _content(file: Path) -> bytes:
    if not file.exists():
        return b""
    try:
        with unzipped(file, file.suffix == ".gz") as stream:
            content = b"".join(iter(lambda: stream.read(1 << 20), b""))
        if file.suffix == ".gz" and not file.stat().st_size:
            raise DataError(f"{file}: not a readable gzip file (it is empty).")
    except DataError as error:
        raise LabError(
            f"{error}\n  Get the file again, or move it away: the lab then runs its jobs again."
        ) from error
    return content


def device_of(record: Record) -> str | None:
    """Where a training ran, if its record says so."""
    return record.get("place", {}).get("device")


def pack(folder: str | os.PathLike[str]) -> Path:
    """Move all records of a folder into one compressed file, in the order of their jobs' hashes."""
    if not Path(folder).is_dir():
        raise LabError(f"{folder}: there is no such folder.")
    with alone(Path(folder)):
        records = Records(folder)
        if records.damaged:
            raise LabError(
                f"{records.folder}: {records.damaged[0]}; damaged records are not published.\n"
                "  Remove the line (its job then runs again), or get the file again."
            )
        text = "".join(as_line(record) for _, record in sorted(records.by_job.items()))
        packed = records.folder / PACKED
        write_with(packed, lambda out: out.write(gzip.compress(text.encode(), mtime=0)))
        records.file.unlink(missing_ok=True)
    return packed


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One lab at a time in a folder; its lock is freed however the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        only_plain_entries(folder, (".lock",), LabError)  # locking a link empties what it leads to
        lock = FileLock(folder / ".lock").acquire(timeout=0)
    except Timeout:
        raise LabError(
            f"another lab is writing to {folder}.\n  Wait until it is done, or give another folder with --to."
        ) from None
    except OSError as error:
        raise LabError(f"{folder}: nothing can be kept there: {why_not_written(error)}") from error
    with lock:
        yield
