"""Fetching the official files: by pooch, checked, unpacked, never left half-written."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from oneof.datasets.archives import unpack
from oneof.datasets.check import checksum_problem
from oneof.datasets.registry import Download, KnownSet, data_folder, entry
from oneof.tables.errors import DataError

Shown = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes there so far and the bytes in all (None: not known)."""

RETRIES = 2
_BLOCK = 1 << 18


def fetch(name: str, folder: Path | str | None = None, progress: Shown | None = None) -> list[str]:
    """Bring a data set into the data folder; gives what was done, one line each.

    What is there and right is left alone. A download that breaks off is tried again, and the files that came
    stay for the next call. An archive that someone put into `downloads/` by hand is checked and unpacked
    like a fetched one.
    """
    known, folder = entry(name), data_folder(folder)
    form = known.present(folder)
    if form is not None and not any(checksum_problem(folder / f, value) for f, value in form.files.items()):
        return [f"{known.name}: already there and right, in {folder}."]
    if not known.downloads:
        return [f"{known.name}: nothing to fetch."]
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
    for file, value in chain.from_iterable(form.files.items() for form in known.forms):
        inside = file.startswith(f"{download.unpacks}/")
        if inside and (problem := checksum_problem(folder / file, value)):
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
    problem = checksum_problem(part, checksum)
    if problem:
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
