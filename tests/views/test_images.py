"""Views of images: what they are made of, and that a seed decides them."""

import numpy as np
import pytest
import torch

from oneof.views import ImageViews, RowItself
from oneof.views.geometry import flip_and_crop, square_mask
from tests.views.pillow import pictures

MEAN, STD = (0.49, 0.48, 0.45), (0.25, 0.24, 0.26)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def views(channels=3, **options):
    return ImageViews(MEAN[:channels], STD[:channels], **options)


def bytes_of(view):
    """Back from normalised numbers to bytes."""
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    return ((view * std[: view.shape[1]] + mean[: view.shape[1]]) * 255).round().to(torch.uint8)


def test_plain_is_the_normalised_image():
    x = pictures(32, 3)
    expected = (x.numpy() / 255 - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STD, (3, 1, 1))
    made = views().plain(x)
    assert made.dtype == torch.float32
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-5)
    assert torch.equal(bytes_of(made), x)


@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 3), (64, 3)])
@pytest.mark.parametrize("policy", ["bilinear", "autoaugment", "randaugment", "simple", "none"])
def test_a_seed_decides_the_views(size, channels, policy):
    x = pictures(size, channels)
    maker = views(channels, policy=policy)
    roles = ("weak", "strong", "strong2")
    one, again, other = (maker.train(x, roles, seeded(seed)) for seed in (0, 0, 1))
    assert len(one) == 3
    for a, b, c in zip(one, again, other):
        assert a.shape == x.shape
        assert a.dtype == torch.float32
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    assert not torch.equal(one[1], one[2])  # two strong views are two draws


def test_torchs_default_generator_is_not_used():
    before = torch.get_rng_state()
    views().train(pictures(16, 3), ("weak", "strong"), seeded())
    assert torch.equal(torch.get_rng_state(), before)


def test_roles_are_what_they_are_called():
    x = pictures(32, 3).repeat(8, 1, 1, 1)
    maker = views(policy="none", cutout=8, pad=3)
    plain, weak, strong = maker.train(x, ("plain", "weak", "strong"), seeded())
    assert torch.equal(plain, maker.plain(x))
    for image, made in zip(x.numpy(), bytes_of(weak).numpy()):
        # a weak view is one of the mirrored and shifted windows
        windows = []
        for mirrored in (image, image[:, :, ::-1]):
            whole = np.pad(mirrored, ((0, 0), (3, 3), (3, 3)), mode="reflect")
            windows += [whole[:, i : i + 32, j : j + 32] for i in range(7) for j in range(7)]
        assert any(np.array_equal(made, window) for window in windows)
    holes = (strong == 0).all(dim=1).sum(dim=(1, 2))
    assert ((holes >= 16) & (holes <= 64)).all()  # squares of 8, a quarter of one left in a corner
    assert len(set(holes.tolist())) > 1


def test_flips_and_shifts_are_evenly_spread():
    x = torch.zeros(4000, 1, 8, 8, dtype=torch.uint8)
    x[:, 0, 2, 3] = 255  # one bright pixel, which no reflection repeats within a shift of 1
    weak = bytes_of(views(1, pad=1).train(x, ("weak",), seeded())[0])[:, 0]
    places = weak.view(len(x), -1).argmax(dim=1)
    counts = torch.bincount(places, minlength=64)
    rows, columns = counts.view(8, 8).sum(dim=1), counts.view(8, 8).sum(dim=0)
    assert set(rows.nonzero().flatten().tolist()) == {1, 2, 3}
    assert set(columns.nonzero().flatten().tolist()) == {2, 3, 4, 5}  # 3 ± 1, mirrored 4 ± 1
    assert (rows[1:4].double() / len(x) - 1 / 3).abs().max() < 0.04
    expected = torch.tensor([1 / 6, 1 / 3, 1 / 3, 1 / 6])
    assert (columns[2:6] / len(x) - expected).abs().max() < 0.04


def test_what_is_switched_off_does_not_happen():
    x = pictures(32, 3)
    maker = views(policy="none", cutout=0, pad=2, flip=False)
    weak, strong = maker.train(x, ("weak", "strong"), seeded())
    assert weak.shape == strong.shape
    still = views(policy="none", cutout=0, pad=0, flip=False)
    for view in still.train(x, ("weak", "strong"), seeded()):
        assert torch.equal(view, still.plain(x))


def test_flips_crops_and_holes_look_at_no_value():
    """Tensors without content go through."""
    x, zeros = torch.zeros(2, 3, 16, 16, dtype=torch.uint8, device="meta"), torch.zeros(2, device="meta")
    cropped = flip_and_crop(x, zeros > 0, zeros.long(), zeros.long(), 4)
    assert views().plain(cropped).shape == x.shape
    assert square_mask(x, zeros.long(), zeros.long(), 8).shape == (2, 1, 16, 16)


def test_the_description_holds_all_settings():
    maker = views(policy="randaugment", cutout=5, pad=2, flip=False)
    text = maker.describe()
    assert {k: text[k] for k in ("policy", "cutout", "pad", "flip")} == {
        "policy": "randaugment", "cutout": 5, "pad": 2, "flip": False,
    }  # fmt: skip
    assert text["mean"] == pytest.approx(MEAN, abs=1e-4)
    again = ImageViews(**text)
    x = pictures(16, 3)
    assert torch.allclose(again.train(x, ("strong",), seeded())[0], maker.train(x, ("strong",), seeded())[0])


def test_an_unknown_policy_is_named():
    with pytest.raises(ValueError, match="policy is 'magic'; it must be one of 'bilinear', 'autoaugment'"):
        views(policy="magic")


def test_a_table_has_one_view_for_all_roles():
    x = torch.randn(3, 4)
    assert RowItself().train(x, ("weak", "strong"), seeded()) == (x,)
    assert RowItself().plain(x) is x
