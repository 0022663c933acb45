"""Fetching the official files: by pooch, checked, unpacked, never left half-written.

An archive may be hostile. Members are written to a fresh folder beside the target and moved when all are
there. A member that points outside, a link or a device stops the whole: nothing of the archive stays.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from oneof.datasets.registry import Download, KnownSet, checksum_problem, data_folder, entry, where_to_put
from oneof.tables.errors import DataError
from oneof.tables.files import reading

Shown = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes there so far and the bytes in all (None: not known)."""

RETRIES = 2
_BLOCK = 1 << 18
LIMIT = 8 << 30
"""Most bytes an archive may unpack to; the largest official one needs a tenth of it."""


def fetch(name: str, folder: Path | str | None = None, progress: Shown | None = None) -> list[str]:
    """Bring a data set into the data folder; gives what was done, one line each.

    What is there and right is left alone. A download that breaks off is tried again, and the files that came
    stay for the next call. An archive that someone put into `downloads/` by hand is checked and unpacked
    like a fetched one.
    """
    known, folder = entry(name), data_folder(folder)
    form = known.present(folder)
    if form is not None and not form.problems(folder):
        return [f"{known.name}: already there and right, in {folder}."]
    if not known.downloads:
        raise DataError(where_to_put(known, folder) if form is None else form.problems(folder)[0])
    return [_bring(known, download, folder, progress) for download in known.downloads]


def _bring(known: KnownSet, download: Download, folder: Path, progress: Shown | None) -> str:
    target = folder / download.file
    if not target.is_file() or checksum_problem(target, download.checksum):
        try:
            download_file(download.url, target, download.checksum, progress)
        except (OSError, ImportError) as error:
            raise DataError(_by_hand(known, download, folder, error)) from None
    if download.unpacks is None:
        return f"{known.name}: {target} is there and right."
    if target.suffix == ".rar":
        place = folder / "pll"
        return (
            f"{known.name}: fetched {target}; unpack it with `unar -o {place} '{target}'` or "
            f"`7z e '{target}' -o{place}`, so that {folder / next(iter(known.forms[0].files))} is there."
        )
    unpack(target, folder, download.unpacks)
    for form in known.forms:
        for problem in form.problems(folder, f"{download.unpacks}/"):
            raise DataError(problem)
    target.unlink()
    return f"{known.name}: unpacked into {folder / download.unpacks}."


def download_file(url: str, target: Path, checksum: str | None = None, progress: Shown | None = None) -> None:
    """Download one file to `target`, which appears when it is whole.

    An OSError: the source cannot be reached or the connection broke, several times. A DataError: the file
    came, but not with the expected checksum; it is removed.
    """
    try:
        import pooch
        import requests
    except ImportError:
        raise ImportError("this needs pooch, pip install 'oneof[data]'") from None
    pooch.get_logger().setLevel(logging.ERROR)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    # identity: a server that wraps what it sends must not make another file of it
    download = pooch.HTTPDownloader(
        progressbar=_Bytes(target.name, progress) if progress else False,
        chunk_size=_BLOCK,
        headers={"User-Agent": "oneof", "Accept-Encoding": "identity"},
    )
    # checksums are compared here, as pooch does not look into compressed files
    files = pooch.create(
        target.parent, "", registry={part.name: None}, urls={part.name: url}, retry_if_failed=RETRIES
    )
    try:
        files.fetch(part.name, downloader=download)
    except requests.HTTPError as error:
        answer = error.response
        said = "nothing" if answer is None else f"{answer.status_code} {answer.reason}"
        raise OSError(f"the server answers {said}") from None
    except requests.RequestException as error:
        raise OSError(" ".join(str(error).split()) or type(error).__name__) from None
    if problem := checksum_problem(part, checksum):
        part.unlink()
        raise DataError(f"{url}: {problem}")
    os.replace(part, target)


class _Bytes:
    """What pooch takes for a progress bar."""

    def __init__(self, name: str, shown: Shown) -> None:
        self.name, self.shown = name, shown
        self.total = self.done = 0

    def update(self, size: int) -> None:
        self.done = min(self.done + size, self.total or self.done + size)
        self.shown(self.name, self.done, self.total or None)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        pass


def _by_hand(known: KnownSet, download: Download, folder: Path, error: Exception) -> str:
    ready = folder / next(iter(known.forms[0].files))
    then = "and it is ready"
    if download.unpacks:
        then = f"and run `oneof data fetch {known.name}` again, or unpack it so that {ready} is there"
    return (
        f"{known.name}: cannot fetch {download.url}: {error}. Without a network, get "
        f"{Path(download.file).name} elsewhere, put it at {folder / download.file} {then}."
    )


# ---- archives ---------------------------------------------------------------------------------


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
        # a name may stand in an archive twice: the later one counts
        wanted = [name for name in dict.fromkeys(written) if top is None or name.parts[0] == top]
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
        with open_member() as source, target.open("wb") as out:
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


def _members(archive: Path) -> Iterator[tuple[str, str, Callable[[], Any]]]:
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
