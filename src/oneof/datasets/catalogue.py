"""The entries of the registry: facts from `catalogue.toml`, and how each form of files is read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates import Candidates
from oneof.datasets import formats
from oneof.datasets.formats import Arrays
from oneof.datasets.registry import Download, Form, KnownSet, mat_parts
from oneof.tables.errors import DataError

Files = list[Path]
Names = tuple[str, ...]


def _parts(train: Arrays, test: Arrays, classes: Names) -> Mapping[str, Any]:
    parts = {"x_train": train[0], "y_train": train[1], "x_test": test[0], "y_test": test[1]}
    return parts | {"classes": classes}


def _digits(files: Files, classes: Names) -> Mapping[str, Any]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return {"x_train": x.astype(np.float64), "y_train": y.astype(np.int64), "classes": classes}


def _labelme(files: Files, classes: Names) -> Mapping[str, Any]:
    """The rows that a crowd answered, each with all labels somebody gave; all of them may be wrong."""
    with np.load(files[0], allow_pickle=False) as stored:
        parts = {name: stored[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    answers = np.loadtxt(files[1], dtype=np.int64, delimiter=",", skiprows=1)
    mask = np.zeros((len(parts["y_train"]), len(classes)), dtype=bool)
    mask[answers[:, 0], answers[:, 2]] = True
    truth = parts["y_train"].astype(np.int64)
    candidates = Candidates(mask, classes, truth, truth_may_be_outside=True, source=files[1].name)
    train, test = (parts["X_train"], truth), (parts["X_test"], parts["y_test"].astype(np.int64))
    return {**_parts(train, test, classes), "candidates": candidates}


def _idx(files: Files, classes: Names) -> Mapping[str, Any]:
    parts = []
    for images, labels in (files[:2], files[2:]):
        x, y = formats.read_idx(images), formats.read_idx(labels)
        if x.ndim != 3 or y.shape != x.shape[:1]:
            raise DataError(
                f"{images.parent}: {images.name} has shape {x.shape}, {labels.name} {y.shape}; "
                "these files do not belong."
            )
        parts.append((x[:, None], y.astype(np.int64)))
    return _parts(parts[0], parts[1], classes)


def _cifar10(read: Callable[..., Arrays], files: Files, classes: Names) -> Mapping[str, Any]:
    return _parts(read(files[:5], n_classes=10), read(files[5:], n_classes=10), classes)


def _cifar100_binary(files: Files, classes: Names) -> Mapping[str, Any]:
    train, test = (formats.read_cifar_binary([file], n_classes=100, label_bytes=2) for file in files[:2])
    return _parts(train, test, tuple(files[2].read_text(encoding="utf-8").split()))


def _cifar100_python(files: Files, classes: Names) -> Mapping[str, Any]:
    train, test = (
        formats.read_cifar_python([file], n_classes=100, label_key="fine_labels") for file in files[:2]
    )
    listed = formats.read_safe_pickle(files[2]).get("fine_label_names")
    if not isinstance(listed, list):
        raise DataError(f"{files[2]}: no list 'fine_label_names'; fetch it again.")
    return _parts(train, test, tuple(v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in listed))


def _tiny_imagenet(files: Files, classes: Names) -> Mapping[str, Any]:
    inside = files[0].parent
    train, test = (formats.read_tiny_imagenet(inside, part) for part in ("train", "val"))
    return _parts(train, test, formats.tiny_imagenet_classes(inside))


_READERS: dict[str, Callable[[Files, Names], Mapping[str, Any]]] = {
    "digits": _digits,
    "mat": lambda files, classes: mat_parts(files[0]),
    "labelme": _labelme,
    "idx": _idx,
    "cifar10-binary": partial(_cifar10, formats.read_cifar_binary),
    "cifar10-python": partial(_cifar10, formats.read_cifar_python),
    "cifar100-binary": _cifar100_binary,
    "cifar100-python": _cifar100_python,
    "tiny-imagenet": _tiny_imagenet,
}


def _form(files: Mapping[str, str], read: str, classes: Names) -> Form:
    reader = _READERS[read]
    return Form(
        {file: value or None for file, value in files.items()},
        lambda folder: reader([folder / file for file in files], classes),
    )


def _entry(name: str, facts: dict[str, Any]) -> KnownSet:
    classes = tuple(facts.pop("classes", ()))
    forms = tuple(_form(**form, classes=classes) for form in facts.pop("forms"))
    downloads = tuple(Download(**download) for download in facts.pop("downloads", ()))
    lists = {key: tuple(value) for key, value in facts.items() if isinstance(value, list)}
    return KnownSet(name=name, forms=forms, downloads=downloads, **facts | lists)


_FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ALIASES = {other: name for name, facts in _FACTS.items() for other in facts.pop("other_names", ())}
"""Other spellings met in papers and codes."""
ENTRIES = {name: _entry(name, facts) for name, facts in _FACTS.items()}
