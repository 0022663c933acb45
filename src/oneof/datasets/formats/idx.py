"""idx files, plain or gzipped: the format of MNIST, Fashion-MNIST and Kuzushiji-MNIST."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Protocol

import numpy as np

from oneof.tables.errors import DataError

_UINT8 = 0x08
_BLOCK = 1 << 20


def read_idx(path: Path | str) -> np.ndarray:
    """Read one idx file of unsigned bytes; images (n, h, w) and labels (n,) alike.

    The file must hold exactly what its header announces: a cut or padded file is an error.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            if not packed:
                return _read(plain, path)
            with gzip.GzipFile(fileobj=plain) as stream:
                return _read(stream, path)
    except EOFError:
        raise DataError(f"{path}: the gzip file is cut off; fetch it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}); fetch it again.") from None


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _read(stream: _Readable, path: Path) -> np.ndarray:
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] != _UINT8 or not 1 <= head[3] <= 4:
        raise DataError(
            f"{path}: not an idx file of unsigned bytes (it begins with {head.hex() or 'nothing'})."
        )
    dims = stream.read(4 * head[3])
    if len(dims) < 4 * head[3]:
        raise DataError(f"{path}: the idx header is cut off; fetch it again.")
    shape = tuple(int(v) for v in np.frombuffer(dims, dtype=">u4"))
    expected = math.prod(shape)
    content = bytearray()
    # block by block, so that a header that lies about the size cannot ask for all memory
    while len(content) <= expected:
        block = stream.read(min(_BLOCK, expected + 1 - len(content)))
        if not block:
            break
        content += block
    if len(content) != expected:
        found = f"only {len(content)}" if len(content) < expected else "more"
        raise DataError(
            f"{path}: the header announces {' x '.join(map(str, shape))} = {expected} bytes, "
            f"the file holds {found}; fetch it again."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
