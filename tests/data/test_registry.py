import os
import re

import numpy as np
import pytest

from oneof.app.commands.data import DataCheck, DataFetch, DataInfo, DataList
from oneof.datasets import DataError, MissingDataError, data_folder, load, names
from oneof.datasets.ready_made import candidates_of
from oneof.datasets.registry import check, entry
from oneof.tables.candidate_files import load_candidates, save_candidates
from tests.data.official import partial_label_table, write_idx_set, write_mat


def test_every_data_set_of_the_paper_is_known():
    assert names() == [
        "digits", "lost", "birdsong", "msrcv2", "soccer-player", "yahoo-news", "labelme",
        "mnist", "fmnist", "kmnist", "cifar10", "cifar100", "tiny-imagenet",
    ]  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_entries_are_complete(name):
    known = entry(name)
    for what in ("title", "task", "licence", "citation", "source"):
        assert getattr(known, what)
    assert known.train > 0
    assert known.n_classes > 1
    assert known.forms
    assert name in ("digits", "labelme") or known.downloads  # answers and features have no one source
    for form in known.forms:
        for value in form.files.values():
            assert not value or re.fullmatch(r"(content-)?(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})", value)


@pytest.mark.parametrize(
    ("given", "name"),
    [("Fashion-MNIST", "fmnist"), ("LYN", "yahoo-news"), ("Tiny_ImageNet", "tiny-imagenet")],
)
def test_other_spellings(given, name):
    assert entry(given).name == name


def test_an_unknown_name_gets_a_guess():
    with pytest.raises(
        DataError,
        match=r"'cifar11'; did you mean 'cifar10'\? There are: digits.*file by its path\. Tables",
    ):
        load("cifar11")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(MissingDataError) as caught:
        load("cifar10", tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin") in text
    assert "oneof data fetch cifar10" in text


def test_the_folder_is_the_variable_or_a_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("ONEOF_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder() == tmp_path / "cache" / "oneof" / "data"


def test_digits_need_no_files(tmp_path):
    data = load("digits", tmp_path)
    assert data.x_train.shape == (1797, 64)
    assert check("digits", tmp_path).state == "ok"


def test_check_finds_wrong_sizes_and_checksums(tmp_path):
    write_idx_set(tmp_path / "kmnist")
    found = check("kmnist", tmp_path)
    assert found.state == "wrong"
    assert any("training rows: found 20, expected 60000" in problem for problem in found.problems)
    assert any("md5" in problem for problem in found.problems)
    x, mask, truth = partial_label_table(20, 3, 4)
    write_mat(tmp_path / "pll" / "lost.mat", x, mask, truth, data=None)
    assert "variable 'data' is missing" in check("lost", tmp_path).problems[0]
    assert check("cifar10", tmp_path).state == "missing"


def test_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    write_idx_set(tmp_path / "kmnist")
    assert DataList().run() == 0
    assert "tiny-imagenet" in capsys.readouterr().out
    assert DataInfo("lost").run() == 0
    assert "Cour, Sapp and Taskar" in capsys.readouterr().out
    assert DataCheck(("digits",)).run() == 0
    assert DataCheck(("kmnist",)).run() == 1
    assert DataCheck(("lost",)).run() == 1
    (tmp_path / "kmnist").rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert DataCheck(all=True).run() == 0
    assert "1 ok, 12 missing, 0 wrong" in capsys.readouterr().out
    assert DataFetch(("digits",)).run() == 0
    assert DataFetch(("nonsense",)).run() == 1
    assert "unknown data set 'nonsense'" in capsys.readouterr().err
    with pytest.raises(DataError, match="--all"):
        DataCheck().run()


def test_candidates_in_a_file(tmp_path):
    x, mask, truth = partial_label_table(20, 3, 11)
    path = write_mat(tmp_path / "a.mat", x, mask, truth)
    candidates = candidates_of(path)
    save_candidates(candidates, tmp_path / "a.npz")
    again = candidates_of(tmp_path / "a.npz")
    assert again == candidates
    assert again.provenance == candidates.provenance
    with pytest.raises(DataError, match="has true labels but no candidate sets"):
        candidates_of("digits")
    for content in (b"", b"nonsense", (tmp_path / "a.npz").read_bytes()[:200]):
        (tmp_path / "b.npz").write_bytes(content)
        with pytest.raises(DataError, match="not a readable"):
            load_candidates(tmp_path / "b.npz")
    with pytest.raises(DataError, match=r"must end in \.npz"):
        save_candidates(candidates, tmp_path / "a.pkl")
    with pytest.raises(DataError, match="no such file"):
        load_candidates(tmp_path / "none.npz")


# ---- the real files, where they are there ---------------------------------------------------------

REAL = [name for name in names() if name != "digits"]


@pytest.mark.skipif(not os.environ.get("ONEOF_DATA"), reason="set ONEOF_DATA to a folder with the data sets")
@pytest.mark.parametrize("name", REAL)
def test_real_data_sets_are_right(name):
    found = check(name)
    if found.state == "missing":
        pytest.skip(found.text)
    assert found.problems == ()


@pytest.mark.skipif(not os.environ.get("ONEOF_DATA"), reason="set ONEOF_DATA to a folder with the data sets")
@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10", "cifar100"])
def test_channel_means_of_the_registry_are_those_of_the_files(name):
    if entry(name).present() is None:
        pytest.skip(f"{name} is not in the data folder")
    # an odd step: in MNIST even rows are darker (mean 0.123) than odd ones (0.138)
    images = load(name).x_train[::7].astype(np.float32) / 255
    np.testing.assert_allclose(images.mean(axis=(0, 2, 3)), entry(name).mean, atol=0.004)
    np.testing.assert_allclose(images.std(axis=(0, 2, 3)), entry(name).std, atol=0.004)
