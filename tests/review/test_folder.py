"""Review data on disk: what is written is read back, and damage is told from nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.app.review import ReviewData, ReviewError
from oneof.candidates import Candidates
from tests.review.made import CLASSES, review_data


@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans(), st.booleans())
@settings(max_examples=25)
def test_what_is_saved_is_loaded(tmp_path_factory, seed, n, ids, everything):
    folder = tmp_path_factory.mktemp("run")
    more = {} if everything else {"answers": None, "features": None, "transduction": None}
    images = [str(folder / f"{i}.png") for i in range(n)] if everything else None
    data = review_data(n, seed, ids, images, **more)
    data.save(folder)
    back = ReviewData.load(folder)
    assert back.candidates == data.candidates
    assert back.candidates.truth_may_be_outside
    for name in ("probabilities", "transduction", "trusted"):
        wanted, found = getattr(data, name), getattr(back, name)
        assert (wanted is None and found is None) or np.array_equal(wanted, found)
    assert (back.ids, back.features, back.images) == (data.ids, data.features, data.images)
    if everything:
        assert [back.answers.of(i) for i in range(n)] == [data.answers.of(i) for i in range(n)]
        assert back.image_folder == str(folder)
    else:
        assert back.answers is None
    assert sorted(path.name for path in folder.iterdir()) == ["review.json", "review.npz"]


def test_values_that_json_has_no_word_for_become_text(tmp_path):
    data = review_data(3, features={"x": [np.float32(1.5), float("nan"), np.datetime64("2026-01-02")]})
    data.save(tmp_path)
    assert ReviewData.load(tmp_path).features == {"x": [1.5, None, "2026-01-02"]}


def test_number_classes_and_ids_keep_their_type(tmp_path):
    data = ReviewData(Candidates(np.eye(2, dtype=bool), (3, 5)), np.eye(2), ids=np.array([10, 11]))
    data.save(tmp_path)
    back = ReviewData.load(tmp_path)
    assert (back.candidates.classes, back.ids) == ((3, 5), (10, 11))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("probabilities", np.zeros((2, 4)), r"probabilities has shape \(2, 4\), but there are 12 rows"),
        ("probabilities", np.full((12, 4), np.nan), r"probabilities\[0, 0\] = nan"),
        ("ids", ("a",), "ids has 1 entries, but there are 12 rows"),
        ("images", ["a.png"], "images has 1 entries"),
        ("features", {"x": [1]}, r"features\['x'\] has 1 entries"),
        ("trusted", [True], "trusted has 1 entries"),
    ],
)
def test_parts_that_do_not_fit_are_named(field, value, words):
    with pytest.raises(ReviewError, match=words):
        replace(review_data(), **{field: value})


def test_answers_about_rows_that_are_not_there_are_refused():
    with pytest.raises(ReviewError, match="answers name row 11"):
        review_data(4, answers=review_data(12).answers)


def test_class_names_that_are_no_text_or_number_are_refused_before_anything_is_written(tmp_path):
    data = ReviewData(Candidates(np.eye(2, dtype=bool), (frozenset("a"), frozenset("b"))), np.eye(2))
    with pytest.raises(ReviewError, match="must be text or numbers"):
        data.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_without_review_data_says_what_to_do(tmp_path):
    with pytest.raises(ReviewError, match=r"holds no review\.npz(?s:.)*oneof fit"):
        ReviewData.load(tmp_path)


@pytest.mark.parametrize("name", ["review.npz", "review.json"])
@pytest.mark.parametrize("content", [b"", b"\x00garbage", b"{}", b"[]"])
def test_damage_is_an_error_that_names_the_files(tmp_path, name, content):
    review_data().save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReviewError, match="not readable"):
        ReviewData.load(tmp_path)


def test_files_of_two_fits_are_told_apart(tmp_path):
    review_data(seed=1).save(tmp_path)
    old = (tmp_path / "review.json").read_bytes()
    review_data(seed=2).save(tmp_path)
    (tmp_path / "review.json").write_bytes(old)
    with pytest.raises(ReviewError, match="two different fits"):
        ReviewData.load(tmp_path)


def test_a_pickle_in_the_arrays_is_not_opened(tmp_path):
    review_data().save(tmp_path)
    stamp = json.loads((tmp_path / "review.json").read_text())["stamp"]
    np.savez(tmp_path / "review.npz", stamp=stamp, mask=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ReviewError, match="not readable"):
        ReviewData.load(tmp_path)


def test_the_folder_of_the_images_is_the_deepest_that_holds_all(tmp_path):
    paths = [str(tmp_path / "a" / "x" / "1.png"), str(tmp_path / "a" / "2.png")]
    data = review_data(2, images=paths)
    assert data.image_folder == str(tmp_path / "a")
    assert len(data.candidates.classes) == len(CLASSES)
