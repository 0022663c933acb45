"""Packed files, npy, npz and gzip, read with a limit: what they claim is compared before memory is taken."""

from __future__ import annotations

import gzip
import math
import sys
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from oneof.tables.errors import DataError, reading

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


# ---- arrays -----------------------------------------------------------------------------------


def stored_arrays(path: Path, only: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name; that of an npy file is called x. Pickles are refused.

    Parameters
    ----------
    path : path
        A name that ends in .npy is an npy file, any other one an npz file.
    only : names, optional
        Arrays to read; others are left where they are.
    """
    kind = "npy" if path.suffix.lower() == ".npy" else "npz"
    with reading(path, f"{kind} file without pickles"):
        if kind == "npy":
            with path.open("rb") as file:
                _check_header(file, path.stat().st_size)
            found = np.load(path, allow_pickle=False, mmap_mode="r")
            if found.ndim < 2 or not found.flags.c_contiguous:  # rows of vectors stay in their file
                found = np.ascontiguousarray(found)
            return {"x": _checked_text(found)}
        with zipfile.ZipFile(path) as packed:
            members = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}
            if len(members) < len(packed.infolist()):
                raise ValueError("two of its arrays have the same name")
            wanted = {name: info for name, info in members.items() if only is None or name in only}
            # zipfile never gives more than a member claims to hold
            refuse_bomb(path, sum(info.file_size for info in wanted.values()))
            return {name: _member(packed, info) for name, info in wanted.items()}


def _member(packed: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with packed.open(info) as stream:
        _check_header(stream, info.file_size)
    with packed.open(info) as stream:
        return _checked_text(np.lib.format.read_array(stream, allow_pickle=False))


def _checked_text(array: np.ndarray) -> np.ndarray:
    """The array; Python cannot make a text of numbers that are no characters."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > sys.maxunicode:
            raise ValueError(f"a text has the character {codes.max():#x}, which there is not")
    return array


def _check_header(stream: IO[bytes], size: int) -> None:
    """Compare the shape that an array claims with the bytes that are there."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is for records, not for plain arrays")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.kind not in "biufcSUmM" or not dtype.itemsize or any(length < 0 for length in shape):
        raise ValueError(f"it holds {dtype} of shape {shape}; only plain numbers and texts are read")
    there = size - stream.tell()
    if math.prod(shape) * dtype.itemsize > there:
        raise ValueError(f"its header claims {dtype} of shape {shape}, but {there:,} bytes follow")


# ---- gzip -------------------------------------------------------------------------------------


class _Counted:
    """A stream that refuses to give more than the limit."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.given = stream, path, 0

    def read(self, size: int) -> bytes:
        block = self.stream.read(size)
        self.given += len(block)
        refuse_bomb(self.path, self.given)
        return block


@contextmanager
def unzipped(path: Path, packed: bool | None = None) -> Iterator[Any]:
    """The content of a file, to `read` block by block, through gzip where it is `packed` (default: look)."""
    with path.open("rb") as file, reading(path, "gzip file", "it is cut off or damaged, fetch it again"):
        packed = file.read(2) == b"\x1f\x8b" if packed is None else packed
        file.seek(0)
        yield _Counted(gzip.GzipFile(fileobj=file), path) if packed else file  # type: ignore[arg-type]
