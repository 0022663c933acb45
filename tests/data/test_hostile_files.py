"""Files that are damaged or meant to do harm: one clear line each, and nothing happens."""

import gzip
import io
import os
import pickle
import stat
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat
from scipy.sparse import csc_matrix

from oneof.datasets import DataError, load
from oneof.datasets.download import unpack
from oneof.datasets.formats import (
    read_cifar_binary,
    read_cifar_python,
    read_idx,
    read_tiny_imagenet,
)
from oneof.tables.images import read_image_folder, read_images
from oneof.tables.mat import read_mat
from oneof.tables.unpacking import stored_arrays
from tests.data.official import (
    cifar_images,
    idx_bytes,
    partial_label_table,
    python2_pickle,
    write_idx_set,
    write_mat,
    write_tiny_imagenet,
)


def refuses(call, *words):
    """The call fails with one line that holds these words."""
    with pytest.raises(DataError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text, text
    for word in words:
        assert str(word) in text, text


# ---- .mat -----------------------------------------------------------------------------------------


def _mat(tmp_path, **changed):
    x, mask, truth = partial_label_table(12, 4, 5)
    return write_mat(tmp_path / "bad.mat", x, mask, truth, **changed)


@pytest.mark.parametrize("name", ["data", "partial_target", "target"])
def test_mat_with_a_missing_variable(tmp_path, name):
    path = _mat(tmp_path, **{name: None})
    refuses(lambda: read_mat(path), path, f"variable {name!r} is missing")


def test_mat_with_transposed_labels(tmp_path):
    _, mask, _ = partial_label_table(12, 4, 5)
    path = _mat(tmp_path, partial_target=mask.astype(float))
    refuses(lambda: read_mat(path), path, "partial_target is 12 x 5", "transposed")


def test_mat_with_nan_features(tmp_path):
    x, mask, truth = partial_label_table(12, 4, 5)
    x[3, 2] = np.nan
    path = write_mat(tmp_path / "bad.mat", x, mask, truth)
    refuses(lambda: read_mat(path), path, "data[3, 2] is nan")


@pytest.mark.parametrize("sparse", [True, False])
def test_mat_with_an_empty_candidate_row(tmp_path, sparse):
    x, mask, truth = partial_label_table(12, 4, 5)
    mask[7] = False
    path = write_mat(tmp_path / "bad.mat", x, mask, truth, sparse=sparse)
    refuses(lambda: read_mat(path), path, "row 7 has no candidate label")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"partial_target": np.full((5, 12), 0.5)}, "partial_target[0, 0] is 0.5"),
        ({"target": np.ones((5, 12))}, "row 0 has 5 true labels"),
        ({"target": np.zeros((4, 12))}, "target has 4 classes, partial_target has 5"),
        ({"data": np.zeros((12, 0))}, "it must be numbers, n x d"),
        ({"data": np.array(["a", "b"], dtype=object)}, "it must be numbers"),
        ({"partial_target": np.array(["a"], dtype=object)}, "it must be 0 and 1"),
        ({"partial_target": np.ones((5, 3))}, "but data has 12 rows"),
    ],
)
def test_mat_with_wrong_content(tmp_path, changed, words):
    path = _mat(tmp_path, **changed)
    refuses(lambda: read_mat(path), path, words)


def test_mat_with_a_truth_outside_the_set(tmp_path):
    x, mask, truth = partial_label_table(12, 4, 5)
    mask[2] = False
    mask[2, (truth[2] + 1) % 5] = True
    path = write_mat(tmp_path / "bad.mat", x, mask, truth)
    refuses(lambda: read_mat(path), path, "row 2", "not among its candidates")
    assert read_mat(path, truth_may_be_outside=True).candidates.truth[2] == truth[2]


def test_mat_that_is_cut_or_no_mat_at_all(tmp_path):
    path = _mat(tmp_path)
    whole = path.read_bytes()
    for size in (0, 10, 128, 130, 200, len(whole) // 2):
        path.write_bytes(whole[:size])
        refuses(lambda: read_mat(path), path)
    path.write_bytes(b"MATLAB 7.3 MAT-file" + b" " * 105 + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n")
    refuses(lambda: read_mat(path), path, "-v7")
    refuses(lambda: read_mat(tmp_path / "none.mat"), "no such file")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_mat_whose_elements_lie(tmp_path, packed):
    """scipy believes types, sizes and places in sparse matrices: some of these crashed the process."""
    x, mask, _ = partial_label_table(12, 4, 5)
    sparse = csc_matrix(mask.T.astype(float))
    sparse.indices[3] = 2**30
    path = tmp_path / "bad.mat"

    def changed(at, new):
        whole = io.BytesIO()
        savemat(whole, {"data": x.astype(float), "partial_target": mask.T.astype(float)})
        content = bytearray(whole.getvalue())
        content[at : at + len(new)] = new
        if packed:
            inside = zlib.compress(content[128 : 136 + int.from_bytes(content[132:136], "little")])
            content[128:] = struct.pack("<II", 15, len(inside)) + inside
        path.write_bytes(content)

    changed(176, struct.pack("<II", 0, 384))  # where the numbers of data begin; their type
    refuses(lambda: read_mat(path, need_truth=False), path, "an element of type 0")
    changed(176, struct.pack("<II", 14, 384))
    refuses(lambda: read_mat(path, need_truth=False), path, "an element of type 14")
    changed(176, struct.pack("<II", 9, 2**31))
    refuses(lambda: read_mat(path, need_truth=False), path, "claims 2,147,483,648 bytes")
    changed(145, b"\x08")  # complex, without an imaginary part
    refuses(lambda: read_mat(path, need_truth=False), path, "a matrix of complex numbers")
    savemat(path, {"data": x.astype(float), "partial_target": sparse}, do_compression=packed)
    refuses(lambda: read_mat(path, need_truth=False), path, "not a readable MATLAB file")


def test_text_of_numbers_that_are_no_characters(tmp_path):
    words = np.array(["cat", "dog"])
    words.view("u4")[1] = 2**31
    np.savez(tmp_path / "a.npz", labels=words)
    np.save(tmp_path / "a.npy", words)
    for name in ("a.npz", "a.npy"):
        refuses(lambda name=name: stored_arrays(tmp_path / name), name, "the character 0x80000000")


def test_labelme_files_that_are_damaged(tmp_path):
    (tmp_path / "crowd").mkdir()
    features, answers = (
        tmp_path / "crowd" / "labelme_features.npz",
        tmp_path / "crowd" / "labelme_answers.csv",
    )
    x, y = np.zeros((2, 512)), np.array([0, 1])
    answers.write_text("row,annotator,label\n0,4,0\n1,4,2\n")
    np.savez(features, X_train=x, y_train=y, X_test=x, y_test=y)
    assert load("labelme", tmp_path).candidates.sets() == [["0"], ["2"]]
    for content in (
        "row,annotator,label\n0,4,cow\n1,4,2\n",
        "row,annotator,label\n0,4,0\n",
        "a\n0,1,99\n1,1,1\n",
    ):
        answers.write_text(content)
        refuses(lambda: load("labelme", tmp_path), answers)
    np.savez(features, X_train=x)
    refuses(lambda: load("labelme", tmp_path), features, "y_train")
    features.write_bytes(b"PK nonsense")
    refuses(lambda: load("labelme", tmp_path), features, "not a readable npz file")


# ---- idx ------------------------------------------------------------------------------------------


def test_idx_that_is_truncated(tmp_path):
    write_idx_set(tmp_path / "kmnist")
    path = tmp_path / "kmnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-200])
    refuses(lambda: read_idx(path), path, "cut off")
    refuses(lambda: load("kmnist", tmp_path), path, "cut off")


def test_idx_with_wrong_bytes(tmp_path):
    path = tmp_path / "a.gz"
    whole = idx_bytes(np.zeros((4, 3), dtype=np.uint8))
    cases = {
        gzip.compress(whole)[:-4] + b"abcd": "damaged",
        b"\x1f\x8b\x08garbage": "fetch it again",
        gzip.compress(whole[:-1]): "only 11",
        gzip.compress(whole + b"x"): "holds more",
        gzip.compress(b"hello"): "not an idx file",
        gzip.compress(whole[:6]): "header is cut off",
        b"": "begins with nothing",
        # the header claims 2^96 bytes: no attempt to allocate them
        struct.pack(">BBBB3I", 0, 0, 8, 3, *[0xFFFFFFFF] * 3) + b"few": "only 3",
    }
    for content, words in cases.items():
        path.write_bytes(content)
        refuses(lambda: read_idx(path), path, words)


def test_idx_files_that_do_not_belong_together(tmp_path):
    write_idx_set(tmp_path / "kmnist")
    (tmp_path / "kmnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.zeros(3))))
    refuses(lambda: load("kmnist", tmp_path), "do not belong")


# ---- CIFAR ----------------------------------------------------------------------------------------


class _Harm:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch '{self.path}'",)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_cifar_pickle_that_wants_os(tmp_path, protocol):
    harm, path = tmp_path / "harm", tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({"data": _Harm(harm), "labels": [0]}, protocol=protocol))
    refuses(lambda: read_cifar_python([path], n_classes=10), path, "refused", "system")
    assert not harm.exists()


@pytest.mark.parametrize(
    "asked",
    [
        b"cos\nsystem\n",
        b"cbuiltins\neval\n",
        b"c__builtin__\nexec\n",
        b"cnumpy\nload\n",
        b"cnumpy.core.multiarray\nfromfile\n",
        b"cnumpy\nndarray.tofile\n",
        b"cimportlib\nimport_module\n",
    ],
)
def test_nothing_but_arrays_is_found(tmp_path, asked):
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02" + asked + b"(U\x01xtR.")
    refuses(lambda: read_cifar_python([path], n_classes=10), path, "refused")


def test_cifar_pickles_with_wrong_content(tmp_path):
    pixels, labels = cifar_images(3)
    path = tmp_path / "batch"
    whole = python2_pickle(pixels, labels.tolist())
    cases = {
        whole[:-300]: "not a readable CIFAR pickle",
        b"": "not a readable CIFAR pickle",
        python2_pickle(pixels[:, :100], labels.tolist()): "'data' is not a uint8 array",
        python2_pickle(pixels, labels.tolist()[:2]): "'labels' is not a list of 3",
        python2_pickle(pixels, [0, 1, 99]): "image 2 has label 99",
        python2_pickle(pixels, labels.tolist(), "fine_labels"): "'labels' is not a list",
        pickle.dumps([1, 2]): "holds a list",
        pickle.dumps({"data": np.array([{}], dtype=object)}, protocol=2): "refused",
    }
    for content, words in cases.items():
        path.write_bytes(content)
        refuses(lambda: read_cifar_python([path], n_classes=10), path, words)
    refuses(lambda: read_cifar_python([tmp_path / "none"], n_classes=10), "no such file")


def test_a_cifar_pickle_that_claims_more_than_it_has(tmp_path):
    path = tmp_path / "batch"
    for asked in (b"r" + struct.pack("<I", 2**30), b"p1073741824\n"):  # room for a billion objects
        path.write_bytes(b"\x80\x02}" + asked + b".")
        refuses(lambda: read_cifar_python([path], n_classes=10), path, "object 1,073,741,824 of")
    path.write_bytes(b"\x80\x02T" + struct.pack("<i", 2**31 - 1) + b"few.")
    refuses(lambda: read_cifar_python([path], n_classes=10), path, "not a readable CIFAR pickle")


def test_cifar_binary_with_wrong_content(tmp_path):
    path = tmp_path / "a.bin"
    for content, words in {
        b"": "0 bytes",
        bytes(3073 * 2 - 1): "no whole number",
        bytes([10]) + bytes(3072): "image 0 has label 10",
    }.items():
        path.write_bytes(content)
        refuses(lambda: read_cifar_binary([path], n_classes=10), path, words)
    refuses(lambda: read_cifar_binary([tmp_path / "none"], n_classes=10), "no such file")


# ---- images ---------------------------------------------------------------------------------------


def test_image_folders_with_wrong_content(tmp_path):
    refuses(lambda: read_image_folder(tmp_path / "none"), "no such folder")
    refuses(lambda: read_image_folder(tmp_path), "no sub-folders")
    (tmp_path / "cat").mkdir()
    refuses(lambda: read_image_folder(tmp_path), "no images of class 'cat'")
    (tmp_path / "cat" / "a.png").write_bytes(b"no image")
    refuses(lambda: read_image_folder(tmp_path), "a.png", "not a readable image")
    Image.new("RGB", (8, 8)).save(tmp_path / "cat" / "a.png")
    Image.new("RGB", (8, 9)).save(tmp_path / "cat" / "b.png")
    refuses(lambda: read_image_folder(tmp_path), "b.png: 8 x 9 pixels", "give a size")
    refuses(lambda: read_images([]), "no image files")


def test_tiny_imagenet_folders_with_wrong_content(tmp_path):
    refuses(lambda: read_tiny_imagenet(tmp_path, "train"), "wnids.txt: no such file")
    folder = tmp_path / "tiny-imagenet-200"
    write_tiny_imagenet(folder)
    refuses(lambda: read_tiny_imagenet(folder, "test"), "part = 'test'")
    notes = folder / "val" / "val_annotations.txt"
    good = notes.read_text()
    for bad in ("val_0.JPEG\tn99999999\n", "../../secret.JPEG\tn01443537\n", "val_0.JPEG\n"):
        notes.write_text(good + bad)
        refuses(lambda: read_tiny_imagenet(folder, "val"), notes, "line 5")
    notes.write_text(good + "val_77.JPEG\tn01443537\n")
    refuses(lambda: read_tiny_imagenet(folder, "val"), "val_77.JPEG: no such file")
    (folder / "wnids.txt").write_text("n01443537\nn01443537\n")
    refuses(lambda: read_tiny_imagenet(folder, "train"), "list every class once")


def test_pillow_is_named_when_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    refuses(lambda: read_images([tmp_path / "a.png"]), "oneof[vision]")


# ---- archives -------------------------------------------------------------------------------------


def _tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content
                archive.addfile(info)
    return path


def _zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            if not isinstance(content, bytes):
                info.external_attr = (stat.S_IFLNK | 0o777) << 16
                content = content[1].encode()
            archive.writestr(info, content)
    return path


def _everything(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


LEAVING = ["../evil", "top/../../evil", "/oneof-evil-file", "top\\..\\..\\evil", "C:\\evil", ".."]


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_archives_with_members_that_leave_the_folder(tmp_path, kind, name):
    inside = tmp_path / "data"
    members = [("top/good.txt", b"good"), (name, b"evil")]
    archive = _tar(tmp_path / "a.tar.gz", members) if kind == "tar" else _zip(tmp_path / "a.zip", members)
    refuses(lambda: unpack(archive, inside), archive, "refused", "leave the folder")
    assert _everything(inside) == []
    assert _everything(tmp_path) == [archive.name, "data"]
    assert not os.path.exists("/oneof-evil-file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_a_name_that_stands_in_an_archive_twice_the_later_file_counts(tmp_path):
    archive = _zip(tmp_path / "a.zip", [("top/a.txt", b"1"), ("top/a.txt", b"2")])
    (tmp_path / "data" / "top").mkdir(parents=True)
    (path,) = unpack(archive, tmp_path / "data")
    assert path.read_bytes() == b"2"


@pytest.mark.parametrize("link", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_archives_with_links_and_devices(tmp_path, link):
    archive = _tar(
        tmp_path / "a.tar", [("top/a", b"x"), ("top/link", (link, "/etc")), ("top/link/b", b"y")], "w"
    )
    refuses(lambda: unpack(archive, tmp_path / "data"), "refused", "only files are unpacked")
    assert _everything(tmp_path / "data") == []


def test_zip_with_a_link(tmp_path):
    archive = _zip(tmp_path / "a.zip", [("top/link", ("link", "/etc/passwd"))])
    refuses(lambda: unpack(archive, tmp_path / "data"), "is a link")


def test_archives_that_are_damaged_or_too_large(tmp_path):
    archive = _tar(tmp_path / "a.tar.gz", [("top/a", os.urandom(100_000))])
    whole = archive.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2]):
        archive.write_bytes(content)
        refuses(lambda: unpack(archive, tmp_path / "data"), archive, "fetch it again")
        assert _everything(tmp_path / "data") == []
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("top/zeros", bytes(3_000_000))
    refuses(lambda: unpack(bomb, tmp_path / "data", limit=1_000_000), "more than 1,000,000 bytes")
    assert _everything(tmp_path / "data") == []
    refuses(lambda: unpack(tmp_path / "none.zip", tmp_path / "data"), "no such file")
    refuses(lambda: unpack(_zip(tmp_path / "b.zip", [("x/a", b"1")]), tmp_path / "data", "top"), "below top/")


def test_good_archives_are_unpacked_and_only_their_top_folder(tmp_path):
    members = [("./top/a.txt", b"1"), ("top/sub/b.txt", b"2"), ("other/c.txt", b"3")]
    for archive in (_tar(tmp_path / "a.tar.gz", members), _zip(tmp_path / "a.zip", members[1:])):
        inside = tmp_path / archive.suffix
        unpack(archive, inside, "top")
        unpack(archive, inside, "top")  # over files that are there
        assert (inside / "top" / "sub" / "b.txt").read_bytes() == b"2"
        assert not (inside / "other").exists()
        assert not [p for p in _everything(inside) if ".unpacking" in p]
