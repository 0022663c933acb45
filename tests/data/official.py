"""Small files of exactly the official forms, written by hand."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
from scipy.io import savemat
from scipy.sparse import csc_matrix


def partial_label_table(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, d), candidates (n, k), truth (n,)."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    mask = rng.random((n, k)) < 1.2 / k
    mask[np.arange(n), truth] = True
    return rng.normal(size=(n, d)), mask, truth


def write_mat(
    path: Path,
    x: np.ndarray,
    mask: np.ndarray,
    truth: np.ndarray,
    *,
    sparse: bool = True,
    dtype: type = np.float64,
    **changed: object,
) -> Path:
    """A file of the family; `changed` replaces variables, None leaves one out."""
    target = np.zeros(mask.shape, dtype=dtype)
    target[np.arange(len(truth)), truth] = 1
    labels = {"partial_target": mask.astype(dtype).T, "target": target.T}
    if sparse:  # MATLAB keeps sparse matrices as double
        labels = {name: csc_matrix(value.astype(np.float64)) for name, value in labels.items()}
    content = {"data": x, **labels, **changed}
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {name: value for name, value in content.items() if value is not None})
    return path


def idx_bytes(values: np.ndarray) -> bytes:
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return head + values.astype(np.uint8).tobytes()


def write_idx_set(folder: Path, n_train: int = 20, n_test: int = 10, packed: bool = True) -> None:
    """The four files of MNIST, Fashion-MNIST and Kuzushiji-MNIST."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for part, n in (("train", n_train), ("t10k", n_test)):
        images, labels = rng.integers(256, size=(n, 28, 28)), np.arange(n) % 10
        for name, values in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = idx_bytes(values)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
            else:
                (folder / name).write_bytes(content)


def python2_pickle(images: np.ndarray, labels: list[int], label_key: str = "labels") -> bytes:
    """A CIFAR batch as Python 2 with an old numpy pickled it: protocol 2, names as byte strings."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def whole(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    raw = images.astype(np.uint8).tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n"
        b"cnumpy\nndarray\n" + whole(0) + b"\x85" + text(b"b") + b"\x87R"
        b"(" + whole(1) + whole(images.shape[0]) + whole(images.shape[1]) + b"\x86"
        b"cnumpy\ndtype\n" + text(b"u1") + whole(0) + whole(1) + b"\x87R"
        b"(" + whole(3) + text(b"|") + b"NNN" + whole(-1) + whole(-1) + whole(0) + b"tb"
        b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    )  # fmt: skip
    listed = b"](" + b"".join(whole(v) for v in labels) + b"e"
    return (
        b"\x80\x02}(" + text(b"batch_label") + text(b"batch 1 of 5") + text(label_key.encode()) + listed
        + text(b"data") + array + b"u."
    )  # fmt: skip


def python2_names_pickle(key: str, names: list[str]) -> bytes:
    listed = b"](" + b"".join(b"U" + bytes([len(v)]) + v.encode() for v in names) + b"e"
    return b"\x80\x02}(U" + bytes([len(key)]) + key.encode() + listed + b"u."


def cifar_images(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(256, size=(n, 3072), dtype=np.uint8), rng.integers(10, size=n)


def write_tiny_imagenet(folder: Path, per_class: int = 3) -> list[str]:
    """The folder tree of TinyImageNet with three classes; one image in two is a greyscale JPEG."""
    from PIL import Image

    ids = ["n02124075", "n01443537", "n04067472"]  # not sorted: wnids.txt is not
    rng = np.random.default_rng(0)
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(ids) + "\n")
    (folder / "words.txt").write_text("n00001740\tentity\nn01443537\tgoldfish, Carassius auratus\n")

    def save(path: Path, level: int, grey: bool) -> None:
        pixels = np.clip(level + rng.integers(-3, 4, size=(64, 64)), 0, 255).astype(np.uint8)
        image = Image.fromarray(pixels if grey else np.stack([pixels] * 3, axis=-1))
        image.save(path, "JPEG", quality=95)

    for k, name in enumerate(ids):
        inside = folder / "train" / name / "images"
        inside.mkdir(parents=True)
        for i in (10, 9, *range(per_class - 2)):  # 9 must come before 10
            save(inside / f"{name}_{i}.JPEG", 60 * (k + 1) + i, grey=i % 2 == 0)
        (folder / "train" / name / f"{name}_boxes.txt").write_text("")
    notes = []
    for i in range(4):
        save(folder / "val" / "images" / f"val_{i}.JPEG", 60 * (i % 3 + 1), grey=i == 0)
        notes.append(f"val_{i}.JPEG\t{ids[i % 3]}\t0\t0\t63\t63")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(notes) + "\n")
    return ids
