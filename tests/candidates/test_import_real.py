"""Real annotations have the figures that are stated with them."""

import os

import numpy as np
import pytest

from tests.candidates.test_import_files import read


def crowd_file(name):
    folder = os.environ.get("ONEOF_DATA")
    path = folder and os.path.join(folder, "crowd", name)
    if not path or not os.path.exists(path):
        pytest.skip(f"set ONEOF_DATA to a folder with crowd/{name}")
    return path


def figures(made):
    c = made.candidates
    inside = c.mask[np.arange(len(c)), c.truth].mean() if c.truth is not None else None
    return round(float(c.sizes.mean()), 2), inside and round(float(inside), 4)


def test_labelme_has_the_stated_figures(tmp_path):
    with np.load(crowd_file("labelme_features.npz")) as stored:
        np.save(tmp_path / "truth.npy", stored["y_train"])
    answers = crowd_file("labelme_answers.csv")
    made = read(answers, "crowd", n_rows=1000, truth=str(tmp_path / "truth.npy"))
    assert len(made.answers) == 2547
    assert len(made.answers.workers) == 59
    assert made.candidates.sizes.mean() == pytest.approx(1.365)
    assert figures(made)[1] == 0.889


def test_cifar10n_has_the_stated_figures(tmp_path):
    path = crowd_file("cifar10n.npz")
    with np.load(path) as stored:
        np.save(tmp_path / "truth.npy", stored["clean"])
    made = read(path, "wide", array="labels", truth=str(tmp_path / "truth.npy"))
    mean, inside = figures(made)
    assert (mean, round(inside, 3)) == (1.46, 0.979)


@pytest.mark.parametrize(
    ("name", "options", "data_set", "mean", "inside"),
    [
        ("cifar10h_counts.npy", {}, "cifar10", 1.94, 0.9996),
        ("fmh_counts.csv", {"header": False}, "fmnist", 5.30, 0.999),
    ],
)
def test_count_matrices_have_the_stated_figures(tmp_path, name, options, data_set, mean, inside):
    from oneof.datasets import MissingDataError, load

    made = read(crowd_file(name), "counts", **options)
    assert figures(made)[0] == mean
    try:
        truth = load(data_set).y_test
    except MissingDataError:
        pytest.skip(f"set ONEOF_DATA to a folder with {data_set}")
    found = figures(made.with_truth(truth))[1]
    assert found == pytest.approx(inside, abs=5e-5 if inside > 0.9995 else 5e-4)
