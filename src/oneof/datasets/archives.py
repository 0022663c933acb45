"""Unpacking archives that may be hostile.

Members are written to a fresh folder beside the target and moved when all are there. A member that
points outside, a link or a device stops the whole: nothing of the archive stays.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from oneof.tables.errors import DataError
from oneof.tables.files import reading

LIMIT = 8 << 30
"""Most bytes an archive may unpack to; the largest official one needs a tenth of it."""


def unpack(archive: Path | str, folder: Path | str, top: str | None = None, limit: int = LIMIT) -> list[Path]:
    """Unpack a `.zip` or `.tar[.gz|.bz2|.xz]` file, or what lies below its folder `top`; gives the files.

    Nothing is written outside the folder, whatever the archive says, and no more than `limit` bytes.
    """
    archive, folder = Path(archive), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        with reading(archive, "archive", "fetch it again"):
            written = _write_members(archive, beside, limit)
        wanted = [name for name in written if top is None or name.parts[0] == top]
        if not wanted:
            raise DataError(f"{archive}: nothing to unpack{f' below {top}/' if top else ''}; fetch it again.")
        _move(wanted, beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return [folder / name for name in wanted]


def _move(names: list[PurePosixPath], beside: Path, folder: Path) -> None:
    """Put the files in place: a new top folder in one step, into an existing one file by file."""
    fresh = {name.parts[0] for name in names if not (folder / name.parts[0]).exists()}
    for part in fresh:
        os.replace(beside / part, folder / part)
    for name in names:
        if name.parts[0] not in fresh:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(beside / name, folder / name)


def _write_members(archive: Path, beside: Path, limit: int) -> list[PurePosixPath]:
    written: list[PurePosixPath] = []
    left = limit
    for said, kind, open_member in _members(archive):
        name = _safe_name(said, archive)
        if kind == "folder":
            continue
        if kind != "file":
            raise DataError(f"{archive}: refused, member {said!r} is a {kind}; only files are unpacked.")
        target = beside / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = open_member()
        if source is None:
            raise DataError(f"{archive}: member {said!r} cannot be read; fetch it again.")
        with source, target.open("wb") as out:
            # counted while writing: the size an archive states need not be true
            while block := source.read(1 << 20):
                left -= len(block)
                if left < 0:
                    raise DataError(f"{archive}: refused, it unpacks to more than {limit:,} bytes.")
                out.write(block)
        written.append(name)
    return written


def _safe_name(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name or "\0" in name or not name.strip("./"):
        if name.strip("/") in (".", ""):  # the archive's own root, harmless
            return PurePosixPath()
        raise DataError(f"{archive}: refused, member {name!r} would leave the folder; nothing was unpacked.")
    return path


def _members(archive: Path) -> Iterator[tuple[str, str, Callable[[], IO[bytes] | None]]]:
    """Names, kinds and how to open them."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                mode = info.external_attr >> 16
                kind = "folder" if info.is_dir() else "link" if stat.S_ISLNK(mode) else "file"
                yield info.filename, kind, partial(packed.open, info)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as packed_tar:
            for entry in packed_tar:
                kind = "file" if entry.isreg() else "folder" if entry.isdir() else "link or device"
                yield entry.name, kind, partial(packed_tar.extractfile, entry)
    else:
        raise DataError(f"{archive}: neither a .zip nor a .tar file, or damaged; fetch it again.")
