"""Review data on disk: what is written is read back, and damage is told from nothing."""

import contextlib
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.app.review import ReviewData, ReviewError
from oneof.candidates import Candidates
from oneof.tables.errors import DataError
from tests.review.made import CLASSES, review_data


def assert_same(back, data):
    assert back.candidates == data.candidates
    for name in ("probabilities", "transduction", "trusted"):
        wanted, found = getattr(data, name), getattr(back, name)
        assert (wanted is None and found is None) or np.array_equal(wanted, found)
    assert (back.ids, back.features, back.images) == (data.ids, data.features, data.images)
    assert (back.answers is None) == (data.answers is None)
    if data.answers is not None:
        assert [back.answers.of(i) for i in range(len(data))] == [
            data.answers.of(i) for i in range(len(data))
        ]


@given(st.integers(0, 10_000), st.integers(1, 9), st.booleans(), st.booleans())
@settings(max_examples=25)
def test_what_is_saved_is_loaded(tmp_path_factory, seed, n, ids, everything):
    folder = tmp_path_factory.mktemp("run")
    more = {} if everything else {"answers": None, "features": None, "transduction": None}
    images = [str(folder / f"{i}.png") for i in range(n)] if everything else None
    data = review_data(n, seed, ids, images, **more)
    data.save(folder)
    back = ReviewData.load(folder)
    assert back.candidates.truth_may_be_outside
    assert_same(back, data)
    assert back.image_folder == (str(folder) if everything else None)
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


@pytest.mark.parametrize("name", ["review.npz", "review.json"])
def test_a_link_in_place_of_a_file_is_refused(tmp_path, name):
    review_data(4).save(tmp_path / "run")
    (tmp_path / "run" / name).rename(tmp_path / name)
    (tmp_path / "run" / name).symlink_to(tmp_path / name)
    with pytest.raises(DataError, match=f"{name} is a link to .*\n.*or remove it"):
        ReviewData.load(tmp_path / "run")


@pytest.mark.parametrize("name", ["review.npz", "review.json"])
def test_damage_is_our_own_error_and_never_another_review(tmp_path, name):
    """Many bytes changed in turn: zlib, zip, numpy and JSON have errors of their own for it."""
    review_data(3).save(tmp_path)
    before = ReviewData.load(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        for change in (0xFF, 0x01):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
            with contextlib.suppress(ReviewError):  # a byte that says nothing may change
                assert_same(ReviewData.load(tmp_path), before)


@pytest.mark.parametrize("error", [MemoryError(), NotImplementedError("method"), zlib.error("Error -3")])
def test_foreign_errors_of_a_damaged_file_say_what_to_do(tmp_path, monkeypatch, error):
    def damaged(*_, **__):
        raise error

    review_data(3).save(tmp_path)
    monkeypatch.setattr(np.lib.format, "read_array", damaged)
    with pytest.raises(ReviewError, match=r"not readable .*\n.*Run `oneof fit` again"):
        ReviewData.load(tmp_path)


def test_names_nested_too_deep_are_an_error_in_words(tmp_path):
    review_data(3).save(tmp_path)
    (tmp_path / "review.json").write_text("[" * 100_000)
    with pytest.raises(ReviewError, match="not readable"):
        ReviewData.load(tmp_path)


def test_the_folder_of_the_images_is_the_deepest_that_holds_all(tmp_path):
    paths = [str(tmp_path / "a" / "x" / "1.png"), str(tmp_path / "a" / "2.png")]
    data = review_data(2, images=paths)
    assert data.image_folder == str(tmp_path / "a")
    assert len(data.candidates.classes) == len(CLASSES)
