"""Reading the official formats; the files are small but of exactly the official form."""

import pickle
import warnings

import numpy as np
import pytest
from PIL import Image

from oneof.datasets import load
from oneof.datasets.formats import (
    read_cifar_binary,
    read_cifar_python,
    read_idx,
    read_tiny_imagenet,
    tiny_imagenet_classes,
)
from oneof.tables.images import read_image_folder
from oneof.tables.mat import read_mat
from tests.data.official import (
    cifar_images,
    idx_bytes,
    partial_label_table,
    python2_names_pickle,
    python2_pickle,
    write_idx_set,
    write_mat,
    write_tiny_imagenet,
)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_mat_reads_sparse_and_dense_double_and_bytes(tmp_path, sparse, dtype):
    x, mask, truth = partial_label_table(30, 5, 7)
    x = np.round(10 * x).astype(np.uint8) if dtype == np.uint8 else x
    table = read_mat(write_mat(tmp_path / "a.mat", x, mask, truth, sparse=sparse, dtype=dtype))
    assert table.x.dtype == (np.float32 if dtype == np.uint8 else np.float64)
    np.testing.assert_array_equal(table.x, x)
    np.testing.assert_array_equal(table.candidates.mask, mask)
    np.testing.assert_array_equal(table.candidates.truth, truth)
    assert table.candidates.provenance["file"] == "a.mat"
    assert len(table.candidates.provenance["sha256"]) == 64


def test_mat_without_truth_and_with_unknown_truth(tmp_path):
    x, mask, truth = partial_label_table(9, 3, 4)
    path = write_mat(tmp_path / "a.mat", x, mask, truth, target=None)
    assert read_mat(path, need_truth=False).candidates.truth is None
    target = np.zeros((4, 9))
    target[truth[0], 0] = 1
    path = write_mat(tmp_path / "b.mat", x, mask, truth, target=target)
    assert read_mat(path).candidates.truth.tolist() == [truth[0], *[-1] * 8]


@pytest.mark.parametrize(
    ("name", "file"), [("soccer-player", "Soccer Player"), ("yahoo-news", "Yahoo! News")]
)
def test_the_large_real_world_sets_load_by_name(tmp_path, name, file):
    # Soccer Player keeps its label matrices dense, Yahoo! News sparse
    x, mask, truth = partial_label_table(40, 6, 9)
    write_mat(tmp_path / "pll" / f"{file}.mat", x, mask, truth, sparse=name == "yahoo-news")
    data = load(name, tmp_path)
    assert data.name == name
    assert data.x_test is None
    np.testing.assert_array_equal(data.candidates.mask, mask)
    np.testing.assert_array_equal(data.y_train, truth)
    by_path = load(tmp_path / "pll" / f"{file}.mat")
    assert by_path.candidates == data.candidates


@pytest.mark.parametrize("packed", [True, False])
def test_idx_set_loads_as_images(tmp_path, packed):
    write_idx_set(tmp_path / "kmnist", packed=packed)
    data = load("kmnist", tmp_path)
    assert data.x_train.shape == (20, 1, 28, 28)
    assert data.x_train.dtype == np.uint8
    assert data.x_test.shape == (10, 1, 28, 28)
    assert data.y_train.tolist() == [k % 10 for k in range(20)]
    assert data.classes[0] == "o"


def test_idx_of_any_dimension(tmp_path):
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx_bytes(values))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), values)


def test_cifar_binary_and_python_agree(tmp_path):
    pixels, labels = cifar_images(12)
    (tmp_path / "a.bin").write_bytes(
        np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1).tobytes()
    )
    (tmp_path / "a").write_bytes(python2_pickle(pixels, labels.tolist()))
    x, y = read_cifar_binary([tmp_path / "a.bin"], n_classes=10)
    x2, y2 = read_cifar_python([tmp_path / "a"], n_classes=10)
    np.testing.assert_array_equal(x, pixels.reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(x, x2)
    assert y.tolist() == y2.tolist() == labels.tolist()


def test_the_test_pickle_is_one_that_numpy_understands():
    pixels, labels = cifar_images(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = pickle.loads(python2_pickle(pixels, labels.tolist()), encoding="bytes")
    np.testing.assert_array_equal(content[b"data"], pixels)


def test_a_batch_pickled_again_by_python_3_is_read_too(tmp_path):
    pixels, labels = cifar_images(4)
    path = tmp_path / "again"
    path.write_bytes(pickle.dumps({b"data": pixels, "labels": labels.tolist()}, protocol=2))
    x, y = read_cifar_python([path], n_classes=10)
    np.testing.assert_array_equal(x.reshape(4, -1), pixels)
    assert y.tolist() == labels.tolist()


def _write_cifar10(folder, python):
    inside = folder / ("cifar-10-batches-py" if python else "cifar-10-batches-bin")
    inside.mkdir(parents=True)
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        pixels, labels = cifar_images(4, seed=i)
        if python:
            (inside / name).write_bytes(python2_pickle(pixels, labels.tolist()))
        else:
            rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
            (inside / f"{name}.bin").write_bytes(rows.tobytes())


def test_cifar10_loads_from_either_version(tmp_path):
    for folder, python in ((tmp_path / "py", True), (tmp_path / "bin", False)):
        _write_cifar10(folder, python)
    one, two = load("cifar10", tmp_path / "py"), load("CIFAR-10", tmp_path / "bin")
    np.testing.assert_array_equal(one.x_train, two.x_train)
    np.testing.assert_array_equal(one.y_test, two.y_test)
    assert one.x_train.shape == (20, 3, 32, 32)
    assert one.classes[3] == "cat"


def test_cifar100_loads_from_either_version(tmp_path):
    pixels, labels = cifar_images(5)
    fine = labels + 90
    names = [f"class{k}" for k in range(100)]
    python, binary = tmp_path / "py" / "cifar-100-python", tmp_path / "bin" / "cifar-100-binary"
    python.mkdir(parents=True)
    binary.mkdir(parents=True)
    for part in ("train", "test"):
        (python / part).write_bytes(python2_pickle(pixels, fine.tolist(), "fine_labels"))
        rows = np.concatenate([labels[:, None], fine[:, None], pixels], axis=1).astype(np.uint8)
        (binary / f"{part}.bin").write_bytes(rows.tobytes())
    (python / "meta").write_bytes(python2_names_pickle("fine_label_names", names))
    (binary / "fine_label_names.txt").write_text("\n".join(names) + "\n")
    one, two = load("cifar100", tmp_path / "py"), load("cifar100", tmp_path / "bin")
    assert one.classes == two.classes == tuple(names)
    assert one.y_train.tolist() == two.y_train.tolist() == fine.tolist()
    np.testing.assert_array_equal(one.x_train, two.x_train)


def test_tiny_imagenet_reads_grey_jpegs_in_the_order_of_wnids(tmp_path):
    ids = write_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    data = load("tiny-imagenet", tmp_path)
    assert data.x_train.shape == (9, 3, 64, 64)
    assert data.y_train.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.y_test.tolist() == [0, 1, 2, 0]
    # pictures of class k are about 60 (k + 1) bright, so order and label fit together
    assert np.rint(data.x_train.mean(axis=(1, 2, 3)) / 60 - 1).astype(int).tolist() == data.y_train.tolist()
    first = data.x_train[:3].mean(axis=(1, 2, 3))
    assert (np.diff(first) > 0).all()  # 0, 9, 10: by number, not by text
    assert data.classes == (ids[0], f"{ids[1]} goldfish", ids[2])
    assert tiny_imagenet_classes(tmp_path / "tiny-imagenet-200") == data.classes
    x, _ = read_tiny_imagenet(tmp_path / "tiny-imagenet-200", "val")
    assert (x[0, 0] == x[0, 2]).all()  # a grey picture has three equal channels


def test_image_folder(tmp_path):
    for k, name in enumerate(["cat", "dog"]):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.fromarray(np.full((6, 8, 3), 50 * k + i, dtype=np.uint8)).save(tmp_path / name / f"{i}.png")
    Image.fromarray(np.full((12, 16), 7, dtype=np.uint8)).save(tmp_path / "dog" / "z.png")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    x, y, classes = read_image_folder(tmp_path, size=(6, 8))
    assert x.shape == (5, 3, 6, 8)
    assert x[:, 0, 0, 0].tolist() == [0, 1, 50, 51, 7]
    assert y.tolist() == [0, 0, 1, 1, 1]
    assert classes == ("cat", "dog")
