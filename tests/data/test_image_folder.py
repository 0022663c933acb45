"""Folders of images as rows: order, names, sizes, and what is no image."""

import numpy as np
import pytest
from PIL import Image

from oneof.tables.errors import DataError
from oneof.tables.images import find_images, read_folder, read_images


def paint(path, colour, size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path):
    paint(tmp_path / "b.png", (255, 0, 0))
    paint(tmp_path / "a" / "z.jpg", (0, 0, 255), size=(40, 20))
    paint(tmp_path / "a" / "c.PNG", (0, 255, 0), size=(3, 3))
    paint(tmp_path / ".hidden" / "x.png", (9, 9, 9))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_images_of_any_size_become_rows_named_by_their_path(folder):
    read = read_folder(folder, 16)
    assert read.ids == ("a/c.PNG", "a/z.jpg", "b.png")
    assert read.images.shape == (3, 3, 16, 16)
    assert read.images.dtype == np.uint8
    np.testing.assert_allclose(read.images.mean(axis=(2, 3)), 255 * np.eye(3)[[1, 2, 0]], atol=3)


def test_some_of_the_files_in_an_order_of_their_own(folder):
    files = find_images(folder)
    read = read_folder(folder, 4, (files[2], files[0]))
    assert read.ids == ("b.png", "a/c.PNG")
    assert len(read.images) == 2


def test_errors_name_the_folder_or_the_file(folder, tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        find_images(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in it"):
        find_images(tmp_path / "empty")
    with pytest.raises(DataError, match="0 pixels wide"):
        read_folder(folder, 0)


def test_an_unreadable_file_is_reported_and_left_out(folder):
    (folder / "a" / "d.png").write_bytes(b"\x89PNG not really")
    (folder / "empty.jpg").write_bytes(b"")
    read = read_folder(folder, 16)
    assert read.ids == ("a/c.PNG", "a/z.jpg", "b.png")
    assert read.images.shape == (3, 3, 16, 16)
    np.testing.assert_allclose(read.images.mean(axis=(2, 3)), 255 * np.eye(3)[[1, 2, 0]], atol=3)
    assert sorted(read.skipped) == [1, 4]
    (note,) = read.note()
    assert "left out: 2 (first: " in note
    assert "d.png: not a readable image" in note


def test_grey_of_sixteen_bits_keeps_its_shades(tmp_path):
    shades = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(shades).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_folder(tmp_path, 8).images[0, 0], shades // 256)


def test_pictures_are_upright_and_on_white_as_they_are_shown(tmp_path):
    turned = Image.Exif()
    turned[0x112] = 6  # the camera was held upright: turn by a quarter, clockwise
    left_red = Image.new("RGB", (16, 8), (0, 0, 255))
    left_red.paste((255, 0, 0), (0, 0, 8, 8))
    left_red.save(tmp_path / "a.jpg", exif=turned, quality=95)
    drawing = Image.new("RGBA", (8, 8), (0, 0, 0, 0))  # black on black that is not seen
    drawing.paste((0, 0, 0, 255), (0, 0, 8, 4))
    drawing.save(tmp_path / "b.png")
    palette = Image.new("P", (8, 8), 0)
    palette.putpalette([0, 0, 0, 0, 0, 255])
    palette.save(tmp_path / "c.png", transparency=0)
    photo, sketch, empty = read_folder(tmp_path, 8).images.astype(int)
    np.testing.assert_allclose(photo[:, 1, 1:7].T, [[255, 0, 0]] * 6, atol=9)
    np.testing.assert_allclose(photo[:, 6, 1:7].T, [[0, 0, 255]] * 6, atol=9)
    assert (sketch[:, :4] == 0).all()
    assert (sketch[:, 4:] == 255).all()
    assert (empty == 255).all()
    with pytest.raises(DataError, match="8 x 16"):
        read_images([tmp_path / "b.png", tmp_path / "a.jpg"])
