"""Well-formed files in the wrong place: each is noticed, none changes a result."""

import io
import shutil
import zipfile

import numpy as np
import pytest

from oneof import PartialLabelClassifier
from oneof.classifier.choice import FoldFiles
from oneof.tables.errors import DataError
from oneof.tables.unpacking import stored_arrays
from oneof.training import RunError

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
SETS = [[i % 3, (i + 1 + i // 5) % 3] for i in range(40)]


def proba(run, seed):
    model = PartialLabelClassifier("cc", net="linear", epochs=2, random_state=seed, run=run)
    return model.fit(X, SETS).predict_proba(X)


def test_the_checkpoint_of_another_run_is_not_believed(tmp_path):
    first = proba(tmp_path / "a", 0)
    proba(tmp_path / "b", 1)
    kept = shutil.copy(tmp_path / "a/checkpoint/last.safetensors", tmp_path / "kept")
    shutil.copy(tmp_path / "b/checkpoint/last.safetensors", tmp_path / "a/checkpoint/last.safetensors")
    with pytest.raises(RunError, match=r"last\.safetensors holds a run with another recipe"):
        proba(tmp_path / "a", 0)
    shutil.copy(kept, tmp_path / "a/checkpoint/last.safetensors")
    assert np.array_equal(proba(tmp_path / "a", 0), first)


def test_a_fold_of_another_contender_is_made_again(tmp_path):
    files = FoldFiles(tmp_path / "choice", "data")
    for fold in (0, 1):
        files.write([np.full(3, fold)], "cc", {}, fold)
    first, second = (files._path(("cc", {}, fold)) for fold in (0, 1))
    assert files.read("cc", {}, 0)[0].tolist() == [0, 0, 0]
    shutil.copy(second, first)
    assert files.read("cc", {}, 0) is None
    first.write_bytes(b"damaged")
    assert files.read("cc", {}, 0) is None


def test_two_arrays_of_one_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as packed:
        for name, values in (("x.npy", [1.0]), ("x", [2.0])):
            content = io.BytesIO()
            np.save(content, np.array(values))
            packed.writestr(name, content.getvalue())
    with pytest.raises(DataError, match="two of its arrays have the same name"):
        stored_arrays(tmp_path / "twice.npz")
