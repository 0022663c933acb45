"""Rows and candidates from one file or two: matched by id, by number, by order, or refused with names."""

import numpy as np
import pytest
from PIL import Image

from oneof.app.fit.outcome import shown_columns
from oneof.app.fit.training_data import from_images, from_table
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.questions import QuestionError
from oneof.tables.candidate_files import save_annotations, save_candidates
from oneof.tables.errors import DataError
from oneof.tables.importers.answers import from_answers

SETS = [["cat", "dog"], ["dog"], ["bird", "cat"], ["bird"]]
IDS = ("p", "q", "r", "s")
LABELS = (",cat|dog", ",bird")
SEEN = ("cat|dog", "dog|owl")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_features(path, ids=IDS, extra=""):
    lines = ["name,size,colour" + (",labels" if extra else "")]
    lines += [
        f"{name},{k / 7},{'red' if k % 2 else 'blue'}{extra and extra[k % 2]}" for k, name in enumerate(ids)
    ]
    path.write_text("\n".join(lines) + "\n")


def write_sets(path, ids=IDS, answers=None):
    save_annotations(Annotations(Candidates.from_sets(SETS), ids, answers), path)


def test_a_column_of_the_table(here):
    write_features(here / "t.csv", extra=LABELS)
    data = from_table(here / "t.csv", "labels", "name")
    assert data.ids == IDS
    assert data.candidates.sets() == [["cat", "dog"], ["bird"]] * 2
    x, encoder = data.inputs(np.arange(4))
    assert encoder.column_names == ["size", "colour"]
    assert x.shape == (4, 3)
    assert shown_columns(data.table, encoder)["colour"] == ["blue", "red", "blue", "red"]


@pytest.mark.parametrize("column", ["name", None])
def test_a_file_matched_by_ids_in_another_order(here, column):
    write_features(here / "t.csv", IDS[::-1])
    answers = Answers(np.array([0, 3]), np.array([0, 1]), np.array([1, 0]), ("ann", "bob"))
    write_sets(here / "c.npz", answers=answers)
    data = from_table(here / "t.csv", "c.npz", column)
    assert data.ids == IDS[::-1]
    assert data.candidates.sets() == SETS[::-1]
    assert data.taken == ["name"]
    assert data.answers.of(3) == {"ann": [1]}
    assert data.answers.of(0) == {"bob": [0]}


@pytest.mark.parametrize("column", ["task", None])
def test_numbered_tasks_in_another_order_keep_their_labels(here, column):
    """Those of a source that has them; sets of an array without ids are in the order of the table."""

    def fitted(tasks, rows, **more):
        made = from_answers(tasks, None, [SETS[i][0] for i in tasks]) if tasks else Annotations(PLAIN)
        save_annotations(made, here / "c.npz")
        (here / "t.csv").write_text("task,size\n" + "".join(f"{i},0.{i}\n" for i in rows))
        data = from_table(here / "t.csv", "c.npz", column, **more)
        return data, [said for (said,) in data.candidates.sets()]

    firsts = [labels[0] for labels in SETS]
    PLAIN = Candidates.from_sets([labels[:1] for labels in SETS])
    for rows in ([3, 1, 2, 0], [3, 1, 2, 0, 7, 5]):
        data, said = fitted([0, 1, 2, 3], rows)
        assert said == [firsts[i] for i in (3, 1, 2, 0)]
        assert data.ids == ("3", "1", "2", "0")
        assert data.rest_ids == tuple(map(str, rows[4:]))
        assert 'rows are matched by the column "task"' in data.notes
    data, said = fitted([1, 3], [3, 4, 2, 1])  # these might be row numbers
    assert said == [firsts[3], firsts[1]]
    with pytest.raises(DataError, match="--accept unknown-tasks" if column else "--id COLUMN"):
        fitted([0, 1, 2, 3], [3, 2, 0])
    assert fitted([], [3, 1, 2, 0])[1] == firsts


def test_ids_that_do_not_match_are_named(here):
    write_features(here / "t.csv", ("p", "q", "r", "x"))
    write_sets(here / "c.npz")
    with pytest.raises(
        DataError, match=r"1 of 4 ids of c.npz are not in .*: 's'(?s:.)*--accept unknown-tasks"
    ):
        from_table(here / "t.csv", "c.npz", "name")
    data = from_table(here / "t.csv", "c.npz", "name", accept=["unknown-tasks"])
    assert data.ids == ("p", "q", "r")
    assert data.rest_ids == ("x",)
    assert data.candidates.sets() == SETS[:3]
    assert any("1 candidate sets are about rows that" in note for note in data.notes)
    write_features(here / "t.csv", ("p", "q", "r"))
    with pytest.raises(DataError, match=r"1 of 4 ids of c.npz are not in .*: 's'"):
        from_table(here / "t.csv", "c.npz", "name")
    write_features(here / "t.csv", ("p", "q", "q", "s"))
    with pytest.raises(DataError, match=r"the id 'q' stands in row 1 and in row 2 .*\n  Keep one"):
        from_table(here / "t.csv", "c.npz", "name")
    with pytest.raises(DataError, match='no column "nome"'):
        from_table(here / "t.csv", "c.npz", "nome")


@pytest.mark.parametrize(
    ("name", "there", "ids"),
    [
        ("id", ["2", "0", "3", "1"], ("000", "001", "002", "003")),
        ("tree_id", ["2", "4", "3", "1"], ("001", "002", "003", "004")),
        ("File", ["q.png", "p.png", "r.png", "s.png"], ("P.png", "Q.png", "R.png", "S.png")),
        ("tree", ["q", "p", "r", "x"], IDS),
    ],
)
def test_two_files_with_different_ids_are_not_matched_by_their_order_unasked(here, name, there, ids):
    write_sets(here / "c.npz", ids)
    (here / "t.csv").write_text(f"size,{name}\n" + "".join(f"0.{k},{v}\n" for k, v in enumerate(there)))
    with pytest.raises(
        QuestionError, match=rf"'{ids[0]}'.*'{there[0]}'.*'{name}'(?s:.)*--accept order: .*by"
    ):
        from_table(here / "t.csv", "c.npz")
    assert from_table(here / "t.csv", "c.npz", accept=["order"]).candidates.sets() == SETS


def test_a_column_with_a_usual_name_names_the_rows_before_a_rank(here):
    write_sets(here / "c.npz", (1, 2, 3, 4))
    (here / "t.csv").write_text("rank,id,size\n2,4,.1\n1,3,.2\n4,1,.3\n3,2,.4\n")
    assert from_table(here / "t.csv", "c.npz").ids == ("4", "3", "1", "2")


def test_rows_that_stand_in_a_table_twice_count_once(here):
    (here / "t.csv").write_text("name,x,seen\np,1,a|b\nq,,b\np,1,a|b\nq,,b\nr,3,\n")
    data = from_table(here / "t.csv", "seen", "name")
    assert data.ids == ("p", "q")
    assert data.rest_ids == ("r",)
    assert any("twice, counted once: 2" in note for note in data.notes)


def test_embeddings_are_matched_by_order_or_by_row_number(here):
    x = np.arange(12.0).reshape(4, 3)
    np.save(here / "x.npy", x)
    write_sets(here / "c.npz", ids=None)
    data = from_table(here / "x.npy", "c.npz")
    assert data.ids is None
    np.testing.assert_array_equal(data.inputs(np.arange(4))[0], x)
    write_sets(here / "c.npz", ids=(2, 0, 1, 3))
    data = from_table(here / "x.npy", "c.npz")
    np.testing.assert_array_equal(data.inputs(np.arange(4))[0], x[[2, 0, 1, 3]])
    np.save(here / "x.npy", np.vstack([x, x]))
    write_sets(here / "c.npz", ids=("7", "0", "1", "3"))
    data = from_table(here / "x.npy", "c.npz")
    assert len(data) == 4
    assert any("4 of 8 rows have no candidates" in note for note in data.notes)
    np.testing.assert_array_equal(data.rest_inputs(data.inputs(np.arange(4))[1]), x[[2, 0, 1, 2]])
    assert data.rest_ids == ("2", "4", "5", "6")
    write_sets(here / "c.npz", ids=("8", "0", "1", "3"))
    with pytest.raises(DataError, match=r"8 rows, c.npz has 4 candidate sets, such as '8'.*\n.*--id COLUMN"):
        from_table(here / "x.npy", "c.npz")


def test_plain_candidates_and_wrong_files(here):
    write_features(here / "t.csv")
    save_candidates(Candidates.from_sets(SETS), here / "c.npz")
    data = from_table(here / "t.csv", "c.npz", "name")
    assert data.ids == IDS
    assert "no ids" in data.notes[0]
    (here / "raw.csv").write_text("task,worker,label\n")
    with pytest.raises(DataError, match="oneof candidates import"):
        from_table(here / "t.csv", "raw.csv")
    with pytest.raises(DataError, match=r'no column "labels".*\n.*Nor is there a file'):
        from_table(here / "t.csv", "labels")


def test_encoding_learns_from_the_training_rows_only(here):
    write_features(here / "t.csv", extra=LABELS)
    data = from_table(here / "t.csv", "labels", "name")
    _, encoder = data.inputs(np.array([0, 2]))
    assert encoder.codes[1].values == ["blue"]


def test_images(here):
    for k, name in enumerate(IDS):
        (here / "im" / "sub").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (5, 4), (50 * k, 0, 0)).save(here / "im" / "sub" / f"{name}.png")
    names = tuple(f"sub/{name}.png" for name in IDS)
    write_sets(here / "c.npz", ids=names[::-1])
    data = from_images(here / "im", "c.npz", 8)
    assert data.ids == names[::-1]
    assert data.pixels.shape == (4, 3, 8, 8)
    np.testing.assert_array_equal(data.pixels[:, 0, 0, 0], [150, 100, 50, 0])
    assert data.inputs(np.arange(4)) == (data.pixels, None)
    write_sets(here / "c.npz", ids=(*names[:3], "sub/gone.png"))
    with pytest.raises(DataError, match=r"1 of 4 ids of c.npz are not in .*im: 'sub/gone.png'"):
        from_images(here / "im", "c.npz", 8)
    write_sets(here / "c.npz", ids=None)
    assert "order of their names" in from_images(here / "im", "c.npz", 8).notes[0]
    (here / "im" / "sub" / "p.png").unlink()
    with pytest.raises(DataError, match=r"3 images, c\.npz has 4 candidate sets without ids"):
        from_images(here / "im", "c.npz", 8)


def test_images_in_an_array(here):
    x = np.zeros((4, 3, 8, 8), dtype=np.uint8)
    np.savez(here / "x.npz", x=x, sets=np.array(["cat|dog", "bird"] * 2))
    data = from_table(here / "x.npz", "sets").with_pixels()
    assert data.inputs(np.arange(4))[0].shape == x.shape
    np.savez(here / "y.npz", x=x, y=x, sets=np.array(["cat|dog", "bird"] * 2))
    with pytest.raises(DataError, match="2 arrays of images"):
        from_table(here / "y.npz", "sets").with_pixels()


def test_a_table_of_which_a_part_is_annotated_finds_its_ids(here):
    write_features(here / "t.csv", ("z", "p", "q", "r", "s"))
    write_sets(here / "c.npz")
    data = from_table(here / "t.csv", "c.npz")
    assert data.ids == IDS
    assert data.candidates.sets() == SETS
    assert data.rest_ids == ("z",)
    assert len(data.rest) == 1
    assert data.taken == ["name"]


def test_an_image_that_cannot_be_read_is_left_out_with_its_candidates(here):
    (here / "im").mkdir()
    for k, name in enumerate(IDS):
        Image.new("RGB", (5, 4), (50 * k, 0, 0)).save(here / "im" / f"{name}.png")
    (here / "im" / "q.png").write_bytes(b"no image")
    write_sets(here / "c.npz", ids=tuple(f"{name}.png" for name in IDS))
    data = from_images(here / "im", "c.npz", 8)
    assert data.ids == ("p.png", "r.png", "s.png")
    assert data.candidates.sets() == [SETS[0], *SETS[2:]]
    assert len(data.pixels) == len(data.image_files) == 3
    assert any("left out: 1" in note and "q.png" in note for note in data.notes)
    for name in ("p", "r", "s"):
        (here / "im" / f"{name}.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="none of the 4 images can be read"):
        from_images(here / "im", "c.npz", 8)


def test_columns_of_the_annotators_are_no_features_however_they_spell(here):
    answers = Answers(np.array([0, 3]), np.array([0, 1]), np.array([1, 0]), ("ann", "bob"))
    write_sets(here / "c.npz", answers=answers)
    lines = [
        "name,size,ann,bob,cleo",
        "p,1,CAT, dog,Cat|DOG",
        "q,2,,not sure,",
        "r,3,Bird,,bird",
        "s,4,,cat,",
    ]
    (here / "t.csv").write_text("\n".join(lines) + "\n")
    data = from_table(here / "t.csv", "c.npz", "name")
    _, encoder = data.inputs(np.arange(4))
    assert encoder.column_names == ["size"]
    assert sum("holds class names; use it with --clean" in note for note in data.notes) == 1
    for name in ("ann", "bob"):  # trusting noisy answers is not offered
        assert (
            f'left out: column "{name}" holds an annotator\'s answers, as --ignore {name} would do'
            in data.notes
        )


def test_numbered_answers_of_an_annotator_are_to_be_ignored_not_trusted(here):
    n = 60
    rows, given = np.arange(n), np.arange(n) % 3
    answers = Answers(rows, np.zeros(n, dtype=np.int64), given, ("ann",))
    mask = np.eye(3, dtype=bool)[given] | np.eye(3, dtype=bool)[(given + 1 + rows // 3 % 2) % 3]
    sets = Candidates.from_mask(mask, ["0", "1", "2"])
    save_annotations(Annotations(sets, tuple(f"r{i}" for i in rows), answers), here / "c.npz")
    lines = [f"r{i},{i * i % 7}.5,{given[i]}" for i in rows]
    (here / "t.csv").write_text("\n".join(["name,size,ann", *lines]) + "\n")
    with pytest.raises(QuestionError, match="answers of an annotator") as caught:
        from_table(here / "t.csv", "c.npz", "name").inputs(rows)
    assert "--ignore ann" in str(caught.value)
    assert "--clean" not in str(caught.value)
    _, encoder = from_table(here / "t.csv", "c.npz", "name").inputs(rows, taken=["ann"])
    assert encoder.column_names == ["size"]


def test_a_line_per_answer_is_told_how_to_become_a_line_per_row(here):
    write_features(here / "t.csv", ("p", "p", "q", "r"), extra=LABELS)
    with pytest.raises(DataError, match=r"'p' stands in row 0 and in row 1[^`]+`oneof candidates import`"):
        from_table(here / "t.csv", "labels", "name")


@pytest.mark.parametrize(("cell", "words"), [("inf", "is infinite"), ("abc", "is 'abc', not a number")])
def test_a_wrong_cell_is_named_by_its_row_in_the_file(here, cell, words):
    """Also where rows before it have no candidates, or are kept aside."""
    lines = [
        f"{cell if i == 20 else i % 7},{'' if i % 5 == 0 and i < 20 else SEEN[i % 2]}" for i in range(40)
    ]
    (here / "t.csv").write_text("\n".join(["size,labels", *lines]) + "\n")
    data = from_table(here / "t.csv", "labels")
    with pytest.raises(DataError, match=f'row 20 of column "size" in .*t.csv {words}'):
        data.inputs(np.arange(5, len(data)))
