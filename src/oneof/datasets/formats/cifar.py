"""CIFAR-10 and CIFAR-100, binary and python versions.

The python version is a pickle, and a pickle can run any code when it is read. The unpickler here
knows nothing but plain arrays of numbers; everything else a file asks for is refused.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneof.tables.errors import DataError

SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


def read_cifar_binary(
    files: Sequence[Path | str], *, n_classes: int, label_bytes: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Read `.bin` files: per image the label byte(s), then 3,072 bytes of pixels, channel by channel.

    Parameters
    ----------
    files : sequence of paths
        Read in this order.
    n_classes : int
        10 or 100; a larger label is an error.
    label_bytes : int, default=1
        1 for CIFAR-10, 2 for CIFAR-100 (coarse, then fine; the last byte is the label returned).

    Returns
    -------
    images : uint8 array (n, 3, 32, 32)
    labels : int64 array (n,)
    """
    width = label_bytes + _PIXELS
    paths = [Path(file) for file in files]
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path}: no such file.")
        size = path.stat().st_size
        if size == 0 or size % width:
            raise DataError(
                f"{path}: {size} bytes are no whole number of {width}-byte images; fetch it again."
            )
    counts = [path.stat().st_size // width for path in paths]
    images = np.empty((sum(counts), *SHAPE), dtype=np.uint8)
    labels = np.empty(sum(counts), dtype=np.int64)
    first = 0
    for path, count in zip(paths, counts):
        records = np.fromfile(path, dtype=np.uint8).reshape(count, width)
        labels[first : first + count] = records[:, label_bytes - 1]
        images[first : first + count] = records[:, label_bytes:].reshape(count, *SHAPE)
        _check_labels(labels[first : first + count], n_classes, path)
        first += count
    return images, labels


def read_cifar_python(
    files: Sequence[Path | str], *, n_classes: int, label_key: str = "labels"
) -> tuple[np.ndarray, np.ndarray]:
    """Read the batches of the python version (`data_batch_1`, `test_batch`, `train`, ...).

    Parameters
    ----------
    files : sequence of paths
        Read in this order.
    n_classes : int
        10 or 100; a larger label is an error.
    label_key : str, default="labels"
        "labels" for CIFAR-10, "fine_labels" for CIFAR-100.
    """
    images, labels = [], []
    for path in (Path(file) for file in files):
        batch = read_safe_pickle(path)
        data, given = batch.get("data"), batch.get(label_key)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (_PIXELS,):
            raise DataError(f"{path}: 'data' is not a uint8 array of 3,072 columns; this is no CIFAR batch.")
        if not isinstance(given, list) or len(given) != len(data) or not all(type(v) is int for v in given):
            raise DataError(f"{path}: {label_key!r} is not a list of {len(data)} whole numbers.")
        images.append(data.reshape(-1, *SHAPE))
        labels.append(np.array(given, dtype=np.int64))
        _check_labels(labels[-1], n_classes, path)
    return np.concatenate(images), np.concatenate(labels)


def read_safe_pickle(path: Path | str) -> dict[str, Any]:
    """The dictionary of a CIFAR pickle: text, numbers, lists and plain arrays; nothing else is built."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    try:
        with path.open("rb") as stream:
            content = _PlainUnpickler(stream, encoding="bytes").load()
    except _Refused as error:
        raise DataError(
            f"{path}: refused, the pickle asks for {error}; only plain arrays are read."
        ) from None
    except Exception as error:  # a damaged or hostile pickle can fail in any way
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not a readable CIFAR pickle ({reason}); fetch it again.") from None
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: the pickle holds a {type(content).__name__}, not the dictionary of a CIFAR batch."
        )
    return {_text(key): value for key, value in content.items()}


class _Refused(Exception):
    """A pickle wants something that is not an array."""


class _ArrayType:
    """Stands for `numpy.ndarray` in a pickle: passed on, never called."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds nothing but containers, text, numbers and numeric arrays.

    The official files were written by Python 2, so arrays come as `_reconstruct(ndarray, (0,), "b")`
    followed by their state, and names as bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Callable[..., Any] | _ArrayType] = {
            ("numpy", "ndarray"): _ArrayType(),
            ("numpy", "dtype"): lambda kind, *_: _numeric(kind),
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: np.empty(0, dtype=np.int8),
            ("numpy._core.multiarray", "_reconstruct"): lambda *_: np.empty(0, dtype=np.int8),
            ("_codecs", "encode"): lambda text, *_: text.encode("latin-1"),
        }
        if (module, name) not in allowed:
            raise _Refused(f"{module}.{name}")
        return allowed[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"an external object {pid!r}")


def _numeric(kind: Any) -> np.dtype[Any]:
    made = np.dtype(_text(kind))
    if made.kind not in "biuf":
        raise _Refused(f"an array of {made}")
    return made


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _check_labels(labels: np.ndarray, n_classes: int, path: Path) -> None:
    wrong = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(wrong):
        raise DataError(
            f"{path}: image {wrong[0]} has label {labels[wrong[0]]}, not 0 to {n_classes - 1}; "
            "fetch it again."
        )
