"""Flips, crops and holes against numpy and loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.views.geometry import affine, flip_and_crop, square_mask


@st.composite
def images_and_shifts(draw):
    """A batch of bytes, a padding, and flip, row and column of every image's window."""
    height, width = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    n, channels = draw(st.integers(1, 4)), draw(st.sampled_from([1, 3]))
    pad = draw(st.integers(0, min(height, width) - 1))
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, (n, channels, height, width))
    place = st.lists(st.integers(0, 2 * pad), min_size=n, max_size=n)
    flips = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return x.astype(np.uint8), pad, flips, draw(place), draw(place)


@given(images_and_shifts())
@settings(max_examples=150)
def test_a_crop_is_a_window_of_the_mirrored_and_padded_image(case):
    x, pad, flips, down, right = case
    made = flip_and_crop(
        torch.as_tensor(x), torch.tensor(flips), torch.tensor(down), torch.tensor(right), pad
    )
    height, width = x.shape[2:]
    for image, got, flip, i, j in zip(x, made.numpy(), flips, down, right):
        whole = np.pad(image[:, :, ::-1] if flip else image, ((0, 0), (pad, pad), (pad, pad)), mode="reflect")
        np.testing.assert_array_equal(got, whole[:, i : i + height, j : j + width])


def test_more_padding_than_image_is_refused():
    x, zero = torch.zeros(1, 3, 8, 6, dtype=torch.uint8), torch.zeros(1, dtype=torch.long)
    with pytest.raises(ValueError, match=r"8 x 6 pixels cannot be padded by reflection by 6"):
        flip_and_crop(x, zero.bool(), zero, zero, 6)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.integers(0, 8), st.integers(0, 8))
@settings(max_examples=100)
def test_a_hole_is_a_square_around_its_centre(height, width, size, down, right):
    x = torch.zeros(2, 3, height, width, dtype=torch.uint8)
    hole = square_mask(x, torch.tensor([down, 0]), torch.tensor([right, 0]), size)
    assert hole.shape == (2, 1, height, width)
    for k, (i, j) in enumerate([(down, right), (0, 0)]):
        for row in range(height):
            for column in range(width):
                inside = 0 <= row - i + size // 2 < size and 0 <= column - j + size // 2 < size
                assert bool(hole[k, 0, row, column]) == inside


def test_whole_shifts_move_whole_pixels_and_leave_grey():
    x = torch.arange(2 * 12, dtype=torch.uint8).view(2, 1, 3, 4)
    matrix = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    made = affine(x, matrix, torch.tensor([[1.0, 0.0], [0.0, -2.0]], dtype=torch.float64))
    assert made[0, 0].tolist() == [[1, 2, 3, 128], [5, 6, 7, 128], [9, 10, 11, 128]]
    assert made[1, 0].tolist() == [[128] * 4, [128] * 4, [12, 13, 14, 15]]
