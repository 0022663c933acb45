"""Trainings that cannot work say so before, and those that came to nothing afterwards."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from oneof import PartialLabelClassifier
from oneof.methods.proden import Proden
from oneof.training import CleanRows, TrainingError
from tests.methods.harness import C, assert_same_fit, blobs, fit, random_candidates


@pytest.mark.parametrize("method", ["proden", "rplg"])
def test_one_row_in_a_step_with_batch_normalisation(method):
    x, y = blobs()
    model = PartialLabelClassifier(method, hidden=(8,), epochs=1, batch_size=1, device="cpu")
    clean = (x[:10], y[:10]) if method == "rplg" else None
    with pytest.raises(TrainingError, match=r"batch_size leaves one row(.|\n)*batch_size=2 or more"):
        model.fit(x, random_candidates(y), clean=clean)
    model.set_params(batch_norm=False).fit(x, random_candidates(y), clean=clean)


def test_one_clean_row_in_the_loss_with_batch_normalisation():
    x, y = blobs(1)
    clean = CleanRows(x, np.eye(C, dtype=bool)[y])
    with pytest.raises(TrainingError, match=r"one clean row in the loss(.|\n)*clean_weight=0"):
        fit(Proden(), clean=clean, recipe={"clean_weight": 1.0})
    fit(Proden(), clean=clean, kind="linear", recipe={"clean_weight": 1.0})


def test_clean_only_learns_from_one_clean_row():
    x, y = blobs(8)
    model = PartialLabelClassifier("clean-only", hidden=(6,), epochs=2, device="cpu")
    model.fit(x, random_candidates(y, special=False), clean=(x[:1], y[:1]))
    assert np.isfinite(model.predict_proba(x)).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_type_are_refused_before_the_training(dtype):
    images = np.random.default_rng(0).integers(0, 255, size=(8, 1, 4, 4)).astype(np.uint8)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2)).to(dtype)
    model = PartialLabelClassifier("proden", net=net, epochs=1, device="cpu")
    with pytest.raises(TrainingError, match=rf"weights are {dtype}(.|\n)*net\.float\(\)"):
        model.fit(images, np.eye(2, dtype=bool)[np.arange(8) % 2])


def test_a_network_that_is_frozen_as_a_whole():
    x, y = blobs()
    net = nn.Linear(x.shape[1], C).requires_grad_(False)
    with pytest.raises(TrainingError, match=r"no weight of the network is trained(.|\n)*last layer"):
        PartialLabelClassifier("proden", net=net, device="cpu").fit(x, random_candidates(y))


def test_maps_of_an_image_are_enough_to_normalise_by():
    images = np.random.default_rng(0).integers(0, 255, size=(8, 1, 8, 8)).astype(np.float32)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Dropout(0.5), nn.Linear(108, 2)
    )
    mask = np.ones((8, 2), dtype=bool)
    mask[::2, 1] = mask[1::4, 0] = False
    model = PartialLabelClassifier("proden", net=net, epochs=1, batch_size=1, device="cpu").fit(images, mask)
    assert len(model.history_) == 1


@pytest.mark.parametrize("change", [lambda y: y[:, None], lambda y: y[:-1], lambda y: y.astype(str)])
def test_labels_of_test_rows_that_cannot_be_compared(change):
    x, y = blobs(8)
    with pytest.raises(ValueError, match=r"labels of 8 test rows have type .* one number of a class per row"):
        fit(Proden(), test=(x, change(y)))
    logged = fit(Proden(), test=(x, y)).history
    assert fit(Proden(), test=(x, torch.as_tensor(y))).history == logged


def test_clean_rows_and_their_labels_belong_together():
    x, y = blobs(8)
    for mask in (np.eye(C, dtype=bool)[y][:-1], np.eye(C)[y], y):
        with pytest.raises(ValueError, match=r"8 clean rows have a mask of type .*dtype=bool\)\[labels\]"):
            CleanRows(x, mask)


def test_features_beyond_all_measure_are_noticed():
    x, y = blobs()
    model = PartialLabelClassifier("proden", hidden=(8,), epochs=2, scaling="none", device="cpu")
    with pytest.warns(UserWarning, match=r"all rows the same prediction(.|\n)*scaling='standard'"):
        model.fit(x * 1e20, random_candidates(y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(scaling="standard").fit(x * 1e20, random_candidates(y))


def test_rows_that_are_all_the_same_may_have_the_same_prediction():
    x, y = blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(Proden(), x=np.zeros_like(x), candidates=random_candidates(y))


def test_looking_changes_nothing():
    before = torch.get_rng_state()
    assert_same_fit(fit(Proden()), fit(Proden()))
    assert torch.equal(before, torch.get_rng_state())
