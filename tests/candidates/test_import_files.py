"""`import_file`: every format from a file, and what is said about bad ones."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof import Candidates
from oneof.app.cli import main
from oneof.candidates.annotations import Annotations, Answers
from oneof.datasets import DataError
from oneof.tables.candidate_files import load_annotations, save_annotations
from oneof.tables.importers.column_names import ID, column
from oneof.tables.importers.files import FORMATS, import_file
from oneof.tables.importers.options import ImportOptions
from tests.data.official import partial_label_table, write_mat

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

CROWD = "task,worker,label\na,ann,cat\na,bob,dog\nb,ann,dog\n"
STUDIO = [
    {
        "id": 1,
        "annotations": [
            {
                "completed_by": 3,
                "result": [{"type": "choices", "from_name": "k", "value": {"choices": ["cat"]}}],
            }
        ],
    }
]


def read(path, format, **options):
    """Files of two rows have nothing ambiguous; that they are asked about is tested in test_questions.py."""
    return import_file(path, format, ImportOptions(**{"accept": ("singletons",), **options}))


# ---- every format -----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "json"])
def test_long_tables_of_every_kind(tmp_path, file, ending):
    rows = [line.split(",") for line in CROWD.splitlines()]
    records = [dict(zip(rows[0], row)) for row in rows[1:]]
    path = tmp_path / f"answers.{ending}"
    if ending == "parquet":
        pl.DataFrame(records).write_parquet(path)
    elif ending == "jsonl":
        file(path.name, "\n".join(json.dumps(r) for r in records) + "\n\n")
    elif ending == "json":
        file(path.name, records)
    else:
        file(path.name, CROWD.replace(",", "\t") if ending == "tsv" else "\ufeff" + CROWD + "\n")
    made = read(path, "crowd")
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.ids == ("a", "b")
    assert made.answers.of(0) == {"ann": [0], "bob": [1]}
    assert made.candidates.provenance["file"] == path.name
    assert len(made.candidates.provenance["sha256"]) == 64


def test_columns_are_guessed_or_named(file):
    path = file("a.csv", "Item,Rater,Answer,when\nx,1,cat|dog,9\ny,2,dog,9\n")
    assert read(path, "crowd").candidates.sets() == [["cat", "dog"], ["dog"]]
    path = file("b.csv", "was,wer,was ist es\nx,1,cat\ny,2,dog\n")
    made = read(path, "crowd", task="was", worker="wer", label="was ist es")
    assert made.answers.workers == ("1", "2")
    bare = file("c.csv", "x,1,cat\nx,2,dog\n")
    made = read(bare, "crowd", header=False, task="0", worker="1", label="2")
    assert made.answers.of(0) == {"1": [0], "2": [1]}
    made = read(path, "crowd", task="was", label="was ist es")
    assert not made.answers.named
    assert "no column names the annotators" in made.describe()


def test_ids_and_rows_and_classes_from_files(file):
    path = file("a.csv", "task,label\n2,0\n0,1\n")
    ids = file("ids.txt", "0\n1\n2\n")
    names = file("names.json", ["cat", "dog"])
    made = read(path, "crowd", ids=str(ids), missing="drop", classes=(str(names),))
    assert made.candidates.sets() == [["dog"], ["cat"]]
    assert made.ids == ("0", "2")
    table = file("items.csv", "id,url\n2,x\n0,y\n")
    assert read(path, "crowd", ids=str(table)).candidates.sets() == [["0"], ["1"]]
    assert read(path, "crowd", n_rows=3, missing="all").ids is None
    assert read(path, "crowd", classes=("cat", "dog")).candidates.classes == ("cat", "dog")
    with pytest.raises(DataError, match=r"no file nowhere.txt with ids"):
        read(path, "crowd", ids="nowhere.txt")


@pytest.mark.parametrize(("option", "lines"), [("classes", "cat\ndog\n"), ("ids", "2\n0\n")])
def test_a_list_of_names_does_not_lose_its_first_line_as_a_header(file, option, lines):
    path = file("a.csv", "task,label\n2,0\n0,1\n")

    def made(name, text):
        given = str(file(name, text))
        return read(path, "crowd", **{option: (given,) if option == "classes" else given})

    expected = made("names.txt", lines)
    for header in (option, "id", "Class name", "labels"):
        assert made("names.csv", f"{header}\n{lines}") == expected
    with pytest.raises(DataError, match=r"names.csv: is its first line, '(cat|2)', the header(?s:.)*a .txt"):
        made("names.csv", lines)


def test_wide(file, tmp_path):
    path = file("w.csv", "image,ann,bob,note\n1.png,cat,cat|dog,x\n2.png,,dog,y\n")
    made = read(path, "wide", annotators=("ann", "bob"))
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.ids == ("1.png", "2.png")
    frame = pl.DataFrame({"id": [5, 6], "ann": [["cat"], ["dog", "cat"]], "bob": [None, ["dog"]]})
    frame.write_parquet(tmp_path / "w.parquet")
    made = read(tmp_path / "w.parquet", "wide", rule="vaguest")
    assert made.candidates.sets() == [["cat"], ["cat", "dog"]]
    assert made.ids == (5, 6)
    np.savez(tmp_path / "w.npz", labels=np.array([[0, 1], [1, -1]]), other=np.zeros(3))
    assert read(tmp_path / "w.npz", "wide", array="labels").candidates.sets() == [[0, 1], [1]]
    assert "annotators are the columns 'ann', 'bob'" in made.describe()
    with pytest.raises(DataError, match=r"which array \(--array\)\? It has 'labels', 'other'"):
        read(tmp_path / "w.npz", "wide")
    with pytest.raises(DataError, match='no column "cyd"'):
        read(path, "wide", annotators=("cyd",))


def test_the_row_numbers_of_a_data_frame_are_no_annotator(file):
    made = read(file("a.csv", ",ann,bob\n0,cat,dog\n1,dog,dog\n2,,cat\n"), "wide")
    assert made.answers.workers == ("ann", "bob")
    assert made.candidates.sets() == [["cat", "dog"], ["dog"], ["cat"]]


def test_wide_with_features_asks_for_the_annotators(file):
    path = file(
        "w.csv", "tree,size,ann,bob\n" + "".join(f"t{i},{i},oak,{'Oak' if i else 'ash'}\n" for i in range(12))
    )
    with pytest.raises(DataError, match=r"'tree', 'size', 'ann', 'bob'.*--annotators"):
        read(path, "wide")
    with pytest.raises(DataError, match="alike") as told:
        read(path, "wide", id="tree", annotators=("ann", "bob"))
    assert "--annotators" not in str(told.value)


def test_label_studio_and_records(file):
    assert read(file("s.json", STUDIO), "label-studio").candidates.sets() == [["cat"]]
    lines = [{"id": 1, "labels": ["cat", "dog"]}, {"id": 2, "labels": ["a|b"]}]
    made = read(file("r.jsonl", "\n".join(map(json.dumps, lines))), "records")
    assert made.candidates.sets() == [["cat", "dog"], ["a|b"]]
    assert made.ids == (1, 2)
    made = read(file("r.csv", "name,labels\nx,cat|dog\ny,cat\n"), "records")
    assert made.candidates.sets() == [["cat", "dog"], ["cat"]]


def test_what_is_unusual_about_a_label_studio_file_is_told(file):
    cancelled = {**STUDIO[0]["annotations"][0], "was_cancelled": True}
    tasks = [{**STUDIO[0], "annotations": [*STUDIO[0]["annotations"], cancelled]}]
    told = read(file("s.json", json.dumps(tasks).encode("utf-16")), "label-studio").describe()
    assert "s.json: read as utf-16" in told
    assert "cancelled annotations, left out: 1" in told


def test_scores_counts_sets(file, tmp_path):
    path = file("s.csv", "id,cat,dog\nx,0.9,0.1\ny,0.5,0.5\n")
    made = read(path, "scores", threshold=0.3)
    assert made.candidates.sets() == [["cat"], ["cat", "dog"]]
    assert made.ids == ("x", "y")
    np.save(tmp_path / "s.npy", np.array([[1.0, 0.0], [0.2, 0.8]], dtype=np.float16))
    assert read(tmp_path / "s.npy", "scores", top_p=0.9, classes=("cat", "dog")).candidates.sets() == [
        ["cat"],
        ["cat", "dog"],
    ]
    np.savez(tmp_path / "s.npz", scores=np.eye(2), classes=np.array(["cat", "dog"]))
    assert read(tmp_path / "s.npz", "scores", top_k=1).candidates.sets() == [["cat"], ["dog"]]
    path = file("c.csv", "3,0\n1,2\n")
    assert read(path, "counts", header=False).candidates.sets() == [[0], [0, 1]]
    assert read(path, "counts", header=False, rule="share", at_least=0.5).candidates.sets() == [[0], [1]]
    assert read(file("i.csv", "id,cat,dog\nx,1,0\ny,0,2\n"), "counts").ids == ("x", "y")
    path = file("p.csv", "cat,dog\n1,1\n0,1\n")
    assert read(path, "sets", level=0.9).candidates.provenance["settings"] == {"level": 0.9}
    with pytest.raises(DataError, match="needs --level"):
        read(path, "sets")


@pytest.mark.parametrize("name", ["id", "ids"])
@pytest.mark.parametrize("array", [None, "scores"])
def test_ids_beside_the_scores_of_an_npz_file_name_the_rows(tmp_path, name, array):
    np.savez(tmp_path / "s.npz", scores=np.eye(2), **{name: np.array(["b.png", "a.png"])})
    assert read(tmp_path / "s.npz", "scores", top_k=1, array=array).ids == ("b.png", "a.png")


def test_ids_of_an_npz_file_under_another_name(tmp_path):
    np.savez(tmp_path / "w.npz", labels=np.array([[0, 1], [1, -1]]), image=np.array([7, 5]))
    assert read(tmp_path / "w.npz", "wide", id="image").ids == (7, 5)
    with pytest.raises(DataError, match="no array 'file' with ids; it has 'labels', 'image'"):
        read(tmp_path / "w.npz", "wide", id="file")
    np.savez(tmp_path / "s.npz", scores=np.eye(2), ids=np.arange(3))
    with pytest.raises(DataError, match="3 ids for 2 rows"):
        read(tmp_path / "s.npz", "scores", top_k=1)


@pytest.mark.parametrize("name", ["image", ""])
@pytest.mark.parametrize("written", ["{}", "IMG_{}.jpg"])
def test_ids_beside_scores_do_not_become_a_class(tmp_path, name, written):
    path = tmp_path / "s.csv"
    lines = [f"{written.format(100 + 7 * i)},0.{i % 7 + 1},0.2" for i in range(30)]
    path.write_text("\n".join([f"{name},cat,dog", *lines]))
    with pytest.raises(DataError, match=f'first column, "{name}", such as .*100.*, ids of rows(?s:.)*--id'):
        read(path, "scores", top_k=1)
    made = read(path, "scores", top_k=1, id=name)
    assert made.candidates.classes == ("cat", "dog")
    assert str(made.ids[2]) == written.format(114)


def test_complementary_and_taxonomy(file):
    path = file("n.csv", "id,label\nx,cat\ny,dog|cow\n")
    made = read(path, "complementary", classes=("cat", "dog", "cow"))
    assert made.candidates.sets() == [["dog", "cow"], ["cat"]]
    assert not made.candidates.truth_may_be_outside
    noisy = read(path, "complementary", classes=("cat", "dog", "cow"), truth_inside=False)
    assert noisy.candidates.truth_may_be_outside
    tree = file("tree.csv", "parent,child\n,animal\nanimal,bird\nbird,robin\nbird,owl\nanimal,cat\n")
    path = file("t.csv", "id,label\nx,bird\ny,cat\n")
    assert read(path, "taxonomy", taxonomy=tree).candidates.sets() == [["owl", "robin"], ["cat"]]
    crowd = file("a.csv", "task,worker,label\n0,ann,bird\n0,bob,cat\n1,ann,owl\n")
    made = read(crowd, "crowd", taxonomy=tree, rule="vaguest")
    assert made.candidates.sets() == [["owl", "robin"], ["owl"]]
    with pytest.raises(DataError, match=r"line 3, row 1, column .*'brid'.*Did you mean 'bird'"):
        read(file("b.csv", "task,label\n0,bird\n1,brid\n"), "crowd", taxonomy=tree)
    with pytest.raises(DataError, match="needs --taxonomy"):
        read(path, "taxonomy")


def test_mat(tmp_path):
    x, mask, truth = partial_label_table(20, 3, 5)
    made = read(write_mat(tmp_path / "a.mat", x, mask, truth), "mat")
    assert np.array_equal(made.candidates.mask, mask)
    assert np.array_equal(made.candidates.truth, truth)
    assert made.candidates.provenance["format"] == "mat"
    assert not made.candidates.truth_may_be_outside
    unknown = read(write_mat(tmp_path / "b.mat", x, mask, truth, target=None), "mat")
    assert unknown.candidates.truth_may_be_outside


# ---- bad files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "format", "message"),
    [
        ("a.csv", "", "crowd", "is empty"),
        ("a.csv", "task,worker,label\n", "crowd", "header but no rows"),
        ("a.csv", "a,b\n1,2\n", "crowd", "which column holds the task.*columns 'a', 'b'.*--task"),
        ("a.csv", "task,b\n1,2\n", "crowd", "which column holds the label"),
        ("a.csv", "task,task,label\n1,2,3\n", "crowd", 'line 1: two columns are called "task"'),
        ("a.csv", "task,worker,label\n1,2\n", "crowd", r"\(line 2\) has 2 cells, the header has 3"),
        (
            "a.csv",
            'task,label\n\n0,cat\n"1\n",\n',
            "crowd",
            r'line 4, row 1, column "label": the label is empty',
        ),
        ("a.csv", "task,label\n0,cat\n,dog\n", "crowd", 'line 3, row 1, column "task"'),
        ("a.csv", "task,label\n0,cat\n1,['a' 'b']\n", "crowd", "line 3, row 1.*looks like a list"),
        (
            "a.csv",
            "task,worker,label\n0,1,M\u00f6we\n1,2,".encode() + b"caf\xe9\n",
            "crowd",
            r"line 3, column 3: b'\\xe9' is not UTF-8",
        ),
        ("a.csv", "task,label\n0,cat\n".encode("utf-16")[:-1], "crowd", "not utf-16.* text"),
        ("a.csv", 'task,label\n0,"cat\n', "crowd", "line 2: not a readable table"),
        ("a.txt", "x", "crowd", r"ends in '.txt'; a table is one of .csv"),
        ("a.parquet", b"PAR1", "crowd", "not a readable Parquet"),
        ("a.jsonl", '{"task": 1, "label": "a"}\n{"task": 2,\n', "crowd", "line 2: .*no JSON object"),
        ("a.jsonl", "[1]\n", "crowd", "line 1: .* is no JSON object"),
        ("a.jsonl", "\n", "crowd", "has no rows"),
        ("a.jsonl", '{"task": "M\u00f6we'.encode() + b'\xff"}', "crowd", "line 1: .*not UTF-8"),
        ("a.jsonl", '{"task": 1, "label": "a"}\n\n{"task": 2}\n', "crowd", r'line 3, row 1, column "label"'),
        ("a.jsonl", '{"task": 1, "label": "a"}\n{"task": 2, "label": 2}\n', "crowd", "line 2.*is a number"),
        (
            "a.jsonl",
            '{"id": 1, "labels": ["a"]}\n{"id": 1, "labels": ["b"]}\n',
            "records",
            "2 rows have '1' in",
        ),
        ("a.csv", "name,ann,bob\nx,a,b\nx,b,c\n", "wide", 'in column "name".*--id.*--format crowd'),
        ("a.json", "{", "label-studio", "not JSON"),
        ("a.jsonl", b'{"id": [], "label": "cat"}', "records", r"id of row 0 is \[\]; give a text"),
        ("a.json", '["M\u00f6we'.encode() + b'\xff"]', "label-studio", "line 1: .*not UTF-8"),
        ("a.json", "{}", "label-studio", "list of tasks"),
        (
            "a.csv",
            "cat,dog\n1,x\n",
            "scores",
            r'line 2, row 0, column "dog": the cell is \'x\', not a number',
        ),
        ("a.csv", "cat,dog\n1,\n", "scores", 'line 2, row 0, column "dog": the cell is empty'),
        ("a.csv", "cat,dog\n1,nan\n", "scores", "line 2, row 0, column 'dog': nan is not a finite"),
        ("a.csv", "cat,dog\n1,2\n0,-1\n", "counts", "line 3, row 1, column 'dog': -1 is no count"),
        (
            "a.jsonl",
            '{"x": 1}\n{"scores": {"a": 0.5}}',
            "scores",
            "line 1, row 0: None are no scores by class",
        ),
        ("a.csv", "0.9,0.1\n0.2,0.8\n", "scores", "first row: '0.9', '0.1'.*--no-header"),
        ("a.npy", b"\x93NUMPY nonsense", "scores", "not a readable npy file"),
        ("a.mat", b"nonsense", "mat", "not a readable MATLAB file"),
        ("a.csv", "id,ann,bob\n1,cat,dog\n2,,\n", "wide", "1 of 2 rows have no answer"),
        ("a.csv", "id,label\n1,cat\n2,\n", "complementary", "1 of 2 rows have no answer"),
    ],
)
def test_bad_files_say_what_and_where(file, tmp_path, name, content, format, message, capsys):
    path = file(name, content)
    options = {"threshold": 0.1} if format == "scores" else {}
    with pytest.raises(DataError, match=f"(?s){message}"):
        read(path, format, **options)
    out = tmp_path / "out.npz"
    extra = ["--threshold", "0.1"] if format == "scores" else []
    with pytest.raises(SystemExit) as end:
        main(["candidates", "import", str(path), "--format", format, "--out", str(out), *extra])
    assert end.value.code == 1
    assert not out.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]
    assert capsys.readouterr().err.startswith("oneof: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["cat", "dog", "", "1"]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "task", "worker", "label", "labels", "annotations", "result", "type"]),
            inside,
            max_size=4,
        )
    ),
    max_leaves=12,
)
CELLS = st.sampled_from(
    ["task", "label", "id", "cat", "cat|dog", "[", "0.5", "nan", "-1", "", '"', "é", "\x00"]
)
TEXT = st.lists(st.lists(CELLS, max_size=4).map(",".join), max_size=4).map("\n".join)


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(FORMATS)),
    st.one_of(
        st.tuples(st.just("csv"), TEXT.map(str.encode)),
        st.tuples(st.just("json"), JSON.map(lambda value: json.dumps(value).encode())),
        st.tuples(
            st.just("jsonl"), st.lists(JSON, max_size=3).map(lambda v: "\n".join(map(json.dumps, v)).encode())
        ),
        st.tuples(
            st.sampled_from(["csv", "jsonl", "json", "npz", "npy", "parquet", "mat"]), st.binary(max_size=60)
        ),
    ),
)
def test_whatever_the_file_holds_the_answer_is_a_result_or_a_message(tmp_path_factory, format, content):
    ending, data = content
    path = tmp_path_factory.mktemp("fuzz") / f"a.{ending}"
    path.write_bytes(data)
    options = {"scores": {"top_k": 1}, "sets": {"level": 0.9}}.get(format, {})
    try:
        made = read(path, format, **options)
    except DataError:
        return
    assert made.candidates.mask.any(axis=1).all()
    made.describe()


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_what_is_written_beside_the_sets_is_checked_too(tmp_path, ending):
    """Parquet files have no checksums: a changed bit was another true label."""
    answers = Answers(np.array([0, 1]), np.array([0, 1]), np.array([0, 1]), ("ann", "bob"))
    mask = np.array([[True, True, False], [False, True, True]])
    sets = Candidates.from_mask(mask, ("ant", "bee", "cow"), truth=np.array([0, 2]))
    path = tmp_path / f"a.{ending}"
    made = Annotations(sets, ("x", "y"), answers)
    save_annotations(made, path)
    assert load_annotations(path).candidates == sets
    whole = path.read_bytes()
    for place in range(0, len(whole), 17):  # benchmarks/campaign tries many more
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            again = load_annotations(path)
        except DataError:
            continue
        assert again.candidates == sets, place
        assert again.ids == made.ids, place
        assert np.array_equal(again.answers.label, answers.label), place
        assert again.candidates.truth_may_be_outside == sets.truth_may_be_outside, place


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="without pickles"):
        read(tmp_path / "a.npy", "scores", top_k=1)


@pytest.mark.parametrize("format", FORMATS)
def test_options_of_other_formats_are_refused(file, format):
    taken = FORMATS[format][1]
    for name, value in {"top_k": 2, "control": "x", "n_rows": 3, "level": 0.5, "skip_empty": True}.items():
        if name not in taken:
            with pytest.raises(
                DataError, match=f"--{name.replace('_', '-')} has no meaning for the format {format}"
            ):
                read(file("a.csv", CROWD), format, **{name: value})


def test_unknown_things(file, tmp_path):
    with pytest.raises(DataError, match="no format 'crowds'"):
        read(file("a.csv", CROWD), "crowds")
    with pytest.raises(DataError, match="there is no file"):
        read(tmp_path / "none.csv", "crowd")


# ---- all of it ----------------------------------------------------------------------------------


def test_many_lines(tmp_path):
    rng = np.random.default_rng(0)
    n, path = 250_000, tmp_path / "many.csv"
    task, worker, label = (rng.integers(k, size=n) for k in (40_000, 2_000, 12))
    with open(path, "w") as out:
        out.write("task,worker,label\n")
        out.writelines(f"{t},w{w},c{k}\n" for t, w, k in zip(task, worker, label))
    made = read(path, "crowd", n_rows=40_000, missing="drop")
    repeated = n - len(np.unique((task * 2_000 + worker) * 12 + label))
    assert len(made.answers) == n - repeated
    assert np.array_equal(made.ids, np.unique(task))
    i = 77
    mine = task == made.ids[i]
    assert made.candidates.sets()[i] == sorted({f"c{k}" for k in label[mine]})


def test_an_import_that_stops_leaves_no_trace_in_the_process(tmp_path):
    before = csv.field_size_limit()
    (tmp_path / "x.csv").write_text("task,worker,label\n1,a,cat\n2,b\n3,c,dog\n")
    kept = []
    try:
        import_file(tmp_path / "x.csv", "crowd", ImportOptions())
    except DataError as error:
        kept.append(error)  # and with it everything on its way
    assert kept
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("name", ["task_id", "Task ID", "task-id", " TASK_ID "])
def test_usual_names_of_columns_are_known_however_they_are_written(name):
    assert column({"x": [], name: []}, None, ID, Path("t.csv")) == name


@pytest.mark.parametrize("name", ["file_name", "tree_id", "UUID"])
def test_a_column_that_names_the_rows_is_found_by_its_name(tmp_path, name):
    (tmp_path / "a.csv").write_text(f"note,{name},label\n,q,cat|dog\n,p,dog\n")
    made = import_file(tmp_path / "a.csv", "records")
    assert made.ids == ("q", "p")
    if name == "tree_id":  # an annotator's, perhaps
        (tmp_path / "a.csv").write_text("user_id,label\nann,cat|dog\nann,dog\n")
        assert import_file(tmp_path / "a.csv", "records").ids is None


def test_columns_that_are_not_read_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("task,worker,label,sure,\n1,ann,cat,0.9,\n1,bob,dog,0.1,\n")
    made = import_file(tmp_path / "a.csv", "crowd")
    assert made.candidates.provenance["notes"] == ["columns that are not read: 'sure'"]


def test_nearly_equal_names_of_rows_and_annotators_are_told_of(tmp_path):
    (tmp_path / "a.csv").write_text("task,worker,label\nT1,ann,cat\nt1,Ann,dog\nT1,b,dog\n")
    notes = import_file(tmp_path / "a.csv", "crowd").candidates.provenance["notes"]
    assert notes == [
        f"{what}, not taken for one: {names}"
        for what, names in (
            ("rows of nearly the same name", "'T1', 't1'"),
            ("annotators of nearly the same name", "'Ann', 'ann'"),
        )
    ]


def test_what_excel_writes_around_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("sep=;\ntask;worker;label\n1;ann;cat\n1;bob;dog\n")
    with pytest.raises(DataError, match=r"a.csv, line 1: 'sep=;' tells Excel the separator. Remove"):
        import_file(tmp_path / "a.csv", "crowd")
    (tmp_path / "a.csv").write_text("task,worker,label,,\n1,ann,cat,,\n1,bob,dog,,\n")
    with pytest.raises(DataError, match=r'line 1: two columns are called "".\n  Rename or remove one'):
        import_file(tmp_path / "a.csv", "crowd")


@pytest.mark.parametrize("ids", [("x1", "x2", "x3"), ("0", "1", "2")])
def test_true_labels_of_a_table_are_matched_by_their_ids(tmp_path, ids):
    a, b, c = ids
    (tmp_path / "sets.csv").write_text(f"id,label\n{a},cat|dog\n{b},dog\n{c},cat\n")
    (tmp_path / "truth.csv").write_text(f"id,truth\n{c},cat\n{a},dog\n")
    made = import_file(tmp_path / "sets.csv", "records", ImportOptions(truth=str(tmp_path / "truth.csv")))
    assert made.candidates.truth.tolist() == [1, -1, 0]
    (tmp_path / "truth.csv").write_text("id,truth\nq,cat\nr,dog\n")
    with pytest.raises(DataError, match="its ids, 'q', 'r', are not those of the rows"):
        import_file(tmp_path / "sets.csv", "records", ImportOptions(truth=str(tmp_path / "truth.csv")))
    with pytest.raises(DataError, match=r"no file .*none with true labels"):
        import_file(tmp_path / "sets.csv", "records", ImportOptions(truth=str(tmp_path / "none")))


def test_names_of_classes_and_of_a_taxonomy_are_never_split(tmp_path):
    (tmp_path / "a.csv").write_text("id,label\n1,TV\n2,radio\n3,TV/radio\n4,TV|radio\n5,radio;TV\n")
    (tmp_path / "tree.json").write_text('{"media": ["TV", "radio", "TV/radio"]}')
    for format, options in (
        ("records", ImportOptions(classes=("TV", "radio", "TV/radio"))),
        ("taxonomy", ImportOptions(taxonomy=tmp_path / "tree.json")),
    ):
        made = import_file(tmp_path / "a.csv", format, options).candidates
        sets = [{"TV"}, {"radio"}, {"TV/radio"}, {"TV", "radio"}, {"TV", "radio"}]
        assert [set(some) for some in made.sets()] == sets
    (tmp_path / "a.csv").write_text('id,label\n1,"Doe, J."\n2,"Doe, J.|Roe, R."\n')
    made = import_file(tmp_path / "a.csv", "records", ImportOptions(classes=("Doe, J.", "Roe, R.")))
    assert made.candidates.sets() == [["Doe, J."], ["Doe, J.", "Roe, R."]]


def test_ids_beside_true_labels_name_no_rows_that_have_none(tmp_path):
    np.save(tmp_path / "scores.npy", np.eye(3))
    options = ImportOptions(top_k=1, truth=str(tmp_path / "truth.csv"))
    (tmp_path / "truth.csv").write_text("id,truth\n1,0\n2,1\n3,2\n")
    with pytest.raises(DataError, match="ids, '1', '2', '3', are not those of the rows, '0', '1', '2'"):
        import_file(tmp_path / "scores.npy", "scores", options)
    (tmp_path / "truth.csv").write_text("id,truth\n2,2\n0,0\n")
    assert import_file(tmp_path / "scores.npy", "scores", options).candidates.truth.tolist() == [0, -1, 2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "id,crow,jay\nr,0.9,0.1\ns,0.2,0.8\n"),
        (
            "a.jsonl",
            '{"id": "r", "p": {"crow": 0.9, "jay": 0.1}}\n{"id": "s", "p": {"crow": 0.2, "jay": 0.8}}\n',
        ),
    ],
)
def test_classes_in_an_order_of_their_own_keep_their_scores(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    options = ImportOptions(top_k=1, classes=("jay", "crow"))
    made = import_file(tmp_path / name, "scores", options).candidates
    assert made.classes == ("jay", "crow")
    assert made.sets() == [["crow"], ["jay"]]


def test_prediction_sets_may_be_written_as_true_and_false(tmp_path):
    (tmp_path / "a.csv").write_text("crow,jay\nTrue,False\nTrue,True\n")
    made = import_file(tmp_path / "a.csv", "sets", ImportOptions(level=0.9))
    assert made.candidates.sets() == [["crow"], ["crow", "jay"]]
