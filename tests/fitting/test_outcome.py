"""Pictures for the report."""

import base64
import io

import numpy as np
from PIL import Image

from oneof.app.fit.outcome import thumbnails


def test_thumbnails_are_small_pictures_of_the_rows_asked_for():
    pixels = np.zeros((4, 3, 200, 100), dtype=np.uint8)
    pixels[2, 0] = 255
    made = thumbnails(pixels, [2, 0])
    assert list(made) == [2, 0]
    head, _, code = made[2].partition(",")
    assert head == "data:image/png;base64"
    image = Image.open(io.BytesIO(base64.b64decode(code)))
    assert image.size == (48, 96)
    assert image.getpixel((5, 5)) == (255, 0, 0)


def test_rows_that_are_no_pictures_have_none():
    assert thumbnails(None, [0]) == {}
    assert thumbnails(np.zeros((4, 3, 8, 8)), [0]) == {}
    assert thumbnails(np.zeros((4, 7, 8, 8), dtype=np.uint8), [0]) == {}
