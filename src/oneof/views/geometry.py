"""Moving pixels, a whole batch at once: flips, padded crops and affine maps, one gather each.

Every function takes bytes (B, channels, height, width) and one parameter per image.
"""

from __future__ import annotations

import torch
from torch import Tensor

GREY = 128
"""What an affine map shows where it looks beyond the image."""


def pixel_grid(x: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column number of every pixel, shapes (1, height, 1) and (1, 1, width)."""
    rows = torch.arange(x.shape[2], device=x.device).view(1, -1, 1)
    columns = torch.arange(x.shape[3], device=x.device).view(1, 1, -1)
    return rows, columns


def take_pixels(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The image whose pixel (i, j) is pixel (rows, columns) of x, the same for all channels."""
    b, channels, height, width = x.shape
    place = (rows * width + columns).reshape(b, 1, height * width)
    return x.flatten(2).gather(2, place.expand(b, channels, -1)).view_as(x)


def flip_and_crop(x: Tensor, flip: Tensor, down: Tensor, right: Tensor, pad: int) -> Tensor:
    """Mirror where `flip`, pad by reflection and cut out the window that starts at (down, right)."""
    rows, columns = pixel_grid(x)
    height, width = x.shape[2:]
    if pad >= min(height, width):
        raise ValueError(
            f"images of {height} x {width} pixels cannot be padded by reflection by {pad}; "
            "pad must be less than their size."
        )
    rows = _reflected(rows + (down - pad).view(-1, 1, 1), height)
    columns = _reflected(columns + (right - pad).view(-1, 1, 1), width)
    columns = torch.where(flip.view(-1, 1, 1), width - 1 - columns, columns)
    return take_pixels(x, rows, columns)


def _reflected(place: Tensor, size: int) -> Tensor:
    """Places beyond the border mirrored at the border pixel, which is not repeated."""
    place = place.abs()
    return torch.where(place >= size, 2 * (size - 1) - place, place)


def affine(x: Tensor, matrix: Tensor, shift: Tensor) -> Tensor:
    """Pixel (i, j) of the result is the nearest pixel to matrix · (j, i) + shift, grey beyond the image.

    Coordinates are (right, down) in pixels from the upper left corner, pixel centres at ½, and counted in
    1/65536 of a pixel: whole numbers, which round the same way everywhere. `matrix` is (B, 2, 2), `shift`
    is (B, 2), both in double precision.
    """
    rows, columns = pixel_grid(x)
    m = _counted(matrix).view(-1, 4, 1, 1).unbind(1)
    s = _counted(shift + matrix.sum(dim=2) / 2).view(-1, 2, 1, 1).unbind(1)
    at_column = (m[0] * columns + m[1] * rows + s[0]) >> 16
    at_row = (m[2] * columns + m[3] * rows + s[1]) >> 16
    height, width = x.shape[2:]
    inside = (at_row >= 0) & (at_row < height) & (at_column >= 0) & (at_column < width)
    moved = take_pixels(x, at_row.clamp(0, height - 1), at_column.clamp(0, width - 1))
    return torch.where(inside.unsqueeze(1), moved, torch.full_like(moved[:1, :1, :1, :1], GREY))


def _counted(values: Tensor) -> Tensor:
    return (values * 65536 + 0.5).floor().long()


def square_mask(x: Tensor, down: Tensor, right: Tensor, size: int) -> Tensor:
    """(B, 1, height, width): true inside the square around (down, right), cut off at the border."""
    rows, columns = pixel_grid(x)
    top, left = (down - size // 2).view(-1, 1, 1), (right - size // 2).view(-1, 1, 1)
    inside = (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
    return inside.unsqueeze(1)
