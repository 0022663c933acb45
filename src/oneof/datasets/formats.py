"""Readers of the official on-disk formats: idx (the MNISTs), CIFAR and TinyImageNet; all data sets by form.

Images come as uint8 arrays (n, channels, height, width), labels as int64 arrays (n,). Whatever is
wrong with a file ends in a `DataError` of one line that names the file.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.candidates.cells import first_where
from oneof.tables.errors import DataError
from oneof.tables.files import reading
from oneof.tables.images import read_images
from oneof.tables.mat import read_mat
from oneof.tables.unpacking import stored_arrays, unzipped

_BLOCK = 1 << 20
Arrays = tuple[np.ndarray, np.ndarray]
"""Inputs and labels."""


# ---- idx: MNIST, Fashion-MNIST, Kuzushiji-MNIST -----------------------------------------------


def read_idx(path: Path | str) -> np.ndarray:
    """Read one idx file of unsigned bytes, plain or gzipped; images (n, h, w) and labels (n,) alike.

    The file must hold exactly what its header announces: a cut or padded file is an error.
    """
    path = Path(path)
    with unzipped(path) as stream:
        head = stream.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08" or not 1 <= head[3] <= 4:
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
        while block := stream.read(min(_BLOCK, expected + 1 - len(content))):
            content += block
    if len(content) != expected:
        found = f"only {len(content)}" if len(content) < expected else "more"
        raise DataError(
            f"{path}: the header announces {' x '.join(map(str, shape))} = {expected} bytes, "
            f"the file holds {found}; fetch it again."
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


# ---- CIFAR-10 and CIFAR-100 -------------------------------------------------------------------

_PIXELS = 3 * 32 * 32


def read_cifar_binary(files: Sequence[Path | str], *, n_classes: int, label_bytes: int = 1) -> Arrays:
    """Read `.bin` files in this order: per image the label byte(s), then 3,072 bytes of pixels by channel.

    `label_bytes` is 1 for CIFAR-10, 2 for CIFAR-100 (coarse, then fine; the last byte is the label returned).
    A label that is not below `n_classes` is an error.
    """
    width = label_bytes + _PIXELS

    def batch(path: Path) -> Arrays:
        with reading(path, "CIFAR batch"):
            records = np.fromfile(path, dtype=np.uint8)
        if not len(records) or len(records) % width:
            what = f"no whole number of {width}-byte images; fetch it again."
            raise DataError(f"{path}: {len(records)} bytes, {what}")
        records = records.reshape(-1, width)
        return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)

    return _cifar_batches(batch, files, n_classes)


def read_cifar_python(files: Sequence[Path | str], *, n_classes: int, label_key: str = "labels") -> Arrays:
    """Read the batches of the python version (`data_batch_1`, `test_batch`, `train`, ...) in this order.

    `label_key` is "labels" for CIFAR-10, "fine_labels" for CIFAR-100.
    """

    def batch(path: Path) -> Arrays:
        found = read_safe_pickle(path)
        data, given = found.get("data"), found.get(label_key)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (_PIXELS,):
            raise DataError(f"{path}: 'data' is not a uint8 array of 3,072 columns; this is no CIFAR batch.")
        if not isinstance(given, list) or len(given) != len(data) or not all(type(v) is int for v in given):
            raise DataError(f"{path}: {label_key!r} is not a list of {len(data)} whole numbers.")
        return data, np.array(given, dtype=np.int64)

    return _cifar_batches(batch, files, n_classes)


def _cifar_batches(batch: Callable[[Path], Arrays], files: Sequence[Path | str], n_classes: int) -> Arrays:
    images, labels = [], []
    for path in map(Path, files):
        pixels, given = batch(path)
        for (i,) in first_where((given < 0) | (given >= n_classes)):
            what = f"not 0 to {n_classes - 1}; fetch it again."
            raise DataError(f"{path}: image {i} has label {given[i]}, {what}")
        images.append(pixels.reshape(-1, 3, 32, 32))
        labels.append(given)
    return np.concatenate(images), np.concatenate(labels)


def read_safe_pickle(path: Path | str) -> dict[str, Any]:
    """The dictionary of a CIFAR pickle: text, numbers, lists and plain arrays; nothing else is built.

    A pickle can run any code when it is read; what asks for more than arrays is refused.
    """
    path = Path(path)
    with reading(path, "CIFAR pickle", "fetch it again"):
        packed = path.read_bytes()  # from memory: of a file the unpickler asks for as much as it claims
        for code, place, _ in pickletools.genops(packed):
            # the unpickler makes room for as many objects as the largest number says
            if "PUT" in code.name and place is not None and place > len(packed):
                raise ValueError(f"object {place:,} of {len(packed):,} bytes")
        try:
            content = _PlainUnpickler(io.BytesIO(packed), encoding="bytes").load()
        except _Refused as error:
            raise DataError(f"{path}: refused, the pickle asks for {error}; only arrays are read.") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: the pickle holds a {type(content).__name__}, no CIFAR batch.")
    return {_text(key): value for key, value in content.items()}


class _Refused(Exception):
    """A pickle wants something that is not an array."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds nothing but containers, text, numbers and numeric arrays.

    The official files were written by Python 2, so arrays come as `_reconstruct(ndarray, (0,), "b")`
    followed by their state, and names as bytes.
    """

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Callable[..., Any] | None] = {
            ("numpy", "ndarray"): None,  # passed on, never called
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


# ---- TinyImageNet -----------------------------------------------------------------------------


def read_tiny_imagenet(folder: Path | str, part: str) -> Arrays:
    """Read the part "train" or "val" of `tiny-imagenet-200`; the official `test/` has no labels.

    Classes are numbered in the order of `wnids.txt`. Training images come class after class and by
    their number within a class, validation images by their number. Some files are greyscale JPEGs;
    all are returned as RGB.
    """
    folder = Path(folder)
    if part not in ("train", "val"):
        raise DataError(f"part = {part!r}: TinyImageNet has the labelled parts 'train' and 'val'.")
    column = {name: k for k, name in enumerate(_class_ids(folder))}
    rows: list[tuple[Path, int]] = []
    if part == "train":
        for name, k in column.items():
            inside = folder / "train" / name / "images"
            found = sorted(inside.glob("*.JPEG"), key=_number) if inside.is_dir() else []
            if not found:
                raise DataError(f"{inside}: no training images of class {name}; unpack the archive again.")
            rows += [(file, k) for file in found]
    else:
        notes = folder / "val" / "val_annotations.txt"
        for i, line in enumerate(_lines(notes)):
            name, *rest = line.split("\t")
            if not rest or rest[0] not in column or Path(name).name != name:
                raise DataError(
                    f"{notes}: line {i + 1} is {line[:60]!r}; it must be an image name, a tab and a class id."
                )
            rows.append((folder / "val" / "images" / name, column[rest[0]]))
        if not rows:
            raise DataError(f"{notes}: no validation images are listed; unpack the archive again.")
        rows.sort(key=lambda row: _number(row[0]))
    return read_images([path for path, _ in rows]), np.array([k for _, k in rows], dtype=np.int64)


def tiny_imagenet_classes(folder: Path | str) -> tuple[str, ...]:
    """Readable names, `id first word`, unique; the id alone where `words.txt` says nothing."""
    folder = Path(folder)
    words: dict[str, str] = {}
    if (folder / "words.txt").is_file():
        for line in _lines(folder / "words.txt"):
            key, _, text = line.partition("\t")
            words[key] = text.split(",")[0].strip()
    return tuple(f"{key} {words[key]}" if words.get(key) else key for key in _class_ids(folder))


def _class_ids(folder: Path) -> list[str]:
    ids = _lines(folder / "wnids.txt")
    if not ids or len(set(ids)) != len(ids):
        raise DataError(f"{folder / 'wnids.txt'}: it must list every class once.")
    return ids


def _number(path: Path) -> tuple[int, str]:
    number = re.search(r"_(\d+)\.", path.name)
    return (int(number.group(1)) if number else -1, path.name)


def _lines(path: Path) -> list[str]:
    with reading(path, "text file", "unpack the archive again"):
        text = path.read_text(encoding="utf-8")
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


# ---- data sets --------------------------------------------------------------------------------

Files = list[Path]
Names = tuple[str, ...]
Parts = dict[str, Any]
"""What a `DataSet` is made of, by name."""


def _parts(train: Arrays, test: Arrays, classes: Names) -> Parts:
    parts = {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]}
    return parts | {"classes": classes}


def _digits(files: Files, classes: Names) -> Parts:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return {"x_train": x.astype(np.float64), "y_train": y.astype(np.int64), "classes": classes}


def _mat(files: Files, classes: Names) -> Parts:
    """All rows of a `.mat` file are training rows."""
    x, sets = read_mat(files[0])
    return {"x_train": x, "y_train": sets.truth, "classes": sets.classes, "candidates": sets}


def _labelme(files: Files, classes: Names) -> Parts:
    """The rows that a crowd answered, each with all labels somebody gave; all of them may be wrong."""
    parts = stored_arrays(files[0])
    with reading(files[0], "file of LabelMe's features", "fetch it again"):
        train = parts["X_train"], parts["y_train"].astype(np.int64)
        test = parts["X_test"], parts["y_test"].astype(np.int64)
    with reading(files[1], "table of answers", "fetch it again"):
        answers = np.loadtxt(files[1], dtype=np.int64, delimiter=",", skiprows=1, ndmin=2)
        mask = np.zeros((len(train[1]), len(classes)), dtype=bool)
        mask[answers[:, 0], answers[:, 2]] = True
        candidates = Candidates(mask, classes, train[1], truth_may_be_outside=True, source=files[1].name)
    return {**_parts(train, test, classes), "candidates": candidates}


def _idx(files: Files, classes: Names) -> Parts:
    parts = []
    for images, labels in (files[:2], files[2:]):
        x, y = read_idx(images), read_idx(labels)
        if x.ndim != 3 or y.shape != x.shape[:1]:
            raise DataError(
                f"{images.parent}: {images.name} has shape {x.shape}, {labels.name} {y.shape}; "
                "these files do not belong."
            )
        parts.append((x[:, None], y.astype(np.int64)))
    return _parts(parts[0], parts[1], classes)


def _cifar10(read: Callable[..., Arrays], files: Files, classes: Names) -> Parts:
    return _parts(read(files[:5], n_classes=10), read(files[5:], n_classes=10), classes)


def _cifar100(
    read: Callable[..., Arrays], names: Callable[[Path], Iterable[str]], files: Files, classes: Names
) -> Parts:
    train, test = (read([file], n_classes=100) for file in files[:2])
    return _parts(train, test, tuple(names(files[2])))


def _fine_names(path: Path) -> Iterator[str]:
    listed = read_safe_pickle(path).get("fine_label_names")
    if not isinstance(listed, list):
        raise DataError(f"{path}: no list 'fine_label_names'; fetch it again.")
    return map(_text, listed)


def _tiny_imagenet(files: Files, classes: Names) -> Parts:
    inside = files[0].parent
    train, test = (read_tiny_imagenet(inside, part) for part in ("train", "val"))
    return _parts(train, test, tiny_imagenet_classes(inside))


READERS: dict[str, Callable[[Files, Names], Parts]] = {
    "digits": _digits,
    "mat": _mat,
    "labelme": _labelme,
    "idx": _idx,
    "cifar10-binary": partial(_cifar10, read_cifar_binary),
    "cifar10-python": partial(_cifar10, read_cifar_python),
    "cifar100-binary": partial(_cifar100, partial(read_cifar_binary, label_bytes=2), _lines),
    "cifar100-python": partial(_cifar100, partial(read_cifar_python, label_key="fine_labels"), _fine_names),
    "tiny-imagenet": _tiny_imagenet,
}
"""By the name that `catalogue.toml` gives to a form: from its files and the class names to the parts."""
