"""What a cell says is decided in one place: missing values, texts, the order of classes."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof import CandidateError, Candidates, PartialLabelClassifier
from oneof.candidates.cells import cell_labels, cell_text, counted, is_missing, json_value, ordered
from oneof.classifier.inputs import as_candidates, known
from oneof.tables.errors import DataError
from oneof.tables.importers import from_answers, from_records, from_wide
from oneof.tables.importers.files import import_file
from oneof.tables.reader import read_table
from oneof.tables.table import Table, numbers

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

NOTHING = {
    "None": None,
    "nan": float("nan"),
    "pandas NA": pd.NA,
    "pandas NaT": pd.NaT,
    "empty text": "",
    "blank text": " ",
    "single precision nan": np.float32("nan"),
    "decimal nan": Decimal("NaN"),
}
SOMETHING = {"text nan": "nan", "text NA": "NA", "text None": "None", "zero": 0, "false": False, "0.0": 0.0}


@pytest.mark.parametrize("labels", [['a"', "b"], ["it' ", "b"], ["a' 'b", "c"], ['say "hi" ', "b"]])
def test_labels_with_quotes_survive_a_list_that_python_wrote(labels):
    assert cell_labels(str(labels)) == [label.strip() for label in labels]
    assert cell_labels(str([labels[0] + " ", "b"])) == [labels[0].strip(), "b"]


@pytest.mark.parametrize("text", ["['cat' 'dog']", "['cat'\n 'dog']"])
def test_an_array_written_as_text_is_no_list(text):
    with pytest.raises(ValueError, match="looks like a list but cannot be read"):
        cell_labels(text)


@pytest.mark.parametrize("value", NOTHING.values(), ids=NOTHING)
def test_missing_values_are_missing_everywhere(value, tmp_path):
    assert is_missing(value)
    assert cell_text(value) is None
    assert json_value(value) in (None, value)
    assert cell_labels(value) == []
    table = Table(tmp_path / "t.csv", {"label": ["a", value], "sets": [["a"], value]})
    assert table.labels("label").tolist() == ["a", None]
    with pytest.raises(CandidateError, match="row 1 has no candidate"):
        table.candidates("sets")
    assert known(np.array(["a", value], dtype=object)).tolist() == [True, False]
    assert np.isnan(numbers([1, value])[1])
    with pytest.raises(CandidateError, match=r"row 1 has a missing label"):
        Candidates.from_sets([["a"], ["a", value]])
    with pytest.raises(CandidateError, match=r"class 1 .* has no name"):
        Candidates.from_mask([[1, 0]], classes=["a", value])
    with pytest.raises(CandidateError, match="row 1 has no label"):
        as_candidates(pd.Series(["a", value], dtype=object))
    with pytest.raises(CandidateError, match=r"row 1.*the label is empty"):
        from_answers(["x", "y"], None, ["a", value])
    with pytest.raises(CandidateError, match=r"row 1.*names no task"):
        from_answers(["x", value], None, ["a", "b"])
    assert from_wide({"ann": ["a", value], "bob": [value, "b"]}).candidates.sets() == [["a"], ["b"]]
    with pytest.raises(CandidateError, match="1 of 2 rows have no answer"):
        from_records(["a", value])
    told = from_records(["a", "b"]).with_truth(["b", value])
    assert told.candidates.truth.tolist() == [1, -1]


def test_dates_that_are_none_and_empty_lists_are_missing():
    for value in (np.datetime64("NaT"), np.timedelta64("NaT"), [], (), set(), np.array([])):
        assert is_missing(value)
    for value in (np.datetime64("2026-01-01"), [None], np.zeros(2), {}):
        assert not is_missing(value)


@pytest.mark.parametrize("value", NOTHING.values(), ids=NOTHING)
def test_a_gap_among_annotators_is_no_class(value):
    assert from_wide([["cat", value], [value, "dog"]]).candidates.sets() == [["cat"], ["dog"]]


@pytest.mark.parametrize("value", SOMETHING.values(), ids=SOMETHING)
def test_texts_that_look_missing_are_texts(value):
    assert not is_missing(value)
    assert known(np.array([value], dtype=object)).all()
    assert Candidates.from_sets([[value], ["x"]]).n_classes == 2


@pytest.mark.parametrize("value", [pd.NA, pd.NaT, "", np.float32("nan")])
def test_a_fit_never_learns_a_missing_class(value):
    x = np.random.default_rng(0).standard_normal((4, 2)).astype(np.float32)
    y = [["cat", value], ["dog"], ["cat"], ["dog", "cat"]]
    with pytest.raises(CandidateError, match=r"row 0 has a missing label.\n  y\[0\]"):
        PartialLabelClassifier("proden", epochs=1).fit(x, y)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"10", "2", "1"}, ["1", "2", "10"]),
        ({10, 2, 1.5}, [1.5, 2, 10]),
        ({"10", "2", "cat"}, ["10", "2", "cat"]),
        ({"b", 10, 9.5, "a", True}, [True, 9.5, 10, "a", "b"]),
        ({("b", 1), ("a", 10), ("a", 9)}, [("a", 9), ("a", 10), ("b", 1)]),
        ({("a",), 1, "x"}, [1, "x", ("a",)]),
        ({"01", "1", "1.0", "10"}, ["01", "1", "1.0", "10"]),
    ],
)
def test_classes_are_ordered_numbers_first_by_value(given, expected):
    assert ordered(given) == expected
    assert list(Candidates.from_sets([[value] for value in given]).classes) == expected


def test_a_number_comes_before_its_text():
    assert ordered({"1", 1, 0, "0"}) == [0, "0", 1, "1"]


labels = st.lists(
    st.lists(st.sampled_from(["1", "2", "10", "9", "-3"]), min_size=1, max_size=3), min_size=1, max_size=6
)


@given(labels)
def test_equal_sets_have_equal_hashes_wherever_they_come_from(sets):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = Candidates.from_sets(sets)
        assert from_records(sets).candidates.hash == ours.hash
        wide = from_wide({"ann": [row[0] for row in sets], "bob": sets})
        assert wide.candidates.replace(evidence=None).hash == ours.hash


def test_a_table_and_an_import_of_it_have_equal_hashes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x,label\na,1,1|10\nb,2,2\nc,3,10\n")
    assert read_table(path).candidates("label").hash == import_file(path, "records").candidates.hash


# ---- one reader -------------------------------------------------------------------------------


def test_one_table_in_every_kind_of_file_is_the_same(tmp_path):
    frame = pl.DataFrame({"id": [2**60 + 1, None, 7], "x": [1.5, None, 3.0], "label": ["a|b", None, "b"]})
    frame.write_csv(tmp_path / "t.csv")
    frame.write_csv(tmp_path / "t.tsv", separator="\t")
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_ndjson(tmp_path / "t.jsonl")
    for path in sorted(tmp_path.iterdir()):
        table = read_table(path)
        assert [cell_text(v) for v in table.column("id")] == [str(2**60 + 1), None, "7"]
        np.testing.assert_array_equal(numbers(list(table.column("x"))), [1.5, np.nan, 3.0])
        assert list(map(cell_labels, table.column("label"))) == [["a", "b"], [], ["b"]]


def test_many_batches_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr("oneof.tables.reader.MOST_ROWS", 2)
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": 2}\n\n{"a": "x", "b": [1]}\n')
    assert read_table(tmp_path / "t.jsonl").columns == {"a": [1, 2, "x"], "b": [None, None, [1]]}
    pl.DataFrame({"a": [1, 2, 3, None, 5], "b": [1.0, 2, 3, None, 5]}).write_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.columns["a"] == [1, 2, 3, None, 5]
    np.testing.assert_array_equal(table.columns["b"], [1, 2, 3, np.nan, 5])
    (tmp_path / "t.csv").write_text("a,b\n\n1,2\n3,4\n\n5,6\n7,8,9\n")
    with pytest.raises(DataError, match=r"row 3 of .*t.csv \(line 7\) has 3 cells"):
        read_table(tmp_path / "t.csv")


def test_one_of_a_thing_has_no_plural():
    assert [counted(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(n, "class") for n in (1, 2)] == ["1 class", "2 classes"]
