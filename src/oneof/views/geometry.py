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

    Coordinates are (right, down) in pixels from the upper left corner, pixel centres at ½, as in the
    published implementations. `matrix` is (B, 2, 2), `shift` is (B, 2).
    """
    rows, columns = pixel_grid(x)
    down, right = rows + 0.5, columns + 0.5
    m, s = matrix.view(-1, 4, 1, 1).unbind(1), shift.view(-1, 2, 1, 1).unbind(1)
    columns = (m[0] * right + m[1] * down + s[0]).floor().long()
    rows = (m[2] * right + m[3] * down + s[1]).floor().long()
    height, width = x.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    moved = take_pixels(x, rows.clamp(0, height - 1), columns.clamp(0, width - 1))
    return torch.where(inside.unsqueeze(1), moved, torch.full_like(moved[:1, :1, :1, :1], GREY))


def square_mask(x: Tensor, down: Tensor, right: Tensor, size: int) -> Tensor:
    """(B, 1, height, width): true inside the square around (down, right), cut off at the border."""
    rows, columns = pixel_grid(x)
    top, left = (down - size // 2).view(-1, 1, 1), (right - size // 2).view(-1, 1, 1)
    inside = (rows >= top) & (rows < top + size) & (columns >= left) & (columns < left + size)
    return inside.unsqueeze(1)
