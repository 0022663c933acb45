import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oneof.datasets import DataError, Scaling
from oneof.datasets.scaling import SCALINGS

tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6, allow_subnormal=False),
)


@given(tables, st.sampled_from(sorted(SCALINGS.keys() - {"pixels"})))
def test_any_table_stays_finite_and_the_scaling_survives_json(x, kind):
    scaling = Scaling.fit(x, kind)
    assert np.isfinite(scaling.apply(x)).all()
    assert scaling.apply(x).dtype == np.float32
    again = Scaling.from_dict(json.loads(json.dumps(scaling.to_dict())))
    assert again == scaling
    assert hash(again) == hash(scaling)


def test_the_kinds_by_hand():
    x = np.array([[0.0, 10.0, 5.0], [2.0, 30.0, 5.0]])
    assert Scaling.fit(x, "none").apply(x).tolist() == x.tolist()
    assert Scaling.fit(x, "standard").apply(x).tolist() == [[-1, -1, 0], [1, 1, 0]]
    assert Scaling.fit(x, "minmax").apply(x).tolist() == [[0, 0, 0], [1, 1, 0]]
    one = np.sqrt((1 + 100 + 0) / 3)  # one number for all columns
    np.testing.assert_allclose(
        Scaling.fit(x, "global").apply(x), [[-1 / one, -10 / one, 0], [1 / one, 10 / one, 0]]
    )


@pytest.mark.parametrize("kind", ["global", "standard", "minmax"])
def test_a_constant_column_is_safe_even_when_other_rows_differ(kind):
    train = np.full((7, 1), 0.1)  # its computed deviation is 1e-17, not 0
    scaling = Scaling.fit(train, kind)
    assert scaling.scale.tolist() == [1.0]
    np.testing.assert_allclose(scaling.apply(np.array([[0.1], [3.1]])), [[0.0], [3.0]], atol=1e-6)


def test_it_is_fitted_on_training_rows_only():
    train, test = np.array([[0.0], [2.0]]), np.array([[100.0]])
    assert Scaling.fit(train, "standard").apply(test).tolist() == [[99.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Scaling.fit([[1.0]], "zscore"), "unknown scaling 'zscore': choose one of none, global"),
        (lambda: Scaling.fit([1.0], "none"), r"shape \(1,\)"),
        (lambda: Scaling.fit([[1.0, np.nan]], "standard"), r"x\[0, 1\] = nan"),
        (
            lambda: Scaling.fit([[1.0, 2.0]], "none").apply([[1.0]]),
            "1 columns, but the scaling was fitted on 2",
        ),
        (lambda: Scaling.from_dict({"kind": "none"}), "has no 'scale'"),
        (lambda: Scaling("none", [0.0], [0.0]), "positive scale"),
    ],
)
def test_errors(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_images_are_scaled_channel_by_channel():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, size=(1205, 3, 4, 5), dtype=np.uint8)
    scaling = Scaling.fit(images, "pixels")
    np.testing.assert_allclose(scaling.shift, images.astype(float).mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(scaling.scale, images.astype(float).std(axis=(0, 2, 3)))
    scaled = Scaling.from_dict(scaling.to_dict()).apply(images)
    np.testing.assert_allclose(scaled.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.std(axis=(0, 2, 3)), 1, atol=1e-5)


def test_pixels_are_no_scaling_for_tables():
    with pytest.raises(DataError, match="channels, height, width"):
        Scaling.fit([[1.0, 2.0]], "pixels")
