"""Pictures for the report."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import NotFittedError

from oneof import PartialLabelClassifier
from oneof.app.fit.outcome import thumbnails
from tests.test_inputs import problem


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


def test_a_model_keeps_what_is_believed_of_a_whole_table():
    x, _, mask = problem(60)
    model = PartialLabelClassifier("proden", net="linear", epochs=2, device="cpu")
    table = np.full((80, 3), 1 / 3)
    with pytest.raises(NotFittedError):
        model.with_transduction(table)
    assert model.fit(x, mask).with_transduction(table).transduction_ is table
    with pytest.raises(ValueError, match=r"has shape \(80, 2\), but there are 3 classes"):
        model.with_transduction(table[:, :2])
