"""The strong view of moves and colours in between: bilinear sampling, reflection at the border, any strength.

An image is turned, sheared and shifted in one affine map, which also mirrors it, and then has one change of
colour: brightness, contrast, saturation or solarization. Every strength is drawn from a range, so that no
two views are alike; nothing is cut off, and no grey comes in from outside. No branch depends on the data, so
that a step can be recorded.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

DRAWS = 9
"""Random numbers per image."""
ROTATION, SHEAR = 0.5, 0.3
"""Greatest angle, in radians, and greatest shear, both ways."""
COLOURS = ((0.5, 1.5), (0.4, 1.6), (0.1, 1.9))
"""Ranges of the factors for brightness, contrast and saturation."""
SOLARIZED = 0.125
"""Share of the images that are solarized instead."""


def bilinear_view(x: Tensor, mirrored: Tensor, draws: Tensor, shift: int) -> Tensor:
    """Numbers from 0 to 255 (B, channels, height, width) of images in bytes.

    Parameters
    ----------
    mirrored : bool (B,)
    draws : (B, `DRAWS`)
        Uniform random numbers.
    shift : int
        Greatest shift in pixels. Grey images only move.
    """
    moved = sampled(x.float(), mirrored, draws[:, :6], shift)
    return recoloured(moved, draws[:, 6:]) if x.shape[1] == 3 else moved


def sampled(pixels: Tensor, mirrored: Tensor, draws: Tensor, shift: int) -> Tensor:
    """Turned (every second image), sheared (three of ten), shifted and mirrored."""
    if not len(pixels):  # grid_sample refuses an empty batch
        return pixels
    height, width = pixels.shape[2:]
    turned, angle, sheared, slant, right, down = draws.unbind(dim=1)
    angle = torch.where(turned < 0.5, (2 * angle - 1) * ROTATION, 0.0)
    slant = torch.where(sheared < 0.3, (2 * slant - 1) * SHEAR, 0.0)
    cos, sin = angle.cos(), angle.sin()
    sign = 1 - 2 * mirrored.to(pixels.dtype)
    # grid_sample counts in half images: a shift of one pixel is 2 / width, one down is another length
    rows = (
        (sign * cos, (slant * cos - sin) * (height / width), (2 * right - 1) * (2 * shift / width)),
        (sign * sin * (width / height), slant * sin + cos, (2 * down - 1) * (2 * shift / height)),
    )
    matrix = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    grid = affine_grid(matrix, list(pixels.shape), align_corners=False)
    return grid_sample(pixels, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def recoloured(pixels: Tensor, draws: Tensor) -> Tensor:
    """One change of colour for every image; three draws: solarize or not, which other one, how strongly."""
    solarized, which, strength = (draws[:, i, None, None, None] for i in range(3))
    plain = torch.ones_like(strength)
    factors = [
        torch.where(
            (solarized >= SOLARIZED) & ((which * 3).long() == i), low + (high - low) * strength, plain
        )
        for i, (low, high) in enumerate(COLOURS)
    ]
    brightness, contrast, saturation = factors
    pixels = (pixels * brightness).clamp(max=255)
    mean = grey(pixels).mean(dim=(2, 3), keepdim=True)
    pixels = (mean + (pixels - mean) * contrast).clamp(0, 255)
    shade = grey(pixels)
    pixels = (shade + (pixels - shade) * saturation).clamp(0, 255)
    threshold = torch.where(solarized < SOLARIZED, 255 * strength, 256 * plain)
    return torch.where(pixels >= threshold, 255 - pixels, pixels)


def grey(pixels: Tensor) -> Tensor:
    """Brightness as the eye sees it, (B, 1, height, width)."""
    red, green, blue = pixels.unbind(dim=1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)
