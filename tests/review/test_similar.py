"""Similar rows with a known label: found by what the model sees, and shown beside an open row."""

import numpy as np
import pytest

from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData, ReviewError
from oneof.app.review.ranking import DIMENSIONS, places_of, similar_rows
from tests.review.made import review_data
from tests.review.test_server import client_of

N = 60
GROUP = np.arange(N) % 3
X = np.random.default_rng(0).normal(size=(N, 30)) + 8 * np.eye(30)[GROUP]


def test_places_keep_what_is_near():
    made = places_of(X, lambda part: part)
    assert made.shape == (N, DIMENSIONS)
    assert made.dtype == np.float16
    apart = ((made[:, None].astype(float) - made[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (GROUP[apart.argmin(axis=1)] == GROUP).all()


def test_images_lie_by_colour():
    pixels = np.zeros((6, 3, 20, 12), dtype=np.uint8)
    for i in range(6):
        pixels[i, i % 2] = 200 + i
    made = places_of(pixels, None).astype(float)
    assert np.argsort(((made - made[0]) ** 2).sum(axis=1))[:3].tolist() == [0, 2, 4]


def test_constant_features_are_all_in_one_place():
    assert not places_of(np.ones((5, 2)), lambda part: part).any()


def test_decided_and_trusted_rows_of_the_same_kind_are_similar():
    trusted = np.arange(N) == 6
    data = review_data(N, places=places_of(X, lambda part: part), trusted=trusted)
    label = int(data.transduction[6].argmax())
    assert similar_rows(data, 0, {}) == [(6, label)]
    found = dict(similar_rows(data, 0, {0: 1, 1: 2, 3: 1, 9: 0}))
    assert found == {6: label, 3: 1, 9: 0}  # not itself, nothing of another kind
    assert len(similar_rows(data, 0, dict.fromkeys(range(3, N, 3), 1))) == 3
    assert similar_rows(review_data(N), 0, {3: 1}) == []  # a folder of an earlier version


def test_the_page_gets_them_and_the_folder_keeps_places(tmp_path):
    review_data(N, places=places_of(X, lambda part: part)).save(tmp_path)
    data = ReviewData.load(tmp_path)
    client = client_of(tmp_path, data)
    assert client.get("/api/similar/0").json() == {"rows": []}
    Decisions(tmp_path, data).append(3, "decide", 2)
    ((name, label, read),) = client.get("/api/similar/0").json()["rows"]
    assert (name, label) == ("row-3", 2)
    assert read == f"size {data.features['size'][3]:.4g}"
    assert client.get("/api/similar/99").status_code == 404


def test_places_that_cannot_be():
    with pytest.raises(ReviewError, match="places has 3 x 2 entries, but there are 12 rows"):
        review_data(12, places=np.zeros((3, 2)))
    with pytest.raises(ReviewError, match="places has 12 entries, but"):
        review_data(12, places=np.zeros(12))
