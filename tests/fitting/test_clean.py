"""Trusted labels from columns, files, reviews and further rows, and which of them are kept aside."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.app.fit.clean import CleanLabels, read_all_clean, read_clean
from oneof.app.fit.training_data import TrainingData, from_table
from oneof.candidates import Candidates
from oneof.candidates.questions import QuestionError
from oneof.tables.encoding import TableEncoder
from oneof.tables.errors import DataError
from oneof.tables.reader import read_table
from oneof.tables.table import Table

SETS = [["cat", "dog"], ["dog"], ["bird", "cat"], ["bird", "dog"]]
CLASSES = ["bird", "cat", "dog"]


def rows(tmp_path, ids=("p", "q", "r", "s"), **columns):
    table = Table(tmp_path / "t.csv", {"size": [0.1, 0.2, 0.3, 0.5], **columns})
    return TrainingData("t.csv", Candidates.from_sets(SETS), table, ids=ids)


def names(clean):
    return [None if k < 0 else CLASSES[k] for k in clean.columns]


def test_a_column(tmp_path):
    clean = read_clean("gold", rows(tmp_path, gold=["cat", "", None, "cat"]))
    assert names(clean) == ["cat", None, None, "cat"]
    assert "1 trusted labels of gold are not among the candidates" in clean.notes[0]
    assert "row s, cat" in clean.notes[0]
    with pytest.raises(ValueError, match=r"clean\[1\] = 'cow' is not one of the classes"):
        read_clean("gold", rows(tmp_path, gold=["cat", "cow", None, None]))
    with pytest.raises(DataError, match="every entry is missing"):
        read_clean("gold", rows(tmp_path, gold=["", "", None, None]))


def test_several_sources_and_the_later_one_counts(tmp_path):
    data = rows(tmp_path, gold=["cat", "dog", None, None])
    (tmp_path / "more.csv").write_text("id,label\np,dog\nr,bird\n")
    assert len(read_all_clean((), data)) == 0
    assert names(read_all_clean(("gold",), data)) == ["cat", "dog", None, None]
    both = read_all_clean(("gold", str(tmp_path / "more.csv")), data)
    assert names(both) == ["dog", "dog", "bird", None]
    assert "1 trusted labels are others in" in both.notes[0]
    assert "row p, cat becomes dog" in both.notes[0]
    other_way = read_all_clean((str(tmp_path / "more.csv"), "gold"), data)
    assert names(other_way) == ["cat", "dog", "bird", None]
    (tmp_path / "further.csv").write_text("size,label\n0.4,dog\n")
    with pytest.raises(DataError, match=r"further.csv: it has further rows .* one of 2 sources"):
        read_all_clean(("gold", str(tmp_path / "further.csv")), data)


@pytest.mark.parametrize("kind", ["csv", "npz", "jsonl"])
@pytest.mark.parametrize("key", ["id", "row"])
def test_files_by_id_and_by_row(tmp_path, kind, key):
    path = tmp_path / f"gold.{kind}"
    keys = ["r", "p"] if key == "id" else [2, 0]
    if kind == "csv":
        path.write_text(f"{key},label\n{keys[0]},bird\n{keys[1]},dog\n")
    elif kind == "npz":
        np.savez(path, **{key: np.array(keys), "label": np.array(["bird", "dog"])})
    else:
        path.write_text(
            "".join(json.dumps({key: k, "label": v}) + "\n" for k, v in zip(keys, ["bird", "dog"]))
        )
    assert names(read_clean(str(path), rows(tmp_path))) == ["dog", None, "bird", None]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("ids", [None, "name"])
def test_row_numbers_are_those_of_the_table_where_some_rows_have_no_candidates(tmp_path, kind, ids):
    (tmp_path / "t.csv").write_text("name,size,labels\np,1,\nq,2,cat|dog\nr,3,\ns,4,bird|dog\n")
    data = from_table(tmp_path / "t.csv", "labels", ids)
    path = tmp_path / f"gold.{kind}"
    lines = ["row,label", "3,bird", "1,dog"]
    if kind == "jsonl":
        lines = [json.dumps({"row": row, "label": label}) for row, label in ((3, "bird"), (1, "dog"))]
    path.write_text("\n".join(lines) + "\n")
    assert names(read_clean(str(path), data)) == ["dog", "bird"]
    path.write_text(path.read_text().replace("3", "4"))
    with pytest.raises(DataError, match=r"no training row(?s:.)*0 to 3"):
        read_clean(str(path), data)
    (tmp_path / "t.csv").write_text("name,size,labels\np,1,\nq,2,cat|dog\np,1,\nr,3,\ns,4,bird|dog\n")
    data = from_table(tmp_path / "t.csv", "labels", "name")  # p stands there twice, and counts once
    assert names(read_clean(str(path), data)) == ["dog", "bird"]


def test_numbers_as_ids_however_they_are_written(tmp_path):
    (tmp_path / "gold.csv").write_text("number,label\n12,bird\n7,dog\n")
    clean = read_clean(str(tmp_path / "gold.csv"), rows(tmp_path, ids=("7", "12", "3", "4")), "number")
    assert names(clean) == ["dog", "bird", None, None]


def test_minus_one_is_a_label_where_a_class_is_called_so(tmp_path):
    data = TrainingData("t.csv", Candidates.from_sets([[-1, 1], [1, 2], [-1], [1]]))
    np.savez(tmp_path / "gold.npz", label=np.array([-1, 1, -1, 1]))
    assert read_clean(str(tmp_path / "gold.npz"), data).columns.tolist() == [0, 1, 0, 1]


def test_labels_of_other_rows_and_in_other_spellings(tmp_path):
    (tmp_path / "gold.csv").write_text("id,label\nx,cow\np,DOG\ny,cat\nr,Bird\n")
    data = rows(tmp_path)
    with pytest.raises(DataError, match=r"2 ids are no training rows(?s:.)*--accept unknown-tasks"):
        read_clean(str(tmp_path / "gold.csv"), data)
    data.accept = ["unknown-tasks"]
    with pytest.raises(
        QuestionError, match=r"'DOG' is spelled otherwise than the class 'dog' \(2 such labels"
    ):
        read_clean(str(tmp_path / "gold.csv"), data)
    data.accept = ["unknown-tasks", "alike"]
    clean = read_clean(str(tmp_path / "gold.csv"), data)
    assert names(clean) == ["dog", None, "bird", None]
    assert "2 trusted labels of" in clean.notes[0]


def test_decisions_of_a_review(tmp_path):
    lines = [
        {"row": 0, "id": "p", "label": "cat", "action": "decide", "time": "x"},
        {"row": 9, "id": "q", "label": "dog", "action": "decide", "time": "x"},
        {"row": 0, "id": "p", "label": "dog", "action": "decide", "time": "x"},
        {"row": 3, "id": "s", "label": None, "action": "skip", "time": "x"},
        {"row": 1, "id": "q", "label": None, "action": "undo", "time": "x"},
    ]
    path = tmp_path / "decisions.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"row": 2, "la')
    assert names(read_clean(str(path), rows(tmp_path))) == ["dog", None, None, None]


def test_decisions_without_ids_belong_to_their_rows(tmp_path):
    data, path = rows(tmp_path, ids=None), tmp_path / "decisions.jsonl"
    line = {"row": 0, "id": None, "label": "cat", "action": "decide", "data": data.fingerprint}
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, "row": 1, "data": "other"}) + "\n")
    clean = read_clean(str(path), data)
    assert names(clean) == ["cat", None, None, None]
    assert "1 decisions are about other data" in clean.notes[0]
    path.write_text(json.dumps({**line, "data": "other"}) + "\n")
    with pytest.raises(DataError, match=r"all 1 decisions are about other rows"):
        read_clean(str(path), data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,label\nx,cat\n", r"1 ids are no training rows: 'x'"),
        ("row,label\n4,cat\n", r"1 row numbers are no training rows: '4'.*\n.*0 to 3"),
        ("row,label\n-1,cat\n", "'-1'"),
        ("id,label\np,cat\np,dog\n", "two labels for 'p': 'cat' and 'dog'"),
        ("id,label\np,cow\n", "'cow' is not one of the classes"),
        ("id,colour,weight\np,red,3\n", "no column with trusted labels"),
        ("id,label\np,\n", "every entry is missing"),
        ("label\ncat\n", "has 1 labels, but there are 4 training rows"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    path = tmp_path / "gold.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_clean(str(path), rows(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"id": "p", "label": "cat"}\nnonsense\n{}\n', "line 2: nonsense is no decision"),
        ('{"id": "p"}\n', r'line 1: .* \(it has no "label"'),
        ('{"label": "cat"}\n', 'neither "id" nor "row"'),
        ('[1]\n{"id": "p", "label": "cat"}\n', "line 1"),
        ('{"id": "zz", "label": "cat"}\n', "'zz'"),
    ],
)
def test_wrong_lines(tmp_path, content, message):
    path = tmp_path / "gold.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_clean(str(path), rows(tmp_path))


def test_labels_without_a_name_of_their_row_are_no_further_rows(tmp_path):
    (tmp_path / "gold.csv").write_text("tree,label\np,cat\n")
    clean = read_clean(str(tmp_path / "gold.csv"), rows(tmp_path))
    with pytest.raises(DataError, match=r"gold.csv has no column that names the rows(?s:.)*\"id\""):
        clean.encode(TableEncoder.fit({"size": [0.1, 0.2, 0.3]}))


def test_ids_in_the_file_but_not_in_the_table(tmp_path):
    (tmp_path / "gold.csv").write_text("id,label\np,cat\n")
    with pytest.raises(DataError, match=r"names rows by id .*\n.*--id COLUMN"):
        read_clean(str(tmp_path / "gold.csv"), rows(tmp_path, ids=None))
    with pytest.raises(DataError, match=r"--clean gone.csv: there is no column of .*t.csv and no file"):
        read_clean("gone.csv", rows(tmp_path))


def test_one_label_per_row(tmp_path):
    np.savez(tmp_path / "gold.npz", label=np.array([1, -1, 0, -1]))
    data = TrainingData("x", Candidates.from_mask(np.ones((4, 2), dtype=bool) & [[1, 0]] * 4))
    assert read_clean(str(tmp_path / "gold.npz"), data).columns.tolist() == [1, -1, 0, -1]


def test_one_label_per_row_is_in_the_order_of_the_table(tmp_path):
    """Here the candidates name rows by number, in another order and not all of them."""
    x, path = Table(tmp_path / "x.npy", {"x": np.arange(5.0)}), tmp_path / "gold.npz"
    data = TrainingData("x.npy", Candidates.from_sets(SETS), x, np.array([2, 0, 1, 4]))
    np.savez(path, label=np.array(["cat", "dog", "bird", "cat", "dog"]))
    assert names(read_clean(str(path), data)) == ["bird", "cat", "dog", "dog"]


def test_a_wrong_label_is_named_by_its_row_in_the_table(tmp_path):
    (tmp_path / "t.csv").write_text("size,gold,labels\n1,,\n2,,cat|dog\n3,,\n4,cow,cat|bird\n")
    data = from_table(tmp_path / "t.csv", "labels")
    with pytest.raises(ValueError, match=r"clean\[3\] = 'cow' is not one of the(?s:.)*leave the cell empty"):
        read_clean("gold", data)
    (tmp_path / "gold.csv").write_text("row,label\n3,cow\n")
    with pytest.raises(ValueError, match=r"gold.csv, training row\[3\] = 'cow' is not one of"):
        read_clean(str(tmp_path / "gold.csv"), data)


def test_ids_may_be_in_a_column_called_row(tmp_path):
    (tmp_path / "t.csv").write_text("row,size,labels\np,1,cat|dog\nq,2,cat|bird\n")
    (tmp_path / "gold.csv").write_text("row,label\nq,bird\n")
    data = from_table(tmp_path / "t.csv", "labels", "row")
    assert names(read_clean(str(tmp_path / "gold.csv"), data, "row")) == [None, "bird"]


def test_labels_csv_of_a_table_without_ids_names_rows_by_number(tmp_path):
    (tmp_path / "t.csv").write_text("size,labels\n1,\n2,cat|dog\n3,cat|bird\n")
    (tmp_path / "labels.csv").write_text("row,id,label\n1,1,dog\n2,2,bird\n0,0,\n")
    data = from_table(tmp_path / "t.csv", "labels")
    assert names(read_clean(str(tmp_path / "labels.csv"), data)) == ["dog", "bird"]


def test_further_rows_bring_their_features(tmp_path):
    (tmp_path / "gold.csv").write_text("colour,size,label\nred,3.5,cat\nblue,4.5,dog\n")
    data = rows(tmp_path)
    clean = read_clean(str(tmp_path / "gold.csv"), data)
    _, encoder = data.inputs(np.arange(4))
    clean.encode(encoder)
    np.testing.assert_array_equal(clean.x, [[3.5], [4.5]])
    assert names(clean) == ["cat", "dog"]
    np.savez(tmp_path / "more.npz", X_valid=np.ones((2, 3)), y=np.array(["cat", "dog"]))
    np.save(tmp_path / "x.npy", np.zeros((4, 3)))
    data = TrainingData("x", Candidates.from_sets(SETS), read_table(tmp_path / "x.npy"))
    clean = read_clean(str(tmp_path / "more.npz"), data)
    clean.encode(data.inputs(np.arange(4))[1])
    assert clean.x.shape == (2, 3)


@pytest.mark.parametrize("ids", [None, "name"])
def test_further_rows_may_have_ids_of_their_own(tmp_path, ids):
    lines = ["name,size,labels", "p,1,", "q,2,cat|dog", "r,3,bird", "s,4,bird|dog"]
    text = "\n".join(line if ids else line.partition(",")[2] for line in lines)
    (tmp_path / "t.csv").write_text(text)
    data, gold = from_table(tmp_path / "t.csv", "labels", ids), tmp_path / "gold.csv"
    gold.write_text(f"{ids or 'id'},note,size,label\nx,a,3.5,cat\ny,b,4.5,dog\n")
    clean = read_clean(str(gold), data, ids)
    clean.encode(data.inputs(np.arange(3))[1])
    np.testing.assert_array_equal(clean.x, [[3.5], [4.5]])
    assert names(clean) == ["cat", "dog"]
    if ids:  # one of the ids is known, or there are no features: these are labels of training rows
        gold.write_text("name,size,label\nq,3.5,cat\ny,4.5,dog\n")
        with pytest.raises(DataError, match="1 ids are no training rows: 'y'"):
            read_clean(str(gold), data, ids)
        gold.write_text("name,note,label\nx,3.5,cat\ny,4.5,dog\n")
        with pytest.raises(DataError, match="2 ids are no training rows"):
            read_clean(str(gold), data, ids)


def test_ids_that_nobody_named_are_still_those_of_training_rows(tmp_path):
    (tmp_path / "t.csv").write_text("id,size,labels\nq,2,cat|dog\nr,3,bird\ns,4,bird|dog\n")
    (tmp_path / "gold.csv").write_text("id,size,label\nq,2,cat\n")
    with pytest.raises(DataError, match="--id COLUMN"):
        read_clean(str(tmp_path / "gold.csv"), from_table(tmp_path / "t.csv", "labels"))


# ---- which are learned from -------------------------------------------------------------------


@given(st.integers(1, 300), st.floats(0, 0.9), st.integers(0, 5))
def test_rows_kept_aside_are_enough_or_none(n, share, seed):
    columns = np.full(n + 10, -1)
    columns[5 : n + 5] = np.arange(n) % 3
    clean = CleanLabels(columns)
    clean.divide(True, share, seed)
    assert set(clean.aside) <= set(clean.rows)
    assert len(clean.aside) == 0 or len(clean.aside) >= 15  # 20 up to the rounding of three classes
    if n * share < 20:
        assert len(clean.aside) == 0


def test_nothing_kept_aside_is_learned_from():
    n, names = 200, ["a", "b"]
    columns = np.where(np.arange(n) < 150, np.arange(n) % 2, -1)
    clean = CleanLabels(columns)
    clean.divide(learns=True, share=0.2, seed=0)
    assert len(clean.aside) == 30
    assert clean.left_out.tolist() == clean.checked.tolist() == clean.aside.tolist()
    rows = np.setdiff1d(np.arange(n), clean.left_out)
    given_labels = clean.argument(names, rows)
    assert len(given_labels) == len(rows) == 170
    assert sum(v is not None for v in given_labels) == 120
    assert len(clean.trusted) == 150
    # a method that learns from no clean row: all of them are checked, and leave training as clean rows
    clean.divide(learns=False, share=0.2, seed=0)
    assert len(clean.aside) == len(clean.checked) == 150
    assert len(clean.left_out) == 0
    assert "all are checked" in clean.sentence()
    few = CleanLabels(columns)
    few.divide(learns=True, share=0.1, seed=0)
    assert "too few" in few.sentence()
    assert CleanLabels(np.full(n, -1)).argument(names, np.arange(n)) is None


def test_further_rows_are_divided_as_well(tmp_path):
    clean = CleanLabels(np.arange(120) % 3, further=Table(tmp_path / "f.csv", {"x": list(range(120))}))
    clean.divide(learns=True, share=0.2, seed=0)
    clean.x = np.arange(120.0)[:, None]
    x, labels = clean.argument(["a", "b", "c"], np.arange(9))
    assert len(x) == len(labels) == 96
    assert not set(x[:, 0].astype(int)) & set(clean.aside.tolist())
    assert len(clean.left_out) == len(clean.checked) == len(clean.trusted) == 0
