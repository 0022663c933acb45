"""The operations of AutoAugment and RandAugment, a whole batch at once, another one for every image.

Each image has one operation with one strength. Geometric ones are an affine map; brightness, contrast,
inversion and their like are a table of 256 values per channel; colour and sharpness are blends. On a GPU
all images go through all three, with parameters that change nothing where the operation is another one: no
branch depends on the data, so that a step can be recorded. On a CPU each goes through the one it needs.

Strengths go from 0 to 9, as the policies were published; the ranges are those of AutoAugment (Cubuk et
al. 2019, appendix). Pixels are those that Pillow makes, with which the policies were found, down to how
it rounds; hence double precision where Pillow has it, in what there is little of.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from oneof.views.geometry import affine

OPERATIONS = (
    "identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate",
    "autocontrast", "equalize", "invert", "solarize", "posterize",
    "contrast", "brightness", "colour", "sharpness",
)  # fmt: skip
MOVES, LOOKS_UP, BLENDS = OPERATIONS[1:6], OPERATIONS[6:13], OPERATIONS[13:]
_NUMBER = {name: number for number, name in enumerate(OPERATIONS)}
LEVELS = 9
"""The greatest strength."""


def apply_operations(x: Tensor, operation: Tensor, level: Tensor, sign: Tensor) -> Tensor:
    """Every image after its operation.

    Parameters
    ----------
    x : uint8 (B, channels, height, width)
    operation : int (B,)
        Numbers of `OPERATIONS`.
    level : float (B,)
        Strength, 0 to 9.
    sign : float (B,)
        1 or −1: the direction of what has one.
    """
    part = level.double() / LEVELS
    factor = (1 + 0.9 * part * sign).float()
    x = _where_needed(MOVES, _moved, x, operation, part * sign)
    x = _where_needed(LOOKS_UP, _looked_up, x, operation, part, factor)
    return _where_needed(BLENDS, _blended, x, operation, factor)


def _where_needed(
    names: tuple[str, ...], function: Callable[..., Tensor], x: Tensor, operation: Tensor, *more: Tensor
) -> Tensor:
    """All images after the function, which changes only those with one of these operations."""
    if x.device.type != "cpu":
        return function(x, operation, *more)
    rows = _is(operation, *names).nonzero().flatten()
    changed = function(x[rows], operation[rows], *(values[rows] for values in more))
    return x.index_copy(0, rows, changed)


def _is(operation: Tensor, *names: str) -> Tensor:
    found = operation == _NUMBER[names[0]]
    for name in names[1:]:
        found = found | (operation == _NUMBER[name])
    return found


def _where(operation: Tensor, name: str, value: Tensor) -> Tensor:
    """The value where this is the operation, else 0."""
    return torch.where(_is(operation, name), value, torch.zeros_like(value))


def _moved(x: Tensor, operation: Tensor, part: Tensor) -> Tensor:
    """Shears, translations and rotations."""
    height, width = x.shape[2:]
    angle = _where(operation, "rotate", part * math.radians(30))
    cos, sin = angle.cos(), angle.sin()
    shear_x = _where(operation, "shear-x", 0.3 * part)
    shear_y = _where(operation, "shear-y", 0.3 * part)
    matrix = torch.stack([cos, sin + shear_x, shear_y - sin, cos], dim=1).view(-1, 2, 2)
    # a rotation is about the centre
    right = width / 2 * (1 - cos) - height / 2 * sin
    down = height / 2 * (1 - cos) + width / 2 * sin
    right = right + _where(operation, "translate-x", part * (width * 150 / 331))
    down = down + _where(operation, "translate-y", part * (height * 150 / 331))
    return affine(x, matrix, torch.stack([right, down], dim=1))


def _looked_up(x: Tensor, operation: Tensor, part: Tensor, factor: Tensor) -> Tensor:
    """Operations that replace each value of a channel by another: one table per image and channel."""
    b, channels = x.shape[:2]
    values = x.flatten(2).long()
    counts = torch.zeros(b, channels, 256, device=x.device).scatter_add_(
        2, values, torch.ones((), device=x.device).expand(values.shape)
    )
    v = torch.arange(256, device=x.device, dtype=torch.float32).view(1, 1, -1)
    op, part, factor = operation.view(-1, 1, 1), part.float().view(-1, 1, 1), factor.view(-1, 1, 1)
    threshold = 256 * (1 - part)
    lost = 2 ** (4 * part).round()  # posterize: 0 to 4 of the 8 bits
    mean = _grey(x).double().mean(dim=(2, 3)).add(0.5).floor().float().view(-1, 1, 1)

    table = v.expand(b, channels, -1)
    for name, made in (
        ("invert", 255 - v),
        ("solarize", torch.where(v < threshold, v, 255 - v)),
        ("posterize", (v / lost).floor() * lost),
        ("brightness", v * factor),
        ("contrast", mean + (v - mean) * factor),
        ("autocontrast", _stretched(counts, v)),
        ("equalize", _equalized(counts, v)),
    ):
        table = torch.where(_is(op, name), made, table)
    table = table.clamp(0, 255).to(torch.uint8)
    return table.gather(2, values).view_as(x)


def _stretched(counts: Tensor, v: Tensor) -> Tensor:
    """From the darkest to the lightest value there is to 0 to 255; a channel of one value stays."""
    there = counts > 0
    low = torch.where(there, v, v.new_full((), 256)).amin(dim=2, keepdim=True)
    high = torch.where(there, v, v.new_full((), -1)).amax(dim=2, keepdim=True)
    span = (high - low).clamp(min=1).double()
    scale = torch.full_like(span, 255) / span  # a number divided by a tensor would be rounded twice
    return torch.where(high > low, (v * scale - low * scale).floor().float(), v)


def _equalized(counts: Tensor, v: Tensor) -> Tensor:
    """All values about equally often: each moves to its place in the cumulated counts."""
    last = torch.where(counts > 0, v, v.new_full((), -1)).amax(dim=2, keepdim=True)
    step = torch.where(v == last, torch.zeros_like(counts), counts).sum(dim=2, keepdim=True)
    step = (step / 255).floor()
    below = counts.cumsum(dim=2) - counts
    moved = ((below + (step / 2).floor()) / step.clamp(min=1)).floor()
    return torch.where(step > 0, moved, v)


def _blended(x: Tensor, operation: Tensor, factor: Tensor) -> Tensor:
    """Colour moves pixels away from their grey, sharpness away from their smoothed neighbourhood."""
    pixels = x.float()
    colour = torch.where(_is(operation, "colour"), factor, torch.ones_like(factor)).view(-1, 1, 1, 1)
    sharp = torch.where(_is(operation, "sharpness"), factor, torch.ones_like(factor)).view(-1, 1, 1, 1)
    grey = _grey(x)
    pixels = (grey + colour * (pixels - grey)).clamp(0, 255).floor()
    smooth = _smoothed(pixels)
    pixels = smooth + sharp * (pixels - smooth)
    return pixels.clamp(0, 255).to(torch.uint8)


def _grey(x: Tensor) -> Tensor:
    """Brightness as the eye sees it, whole numbers (B, 1, height, width)."""
    pixels = x.float()
    if x.shape[1] != 3:
        return pixels.mean(dim=1, keepdim=True).add(0.5).floor()
    # 0.299, 0.587 and 0.114 in 1/65536: all sums are whole and below 2^24, hence exact
    red, green, blue = pixels.unbind(dim=1)
    return ((19595 * red + 38470 * green + 7471 * blue + 32768) / 65536).floor().unsqueeze(1)


def _smoothed(pixels: Tensor) -> Tensor:
    """Mean of each pixel (weight 5) and its eight neighbours (weight 1); the border stays as it is."""
    columns = pixels[..., :-2, :] + pixels[..., 1:-1, :] + pixels[..., 2:, :]
    total = columns[..., :-2] + columns[..., 1:-1] + columns[..., 2:] + 4 * pixels[..., 1:-1, 1:-1]
    smooth = pixels.clone()
    smooth[..., 1:-1, 1:-1] = (total / 13).add_(0.5).floor_()
    return smooth
