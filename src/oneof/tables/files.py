"""Writing files so that a reader never meets half of one, and knowing them again."""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from oneof.tables.errors import DataError

HALF_CHARACTERS = "backslashreplace"
"""How texts for people show what UTF-8 has no bytes for: JSON and file systems give names with such parts."""


def why_not_written(error: Exception) -> str:
    """What the system said about a file that could not be written, and what to do: two sentences.

    Of an `OSError`, or of an error of a writer of its own that repeats the system's number (safetensors).
    """
    number = error.errno if isinstance(error, OSError) else None
    told = re.search(r"os error (\d+)", str(error))
    number = int(told.group(1)) if number is None and told else number
    said = os.strerror(number) if number else str(error)
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{said}. Free some space there, or choose a folder on another disk."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{said}. Choose a folder that you may write to."
    return f"{said}. Check the path and the disk, or choose another folder."


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A name beside `path` to write to; renamed to `path` when the block ends well, else removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # the suffix is kept because some writers choose the format by it; the random part lets two
    # processes write the same file at once, and the later one wins
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def only_plain_entries(
    folder: Path, names: Iterable[str] | None = None, error: type[Exception] = DataError
) -> None:
    """What is read from or written to a folder of ours is a file in it: a link could lead anywhere, and
    whoever opens a pipe waits for its other end.

    Looks at the entries with these names, or at all of them.
    """
    if names is None:
        names = sorted(os.listdir(folder)) if folder.is_dir() else ()
    for name in names:
        if (folder / name).is_symlink():
            raise error(
                f"{folder / name} is a link to {os.readlink(folder / name)}; links in this folder are not "
                "followed.\n  Put what it leads to in its place, or remove it."
            )
        if (folder / name).exists() and not (folder / name).is_file() and not (folder / name).is_dir():
            raise error(f"{folder / name} is not a plain file but a pipe, a socket or a device; remove it.")


def sha256_of(path: Path | str) -> str:
    """Digest of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path | str, text: str) -> None:
    """Write a text file beside and rename it."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8", errors=HALF_CHARACTERS)


def write_with(path: Path | str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a binary file beside and rename it; `write` gets the open file."""
    with replacing(path) as beside, beside.open("wb") as stream:
        write(stream)
