"""The bilinear view against flips, shifts and slow loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.views import ImageViews
from oneof.views.bilinear import COLOURS, DRAWS, ROTATION, SHEAR, bilinear_view, grey, recoloured, sampled
from tests.views.pillow import pictures

NO_TURN = NO_SHEAR = 0.99
STILL = 0.5  # no shift; of a factor: the middle of its range
BRIGHTNESS, CONTRAST, SATURATION = 0.1, 0.5, 0.9  # draws of the change of colour
PLAIN_COLOUR = (0.9, BRIGHTNESS, STILL)  # not solarized, brightness times 1


def draws_of(n, turned=NO_TURN, angle=0.5, sheared=NO_SHEAR, slant=0.5, right=STILL, down=STILL,
             colour=PLAIN_COLOUR):  # fmt: skip
    return torch.tensor([turned, angle, sheared, slant, right, down, *colour]).expand(n, DRAWS).clone()


def no(x):
    return torch.zeros(len(x), dtype=torch.bool)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# ---- moves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "channels"), [(7, 1), (8, 3), (32, 3)])
def test_nothing_drawn_is_the_image_itself(size, channels):
    x = pictures(size, channels)
    made = bilinear_view(x, no(x), draws_of(len(x)), shift=4)
    torch.testing.assert_close(made, x.float(), atol=5e-2, rtol=0)


@pytest.mark.parametrize("size", [7, 32])
def test_mirrored_is_the_flip(size):
    x = pictures(size, 3)
    mirrored = torch.arange(len(x)) % 2 == 0
    made = bilinear_view(x, mirrored, draws_of(len(x)), shift=4)
    expected = torch.where(mirrored[:, None, None, None], x.flip(3), x).float()
    torch.testing.assert_close(made, expected, atol=5e-2, rtol=0)


@pytest.mark.parametrize(("right", "down"), [(1, 0), (0, -2), (3, 2), (-4, 4)])
def test_a_shift_of_whole_pixels_is_that_of_the_reflected_image(right, down):
    x = pictures(12, 3)
    draws = draws_of(len(x), right=(right / 4 + 1) / 2, down=(down / 4 + 1) / 2)
    made = bilinear_view(x, no(x), draws, shift=4)
    # half a pixel beyond the border stands the border pixel once more
    whole = np.pad(x.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)), mode="symmetric")
    expected = whole[:, :, 4 + down : 16 + down, 4 + right : 16 + right]
    np.testing.assert_allclose(made, expected, atol=5e-2)


def reflected(place, size):
    """A coordinate within the image, after reflection at the outer edges of the border pixels."""
    place = (place + 0.5) % (2 * size)
    return np.clip((2 * size - place if place > size else place) - 0.5, 0, size - 1)


def sampled_by_hand(image, mirrored, angle, slant, right, down):
    """One pixel at a time: where it comes from, then the four neighbours."""
    _, height, width = image.shape
    made = np.zeros(image.shape)
    for i in range(height):
        for j in range(width):
            # in pixels from the middle, so that an angle is the same in an image of any form
            across, along = j - (width - 1) / 2, i - (height - 1) / 2
            across = -across if mirrored else across
            across += slant * along  # sheared, then turned, then shifted
            x = np.cos(angle) * across - np.sin(angle) * along + right
            y = np.sin(angle) * across + np.cos(angle) * along + down
            column = reflected(x + (width - 1) / 2, width)
            row = reflected(y + (height - 1) / 2, height)
            top, left = int(row), int(column)
            for k, share_k in ((top, 1 - row + top), (top + 1, row - top)):
                for m, share_m in ((left, 1 - column + left), (left + 1, column - left)):
                    if share_k * share_m > 0:
                        made[:, i, j] += share_k * share_m * image[:, k, m]
    return made


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(6, 6), (5, 9)]), st.booleans())
def test_moves_are_those_of_a_loop(seed, shape, mirrored):
    rng = np.random.default_rng(seed)
    image = rng.uniform(0, 255, (2, *shape))
    draws = rng.random(6)
    turned, angle, sheared, slant, right, down = draws
    expected = sampled_by_hand(
        image,
        mirrored,
        (2 * angle - 1) * ROTATION if turned < 0.5 else 0.0,
        (2 * slant - 1) * SHEAR if sheared < 0.3 else 0.0,
        (2 * right - 1) * 3,
        (2 * down - 1) * 3,
    )
    made = sampled(torch.tensor(image)[None], torch.tensor([mirrored]), torch.tensor(draws)[None], 3)[0]
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_half_are_turned_and_three_of_ten_sheared():
    x = torch.zeros(4000, 1, 9, 9)
    x[:, 0, 4, 8] = x[:, 0, 0, 4] = 255  # one point to the right of the middle, one above it
    draws = torch.rand(4000, 6, generator=seeded())
    draws[:, 4:] = STILL
    made = sampled(x, torch.zeros(4000, dtype=torch.bool), draws, 0)
    still = (made - x).abs().amax(dim=(1, 2, 3)) < 1e-2
    turned = (made[:, 0, 4, 8] - 255).abs() > 1e-2
    assert float(still.float().mean()) == pytest.approx(0.5 * 0.7, abs=0.03)
    assert float(turned.float().mean()) == pytest.approx(0.5, abs=0.03)


# ---- colours ----------------------------------------------------------------------------------


def recoloured_by_hand(image, solarized, which, strength):
    """One pixel at a time."""
    _, height, width = image.shape
    made = image.copy()

    def shade(pixels, i, j):
        return 0.299 * pixels[0, i, j] + 0.587 * pixels[1, i, j] + 0.114 * pixels[2, i, j]

    mean = np.mean([shade(image, i, j) for i in range(height) for j in range(width)])
    for channel in range(3):
        for i in range(height):
            for j in range(width):
                value = image[channel, i, j]
                if solarized < 0.125:
                    made[channel, i, j] = 255 - value if value >= 255 * strength else value
                    continue
                kind = int(3 * which)
                low, high = COLOURS[kind]
                factor = low + (high - low) * strength
                about = (0.0, mean, shade(image, i, j))[kind]
                made[channel, i, j] = min(max(about + (value - about) * factor, 0.0), 255.0)
    return made


@pytest.mark.parametrize("which", [BRIGHTNESS, CONTRAST, SATURATION])
@pytest.mark.parametrize("solarized", [0.05, 0.5])
@pytest.mark.parametrize("strength", [0.0, 0.3, 0.5, 0.99])
def test_colours_are_those_of_a_loop(which, solarized, strength):
    x = pictures(6, 3).double()
    draws = torch.tensor([solarized, which, strength], dtype=torch.float64).expand(len(x), 3)
    made = recoloured(x, draws)
    for image, found in zip(x.numpy(), made.numpy()):
        np.testing.assert_allclose(found, recoloured_by_hand(image, solarized, which, strength), atol=1e-3)


def test_the_shares_of_the_changes_of_colour():
    """One in eight is solarized, the others have one of three changes alike."""
    x = torch.tensor([100.0, 50.0, 20.0]).view(3, 1, 1) * torch.tensor([1.0, 0.8])
    x = x.expand(8000, 3, 1, 2)
    draws = torch.rand(8000, 3, generator=seeded(2))
    made = recoloured(x, draws)

    def share(condition):
        return float(condition.all(dim=(1, 2, 3)).float().mean())

    same_shade = (grey(made) - grey(x)).abs() < 1e-3
    same_mean = (grey(made).mean(dim=3, keepdim=True) - grey(x).mean(dim=3, keepdim=True)).abs() < 1e-3
    same_ratio = ((made / x) - (made / x)[:, :1, :, :1]).abs() < 1e-4
    untouched = share(made == x)  # solarized above all values
    assert untouched == pytest.approx(0.125 * (1 - 100 / 255), abs=0.02)
    changed = 0.875 / 3
    assert share(same_ratio) == pytest.approx(changed + untouched, abs=0.02)
    assert share(same_shade) < share(same_mean)


def test_grey_images_only_move():
    x = pictures(10, 1)
    solarized = draws_of(len(x), colour=(0.0, 0.5, 0.1))
    torch.testing.assert_close(bilinear_view(x, no(x), solarized, 4), x.float(), atol=5e-2, rtol=0)


# ---- views ------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_numbers_stay_between_0_and_255(channels):
    x = pictures(16, channels).repeat(50, 1, 1, 1)
    draws = torch.rand(len(x), DRAWS, generator=seeded())
    made = bilinear_view(x, draws[:, 0] < 0.5, draws, 4)
    assert made.shape == x.shape
    assert made.dtype == torch.float32
    assert made.min() >= 0
    assert made.max() <= 255 + 1e-3


@pytest.mark.parametrize("channels", [1, 3])
def test_an_empty_batch_has_an_empty_view(channels):
    x = torch.zeros(0, channels, 16, 16, dtype=torch.uint8)
    made = bilinear_view(x, no(x), torch.zeros(0, DRAWS), 4)
    assert made.shape == x.shape
    assert made.dtype == torch.float32


def maker(**options):
    return ImageViews((0.49, 0.48, 0.45), (0.25, 0.24, 0.26), **options)


def test_bilinear_is_the_usual_policy_and_a_generator_decides_it():
    assert maker().describe()["policy"] == "bilinear"
    x = pictures(16, 3)
    one, again, other = (maker().train(x, ("strong", "strong2"), seeded(seed)) for seed in (0, 0, 1))
    for a, b, c in zip(one, again, other):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert not torch.equal(one[0], one[1])


def test_the_weak_view_is_that_of_every_policy():
    x = pictures(16, 3)
    weak = [
        maker(policy=policy).train(x, ("weak",), seeded())[0] for policy in ("bilinear", "simple", "none")
    ]
    assert all(torch.equal(weak[0], other) for other in weak[1:])


def test_flips_can_be_switched_off():
    ramp = torch.arange(16, dtype=torch.uint8).mul(10).expand(200, 1, 16, 16).contiguous()
    for flip in (False, True):
        views = ImageViews((0.5,), (0.25,), cutout=0, flip=flip)
        (strong,) = views.train(ramp, ("strong",), seeded())
        falling = (strong[..., 8:].mean(dim=(1, 2, 3)) < strong[..., :8].mean(dim=(1, 2, 3))).float().mean()
        assert (float(falling) > 0.3) == flip


def test_cutout_leaves_one_square():
    x = torch.full((50, 3, 32, 32), 255, dtype=torch.uint8)
    (strong,) = maker(cutout=8).train(x, ("strong",), seeded())
    holes = (strong == 0).all(dim=1).sum(dim=(1, 2))
    assert ((holes >= 16) & (holes <= 64)).all()
    (whole,) = maker(cutout=0).train(x, ("strong",), seeded())
    assert not (whole == 0).all(dim=1).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_no_value_is_looked_at(channels):
    """Tensors without content go through, so that a step can be recorded."""
    x = torch.zeros(2, channels, 16, 16, dtype=torch.uint8, device="meta")
    draws = torch.zeros(2, DRAWS, device="meta")
    assert bilinear_view(x, draws[:, 0] < 0.5, draws, 4).shape == x.shape
