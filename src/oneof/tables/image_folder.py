"""A folder of images as training rows: every file is a row, its name inside the folder is its id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.image_files import SUFFIXES, read_images


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Files of a folder and its sub-folders, and their pixels at one size."""

    folder: Path
    files: tuple[Path, ...]
    images: np.ndarray
    """uint8 (n, 3, height, width)."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Names relative to the folder, with `/` on every system."""
        return names_inside(self.folder, self.files)


def find_images(folder: Path | str) -> tuple[Path, ...]:
    """The image files in a folder and its sub-folders, by name. Hidden ones are not looked at."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder.")
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not _hidden(path.relative_to(folder))
    ]
    if not found:
        raise DataError(f"{folder}: there are no images in it ({', '.join(SUFFIXES)}).")
    return tuple(sorted(found, key=lambda path: path.relative_to(folder).as_posix()))


def read_folder(folder: Path | str, size: int, files: tuple[Path, ...] | None = None) -> ImageFolder:
    """Read images (default: all) as colour pictures of `size` x `size` pixels.

    They are stretched to that size: nothing is cut off.
    """
    if size < 1:
        raise DataError(f"images cannot be {size} pixels wide; give a size of at least 1.")
    files = find_images(folder) if files is None else files
    return ImageFolder(Path(folder), files, read_images(files, size=(size, size), channels=3))


def names_inside(folder: Path, files: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(path.relative_to(folder).as_posix() for path in files)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
