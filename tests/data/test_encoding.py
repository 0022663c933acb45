"""Columns of every kind become numbers, the same way at prediction as in training."""

import datetime
import json
import math
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.reader import read_table
from oneof.tables.table import numbers, vectors

N = 30


def encoded(columns, **options):
    encoder = TableEncoder.fit(columns, **options)
    return encoder, encoder.transform(columns)


def colours(n=N):
    return [("red", "blue", "green")[i % 3] for i in range(n)]


# ---- numbers ----------------------------------------------------------------------------------


def test_numbers_without_gaps_stay_as_they_are():
    x = np.linspace(-1, 1, N)
    for column in (x, x.tolist(), [str(v) for v in x], pd.Series(x), pl.Series(x)):
        encoder, made = encoded({"a": column})
        assert encoder.feature_names == ["a"]
        assert made.dtype == np.float32
        np.testing.assert_allclose(made[:, 0], x, rtol=1e-6)


def test_a_decimal_comma_is_read_where_it_cannot_mean_thousands():
    assert numbers(["1,5", "-0,25", "3", ""])[:3].tolist() == [1.5, -0.25, 3.0]
    assert numbers(["0,125", "1,234"]).tolist() == [0.125, 1.234]
    assert numbers(["1,234", "999"]) is None  # a thousand or a little more than one?
    assert numbers(["1,5", "crow"]) is None


@pytest.mark.parametrize("gap", [None, float("nan"), "", " ", "NA", "n/a", "null", "?"])
def test_missing_numbers_become_the_median_and_a_flag(gap):
    text = isinstance(gap, str)
    column = [gap, *(str(v) if text else v for v in (1.0, 2.0, 10.0))]
    encoder, made = encoded({"a": column})
    assert encoder.feature_names == ["a", "a=(missing)"]
    np.testing.assert_array_equal(made, [[2, 1], [1, 0], [2, 0], [10, 0]])


def test_a_gap_that_was_not_there_in_training_is_filled_without_a_flag():
    encoder, _ = encoded({"a": [1.0, 2.0, 6.0]})
    np.testing.assert_array_equal(encoder.transform({"a": [None, 5.0]}), [[2], [5]])


@pytest.mark.parametrize(
    "column", [[True, False, True], ["true", "False", "TRUE"], np.array([1, 0, 1], dtype=bool)]
)
def test_booleans_are_one_column(column):
    encoder, made = encoded({"a": column})
    np.testing.assert_array_equal(made, [[1], [0], [1]])
    assert encoder.feature_names == ["a"]


def test_digits_of_time_stamps_survive_single_precision():
    times = 1_700_000_000 + np.arange(0, 7 * N, 7)
    _, made = encoded({"time": times})
    np.testing.assert_allclose(np.diff(made[:, 0]), 7)


def test_points_between_thousands_are_not_read_as_decimals():
    cells = [f"{k:,}".replace(",", ".") for k in range(900, 1500, 7)]
    with pytest.raises(DataError, match=r"\"n\" has '1.005' and whole numbers .*\n  Write"):
        encoded({"n": cells})
    for fine in ([*cells, "1.5"], [*cells, "1500"], [*cells, "0.123"], [c for c in cells if "." in c]):
        assert encoded({"n": fine})[1].max() < 1501
    assert encoded({"n": [float(c) for c in cells]})[1].max() == 998


def test_a_word_among_numbers_is_a_mistake_and_named():
    column = [str(i / 7) for i in range(N)]
    column[17] = "tall"
    with pytest.raises(DataError, match=r"row 17 of column \"a\" is 'tall', not a number, but 97% of"):
        encoded({"a": column})
    encoder, _ = encoded({"a": [1.5, 2.5, 9.0]})
    with pytest.raises(DataError, match=r"row 1 of column \"a\" is 'tall', not a number; the model"):
        encoder.transform({"a": ["1", "tall"]})


def test_a_decimal_comma_is_remembered_for_cells_that_could_mean_thousands():
    encoder, made = encoded({"a": ["3,605", "0,125", "12,5"] * 10})
    stored = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert stored.transform({"a": ["3,605"]}).tolist() == made[:1].tolist()
    with pytest.raises(DataError, match=r"row 1 of .* is 'crow', not a number"):
        stored.transform({"a": ["3,605", "crow"]})
    earlier = encoder.to_dict()
    del earlier["columns"][0]["decimal_comma"]  # files of earlier versions
    made = TableEncoder.from_dict(earlier).transform({"a": ["3,605", "0,5"]})
    np.testing.assert_allclose(made, [[3.605], [0.5]], rtol=1e-6)


def test_a_word_among_numbers_with_a_decimal_comma_is_named_too():
    column = [f"{i},{i % 7}" for i in range(N)]
    column[17] = "k.A."
    with pytest.raises(DataError, match=r"row 17 of column \"a\" is 'k.A.', not a number, but 97% of"):
        encoded({"a": column})


def test_a_column_of_numbers_and_texts_that_is_left_out_names_a_text():
    column = [f"{i}.{i:03d},5" if i % 2 else f"{i},5" for i in range(100)]
    encoder = TableEncoder.fit({"a": column, "b": np.arange(100) / 7})
    assert "50% are numbers, but '1.001,5' is none" in encoder.left_out["a"]


def test_infinite_numbers_are_refused():
    encoder = TableEncoder.fit({"a": [1.0, 2.0]})
    for column in ([1.0, math.inf], ["1", "inf"], np.array([1.0, -np.inf]), ["1", "1e39"]):
        with pytest.raises(DataError, match='row 1 of column "a" is infinite'):
            TableEncoder.fit({"a": column})
        with pytest.raises(DataError, match='row 1 of column "a" is infinite'):
            encoder.transform({"a": column})


@pytest.mark.parametrize("cells", [[{"k": "a"}] * N, ["a", *[["b"]] * 29], [1.5, *[["b"]] * 29]])
def test_a_column_of_objects_is_left_out(cells):
    encoder = TableEncoder.fit({"a": cells, "b": np.arange(N) / 7})
    assert encoder.left_out == {"a": "has lists or objects in its cells"}
    with pytest.raises(DataError, match="lists or objects in its cells: it cannot be a feature"):
        TableEncoder.fit({"a": cells}, wanted=["a"])


# ---- categories -------------------------------------------------------------------------------


def test_categories_are_one_hot_and_unseen_ones_are_none_of_them():
    encoder, made = encoded({"colour": colours()})
    assert encoder.feature_names == ["colour=blue", "colour=green", "colour=red"]
    np.testing.assert_array_equal(made[:3], [[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(
        encoder.transform({"colour": [" red ", "mauve", None]}), [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )


def test_texts_that_are_nearly_all_new_are_told_of():
    encoder, _ = encoded({"colour": colours()})
    with pytest.warns(
        UserWarning, match=r"\"colour\": most texts are new .* 'Blue'; it knows 'blue', 'green'"
    ):
        encoder.transform({"colour": ["Blue", "Blue", "red"]})
    with warnings.catch_warnings(action="error"):
        encoder.transform({"colour": ["Blue", "green", "red"]})
        encoder.transform({"colour": [None, "", "red"]})


def test_rare_values_share_a_column_and_unseen_ones_join_them():
    column = [f"v{i % 50}" for i in range(500)] + [f"rare{i}" for i in range(7)]
    encoder, made = encoded({"c": column})
    assert len(encoder.feature_names) == 51
    assert encoder.feature_names[-1] == "c=(other)"
    assert made[:, -1].sum() == 7
    assert (made.sum(axis=1) == 1).all()
    assert encoder.transform({"c": ["never seen"]})[0, -1] == 1


def test_missing_texts_are_a_value_of_their_own():
    column = [*colours(), None, "", float("nan")]
    encoder, made = encoded({"c": column})
    assert encoder.feature_names[-1] == "c=(missing)"
    np.testing.assert_array_equal(made[-3:, -1], 1)
    assert made[:-3, -1].sum() == 0


# ---- vectors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["array", "lists", "text", "arrays", "deep"])
def test_vectors(form):
    x = np.arange(8.0).reshape(4, 2)
    column = {
        "array": x,
        "lists": x.tolist(),
        "text": [json.dumps(row) for row in x.tolist()],
        "arrays": list(x),
        "deep": x.reshape(4, 2, 1),
    }[form]
    encoder, made = encoded({"e": column})
    assert encoder.feature_names == ["e.0", "e.1"]
    np.testing.assert_array_equal(made, x)


def test_text_in_a_list_of_numbers_is_no_vector():
    assert vectors(['["1", "2"]', '["3", "4"]']) is None
    assert vectors(['[1, "2"]', "[3, 4]"]) is None


def test_a_missing_vector_is_the_mean_and_flagged():
    encoder, made = encoded({"e": [[1.0, 2.0], None, [3.0, 4.0]]})
    assert encoder.feature_names == ["e.0", "e.1", "e=(missing)"]
    np.testing.assert_array_equal(made[1], [2, 3, 1])
    with pytest.raises(DataError, match='column "e" has 3 numbers a row; in training every row had 2'):
        encoder.transform({"e": [[1.0, 2.0, 3.0]]})
    with pytest.raises(DataError, match=r'column "e" does not hold lists of numbers; in training .* had 2'):
        encoder.transform({"e": ["crow"]})


def test_a_list_among_numbers_is_named_by_its_row():
    encoder, _ = encoded({"a": [1.0, 2.5]})
    with pytest.raises(DataError, match=r'row 1 of column "a" is \[1, 2\], not a number'):
        encoder.transform({"a": [1.0, [1, 2], 3.0]})


# ---- what is no feature -----------------------------------------------------------------------

USELESS = {
    "holds dates": ["2026-01-02", "2026-01-03 10:00", ""] * 10,
    "holds dates ": [datetime.date(2026, 1, 1)] * N,
    "holds dates  ": np.array(["2026-01-01"] * N, dtype="datetime64[D]"),
    "different text in every row": [f"row{i}" for i in range(N)],
    "counts the rows": list(range(N)),
    "is empty in every row": [None] * N,
    "is empty in every row ": ["", " "] * (N // 2),
    "lists of different lengths": [[1.0], [1.0, 2.0]] * (N // 2),
}


@pytest.mark.parametrize("reason", USELESS)
def test_columns_that_are_no_features_are_left_out_and_named(reason):
    table = {"a": [i / 7 for i in range(N)], "odd": USELESS[reason]}
    encoder, made = encoded(table)
    assert made.shape == (N, 1)
    assert reason.strip() in encoder.left_out["odd"]
    with pytest.raises(DataError, match=r'column "odd" .*: it cannot be a feature'):
        TableEncoder.fit(table, wanted=["a", "odd"])


def test_numbers_that_name_their_row_by_the_name_of_the_column():
    numbers = [7 * i * i for i in range(N)]
    encoder, _ = encoded({"image_id": numbers, "area": numbers})
    assert encoder.column_names == ["area"]
    assert "an id" in encoder.left_out["image_id"]


def test_free_text_in_a_long_table():
    encoder, _ = encoded({"a": colours(300), "note": [f"words {i % 200}" for i in range(300)]})
    assert "200 different texts in 300 rows" in encoder.left_out["note"]


def test_nothing_left_says_why():
    with pytest.raises(DataError, match=r"no feature column left.\n  \"id\" has a different text"):
        TableEncoder.fit({"id": USELESS["different text in every row"]})


# ---- the table as a whole ---------------------------------------------------------------------


def test_columns_are_found_by_name_and_missing_ones_are_named(tmp_path):
    table = {"b": colours(), "": range(N), "a": [i / 7 for i in range(N)], "z": colours()}
    encoder = TableEncoder.fit(table, without=["z"])
    assert encoder.column_names == ["b", "a"]
    assert encoder.describe() == "1 numeric and 1 categorical columns: 4 features"
    turned = {name: table[name] for name in ("z", "a", "b")}
    np.testing.assert_array_equal(encoder.transform(turned), encoder.transform(table))
    with pytest.raises(DataError, match='there is no column "b" and 1 more'):
        encoder.transform({"z": colours()})
    with pytest.raises(DataError, match='there is no column "q"; there are'):
        TableEncoder.fit(table, without=["q"])
    with pytest.raises(DataError, match="has 2 rows, others 30"):
        encoder.transform({**table, "a": [1, 2]})
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1.5,red\n2.5,blue\n2.5,red\n")
    encoder, made = encoded(read_table(path))
    np.testing.assert_array_equal(made, [[1.5, 0, 1], [2.5, 1, 0], [2.5, 0, 1]])
    with pytest.raises(DataError, match=r"t\.csv"):
        TableEncoder.fit(read_table(path), wanted=["c"])


def test_data_frames():
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "c": ["x", "y", None], "i": pd.array([1, None, 3])})
    encoder, made = encoded(frame)
    assert encoder.feature_names == ["a", "a=(missing)", "c=x", "c=y", "c=(missing)", "i", "i=(missing)"]
    assert np.isfinite(made).all()
    other = pl.DataFrame({"a": [1.0, None, 3.0], "c": ["x", "y", None], "i": [1, None, 3]})
    np.testing.assert_array_equal(encoder.transform(other), made)


cells = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.floats(allow_infinity=False, width=32),
    st.booleans(),
    st.integers(-(10**6), 10**6),
)


def refusal(function):
    try:
        function()
    except DataError as error:
        return str(error)
    return None


@given(st.lists(cells, min_size=1, max_size=30), st.lists(cells, max_size=10))
def test_any_column_is_encoded_or_refused_by_name_and_survives_storage(training, later):
    refused = refusal(lambda: encoded({"a": training}))
    if refused:
        assert '"a"' in refused
        return
    encoder, made = encoded({"a": training})
    assert np.isfinite(made).all()
    assert made.shape == (len(training), len(encoder.feature_names))
    stored = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert stored == encoder
    np.testing.assert_array_equal(stored.transform({"a": training}), made)
    refused = refusal(lambda: stored.transform({"a": later}))
    assert '"a"' in refused if refused else stored.transform({"a": later}).shape[1] == made.shape[1]


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"columns": []},
        {"columns": [{"kind": "code", "name": "a"}]},
        {"columns": [{"kind": "number", "name": "a", "fill": "x", "flag": False}]},
        {"columns": [{"kind": "number", "name": "a", "fill": 1.0, "flag": False, "run": "x"}]},
        {"columns": [{"kind": "number", "name": "a", "fill": float("inf"), "flag": False}]},
        {"columns": [{"kind": "category", "name": "a", "values": [1], "other": False, "flag": False}]},
        {"columns": [{"kind": "vector", "name": "a", "fill": [], "flag": False}]},
        {"columns": [{"kind": "number", "name": "a", "fill": 1.0, "flag": False}] * 2},
        {"columns": None},
    ],
)
def test_stored_encoders_that_lie_are_refused(change):
    with pytest.raises(DataError, match="stored table encoder"):
        TableEncoder.from_dict({"format": 1, "columns": [], "left_out": {}, **change})


def test_a_code_with_an_underscore_is_a_category_and_no_number():
    assert numbers(["1_2", "3_4", "5"]) is None
    encoder = TableEncoder.fit({"code": ["1_2", "3_4", "1_2"]})
    assert encoder.feature_names == ["code=1_2", "code=3_4"]
    with pytest.raises(DataError, match="'1_2', not a number"):
        TableEncoder.fit({"x": [str(i) for i in range(50)] + ["1_2"]})


def test_a_feature_that_is_wanted_twice_counts_once():
    encoder = TableEncoder.fit({"a": [1, 2.5, 3]}, wanted=["a", "a"])
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder
    assert encoder.feature_names == ["a"]
