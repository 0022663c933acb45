"""Files: errors that name them, written so that a reader never meets half of one, limits of memory, digests.

    write_text(path, sealed_json({"epochs": 3}))
    facts = read_sealed(path.read_bytes(), path)         # DamagedError unless it is what was written

A digest finds damage, not forgery. What was written without one, by an earlier version or by hand, is read
too, as far as `plain` allows it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from oneof.candidates.cells import CandidateError
from oneof.tables.errors import DataError

HALF_CHARACTERS = "backslashreplace"
"""How texts for people show what UTF-8 has no bytes for: JSON and file systems give names with such parts."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def why_not_written(error: Exception) -> str:
    """What the system said about a file that could not be written, and what to do: two sentences.

    Of an `OSError`, or of an error of a writer of its own that repeats the system's number (safetensors).
    """
    number = error.errno if isinstance(error, OSError) else None
    told = re.search(r"os error (\d+)", str(error))
    number = int(told.group(1)) if number is None and told else number
    said = os.strerror(number) if number else str(error)
    if number in DISK_FULL:
        return f"{said}. Free some space there, or choose a folder on another disk."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{said}. Choose a folder that you may write to."
    return f"{said}. Check the path and the disk, or choose another folder."


@contextmanager
def reading(path: Path | str, what: str, advice: str = "") -> Iterator[None]:
    """Whatever goes wrong with the content of a file in this block is a `DataError` that names the file.

    Parsers raise what they trip over: SyntaxError, TokenError, zlib.error, NotImplementedError,
    RecursionError, a bare MemoryError; polars panics with something that is not even an `Exception`.
    `what` it ought to be ("npz file") and `advice` ("fetch it again") are parts of the message.
    """
    more = f"; {advice}" if advice else ""
    try:
        yield
    except (DataError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except CandidateError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except MemoryError as error:
        raise DataError(f"{path}: it does not fit into memory{more}.") from error
    except BaseException as error:
        if isinstance(error, OSError) and error.strerror:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error
        deep = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if deep else " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a readable {what} ({reason or type(error).__name__}){more}.") from error


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


# ---- memory ----------------------------------------------------------------------------------

FREE_BYTES = 256 << 20
"""So much any file may unpack to, however small it is."""
MOST_TIMES = 100
"""A larger one may unpack to so many times its own size. Features shrink little; bombs a thousandfold."""


def refuse_bomb(path: Path, n_bytes: int) -> None:
    """Raise where a file would take far more memory than its size lets expect."""
    size = path.stat().st_size
    if n_bytes > max(FREE_BYTES, MOST_TIMES * size):
        raise DataError(
            f"{path}: refused, it has {size:,} bytes and would take {n_bytes:,} in memory; the limit is "
            f"{FREE_BYTES >> 20} MB, or {MOST_TIMES} times its size. Save it without compression or in parts."
        )


def free_memory() -> int:
    """Bytes that are available without swapping; a generous guess where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 8 * 2**30


# ---- digests ----------------------------------------------------------------------------------

SEAL = "sha256"
"""The key of the digest."""


class DamagedError(DataError):
    """What is read back is not what was written."""


def digest_of(parts: Iterable[bytes | memoryview]) -> str:
    """One digest of several parts; where one ends and the next begins counts too."""
    made = hashlib.sha256()
    for part in parts:
        view = memoryview(part)
        made.update(view.nbytes.to_bytes(8, "little"))
        made.update(view)
    return made.hexdigest()


def seal(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values with a digest of all the others as a last entry."""
    facts = json.loads(json.dumps(facts))  # as they come back: keys that are numbers become text
    return {**facts, SEAL: _digest(facts)}


def unseal(facts: Any, what: object, plain: Collection[str] | None = None) -> dict[str, Any]:
    """Plain values as they were before `seal`, or an error that begins with `what`.

    `plain`: what values without a digest may be called. With any other name among them the digest is what
    was damaged. Default: anything; `()`: there must be a digest.
    """
    if not isinstance(facts, dict):
        raise DamagedError(f"{what} is damaged: it holds a {type(facts).__name__}, not named values.")
    if SEAL not in facts:
        if plain is not None and not (facts and facts.keys() <= set(plain)):
            raise DamagedError(f"{what} is damaged: its digest is missing.")
        return facts
    rest = {key: value for key, value in facts.items() if key != SEAL}
    if facts[SEAL] != _digest(rest):
        raise DamagedError(f"{what} is damaged: its content does not have the digest it was written with.")
    return rest


def sealed_json(facts: Mapping[str, Any], indent: int | None = None) -> str:
    """JSON with its digest, on one line unless an indent is given."""
    return json.dumps(seal(facts), indent=indent) + "\n"


def read_sealed(text: str | bytes, what: object, plain: Collection[str] | None = None) -> dict[str, Any]:
    """What `sealed_json` was given."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:  # text that is no UTF-8 is a ValueError
        raise DamagedError(f"{what} is damaged: it is no JSON ({error!s:.120}).") from error
    return unseal(facts, what, plain)


def _digest(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
