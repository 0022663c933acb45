"""Images in files and folders, read with pillow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from oneof.tables.errors import DataError
from oneof.tables.files import reading

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")
"""What is opened, by content: nothing that runs another program."""
MOST_PIXELS = 1 << 25
"""Larger images are refused before they are decoded: 20 KB can claim a gigabyte."""
THREADS = 4
LARGE_PIXELS = 1 << 22
"""Images with more pixels are decoded one at a time, so that four threads do not take four times as much."""

_one_at_a_time = Lock()


def read_images(
    files: Sequence[Path],
    *,
    size: tuple[int, int] | None = None,
    skipped: dict[int, str] | None = None,
) -> np.ndarray:
    """Read images in this order into a uint8 array (n, 3, height, width).

    All become RGB, upright and on white as viewers show them, and are resized to `size` (height, width);
    without it all must have the size of the first. `skipped` gets the number of every file that cannot be
    read, and why: the array then has the others only. Without it such a file is an error.
    """
    if not files:
        raise DataError("no image files were given.")
    pillow = _pillow()
    shape = size or _decode(pillow, files[0], size).shape[:2]
    images = np.empty((len(files), 3, *shape), dtype=np.uint8)

    def put(i: int) -> None:
        try:
            pixels = _decode(pillow, files[i], size)
        except DataError as error:
            if skipped is None:
                raise
            skipped[i] = str(error)
            return
        if pixels.shape[:2] != shape:
            raise DataError(
                f"{files[i]}: {pixels.shape[1]} x {pixels.shape[0]} pixels, but {files[0].name} has "
                f"{shape[1]} x {shape[0]}; give a size to bring all images to."
            )
        images[i] = pixels.transpose(2, 0, 1)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(put, range(len(files))))
    return np.delete(images, sorted(skipped), axis=0) if skipped else images


def read_image_folder(
    folder: Path | str, *, size: tuple[int, int] | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Images (n, 3, height, width), labels (n,) and classes of a folder with a sub-folder per class.

    Class after class, by file name within a class; classes are the names of the sub-folders, sorted.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder.")
    subfolders = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not subfolders:
        raise DataError(f"{folder}: no sub-folders; give a folder with one sub-folder of images per class.")
    files: list[Path] = []
    sizes = []
    for sub in subfolders:
        try:
            inside = find_images(sub)
        except DataError:
            what = f"no images of class {sub.name!r} ({', '.join(SUFFIXES)}); remove the folder."
            raise DataError(f"{sub}: {what}") from None
        files += inside
        sizes.append(len(inside))
    images = read_images(files, size=size)
    return images, np.repeat(np.arange(len(sizes)), sizes), tuple(p.name for p in subfolders)


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Files of a folder and its sub-folders as rows, and their pixels at one size."""

    ids: tuple[str, ...]
    """Names relative to the folder, with `/` on every system."""
    files: tuple[Path, ...]
    images: np.ndarray
    """uint8 (n, 3, height, width)."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Numbers of the files, of those asked for, that cannot be read and are left out, and why."""

    def note(self) -> list[str]:
        """What was left out, for people."""
        if not self.skipped:
            return []
        first = self.skipped[min(self.skipped)]
        return [f"images that cannot be read, left out: {len(self.skipped)} (first: {first})"]


def find_images(folder: Path | str) -> tuple[Path, ...]:
    """The image files in a folder and its sub-folders, by name. Hidden ones are not looked at."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder.")
    files = (p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    inside = [p.relative_to(folder) for p in files]
    names = sorted(name.as_posix() for name in inside if not any(part[0] == "." for part in name.parts))
    if not names:
        raise DataError(f"{folder}: there are no images in it ({', '.join(SUFFIXES)}).")
    return tuple(folder / name for name in names)


def read_folder(folder: Path | str, size: int, files: tuple[Path, ...] | None = None) -> ImageFolder:
    """Read images (default: all) as colour pictures of `size` x `size` pixels.

    They are stretched to that size: nothing is cut off. Files that cannot be read are left out (`skipped`).
    """
    if size < 1:
        raise DataError(f"images cannot be {size} pixels wide; give a size of at least 1.")
    files = find_images(folder) if files is None else files
    skipped: dict[int, str] = {}
    images = read_images(files, size=(size, size), skipped=skipped)
    kept = tuple(path for i, path in enumerate(files) if i not in skipped)
    return ImageFolder(names_inside(Path(folder), kept), kept, images, skipped)


def names_inside(folder: Path, files: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(path.relative_to(folder).as_posix() for path in files)


def _decode(pillow: Any, path: Path, size: tuple[int, int] | None) -> np.ndarray:
    # formats are listed: by its content alone pillow would hand a file called .png to Ghostscript
    with reading(path, "image"), pillow.open(path, formats=FORMATS) as image:
        if math.prod(image.size) > MOST_PIXELS and size is not None:
            image.draft("RGB", (size[1], size[0]))  # JPEG can be decoded at an eighth of its size
        if math.prod(image.size) > MOST_PIXELS:
            width, height = image.size
            raise DataError(
                f"{path}: {width} x {height} pixels, more than {MOST_PIXELS:,}; make it smaller first."
            )
        with _one_at_a_time if math.prod(image.size) > LARGE_PIXELS else nullcontext():
            from PIL.ImageOps import exif_transpose

            shown = exif_transpose(image)  # cameras store pictures as the sensor lay, and how to turn them
            if shown.mode[0] == "I":  # 16 bits of grey: pillow would make white of all but the darkest
                shown = pillow.fromarray((np.asarray(shown) >> 8).astype(np.uint8))
            if shown.has_transparency_data:  # what is behind is white; hidden pixels have any colour
                shown = pillow.alpha_composite(pillow.new("RGBA", shown.size, "white"), shown.convert("RGBA"))
            converted = shown.convert("RGB")
            if size is not None and converted.size != (size[1], size[0]):
                converted = converted.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
            return np.asarray(converted)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "reading image files needs pillow, which is not installed: pip install 'oneof[vision]'."
        ) from None
    return Image
