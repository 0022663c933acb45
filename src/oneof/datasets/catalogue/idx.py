"""MNIST, Fashion-MNIST and Kuzushiji-MNIST: four idx files each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oneof.datasets.formats.idx import read_idx
from oneof.datasets.registry import Download, Entry, Form
from oneof.tables.errors import DataError

_DIGIT_NAMES = tuple(str(k) for k in range(10))
_FASHION_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_KUZUSHIJI_NAMES = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_parts(folder: Path, names: tuple[str, ...], suffix: str) -> Mapping[str, Any]:
    parts: dict[str, Any] = {"classes": names}
    for part, images, labels in (("train", *_FILES[:2]), ("test", *_FILES[2:])):
        x, y = read_idx(folder / (images + suffix)), read_idx(folder / (labels + suffix))
        if x.ndim != 3 or y.shape != x.shape[:1]:
            raise DataError(
                f"{folder}: {images} has shape {x.shape}, {labels} {y.shape}; these files do not belong."
            )
        parts[f"x_{part}"], parts[f"y_{part}"] = x[:, None], y.astype(np.int64)
    return parts


def _idx_entry(
    name: str, folder: str, urls: str, names: tuple[str, ...], sums: tuple[str, ...], **facts: Any
) -> Entry:
    packed = {f"{folder}/{file}.gz": value for file, value in zip(_FILES, sums)}
    # unpacked files are read as well; an MD5 is that of the .gz file, so it says nothing about them
    plain = {f"{folder}/{file}": v if v.startswith("content-") else None for file, v in zip(_FILES, sums)}
    return Entry(
        name=name,
        train=60_000,
        test=10_000,
        shape=(1, 28, 28),
        n_classes=10,
        forms=(
            Form(packed, lambda data: _idx_parts(data / folder, names, ".gz")),
            Form(plain, lambda data: _idx_parts(data / folder, names, "")),
        ),
        downloads=tuple(
            Download(f"{urls}/{Path(file).name}", file, checksum=value) for file, value in packed.items()
        ),
        **facts,
    )


IDX = (
    _idx_entry(
        "mnist",
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        _DIGIT_NAMES,
        (
            "content-sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "content-sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "content-sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "content-sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        title="MNIST",
        task="digit recognition",
        licence="none stated with the files",
        citation="LeCun, Bottou, Bengio and Haffner, Gradient-Based Learning, Proc. IEEE 86, 1998",
        source="http://yann.lecun.com/exdb/mnist/",
        mean=(0.1307,),
        std=(0.3081,),
    ),
    _idx_entry(
        "fmnist",
        "fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        _FASHION_NAMES,
        (
            "content-sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "content-sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "content-sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "content-sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        title="Fashion-MNIST",
        task="clothing recognition",
        licence="MIT",
        citation="Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
        source="https://github.com/zalandoresearch/fashion-mnist",
        mean=(0.2860,),
        std=(0.3530,),
    ),
    _idx_entry(
        "kmnist",
        "kmnist",
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
        _KUZUSHIJI_NAMES,
        (
            "md5:bdb82020997e1d708af4cf47b453dcf7",
            "md5:e144d726b3acfaa3e44228e80efcd344",
            "md5:5c965bf0a639b31b8f53240b1b52f4d7",
            "md5:7320c461ea6c1c855c0b718fb2a4b134",
        ),
        title="Kuzushiji-MNIST",
        task="character recognition",
        licence="CC BY-SA 4.0",
        citation="Clanuwat et al., Deep Learning for Classical Japanese Literature, arXiv:1812.01718, 2018",
        source="https://github.com/rois-codh/kmnist",
        mean=(0.1918,),
        std=(0.3483,),
    ),
)
