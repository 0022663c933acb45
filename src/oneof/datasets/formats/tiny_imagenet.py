"""TinyImageNet's folder: `tiny-imagenet-200/` with `wnids.txt`, `words.txt`, `train/` and `val/`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.image_files import read_images

_NUMBER = re.compile(r"_(\d+)\.")


def read_tiny_imagenet(folder: Path | str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read one part.

    Classes are numbered in the order of `wnids.txt`. Training images come class after class and by
    their number within a class, validation images by their number. Some files are greyscale JPEGs;
    all are returned as RGB. The official `test/` has no labels and is not read.

    Parameters
    ----------
    folder : path
        `tiny-imagenet-200`.
    part : "train" or "val"

    Returns
    -------
    images : uint8 array (n, 3, 64, 64)
    labels : int64 array (n,)
    """
    folder = Path(folder)
    column = {name: k for k, name in enumerate(class_ids(folder))}
    if part == "train":
        files, labels = _train(folder, column)
    elif part == "val":
        files, labels = _validation(folder, column)
    else:
        raise DataError(f"part = {part!r}: TinyImageNet has the labelled parts 'train' and 'val'.")
    return read_images(files), np.array(labels, dtype=np.int64)


def class_ids(folder: Path) -> list[str]:
    """The WordNet ids of the classes, in the order of `wnids.txt`."""
    ids = _lines(folder / "wnids.txt")
    if not ids or len(set(ids)) != len(ids):
        raise DataError(f"{folder / 'wnids.txt'}: it must list every class once.")
    return ids


def class_names(folder: Path | str) -> tuple[str, ...]:
    """Readable names, `id first word`, unique; the id alone where `words.txt` says nothing."""
    folder = Path(folder)
    words: dict[str, str] = {}
    if (folder / "words.txt").is_file():
        for line in _lines(folder / "words.txt"):
            key, _, text = line.partition("\t")
            words[key] = text.split(",")[0].strip()
    return tuple(f"{key} {words[key]}" if words.get(key) else key for key in class_ids(folder))


def _train(folder: Path, column: dict[str, int]) -> tuple[list[Path], list[int]]:
    files: list[Path] = []
    labels: list[int] = []
    for name, k in column.items():
        inside = folder / "train" / name / "images"
        found = sorted(inside.glob("*.JPEG"), key=_order) if inside.is_dir() else []
        if not found:
            raise DataError(f"{inside}: no training images of class {name}; unpack the archive again.")
        files += found
        labels += [k] * len(found)
    return files, labels


def _validation(folder: Path, column: dict[str, int]) -> tuple[list[Path], list[int]]:
    notes = folder / "val" / "val_annotations.txt"
    rows: list[tuple[Path, int]] = []
    for i, line in enumerate(_lines(notes)):
        name, *rest = line.split("\t")
        if not rest or rest[0] not in column or Path(name).name != name:
            raise DataError(
                f"{notes}: line {i + 1} is {line[:60]!r}; it must be an image name, a tab and a class id."
            )
        rows.append((folder / "val" / "images" / name, column[rest[0]]))
    if not rows:
        raise DataError(f"{notes}: no validation images are listed; unpack the archive again.")
    rows.sort(key=lambda row: _order(row[0]))
    return [path for path, _ in rows], [k for _, k in rows]


def _order(path: Path) -> tuple[int, str]:
    number = _NUMBER.search(path.name)
    return (int(number.group(1)) if number else -1, path.name)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        raise DataError(f"{path}: no such file; this is not the folder of TinyImageNet.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file; unpack the archive again.") from None
    return [line.rstrip("\r") for line in text.split("\n") if line.strip()]
