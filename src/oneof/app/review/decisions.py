"""What a person decided: one JSON line per key press, appended and forced to disk before it is confirmed.

    {"row": 17, "id": "img_17.png", "label": "cat", "action": "decide", "time": "2026-11-20T10:31:07+00:00",
     "sha256": "..."}

Nothing is ever removed. `skip` and `undo` are lines too: the last line of a row says where it stands, and
its label is the trusted one, or null. An undo names the label it goes back to, so that sending it twice
does no harm. Rows are found by their id, wherever they stand now. Where rows have no ids, "data" is the
fingerprint of the rows that the numbers belong to.

Several servers may share a file: lines are written whole, under a lock, and each server reads what the
others added. A line that a crash cut short was never confirmed; it is cut off before the next one is written.
One that only lacks its end, as editors leave it, is whole.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from oneof.app.review.folder import ReviewError
from oneof.candidates.cells import cell_text, is_missing, short
from oneof.tables.files import SEAL, only_plain_entries, seal, unseal

if TYPE_CHECKING:
    from oneof.app.fit.training_data import TrainingData
    from oneof.app.review.folder import ReviewData

FILE = "decisions.jsonl"
ACTIONS = ("decide", "skip", "undo")
MOST_BYTES = 1 << 28
"""Of the file: more than a million decisions."""
END = 256
"""Bytes before the place up to which the file was read: where they are others, it is read anew."""
WRITTEN = ("row", "id", "label", "action", "time", "data")
"""What our lines without a digest have: those of earlier versions, or changed by hand."""


@dataclass(frozen=True)
class Event:
    """One line of the file; `label` is a column of the candidate sets or None."""

    row: int
    action: str
    label: int | None


class Decisions:
    """The decisions about some rows: the file, and the state that replaying it gives. The only reader.

    `events` are all lines that concern these rows, in order. `decided` maps rows to columns, `skipped`
    holds rows that were put aside, `undo` what can be taken back, the latest last. `foreign` counts lines
    about other data, which are left alone; `reviewed` tells whether the page wrote any of the lines.

    `place` is the folder of a fit, or a file that ends in .jsonl; by hand a line has a label and an id or a
    row. `strict`: an id or a label that is not there is an error, not a line about other data.
    """

    def __init__(
        self, place: str | os.PathLike[str], data: ReviewData | TrainingData, strict: bool = False
    ) -> None:
        place = Path(place)
        self.path = place if place.suffix == ".jsonl" else place / FILE
        self.data, self.strict = data, strict
        self._column = {cell_text(name): k for k, name in enumerate(data.candidates.classes)}
        self._row_of = {cell_text(name): row for row, name in enumerate(data.ids or ())}
        self._lock = threading.Lock()
        self._start_over()
        self.refresh()

    def _start_over(self) -> None:
        self.events: list[Event] = []
        self.decided: dict[int, int] = {}
        self.skipped: set[int] = set()
        self.undo: list[Event] = []
        self.foreign = 0
        self.reviewed = False
        self._read, self._lines, self._gap, self._end = 0, 0, b"", b""

    def append(self, row: int, action: str, label: int | None) -> Event:
        """Write one decision; when this returns it is on disk."""
        self.check(row, action, label)
        event = Event(row, action, label)
        lock = self.path.with_suffix(".lock")
        only_plain_entries(lock.parent, [lock.name])
        with self._lock, FileLock(lock):
            self._catch_up()  # what others wrote comes first, as in the file
            line = self._gap + self._line(event)
            with self.path.open("ab", buffering=0) as file:
                file.truncate(self._read)  # what follows the last whole line was never confirmed
                if file.write(line) != len(line):
                    raise OSError(f"{self.path}: the disk took only part of a line; is it full?")
                os.fsync(file.fileno())
            if not self._read and hasattr(os, "O_DIRECTORY"):  # a new name must survive a crash as well
                folder = os.open(self.path.parent, os.O_DIRECTORY)
                os.fsync(folder)
                os.close(folder)
            self._catch_up()
        return event

    def refresh(self) -> None:
        """Read what other servers have added."""
        with self._lock:
            self._catch_up()

    # ---- replaying ------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Replay the whole lines that were added since the last time."""
        only_plain_entries(self.path.parent, [self.path.name])
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(self._read - len(self._end))
                if file.read(len(self._end)) != self._end:
                    self._start_over()  # somebody has changed or taken away lines
                if size > MOST_BYTES:
                    most = f"decisions take at most {MOST_BYTES:,}"
                    raise ReviewError(f"{self.path} has {size:,} bytes; {most}.")
                file.seek(self._read)
                added = file.read()
        except FileNotFoundError:
            if self._read:
                self._start_over()
            return
        *whole, rest = added.split(b"\n")
        for line in whole:
            if line.strip():
                self._replay(self._parsed(line))
            self._lines += 1
            self._pass(line + b"\n")  # after replaying: a line that cannot be read is met again
            self._gap = b""
        try:
            json.loads(rest)
        except (ValueError, RecursionError):
            return  # cut short by a crash; it was never confirmed
        self._replay(self._parsed(rest))
        self._pass(rest)
        self._gap = b"\n"

    def _pass(self, part: bytes) -> None:
        self._read += len(part)
        self._end = (self._end + part)[-END:]

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            facts = json.loads(line)
            written = isinstance(facts, dict) and "action" in facts  # by us
            found = unseal(facts, "it", plain=WRITTEN if written else None)
            row, name, label = found.get("row"), found.get("id"), found.get("label")
            if "label" not in found or (row is None and name is None):
                raise ValueError('it has no "label", or neither "id" nor "row"')
            if not isinstance(row, int | None) or isinstance(row, bool) or isinstance(label, list | dict):
                raise ValueError("row or label is of another kind")
            if found.get("action", "decide") not in ACTIONS:
                raise ValueError(f"unknown action {found['action']!r}")
        except (ValueError, RecursionError) as error:
            shown = line[:80].decode(errors="replace")
            raise self._wrong(
                f"{shown} is no decision ({error}).\n  Correct that line without its {SEAL!r}, or remove it; "
                "all others are kept."
            ) from None
        return found

    def _replay(self, found: dict[str, Any]) -> None:
        row, label = self._row_here(found), found["label"]
        self.reviewed |= "action" in found
        column = None if is_missing(label) else self._column.get(cell_text(label))
        unknown = column is None and not is_missing(label)
        if unknown and row is not None and self.strict:
            known = short(self.data.candidates.classes)
            raise self._wrong(f"the label {label!r} is not one of the classes {known}.")
        if row is None or unknown:
            self.foreign += 1
        else:
            self._apply(Event(row, found.get("action", "decide"), column))

    def _row_here(self, found: dict[str, Any]) -> int | None:
        """The row that a line is about, None if it is about other data. Ids outlive row numbers."""
        row, name, ids = found.get("row"), found.get("id"), self.data.ids
        if "action" not in found:  # by hand: counted as in the table
            row = self._row_at.get(row)
        there = row is not None and 0 <= row < len(self.data)
        if name is None:  # numbers mean these rows only where nothing was moved or changed
            if found.get("data") not in (None, self.data.fingerprint):
                return None
            if self.strict and not there:
                last = max(self._row_at, default=-1)
                raise self._wrong(f"row {found['row']} is no training row; these are 0 to {last}.")
            return row if there else None
        if ids is not None and row is not None and there and cell_text(ids[row]) == cell_text(name):
            return row
        here = self._row_of.get(cell_text(name))
        if here is None and self.strict:
            what = "the rows have no ids.\n  Say which column has them: --id COLUMN."
            if ids is not None:
                what = f"no row has that id; ids are {short(ids, 5)}."
            raise self._wrong(f"it is about the row with the id {name!r}, but {what}")
        return here

    @cached_property
    def _row_at(self) -> dict[Any, int]:
        """Rows by their numbers in the table, which may have others without candidates."""
        numbers = getattr(self.data, "numbers", range(len(self.data)))
        return {int(number): row for row, number in enumerate(numbers)}

    def _wrong(self, text: str) -> ReviewError:
        return ReviewError(f"{self.path}, line {self._lines + 1}: {text}")

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

    def check(self, row: int, action: str, label: int | None) -> None:
        """Raise where something cannot be decided like this."""
        n_rows, n_classes = len(self.data), self.data.candidates.n_classes
        if not 0 <= row < n_rows:
            raise ReviewError(f"there is no row {row}: rows are 0 to {n_rows - 1}.")
        if action not in ACTIONS:
            raise ReviewError(f"unknown action {action!r}: one of {', '.join(ACTIONS)}.")
        if label is not None and not 0 <= label < n_classes:
            raise ReviewError(f"there is no class {label}: classes are 0 to {n_classes - 1}.")
        if (action == "decide" and label is None) or (action == "skip" and label is not None):
            raise ReviewError(f"{action} with label {label}: deciding needs a label, skipping has none.")

    def _line(self, event: Event) -> bytes:
        ids = None if getattr(self.data, "ids_are_numbers", False) else self.data.ids
        found: dict[str, Any] = {
            "row": event.row,
            "id": None if ids is None else ids[event.row],
            "label": None if event.label is None else self.data.candidates.classes[event.label],
            "action": event.action,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if ids is None:
            found["data"] = self.data.fingerprint
        return json.dumps(seal(found), ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
