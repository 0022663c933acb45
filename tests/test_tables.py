"""Tables as people have them: every format, every way to write a set, and errors that name the cell."""

import csv
import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof import CandidateError
from oneof.candidates.cells import cell_labels
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.reader import read_lines, read_table
from oneof.tables.table import Table, vectors
from oneof.tables.text import LONGEST_CELL, TextForm
from oneof.tables.writers import Predicted, writing

HEADER = "length,width,labels"


@pytest.fixture
def table(tmp_path):
    """Writes text or bytes to a file and reads it as a table."""

    def read(content, name="answers.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path)

    return read


# ---- formats ----------------------------------------------------------------------------------

SETS = [["cat", "dog"], ["dog"], ["bird", "cat"]]
NUMBERS = [[1.5, 2.0], [3.0, 4.0], [5.0, 6.25]]


def csv_of(cells, separator=","):
    rows = [f"{a}{separator}{b}{separator}{cell}" for (a, b), cell in zip(NUMBERS, cells)]
    return "\n".join([separator.join(HEADER.split(",")), *rows]) + "\n"


def check(found):
    assert len(found) == 3
    assert found.candidates("labels").sets() == SETS
    x, names = found.features(["length", "width"])
    assert names == ["length", "width"]
    np.testing.assert_array_equal(x, NUMBERS)


@pytest.mark.parametrize(
    "cells",
    [
        ["cat|dog", "dog", "bird|cat"],
        [" cat | dog ", "dog|", "|bird||cat|cat"],
        ['"[""cat"", ""dog""]"', '"[""dog""]"', '"[""bird"", ""cat""]"'],
        ["\"['cat', 'dog']\"", "['dog']", "\"('bird', 'cat')\""],
        ["\"{'cat', 'dog'}\"", "{'dog'}", "bird|cat"],
    ],
    ids=["bars", "spaces", "json", "python", "python sets"],
)
def test_ways_to_write_a_set(table, cells):
    check(table(csv_of(cells)))


def test_tabs_and_capital_endings(table):
    check(table(csv_of(["cat|dog", "dog", "bird|cat"], "\t"), "answers.TSV"))


def test_csv_from_other_programs(table):
    text = csv_of(["cat|dog", "dog", "bird|cat"])
    check(table(b"\xef\xbb\xbf" + text.encode()))  # byte order mark
    check(table(text.replace("\n", "\r\n") + "\r\n\r\n"))  # Windows, with empty lines at the end
    check(table(text.replace("labels", " labels ").replace("length", '"length"')))
    check(table(text.rstrip()))


def test_csv_of_a_data_frame_with_lists(tmp_path):
    frame = pd.DataFrame({"length": [1.5, 3.0, 5.0], "width": [2.0, 4.0, 6.25], "labels": SETS})
    frame.to_csv(tmp_path / "a.csv")  # with the row number in front, in a column without a name
    check(read_table(tmp_path / "a.csv"))


def test_parquet(tmp_path):
    frame = pl.DataFrame({"length": [1.5, 3.0, 5.0], "width": [2.0, 4.0, 6.25], "labels": SETS})
    frame.write_parquet(tmp_path / "a.parquet")
    check(read_table(tmp_path / "a.parquet"))
    frame.with_columns(pl.col("labels").list.join("|")).write_parquet(tmp_path / "b.parquet")
    check(read_table(tmp_path / "b.parquet"))


def test_parquet_keeps_types_and_takes_embeddings(tmp_path):
    frame = pl.DataFrame(
        {
            "good": [True, False],
            "embedding": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
            "labels": [[1, 2], [3]],
            "one": [7, None],
        }
    )
    frame.write_parquet(tmp_path / "a.parquet")
    found = read_table(tmp_path / "a.parquet")
    assert found.candidates("labels").classes == (1, 2, 3)
    assert found.labels("one").tolist() == [7, None]
    x, names = found.features(["good", "embedding"])
    assert names == ["good", "embedding.0", "embedding.1", "embedding.2"]
    np.testing.assert_array_equal(x, [[1, 1, 2, 3], [0, 4, 5, 6]])
    with pytest.raises(DataError, match=r'column "embedding" .* more than one value'):
        found.labels("embedding")
    pl.DataFrame({"e": [[1.0], [2.0, 3.0]]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="lists of different lengths"):
        read_table(tmp_path / "b.parquet").features()


@pytest.mark.parametrize("dtype", [pl.List(pl.Float32), pl.Array(pl.Float32, 3)])
def test_embeddings_in_a_list_column_are_one_array(tmp_path, dtype):
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    frame = pl.DataFrame({"e": pl.Series(values.tolist(), dtype=dtype), "labels": ["a|b", "a", "b", "a"]})
    frame.write_parquet(tmp_path / "a.parquet")
    found = read_table(tmp_path / "a.parquet")
    assert isinstance(found.columns["e"], np.ndarray)
    np.testing.assert_array_equal(found.columns["e"], values)
    gaps = frame.with_columns(pl.when(pl.arange(0, 4) != 1).then(pl.col("e")).alias("e"))
    gaps.write_parquet(tmp_path / "b.parquet")
    encoder = TableEncoder.fit(read_table(tmp_path / "b.parquet"), without=["labels"])
    assert encoder.feature_names == ["e.0", "e.1", "e.2", "e=(missing)"]


def test_npz(tmp_path):
    mask = np.array([[1, 1, 0], [0, 1, 0]], dtype=np.uint8)
    x = np.arange(8.0).reshape(2, 2, 2)
    np.savez(tmp_path / "a.npz", classes=np.array(["cat", "dog", "bird"]), x=x, mask=mask, size=[1, 2])
    found = read_table(tmp_path / "a.npz")
    assert len(found) == 2
    assert found.candidates("mask").sets() == [["cat", "dog"], ["dog"]]
    values, names = found.features(["x", "size"])
    assert names == ["x.0", "x.1", "x.2", "x.3", "size"]
    np.testing.assert_array_equal(values, [[0, 1, 2, 3, 1], [4, 5, 6, 7, 2]])
    np.savez(tmp_path / "b.npz", x=x, sets=np.array(["1|2", "3"]), mask=mask)
    found = read_table(tmp_path / "b.npz")
    assert found.candidates("sets").classes == ("1", "2", "3")
    assert found.candidates("mask").classes == (0, 1, 2)


def test_npy_and_some_of_the_rows(tmp_path):
    x = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "a.npy", x)
    found = read_table(tmp_path / "a.npy")
    np.testing.assert_array_equal(found.column("x"), x)
    np.testing.assert_array_equal(found.take(np.array([2, 0])).column("x"), x[[2, 0]])
    np.save(tmp_path / "b.npy", np.array([{"a": 1}], dtype=object))
    for content in (None, b"", b"not an array", b"\x93NUMPY\x01\x00"):
        if content is not None:
            (tmp_path / "b.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"b.npy: not a readable npy file"):
            read_table(tmp_path / "b.npy")


def test_some_of_the_rows_of_text(table):
    found = table(csv_of(["cat", "dog", "bird"])).take(np.array([2, 1]))
    assert found.columns == {"length": ["5.0", "3.0"], "width": ["6.25", "4.0"], "labels": ["bird", "dog"]}


def test_digits_of_large_numbers_are_kept(table):
    x, _ = table("time,labels\n1700000001,a\n1700000002,b\n").features(["time"])
    assert np.ptp(x) == 1


# ---- labels that are numbers ------------------------------------------------------------------


def test_numbers_in_text_files_are_classes_as_written(table):
    found = table("x,labels\n1,1|2\n2,2\n3,01\n4,10\n5,1.0\n")
    assert found.candidates("labels").classes == ("01", "1", "1.0", "10", "2")
    assert table('x,labels\n1,"[1, 2]"\n2,2\n3,"[10]"\n').candidates("labels").classes == ("1", "2", "10")
    assert table("x,clean\n1, 3 \n2,\n").labels("clean").tolist() == ["3", None]


words = st.text(
    st.characters(codec="utf-8", exclude_characters="|\x00", exclude_categories=["Cs"]), min_size=1
)
labels = words.map(str.strip).filter(bool)


@given(st.lists(labels, min_size=1, max_size=5))
def test_sets_survive_being_written(names):
    assert cell_labels(json.dumps(names)) == names
    assert cell_labels(names) == names
    if names[0][0] + names[-1][-1] not in ("[]", "{}", "()"):
        assert cell_labels("|".join(names)) == names
        assert cell_labels(" | ".join(names)) == names


simple = st.text(st.characters(categories=["L", "N"], include_characters="_-. '"), min_size=1).map(str.strip)


@given(st.lists(simple.filter(bool), min_size=1, max_size=5))
def test_lists_as_data_frames_write_them(names):
    if "' '" not in str(names) and "\" '" not in str(names) and "' \"" not in str(names):
        assert cell_labels(str(names)) == names
        assert sorted(cell_labels(str(set(names)))) == sorted(set(names))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, []),
        ("", []),
        ("  ", []),
        (" | ", []),
        ("[]", []),
        (float("nan"), []),
        (3, [3]),
        (True, [True]),
        (np.array([1, 2]), [1, 2]),
        ("[unknown]", ["[unknown]"]),
        ("[a]|[b]", ["[a]", "[b]"]),
        ("(a, maybe b)", ["(a, maybe b)"]),
        ("{}", ["{}"]),
        ("[1, 2.50]", ["1", "2.50"]),
        ('["a|b"]', ["a|b"]),
    ],
)
def test_single_cells(cell, expected):
    assert cell_labels(cell) == expected


@pytest.mark.parametrize(
    "cell",
    [
        *["['cat' 'dog']", "[cat, dog]", '["cat", "dog]', "[null]", "[true]", '[["cat"]]', '[{"a": 1}]'],
        *["[0 1]", "[cat|dog]", "{cat|dog}", "(cat | dog)"],
    ],
)
def test_lists_that_cannot_be_read_are_named(table, cell):
    quoted = '"' + cell.replace('"', '""') + '"'
    with pytest.raises(DataError, match=r'row 1 of column "labels" in .*answers.csv') as caught:
        table(f"x,labels\n1,cat\n2,{quoted}\n").candidates("labels")
    assert "cat|dog" in str(caught.value)


# ---- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no header"),
        (b"\n", "no header"),
        (b"a,b\n", "no rows"),
        (b"a,b,a\n1,2,3\n", 'two columns are called "a"'),
        (b"a, b ,b\n1,2,3\n", 'two columns are called "b"'),
        (b"a,b\n1,2\n3\n", r"row 1 of .*answers.csv \(line 3\) has 1 cells, the header has 2"),
        (b'a,b\n"1\n1",2\n3,4,5\n', r"row 1 .* \(line 4\) has 3 cells"),
        (b"a,b\n1,2\n\na,b\n3,4\n", "line 4: the header stands there again(?s:.)*Remove this line"),
        (b"a, b\n1,2\n\xef\xbb\xbfa, b\n3,4\n", "line 3: the header stands there again"),
        ("a,b\nM\u00fcller,".encode() + b"caf\xe9\n", r"line 2, column 2: b.*not UTF-8.*--encoding"),
        (b"a,b\n1,\0\0\n", "not a text file: it holds zero bytes"),
        (b"\xff\xfea\0,\0b\0", "no rows"),
        (b"a,b\n1," + b"x" * (LONGEST_CELL + 1) + b"\n", r"line 2: .*field larger than"),
    ],
)
def test_broken_csv(table, content, message):
    with pytest.raises(DataError, match=message):
        table(content)


@pytest.mark.parametrize("name", ["a.parquet", "a.npz"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"PK\x03\x04 not really", b"\x80\x04}."])
def test_broken_binary_files(table, name, content):
    with pytest.raises(DataError, match=f"{name}: not a readable"):
        table(content, name)


def test_npz_without_pickles(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="without pickles"):
        read_table(tmp_path / "a.npz")
    with open(tmp_path / "b.npz", "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DataError, match="not a readable npz"):
        read_table(tmp_path / "b.npz")


def test_npz_with_arrays_of_different_lengths(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), mask=np.ones((4, 2)))
    with pytest.raises(DataError, match=r"x \(3, 2\), mask \(4, 2\)"):
        read_table(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 2)), seed=np.array(7))
    with pytest.raises(DataError, match=r"seed \(\)"):
        read_table(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x=np.zeros((2, 2)), mask=np.ones((2, 2)), classes=["a", "b", "c"])
    with pytest.raises(CandidateError, match="3 class names"):
        read_table(tmp_path / "c.npz").candidates("mask")


def test_wrong_names(table, tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_table(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="there is no file"):
        read_table(tmp_path)
    with pytest.raises(DataError, match=r"'.xlsx'; a table is one of .csv, .tsv, .parquet, .npz, .npy"):
        table("x", "a.xlsx")
    found = table(csv_of(["cat"] * 3))
    with pytest.raises(DataError, match=r"no column .label. in .*; it has 'length', 'width', 'labels'"):
        found.candidates("label")
    with pytest.raises(DataError, match='no column "id"'):
        found.features(["id"])
    with pytest.raises(DataError, match="no feature column left"):
        table('""\n1\n2\n').features()


def test_an_empty_candidate_cell_is_named(table):
    with pytest.raises(CandidateError) as caught:
        table(csv_of(["cat", " ", "[]"])).candidates("labels")
    assert "row 1 has no candidate label (2 rows in all)" in str(caught.value)
    assert 'column "labels" of answers.csv' in str(caught.value)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("tall", ["row 1", '"width"', "answers.csv", "'tall', not a number", "try this"]),
        ("1,5", ["row 1", "3 cells"]),
        ("", ["row 1", '"width"', "is empty", "try this"]),
        ("nan", ["row 1", "is nan"]),
        ("inf", ["row 1", "is inf"]),
    ],
)
def test_features_that_are_no_numbers(table, cell, words):
    with pytest.raises(DataError) as caught:
        table(f"length,width\n1,2\n1,{cell}\n").features(advice="try this")
    for word in words:
        assert word in str(caught.value)


def test_dates_are_no_numbers(tmp_path):
    pl.DataFrame({"day": [datetime.date(2026, 1, 1)]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r'row 0, column "day": .* not a number'):
        read_table(tmp_path / "a.parquet").features()


@pytest.mark.parametrize(
    "days",
    [
        np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"),
        np.array([1, 2], dtype="timedelta64[s]"),
        np.array(["NaT", "2026-01-02"], dtype="datetime64[D]"),
        [np.datetime64("2026-01-01"), np.datetime64("2026-01-02")],
        [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)],
    ],
)
def test_dates_do_not_become_days_without_a_word(days, tmp_path):
    with pytest.raises(
        DataError, match=r'row 0, column "day".*not a number.\n  Give a number in place of a date'
    ):
        Table(tmp_path / "a.npz", {"day": days}).features()


@pytest.mark.parametrize("values", [np.array([1 + 2j, 3]), np.array([[1 + 2j, 3]]), [1.0, np.complex64(3)]])
def test_complex_numbers_are_no_features(values, tmp_path):
    with pytest.raises(DataError, match=r'column "a": the cell is .*not a number'):
        Table(tmp_path / "a.npz", {"a": values}).features()


# ---- writing ----------------------------------------------------------------------------------


def test_written_tables_are_whole_or_not_there(tmp_path):
    path = tmp_path / "deep" / "out.csv"
    with writing(path) as writer:
        writer.write({"row": range(2), "label": ['a "b", c', "d\ne"]})
    with open(path, newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["row", "label"], ["0", 'a "b", c'], ["1", "d\ne"]]
    before = path.read_bytes()
    with pytest.raises(ValueError, match="shorter"), writing(path) as writer:
        writer.write({"row": range(2), "label": ["a"]})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["out.csv"]


def test_vectors_in_a_text_file_can_be_read_again(tmp_path):
    x = np.random.default_rng(0).random((2, 1500))
    with writing(tmp_path / "out.csv") as writer:
        writer.write({"x": x})
    np.testing.assert_array_equal(vectors(read_table(tmp_path / "out.csv").column("x")), x)


@pytest.mark.parametrize("part_bytes", [1 << 25, 1])
def test_the_type_of_a_parquet_column_may_show_late(tmp_path, monkeypatch, part_bytes):
    monkeypatch.setattr("oneof.tables.writers.PART_BYTES", part_bytes)
    with writing(tmp_path / "out.parquet") as writer:
        writer.write({"note": [None, None], "list": [[], None]})
        writer.write({"note": [1, None], "list": np.ones((2, 2))})
        writer.write({"note": [2, "x"], "list": [[0.5], []]})
    made = read_table(tmp_path / "out.parquet").columns
    assert made["note"] == [None, None, "1", None, "2", "x"]
    assert made["list"] == [[], None, [1.0, 1.0], [1.0, 1.0], [0.5], []]


# ---- separators and encodings -----------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"], ids=["comma", "semicolon", "tab", "bar"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_the_separator_is_found(table, separator, name):
    text = csv_of(["[cat]", "dog", "bird"], separator)
    found = table(text, name)
    assert list(found.columns) == ["length", "width", "labels"]
    assert found.columns["labels"] == ["[cat]", "dog", "bird"]
    assert found.form.sep == separator
    note = found.form.note(found.path)
    assert bool(note) == (separator != ("," if name == "a.csv" else "\t"))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("labels\ncat|dog\ncat\n", ["labels"]),  # one column: bars are between labels
        ("labels\ncat|dog\ndog|cat\n", ["labels"]),
        ("id,labels\n1,cat;dog\n2,dog;cat\n", ["id", "labels"]),
        ("id;labels\n1;cat,dog\n2;dog\n", ["id", "labels"]),
        ('id;note\n1;"a;b\nc"\n2;d\n', ["id", "note"]),
        ("x;y\n1,5;2,5\n2,5;3,5\n", ["x", "y"]),
    ],
)
def test_separators_inside_cells_are_left_alone(table, text, columns):
    assert list(table(text).columns) == columns


@pytest.mark.parametrize("odd", ["\f", "\v", "\x85", "\u2028", "\x1c"])
def test_characters_that_end_no_line_of_a_table_stay_in_their_cell(table, odd):
    found = table(f"id;label\n1;cat{odd}fish\n2;dog\n".encode(), "a.csv")
    assert found.columns == {"id": ["1", "2"], "label": [f"cat{odd}fish", "dog"]}
    found.path.write_text(f"cat{odd}fish\ndog\n", encoding="utf-8")
    assert read_lines(found.path) == [f"cat{odd}fish", "dog"]


def test_a_separator_can_be_insisted_on(tmp_path):
    (tmp_path / "a.csv").write_text("a;b,c;d\n1;2,3;4\n")
    assert list(read_table(tmp_path / "a.csv").columns) == ["a;b", "c;d"]
    assert list(read_table(tmp_path / "a.csv", TextForm(sep=";")).columns) == ["a", "b,c", "d"]
    (tmp_path / "b.csv").write_text("a\tb,c\n1\t2,3\n")
    assert list(read_table(tmp_path / "b.csv", TextForm(sep="tab")).columns) == ["a", "b,c"]
    with pytest.raises(DataError, match="';;' is no single character"):
        read_table(tmp_path / "a.csv", TextForm(sep=";;"))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"]
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json"])
def test_the_encoding_is_found(table, encoding, name):
    cells = ["M\u00f6we", "Pira\u00f1a", "d\u00e9j\u00e0 vu"] + ["\x81"] * (encoding == "latin-1")
    records = [{"id": str(k), "label": cell} for k, cell in enumerate(cells)]
    text = "id,label\n" + "".join(f"{r['id']},{r['label']}\n" for r in records)
    if name != "a.csv":
        lines = [json.dumps(r, ensure_ascii=False) for r in records]
        text = "\n".join(lines) if name == "a.jsonl" else f"[{','.join(lines)}]"
    assert table(text.encode(encoding), name).columns["label"] == cells


def test_an_encoding_can_be_insisted_on(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("id,label\n1,\u017babka\n".encode("cp1250"))
    assert read_table(path).columns["label"] != ["\u017babka"]
    assert read_table(path, TextForm(encoding="cp1250")).columns["label"] == ["\u017babka"]
    with pytest.raises(DataError, match="not ascii text; save it as UTF-8, or say its encoding"):
        read_table(path, TextForm(encoding="ascii"))
    with pytest.raises(DataError, match="unknown encoding"):
        read_table(path, TextForm(encoding="klingon"))


def test_texts_stored_as_bytes_are_texts(tmp_path):
    np.savez(tmp_path / "a.npz", labels=np.array([b"cat|dog", b"dog"]), kind=np.array(["ä".encode(), b"b"]))
    found = read_table(tmp_path / "a.npz")
    assert found.candidates("labels").sets() == [["cat", "dog"], ["dog"]]
    assert TableEncoder.fit(found, without=["labels"]).feature_names == ["kind=b", "kind=ä"]


def test_a_column_that_is_kept_is_not_lost_to_a_probability_of_that_name():
    ones = np.ones(1)
    classes, none = np.array(["a", "b"]), np.zeros(1, dtype=bool)
    part = Predicted(
        0, classes, np.zeros(1, dtype=int), ones, none, np.array([[1.0, 0.0]]), kept={"p(a)": [7]}
    )
    with pytest.raises(DataError, match=r'"p\(a\)" cannot be kept'):
        part.columns(text=True)
