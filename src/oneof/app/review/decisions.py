"""What a person decided: one JSON line per key press, appended and forced to disk before it is confirmed.

    {"row": 17, "id": "img_17.png", "label": "cat", "action": "decide", "time": "2026-11-20T10:31:07+00:00"}

Nothing is ever removed. `skip` and `undo` are lines too: the last line of a row says where it stands, and
its label is the trusted one, or null. An undo names the label it goes back to, so that sending it twice
does no harm. Where rows have no ids, "data" tells which candidate sets the row numbers belong to.

Several servers may share a file: lines are written whole, under a lock, and each server reads what the
others added. A line that a crash cut short was never confirmed; it is cut off before the next one is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oneof.app.review.folder import ReviewData, ReviewError

FILE = "decisions.jsonl"
ACTIONS = ("decide", "skip", "undo")


@dataclass(frozen=True)
class Event:
    """One line of the file; `label` is a column of the candidate sets or None."""

    row: int
    action: str
    label: int | None


class Decisions:
    """The decisions about one run: the file and the state that replaying it gives.

    `events` are all lines that concern this data, in order. `decided` maps rows to columns, `skipped`
    holds rows that were put aside, `undo` what can be taken back, the latest last.
    """

    def __init__(self, folder: str | os.PathLike[str], data: ReviewData) -> None:
        self.path = Path(folder) / FILE
        self.data = data
        self._column = {name: k for k, name in enumerate(data.candidates.classes)}
        self._row_of = {name: row for row, name in enumerate(data.ids or ())}
        self._lock = threading.Lock()
        self._start_over()
        self.refresh()

    def _start_over(self) -> None:
        self.events: list[Event] = []
        self.decided: dict[int, int] = {}
        self.skipped: set[int] = set()
        self.undo: list[Event] = []
        self.foreign = 0  # lines about other data; they are left alone
        self._read, self._lines = 0, 0

    def append(self, row: int, action: str, label: int | None) -> Event:
        """Write one decision; when this returns it is on disk."""
        self._check(row, action, label)
        event = Event(row, action, label)
        with self._lock, _locked(self.path) as file:
            _cut_torn_line(file)
            self._catch_up()  # what others wrote comes first, as in the file
            os.lseek(file, 0, os.SEEK_END)
            line = self._line(event)
            if os.write(file, line) != len(line):
                raise OSError(f"{self.path}: the disk took only part of a line; is it full?")
            os.fsync(file)
            self._catch_up()
        return event

    def refresh(self) -> None:
        """Read what other servers have added."""
        with self._lock:
            self._catch_up()

    # ---- replaying ------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Replay the whole lines that were added since the last time."""
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._read:
                    self._start_over()  # somebody has taken lines away
                file.seek(self._read)
                added = file.read()
        except FileNotFoundError:
            if self._read:
                self._start_over()
            return
        whole, newline, _ = added.rpartition(b"\n")
        for line in whole.split(b"\n") if newline else ():
            self._lines += 1
            if line.strip():
                self._replay(line)
        self._read += len(whole) + len(newline)

    def _replay(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            row, action, label = found["row"], found["action"], found["label"]
            if type(row) is not int or action not in ACTIONS or isinstance(label, list | dict):
                raise ValueError("row, action or label is of another kind")
        except (ValueError, LookupError, TypeError) as error:
            raise ReviewError(
                f"{self.path} line {self._lines} is not a decision: {line[:80].decode(errors='replace')}\n"
                f"  ({error}) Correct or remove that line; all others are kept."
            ) from None
        here = self._row_here(row, found)
        if here is None or (label is not None and label not in self._column):
            self.foreign += 1
            return
        self._apply(Event(here, action, None if label is None else self._column[label]))

    def _row_here(self, row: int, found: dict[str, Any]) -> int | None:
        """The row that a line is about, None if it is about other data. Ids outlive row numbers."""
        there = 0 <= row < len(self.data)
        if self.data.ids is None:
            return row if there and found.get("data") == self.data.candidates.hash else None
        name = found.get("id")
        return row if there and self.data.ids[row] == name else self._row_of.get(name)

    def _apply(self, event: Event) -> None:
        self.events.append(event)
        row = event.row
        if event.action == "undo":
            last = next((i for i in reversed(range(len(self.undo))) if self.undo[i].row == row), None)
            if last is not None:
                del self.undo[last]
        else:  # what an undo of this line goes back to
            self.undo.append(Event(row, "undo", self.decided.get(row)))
        self.skipped.discard(row)
        self.decided.pop(row, None)
        if event.label is not None:
            self.decided[row] = event.label
        elif event.action == "skip":
            self.skipped.add(row)

    # ---- writing --------------------------------------------------------------------------------

    def _check(self, row: int, action: str, label: int | None) -> None:
        if not 0 <= row < len(self.data):
            raise ReviewError(f"there is no row {row}: rows are 0 to {len(self.data) - 1}.")
        if action not in ACTIONS:
            raise ReviewError(f"unknown action {action!r}: one of {', '.join(ACTIONS)}.")
        n_classes = len(self._column)
        if label is not None and not 0 <= label < n_classes:
            raise ReviewError(f"there is no class {label}: classes are 0 to {n_classes - 1}.")
        if (action == "decide" and label is None) or (action == "skip" and label is not None):
            raise ReviewError(f"{action} with label {label}: deciding needs a label, skipping has none.")

    def _line(self, event: Event) -> bytes:
        found: dict[str, Any] = {
            "row": event.row,
            "id": None if self.data.ids is None else self.data.ids[event.row],
            "label": None if event.label is None else self.data.candidates.classes[event.label],
            "action": event.action,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if self.data.ids is None:
            found["data"] = self.data.candidates.hash
        return json.dumps(found, ensure_ascii=False).encode() + b"\n"


def trusted_labels(path: str | os.PathLike[str], data: ReviewData) -> dict[int, Any]:
    """The labels decided so far, by row number, from a decisions file about this data."""
    file = Path(path)
    if file.name != FILE:
        raise ReviewError(f"{path}: decisions are in a file named {FILE}.")
    decided = Decisions(file.parent, data).decided
    return {row: data.candidates.classes[column] for row, column in decided.items()}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file open for reading and appending, and nobody else writing to it."""
    new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        if new and hasattr(os, "O_DIRECTORY"):  # the name must survive a crash as well
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        with _exclusive(file):
            yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _exclusive(file: int) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows: a single append is whole there as well, only repairs are not guarded
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _cut_torn_line(file: int) -> None:
    """Remove what follows the last newline: a line that was cut short and never confirmed."""
    size = end = os.lseek(file, 0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        os.lseek(file, start, os.SEEK_SET)
        place = os.read(file, end - start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
