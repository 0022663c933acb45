"""The clean rows of a step: at random, or with the labels in their proportions."""

import numpy as np
import pytest
import torch

from oneof.methods.rplg import Rplg
from oneof.training.clean_order import balanced_draw, sorted_by_label
from tests.methods.harness import fit


def labels_of(counts):
    return np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))


@pytest.mark.parametrize("size", [1, 7, 64, 99])
@pytest.mark.parametrize("counts", [[50, 30, 20], [97, 2, 1], [1] * 100])
def test_a_balanced_draw_has_every_label_in_proportion(counts, size):
    labels = labels_of(counts)
    by_label = sorted_by_label(torch.as_tensor(np.eye(len(counts), dtype=bool)[labels]))
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        rows = balanced_draw(by_label, size, generator)
        assert len(rows) == size
        found = np.bincount(labels[rows.numpy()], minlength=len(counts))
        assert np.all(np.abs(found - size * np.array(counts) / len(labels)) < 2)


def test_a_balanced_draw_prefers_no_row():
    by_label = sorted_by_label(torch.as_tensor(np.eye(4, dtype=bool)[labels_of([40, 30, 20, 7])]))
    generator = torch.Generator().manual_seed(1)
    draws, size = 4000, 10
    times = torch.zeros(97)
    for _ in range(draws):
        times[balanced_draw(by_label, size, generator)] += 1
    expected = draws * size / 97
    assert (
        float(((times - expected) ** 2 / expected).sum()) < 140
    )  # chi-square, 96 degrees of freedom: p > 0.002


def test_sets_are_sorted_by_their_first_label():
    mask = torch.tensor([[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.bool)
    assert sorted_by_label(mask).tolist() == [1, 3, 0, 2]


def test_rplg_draws_as_it_is_told_and_repeats():
    recipe = {"epochs": 3}
    ways = [
        fit(Rplg(clean_batch=4, clean_draw=way), recipe=recipe).pseudo_labels
        for way in ("balanced", "balanced", "random")
    ]
    np.testing.assert_array_equal(ways[0], ways[1])
    assert np.abs(ways[0] - ways[2]).max() > 1e-6
