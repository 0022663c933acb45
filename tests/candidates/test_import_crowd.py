import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.candidates import CandidateError, Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.generate import flip_sets
from oneof.datasets import DataError
from oneof.tables.candidate_files import load_annotations, load_candidates, save_annotations, save_candidates
from oneof.tables.importers import (
    CellError,
    dawid_skene,
    from_answers,
    from_counts,
    from_records,
    from_scores,
    from_wide,
    majority,
    not_named,
    share,
)

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

LINES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["ann", "bob", "cyd"]), st.sampled_from("pqrs")),
    min_size=1,
    max_size=30,
)


def columns(lines):
    return [list(values) for values in zip(*lines)]


@given(LINES)
def test_union_of_a_long_table(lines):
    made = from_answers(*columns(lines))
    tasks = sorted({task for task, _, _ in lines})
    assert [made.id_of(i) for i in range(len(made))] == tasks
    for i, task in enumerate(tasks):
        said = [(worker, label) for t, worker, label in lines if t == task]
        assert set(made.candidates.sets()[i]) == {label for _, label in said}
        names = made.candidates.classes
        told = {(w, names[k]) for w, ks in made.answers.of(i).items() for k in ks}
        assert told == set(said)
    repeated = len(lines) - len(set(lines))
    assert any(f"counted once: {repeated}" in n for n in made.candidates.provenance["notes"]) == (
        repeated > 0
    )


@given(LINES, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_does_not_matter(lines, random):
    shuffled = random.sample(lines, len(lines))
    a, b = from_answers(*columns(lines), rule=majority), from_answers(*columns(shuffled), rule=majority)
    assert a.candidates == b.candidates
    assert a.ids == b.ids
    assert np.array_equal(a.answers.worker, b.answers.worker)


@given(LINES)
def test_numbers_and_their_text_give_the_same(lines):
    task, worker, label = columns(lines)
    as_text = from_answers([str(t) for t in task], worker, label)
    assert as_text.ids == from_answers(np.array(task), worker, np.array(label)).ids
    assert as_text.candidates == from_answers(task, worker, label).candidates


@settings(max_examples=30)
@given(LINES, st.sampled_from(["npz", "parquet"]), st.booleans())
def test_annotations_survive_a_file(tmp_path_factory, lines, ending, named):
    path = tmp_path_factory.mktemp("files") / f"answers.{ending}"
    task, worker, label = columns(lines)
    made = from_answers([f"img {t}" for t in task], worker if named else None, label)
    save_annotations(made, path)
    assert load_annotations(path) == made
    assert load_candidates(path) == made.candidates
    assert not list(path.parent.glob(".*"))


def test_wide_and_long_agree():
    wide = pd.DataFrame({"ann": ["p", None, "q"], "bob": [["p", "q"], "r", np.nan]})
    task = [0, 0, 0, 1, 2]
    worker = ["ann", "bob", "bob", "bob", "ann"]
    long = from_answers(task, worker, ["p", "p", "q", "r", "q"])
    made = from_wide(wide)
    assert made.candidates == long.candidates
    assert made.answers.of(0) == {"ann": [0], "bob": [0, 1]}


@pytest.mark.parametrize("kind", [int, np.int8, float, np.float32])
def test_an_array_of_labels_has_unnamed_answers_and_minus_one_is_nothing(kind):
    made = from_wide(np.array([[0, 1, 1], [2, -1, 2], [-1, 0, -1]], dtype=kind))
    assert made.candidates.sets() == [[0, 1], [2], [0]]
    assert not made.answers.named
    assert made.answers.of(0) == {"answer 1": [0], "answer 2": [1], "answer 3": [1]}
    assert made.answers.of(2) == {"answer 1": [0]}
    assert from_wide([[0, 1]], workers=["ann", "bob"]).answers.of(0) == {"ann": [0], "bob": [1]}


def test_lists_in_the_columns_of_data_frames_are_answers():
    cells = {"ann": [["cat", "dog"], ["dog"], None], "bob": ["cat", "cat", "dog"]}
    sets = [["cat", "dog"], ["cat", "dog"], ["dog"]]
    for frame in (pd.DataFrame, __import__("polars").DataFrame):
        table = frame(cells)
        assert from_wide(table).candidates.sets() == sets
        assert from_records(table["ann"], missing="drop").candidates.sets() == [["cat", "dog"], ["dog"]]
        made = from_answers([1, 2, 3], None, table["ann"], skip_empty=True, missing="drop")
        assert made.candidates.sets() == [["cat", "dog"], ["dog"]]


def test_fractions_and_gaps_among_numbers():
    assert from_wide(np.array([[0, np.nan], [1, -1]])).candidates.sets() == [[0], [1]]
    assert from_wide(np.array([[0, 0.5], [1, -1]])).candidates.sets() == [[0, 0.5], [-1, 1]]


def test_without_annotators_every_line_is_an_answer():
    made = from_answers([0, 0, 0, 1], None, ["a", "a", "b", "b"], rule=majority)
    assert made.candidates.sets() == [["a"], ["b"]]
    assert len(made.answers) == 4
    assert "annotators not named" in made.describe()


def test_somebody_may_name_several_labels():
    made = from_answers([0, 0, 0], ["ann", "ann", "bob"], ["a", "b", ("b", "c")], rule=share(1.0))
    assert made.candidates.sets() == [["b"]]
    assert made.answers.of(0) == {"ann": [0, 1], "bob": [1, 2]}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([0, 2, 1], "abc"), (["0", "2", "1"], "abc"), (["a", "c", "b"], "abc"), ([7, 9, 8], [7, 8, 9])],
)
def test_labels_are_names_or_numbers_of_classes(labels, classes):
    made = from_answers([0, 1, 2], None, labels, classes=list(classes))
    assert made.candidates.classes == tuple(classes)
    assert made.candidates.mask.argmax(axis=1).tolist() == [0, 2, 1]


def test_numbers_are_sorted_as_numbers():
    made = from_answers(["10", "9"], None, ["10", "9"])
    assert made.ids == (9, 10)
    assert made.candidates.classes == ("9", "10")
    assert from_answers(["007", "7"], None, ["a", "b"]).ids == ("007", "7")


def test_rows_without_an_answer():
    with pytest.raises(CandidateError, match=r"2 of 4 rows have no answer; the first is row 1 \(id 1\)"):
        from_answers([0, 2], None, ["a", "b"], n_rows=4)
    dropped = from_answers([0, 2], ["ann", "bob"], ["a", "b"], n_rows=4, missing="drop")
    assert dropped.ids == (0, 2)
    assert dropped.answers.row.tolist() == [0, 1]
    assert "rows without any answer, left out: 2 (1, 3)" in dropped.describe()
    full = from_answers([0, 2], None, ["a", "b"], n_rows=4, missing="all")
    assert full.candidates.sizes.tolist() == [1, 2, 1, 2]
    assert full.ids is None


def test_a_misspelt_wish_about_rows_without_an_answer_is_refused():
    with pytest.raises(CandidateError, match="missing = 'dorp'"):
        from_answers([0, 2], None, ["a", "b"], n_rows=4, missing="dorp")


def test_ids_give_the_order_of_the_rows():
    made = from_answers([3, 1], None, ["x", "y"], ids=["1", "3"])
    assert made.ids == ("1", "3")
    assert made.candidates.sets() == [["y"], ["x"]]


def test_one_line_is_enough():
    made = from_answers(["t"], ["w"], ["a"], rule=dawid_skene(1))
    assert made.candidates.sets() == [["a"]]
    assert "1 rows, 1 classes" in made.describe()


def test_answers_that_exclude_everything():
    with pytest.raises(CandidateError, match=r"row 0 .* has no candidate left by the rule not-named"):
        from_answers([0, 0, 1], None, ["a", "b", "a"], rule=not_named)


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], [], []), {}, "no answer at all"),
        (([0, 1], ["a", "b"], ["x"]), {}, "2 tasks and 1 labels"),
        (([0, 1], ["a"], ["x", "y"]), {}, "2 tasks and 1 workers"),
        (([0, None], ["a", "b"], ["x", "y"]), {}, r'row 1, column "task": None names no task'),
        (([0, 1], ["a", " "], ["x", "y"]), {}, r'row 1, column "worker": .* names no annotator'),
        (([0, 1], ["a", "b"], ["x", float("nan")]), {}, r'row 1, column "label": the label is empty'),
        (([0, 1], ["a", "b"], ["x", ("y", None)]), {}, r'row 1, column "label": one of the labels'),
        (
            ([0, 1], ["a", "b"], ["x", 3]),
            {},
            r'row 1, column "label": this label is a number, that of row 0 a text',
        ),
        (([0, "b"], ["a", "b"], ["x", "y"]), {}, r'row 1, column "task": this task is a text'),
        (([0, 1], ["a", 2], ["x", "y"]), {}, r'row 1, column "worker": this annotator is a number'),
        (
            ([0, 1], ["a", "b"], ["x", {"y": 1}]),
            {},
            r'row 1, column "label": .* is neither text nor a number',
        ),
        (([0, 1], ["a", "b"], ["cat", "dgo"]), {"classes": ["cat", "dog"]}, r"row 1.*Did you mean 'dog'\?"),
        (
            ([0, 1], ["a", "b"], [0, 2]),
            {"classes": ["cat", "dog"]},
            r"row 1.*label 2 is no number of a class",
        ),
        (([0, 9], ["a", "b"], [0, 2]), {"n_rows": 5}, "row 1.*task 9 is no row"),
        (([0, 9], ["a", "b"], [0, 2]), {"ids": [0, 1]}, "row 1.*9 is no known id"),
        (([0, 1], ["a", "b"], [0, 2]), {"ids": [0, 1, 1]}, "id 1 stands twice"),
        (([0, 1], ["a", "b"], [0, 2]), {"ids": [0, 1], "n_rows": 2}, "not both"),
        (([0, 1], ["a", "b"], ["", ""]), {"skip_empty": True}, "every label is empty"),
    ],
)
def test_bad_answers_are_refused(arguments, options, message):
    with pytest.raises(CandidateError, match=message):
        from_answers(*arguments, **options)


def test_unknown_settings_are_refused():
    with pytest.raises(TypeError, match="no setting 'rulle'"):
        from_answers([0], None, ["a"], rulle=majority)


def test_empty_labels_can_be_skipped():
    made = from_answers([0, 0, 1], ["a", "b", "a"], ["x", "", "y"], skip_empty=True)
    assert made.candidates.sets() == [["x"], ["y"]]
    assert "lines with an empty label, left out: 1" in made.describe()


def test_wide_errors_name_row_and_column():
    with pytest.raises(CellError, match=r'row 1, column "bob": this label is a number') as caught:
        from_wide({"ann": ["x", "y"], "bob": [None, 5]})
    assert caught.value.line == 1
    with pytest.raises(CellError, match=r'row 0, column "bob": {.y.: 1} is neither text nor a number'):
        from_wide({"ann": ["x"], "bob": [{"y": 1}]})
    with pytest.raises(CandidateError, match="3 cells"):
        from_wide({"ann": ["x", "y"], "bob": ["x", "y", "z"]})
    with pytest.raises(CandidateError, match="holds an answer"):
        from_wide({"ann": [None, ""]})
    with pytest.raises(CandidateError, match="1 of 2 rows have no answer"):
        from_wide({"ann": ["x", ""]})
    with pytest.raises(CandidateError, match="no annotator or no row"):
        from_wide({})


# ---- counts -----------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any), min_size=1, max_size=8))
def test_counts(rows):
    made = from_counts(rows, ["a", "b", "c"])
    assert np.array_equal(made.candidates.mask, np.array(rows) > 0)
    assert np.array_equal(made.answers.counts(len(rows), 3), rows)
    assert len(made.answers) == np.sum(rows)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1, -1]], "row 0, column 1: -1 is no count"),
        ([[1.0, 0.5]], "0.5 is no count"),
        ([[1, float("nan")]], "nan is not a finite number"),
        ([1, 2], "shape"),
        ([["a"]], "give numbers"),
        ([[0, 0]], "all counts are 0"),
        ([[1, 0], [0, 0]], "1 of 2 rows have no answer"),
    ],
)
def test_bad_counts_are_refused(counts, message):
    with pytest.raises(CandidateError, match=message):
        from_counts(counts)


# ---- annotations ------------------------------------------------------------------------------


def small():
    return from_answers(["a", "a", "b", "c"], ["ann", "bob", "ann", "bob"], ["x", "y", "y", "z"])


def test_taking_rows_takes_their_answers():
    part = small().take([2, 0])
    assert part.ids == ("c", "a")
    assert part.answers.of(0) == {"bob": [2]}
    assert part.answers.of(1) == {"ann": [0], "bob": [1]}
    with pytest.raises(CandidateError, match="stands for two rows"):
        small().take([0, 0])
    twice = small().candidates.take([0, 0, 2])  # a bootstrap sample
    assert [twice.answers.of(row) for row in range(3)] == [{"ann": [0], "bob": [1]}] * 2 + [{"bob": [2]}]


def test_truth_by_name():
    told = small().with_truth(["x", None, "x"])
    assert told.candidates.truth.tolist() == [0, -1, 0]
    assert "true label among the candidates: 50.00%" in told.describe()
    with pytest.raises(CandidateError, match="true label of row 1: 'w' is no known class"):
        small().with_truth(["x", "w", "x"])
    assert from_answers([0, 1], None, ["3", "4"]).with_truth(np.array([4, 4])).candidates.truth.tolist() == [
        1,
        1,
    ]


def test_truth_by_number_where_classes_have_names():
    made = from_answers([0, 1], None, ["cat", "dog"])
    assert made.with_truth([1, 1]).candidates.truth.tolist() == [1, 1]
    with pytest.raises(CandidateError, match="true label of row 1: label 2 is no number of a class"):
        made.with_truth([1, 2])


def test_huge_numbers_survive_parquet(tmp_path):
    made = from_answers([2**63 + 5, 1], None, [2**63 + 7, 3])
    save_annotations(made, tmp_path / "x.parquet")
    assert load_annotations(tmp_path / "x.parquet") == made


def test_inconsistent_annotations_are_refused():
    made = small()
    with pytest.raises(CandidateError, match="1 ids were given for 3 rows"):
        Annotations(made.candidates, ("a",))
    with pytest.raises(CandidateError, match="stands for two rows"):
        Annotations(made.candidates, ("a", "b", "a"))
    with pytest.raises(CandidateError, match="about row 7"):
        Annotations(made.candidates, None, Answers(np.array([7]), np.array([0]), np.array([0]), ("w",)))
    with pytest.raises(CandidateError, match="worker 1; there are 1"):
        Answers(np.array([0]), np.array([1]), np.array([0]), ("w",))


def test_files_that_are_not_ours(tmp_path):
    made = small()
    with pytest.raises(DataError, match=r"\.npz or \.parquet"):
        save_annotations(made, tmp_path / "x.csv")
    with pytest.raises(DataError, match="no such file"):
        load_annotations(tmp_path / "none.npz")
    pd.DataFrame({"candidates": ["a"]}).to_csv(tmp_path / "x.npz")
    with pytest.raises(DataError, match="not a readable"):
        load_annotations(tmp_path / "x.npz")
    (tmp_path / "y.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        load_annotations(tmp_path / "y.parquet")


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_candidate_files_are_annotations_without_names(tmp_path, ending):
    path = tmp_path / f"c.{ending}"
    save_candidates(small().candidates, path)
    loaded = load_annotations(path)
    assert loaded.ids is None
    assert loaded.answers == small().answers
    assert load_candidates(path).answers == small().answers
    save_candidates(small().candidates.replace(answers=None), path)
    assert load_annotations(path).answers is None


def test_settings_that_were_numpy_numbers_can_be_saved(tmp_path):
    made = from_scores([[0.5, 0.4, 0.1]], top_k=np.int64(2))
    save_annotations(made, tmp_path / "x.npz")
    assert load_annotations(tmp_path / "x.npz") == made
    drawn = flip_sets([0, 1], np.int64(3), np.float32(0.5), np.int64(1))
    save_candidates(drawn, tmp_path / "x.npz")
    assert load_candidates(tmp_path / "x.npz").provenance == drawn.provenance


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_ids_of_an_array_can_be_saved(tmp_path, ending):
    made = Annotations(small().candidates, tuple(np.array([7, 5, 6])))
    save_annotations(made, tmp_path / f"x.{ending}")
    assert load_annotations(tmp_path / f"x.{ending}").ids == (7, 5, 6)


@pytest.mark.parametrize(
    ("ids", "message"),
    [((1.5, 1, 2), "of several types"), (("a", 1, 2), "of several types"), (("a", "b", "\ud83d"), "no text")],
)
def test_what_parquet_cannot_hold_is_said(tmp_path, ids, message):
    made = Annotations(small().candidates, ids)
    with pytest.raises(DataError, match=f"cannot save x.parquet: .*{message}; save as .npz"):
        save_annotations(made, tmp_path / "x.parquet")
    save_annotations(made, tmp_path / "x.npz")
    assert load_annotations(tmp_path / "x.npz") == made
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_a_file_of_candidates_may_be_renamed_in_capitals(tmp_path):
    save_annotations(small(), tmp_path / "x.parquet")
    (tmp_path / "x.parquet").rename(tmp_path / "Y.PARQUET")
    assert load_annotations(tmp_path / "Y.PARQUET") == small()


def test_numbers_stay_numbers_in_parquet(tmp_path):
    made = from_wide(np.array([[3, 5], [5, 5]]), ids=[17, 4]).with_truth([3, None])
    save_annotations(made, tmp_path / "x.parquet")
    table = pd.DataFrame(__import__("polars").read_parquet(tmp_path / "x.parquet").to_dicts())
    assert table["candidates"].tolist() == [[3, 5], [5]]
    assert table["id"].tolist() == [17, 4]
    assert load_annotations(tmp_path / "x.parquet") == made


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), min_size=1, unique=True))
def test_what_is_told_of_answers_does_not_depend_on_their_order(said):
    def of(lines):
        row, worker, label = np.array(lines).T
        return Answers(row, worker, label, ("ann", "bob", "cid"))

    for answers in (of(said), of(sorted(said))):
        row, worker, pair = answers.groups()
        people = sorted({(r, w) for r, w, _ in said})
        assert list(zip(row.tolist(), worker.tolist())) == people
        assert row[pair].tolist() == answers.row.tolist()
        assert worker[pair].tolist() == answers.worker.tolist()
        several = [r for r in range(4) if sum(r == of_row for of_row, _ in people) > 1]
        agreed = sum(len({label for r, _, label in said if r == row}) == 1 for row in several)
        vague = sum(sum((r, w) == person for r, w, _ in said) > 1 for person in people)
        told = Annotations(Candidates.from_sets([["a", "b", "c"]] * 4), None, answers).describe()
        assert f"{len(said)} answers, {len({w for _, w, _ in said})} annotators" in told
        expected = f"{len(several) / 4:.1%}; in {agreed / max(1, len(several)):.1%} of them"
        assert (f"rows with more than one answer: {expected}" in told) == bool(several)
        assert (f"several labels for a row: {vague}\n" in told) == bool(vague)
