"""Fetching the official files: resumed when broken off, checked, unpacked, never left half-written."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from oneof.datasets.archives import unpack
from oneof.datasets.check import checksum_problem
from oneof.datasets.registry import Download, Entry, data_folder, entry
from oneof.tables.errors import DataError

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes there so far and the bytes in all (None: not known)."""

_BLOCK = 1 << 18


def fetch(name: str, folder: Path | str | None = None, progress: Progress | None = None) -> list[str]:
    """Bring a data set into the data folder.

    What is there and right is left alone. A download that breaks off is continued by the next call.
    An archive that someone put into `downloads/` by hand is checked and unpacked like a fetched one.

    Returns
    -------
    list of str
        What was done, one line each.
    """
    known = entry(name)
    folder = Path(folder) if folder is not None else data_folder()
    form = known.present(folder)
    if form is not None:
        problems = [checksum_problem(folder / file, value) for file, value in form.files.items()]
        if not any(problems):
            return [f"{known.name}: already there and right, in {folder}."]
    if not known.downloads:
        return [f"{known.name}: nothing to fetch."]
    said: list[str] = []
    for download in known.downloads:
        said += _bring(known, download, folder, progress)
    return said


def _bring(known: Entry, download: Download, folder: Path, progress: Progress | None) -> list[str]:
    target = folder / download.file
    problem = checksum_problem(target, download.checksum) if target.is_file() else "not there"
    if problem:
        try:
            download_file(download.url, target, download.checksum, progress)
        except OSError as error:
            raise DataError(_by_hand(known, download, folder, error)) from None
    if download.unpacks is None:
        return [f"{known.name}: {target} is there and right."]
    if target.suffix == ".rar":
        return [_unrar(known, target, folder)]
    unpack(target, folder, download.unpacks)
    for form in known.forms:
        inside = {
            file: value for file, value in form.files.items() if file.startswith(f"{download.unpacks}/")
        }
        wrong = [checksum_problem(folder / file, value) for file, value in inside.items() if value]
        if inside and any(wrong):
            raise DataError(next(problem for problem in wrong if problem))
    target.unlink()
    return [f"{known.name}: unpacked into {folder / download.unpacks}."]


def download_file(
    url: str,
    target: Path,
    checksum: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> None:
    """Download one file to `target`; what is there of an earlier try (`target.part`) is continued.

    Raises
    ------
    OSError
        The source cannot be reached or the connection broke; the part stays for the next call.
    DataError
        The whole file came, but not with the expected checksum; it is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    resumed = part.exists() and part.stat().st_size > 0
    try:
        total = _receive(url, part, progress, target.name, timeout)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise OSError(_reason(error)) from None
    size = part.stat().st_size
    if total is not None and size < total:
        raise OSError(f"the connection broke after {size:,} of {total:,} bytes; call again to continue")
    problem = checksum_problem(part, checksum)
    if problem is None and total is not None and size > total:
        problem = f"{size:,} bytes came instead of {total:,}."
    if problem:
        part.unlink()
        if resumed:  # the earlier part may be of another version of the file: once more from the start
            download_file(url, target, checksum, progress, timeout)
            return
        raise DataError(f"{url}: {problem}")
    os.replace(part, target)


def _receive(url: str, part: Path, progress: Progress | None, name: str, timeout: float) -> int | None:
    """Append what is missing to `part`; the size of the whole file, where the server tells it."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "oneof", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing is missing, or the part is longer than the file
            size = (error.headers.get("Content-Range") or "").rpartition("/")[2]
            return int(size) if size.isdigit() else None
        raise
    with answer:
        length = answer.headers.get("Content-Length")
        continues = answer.status == 206 and _starts_at(answer.headers.get("Content-Range"), have)
        have = have if continues else 0  # a server without ranges sends the file from its start
        total = have + int(length) if length and length.isdigit() else None
        with part.open("ab" if continues else "wb") as stream:
            while True:
                try:
                    block = answer.read(_BLOCK)
                except http.client.IncompleteRead as error:
                    stream.write(error.partial)
                    break
                if not block:
                    break
                stream.write(block)
                have += len(block)
                if progress is not None:
                    progress(name, have, total)
    return total


def _starts_at(content_range: str | None, have: int) -> bool:
    return content_range is not None and content_range.strip().startswith(f"bytes {have}-")


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    reason = getattr(error, "reason", error)
    return " ".join(str(reason).split()) or type(error).__name__


def _by_hand(known: Entry, download: Download, folder: Path, error: OSError) -> str:
    ready = folder / next(iter(known.forms[0].files))
    then = "and it is ready"
    if download.unpacks:
        then = f"and run `oneof data fetch {known.name}` again, or unpack it so that {ready} is there"
    return (
        f"{known.name}: cannot fetch {download.url}: {error}. Without a network, get "
        f"{Path(download.file).name} elsewhere, put it at {folder / download.file} {then}."
    )


def _unrar(known: Entry, archive: Path, folder: Path) -> str:
    wanted = next(iter(known.forms[0].files))
    return (
        f"{known.name}: fetched {archive}; unpack it with `unar -o {folder / 'pll'} '{archive}'` or "
        f"`7z e '{archive}' -o{folder / 'pll'}`, so that {folder / wanted} is there."
    )
