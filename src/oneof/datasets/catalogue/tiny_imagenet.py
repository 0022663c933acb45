"""TinyImageNet: 200 classes of ImageNet at 64 x 64 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneof.datasets.formats.tiny_imagenet import class_names, read_tiny_imagenet
from oneof.datasets.registry import Download, Entry, Form


def _tiny_imagenet(folder: Path) -> Mapping[str, Any]:
    inside = folder / "tiny-imagenet-200"
    x, y = read_tiny_imagenet(inside, "train")
    x_test, y_test = read_tiny_imagenet(inside, "val")
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test, "classes": class_names(inside)}


TINY_IMAGENET = Entry(
    name="tiny-imagenet",
    title="TinyImageNet",
    task="object recognition",
    train=100_000,
    test=10_000,
    shape=(3, 64, 64),
    n_classes=200,
    licence="non-commercial research (terms of ImageNet)",
    citation="Le and Yang, Tiny ImageNet Visual Recognition Challenge, CS 231N, 2015",
    source="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    mean=(0.4802, 0.4481, 0.3975),
    std=(0.2770, 0.2691, 0.2821),
    forms=(
        Form(
            {
                "tiny-imagenet-200/wnids.txt": None,
                "tiny-imagenet-200/train": None,
                "tiny-imagenet-200/val/val_annotations.txt": None,
            },
            _tiny_imagenet,
        ),
    ),
    downloads=(
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "downloads/tiny-imagenet-200.zip",
            checksum="md5:90528d7ca1a48142e341f4ef8d21d0de",
            unpacks="tiny-imagenet-200",
        ),
    ),
)
