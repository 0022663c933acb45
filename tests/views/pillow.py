"""Images to try, and what Pillow makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("PIL", reason="Pillow is the reference")

from PIL import Image, ImageEnhance, ImageOps


def reference(name: str, pixels: np.ndarray, level: float, sign: int) -> np.ndarray:
    """An operation of AutoAugment on one image (channels, height, width), by Pillow."""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    found = np.asarray(_operated(name, image, level / 9, sign))
    return found[None] if found.ndim == 2 else found.transpose(2, 0, 1)


def _operated(name: str, image: Image.Image, part: float, sign: int) -> Image.Image:
    width, height = image.size
    grey = 128 if image.mode == "L" else (128,) * 3
    factor = 1 + 0.9 * part * sign

    def mapped(*matrix: float) -> Image.Image:
        return image.transform(
            image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=grey
        )

    return {
        "identity": lambda: image,
        "shear-x": lambda: mapped(1, 0.3 * part * sign, 0, 0, 1, 0),
        "shear-y": lambda: mapped(1, 0, 0, 0.3 * part * sign, 1, 0),
        "translate-x": lambda: mapped(1, 0, part * sign * width * 150 / 331, 0, 1, 0),
        "translate-y": lambda: mapped(1, 0, 0, 0, 1, part * sign * height * 150 / 331),
        "rotate": lambda: image.rotate(-30 * part * sign, Image.Resampling.NEAREST, fillcolor=grey),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
        "solarize": lambda: ImageOps.solarize(image, 256 * (1 - part)),  # type: ignore[arg-type]
        "posterize": lambda: ImageOps.posterize(image, 8 - round(4 * part)),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "colour": lambda: ImageEnhance.Color(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
    }[name]()


def pictures(size: int, channels: int, seed: int = 0) -> Tensor:
    """Noise, slopes of colour, noise of little contrast, two values only, a single one."""
    rng = np.random.default_rng(seed)
    shape = (channels, size, size)
    slope = np.add.outer(np.arange(size) * 3.1, np.arange(size) * 1.7) * rng.uniform(0.3, 1, (channels, 1, 1))
    made = [
        rng.integers(0, 256, shape),
        np.clip(slope + 20, 0, 255),
        np.clip(240 - slope, 0, 255),
        rng.integers(90, 131, shape),
        rng.integers(0, 2, shape) * 93 + 11,
        np.full(shape, 77),
    ]
    return torch.as_tensor(np.stack(made).astype(np.uint8))
