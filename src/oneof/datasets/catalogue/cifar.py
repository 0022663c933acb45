"""CIFAR-10 and CIFAR-100, binary and python versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneof.datasets.formats.cifar import read_cifar_binary, read_cifar_python, read_safe_pickle
from oneof.datasets.registry import Download, Entry, Form
from oneof.tables.errors import DataError

_TORONTO = "https://www.cs.toronto.edu/~kriz"
_PAPER = "Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
_CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR10_BINARY = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
_CIFAR10_PYTHON = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_CIFAR100_BINARY = {
    "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
    "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    "fine_label_names.txt": "4a53f81a8af29bb6aa646bfe2c455db1b061edfde82a39c0cfc313ef536c681b",
}
_CIFAR100_PYTHON = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}


def _sums(folder: str, kind: str, files: Mapping[str, str]) -> dict[str, str | None]:
    return {f"{folder}/{file}": f"{kind}:{value}" for file, value in files.items()}


def _cifar10_binary(folder: Path) -> Mapping[str, Any]:
    inside = folder / "cifar-10-batches-bin"
    x, y = read_cifar_binary([inside / f"data_batch_{i}.bin" for i in range(1, 6)], n_classes=10)
    x_test, y_test = read_cifar_binary([inside / "test_batch.bin"], n_classes=10)
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test, "classes": _CIFAR10_NAMES}


def _cifar10_python(folder: Path) -> Mapping[str, Any]:
    inside = folder / "cifar-10-batches-py"
    x, y = read_cifar_python([inside / f"data_batch_{i}" for i in range(1, 6)], n_classes=10)
    x_test, y_test = read_cifar_python([inside / "test_batch"], n_classes=10)
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test, "classes": _CIFAR10_NAMES}


def _cifar100_binary(folder: Path) -> Mapping[str, Any]:
    inside = folder / "cifar-100-binary"
    x, y = read_cifar_binary([inside / "train.bin"], n_classes=100, label_bytes=2)
    x_test, y_test = read_cifar_binary([inside / "test.bin"], n_classes=100, label_bytes=2)
    listed = (inside / "fine_label_names.txt").read_text(encoding="utf-8").split()
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test, "classes": tuple(listed)}


def _cifar100_python(folder: Path) -> Mapping[str, Any]:
    inside = folder / "cifar-100-python"
    x, y = read_cifar_python([inside / "train"], n_classes=100, label_key="fine_labels")
    x_test, y_test = read_cifar_python([inside / "test"], n_classes=100, label_key="fine_labels")
    listed = read_safe_pickle(inside / "meta").get("fine_label_names")
    if not isinstance(listed, list):
        raise DataError(f"{inside / 'meta'}: no list 'fine_label_names'; fetch it again.")
    classes = tuple(v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in listed)
    return {"x_train": x, "y_train": y, "x_test": x_test, "y_test": y_test, "classes": classes}


CIFAR = (
    Entry(
        name="cifar10",
        title="CIFAR-10",
        task="object recognition",
        train=50_000,
        test=10_000,
        shape=(3, 32, 32),
        n_classes=10,
        licence="none stated by the authors",
        citation=_PAPER,
        source=f"{_TORONTO}/cifar.html",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        forms=(
            Form(
                _sums("cifar-10-batches-bin", "sha256", _CIFAR10_BINARY),
                _cifar10_binary,
            ),
            Form(
                _sums("cifar-10-batches-py", "md5", _CIFAR10_PYTHON),
                _cifar10_python,
            ),
        ),
        downloads=(
            Download(
                f"{_TORONTO}/cifar-10-binary.tar.gz",
                "downloads/cifar-10-binary.tar.gz",
                checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
                unpacks="cifar-10-batches-bin",
            ),
        ),
    ),
    Entry(
        name="cifar100",
        title="CIFAR-100",
        task="object recognition",
        train=50_000,
        test=10_000,
        shape=(3, 32, 32),
        n_classes=100,
        licence="none stated by the authors",
        citation=_PAPER,
        source=f"{_TORONTO}/cifar.html",
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        forms=(
            Form(
                _sums("cifar-100-binary", "sha256", _CIFAR100_BINARY),
                _cifar100_binary,
            ),
            Form(
                _sums("cifar-100-python", "md5", _CIFAR100_PYTHON),
                _cifar100_python,
            ),
        ),
        downloads=(
            Download(
                f"{_TORONTO}/cifar-100-binary.tar.gz",
                "downloads/cifar-100-binary.tar.gz",
                checksum="md5:03b5dce01913d631647c71ecec9e9cb8",
                unpacks="cifar-100-binary",
            ),
        ),
    ),
)
