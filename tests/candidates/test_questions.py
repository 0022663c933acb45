"""Nothing is misread silently: what can be recognised is, everything else stops with a question."""

import json

import numpy as np
import polars as pl
import pytest

from oneof.candidates.cells import CandidateError
from oneof.candidates.questions import (
    QuestionError,
    about_classes,
    about_features,
    about_sizes,
    answered,
    ask,
    joined_labels,
    read_labels,
    scores_of,
)
from oneof.tables.errors import DataError
from oneof.tables.importers.files import import_file
from oneof.tables.importers.options import ImportOptions
from oneof.tables.reader import read_table


def sets_of(tmp_path, lines, *accept, name="a.csv", **options):
    path = tmp_path / name
    path.write_text("\n".join(lines))
    return import_file(path, "records", ImportOptions(accept=accept, **options)).candidates.sets()


# ---- several labels in one cell ---------------------------------------------------------------


@pytest.mark.parametrize("mark", ["|", ";", ",", "/", " | ", "; ", ", "])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_joined_labels_are_sets_where_their_parts_are_labels(tmp_path, mark, name):
    cells = [f"bug{mark}login", "bug", "login", f"login{mark}ui{mark}bug", "ui"]
    path = tmp_path / name
    if name == "a.parquet":
        pl.DataFrame({"labels": cells}).write_parquet(path)
    elif name == "a.jsonl":
        path.write_text("\n".join(json.dumps({"labels": cell}) for cell in cells))
    else:
        path.write_text("\n".join(["id,labels", *(f'{i},"{cell}"' for i, cell in enumerate(cells))]))
    made = import_file(path, "records").candidates
    assert made.classes == ("bug", "login", "ui")
    assert made.sets() == [["bug", "login"], ["bug"], ["login"], ["bug", "login", "ui"], ["ui"]]


def test_semicolons_between_labels_that_never_stand_alone(tmp_path):
    assert read_labels(["bug;login", "login;ui", "ui;bug"], "y") == [
        ("bug", "login"),
        ("login", "ui"),
        ("ui", "bug"),
    ]


def test_a_rare_label_does_not_hide_the_others():
    cells = ["a;b", "b;c", "c;a", "a;b;c", "a", "b;d"]
    assert read_labels(cells, "y")[-1] == ("b", "d")


@pytest.mark.parametrize("cell", ["shirt, white", "AC/DC", "red;fox", "bug,login"])
def test_a_label_with_a_separator_that_nobody_knows_is_asked_about(tmp_path, cell):
    lines = ["id,labels", f'0,"{cell}"', "1,cat|dog", "2,dog"]
    with pytest.raises(DataError) as caught:
        sets_of(tmp_path, lines)
    text = str(caught.value)
    assert "a.csv" in text
    assert repr(cell) in text
    assert "--accept sets" in text
    assert "--accept names" in text
    assert sets_of(tmp_path, lines, "names")[0] == [cell]
    assert len(sets_of(tmp_path, lines, "sets")[0]) == 2
    assert (
        read_labels([cell], "y", ["sets"])[0]
        == read_labels([cell.replace(",", ";").replace("/", ";")], "y", ["sets"])[0]
    )


def test_lists_of_a_database_and_words_in_brackets_are_asked_about(tmp_path):
    cells = ['"{cat,dog}"', "{dog}", '"(cat, owl)"', "(unclear)", "cat|(unclear)"]
    lines = ["id,labels", *(f"{i},{cell}" for i, cell in enumerate(cells))]
    with pytest.raises(DataError, match=r"2 labels with ',' inside, such as '{cat,dog}'(?s:.)*set cat\|dog"):
        sets_of(tmp_path, lines)
    split = [["cat", "dog"], ["dog"], ["cat", "owl"], ["(unclear)"], ["(unclear)", "cat"]]
    assert sets_of(tmp_path, lines, "sets") == split
    assert sets_of(tmp_path, [*lines, "6,cat", "7,dog", "8,owl"])[:5] == split
    assert sets_of(tmp_path, lines, "names")[:3] == [["{cat,dog}"], ["{dog}"], ["(cat, owl)"]]
    with pytest.raises(CandidateError, match=r"row 0.*looks like a list but cannot be read"):
        read_labels(['{"big cat",dog}'], "y")


def test_lists_are_taken_at_their_word():
    cells = ['["shirt, white", "AC/DC"]', ["a;b"], "['x, y']"]
    assert read_labels(cells, "y") == [("shirt, white", "AC/DC"), ["a;b"], "x, y"]


def test_strings_in_python_are_read_like_cells():
    assert joined_labels(["crow|raven", "crow"]) == [["crow", "raven"], ["crow"]]
    assert joined_labels(["bug;login", "bug", "login"]) == [["bug", "login"], ["bug"], ["login"]]
    assert joined_labels(["crow", "raven"]) is None
    assert joined_labels([1, 2]) is None
    assert joined_labels(["AC/DC", "Abba"]) is None  # plain labels are allowed
    with pytest.raises(QuestionError, match=r"'red;fox' one label, or several(?s:.)*'red', 'fox'"):
        joined_labels(["red;fox", "cat"])
    assert joined_labels(["red;fox", "cat"], known=["red;fox", "cat"]) is None


def test_the_column_of_a_table_is_read_in_the_same_way(tmp_path):
    (tmp_path / "t.csv").write_text("x,labels\n1,bug;login\n2,bug\n3,login\n")
    table = read_table(tmp_path / "t.csv")
    assert table.candidates("labels", ()).sets() == [["bug", "login"], ["bug"], ["login"]]
    (tmp_path / "t.csv").write_text("x,labels\n1,red;fox\n2,cat|dog\n")
    with pytest.raises(DataError, match=r't\.csv, column "labels": 1 label with .;. in(?s:.)*--accept names'):
        read_table(tmp_path / "t.csv").candidates("labels", ())


# ---- scores -----------------------------------------------------------------------------------

ROWS = [{"crow": 0.6, "raven": 0.3, "rook": 0.1}, {"raven": 0.9, "rook": 0.1}]


@pytest.mark.parametrize("form", ["mapping", "list", "bare list"])
def test_scores_in_json_lines_are_scores_and_not_classes(tmp_path, form):
    path = tmp_path / "a.jsonl"
    listed = [[{"label": name, "score": score} for name, score in row.items()] for row in ROWS]
    cells = ROWS if form == "mapping" else listed
    lines = cells if form == "bare list" else [{"id": i, "scores": cell} for i, cell in enumerate(cells)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    made = import_file(path, "scores", ImportOptions(top_p=0.8)).candidates
    assert made.classes == ("crow", "raven", "rook")
    assert made.sets() == [["crow", "raven"], ["raven"]]
    with pytest.raises(
        DataError, match=r"a\.jsonl, line 1, row 0(?s:.)*scores of classes(?s:.)*--format scores"
    ):
        import_file(path, "records", ImportOptions(label="scores"))
    with pytest.raises(DataError, match="--format scores"):
        read_table(path).candidates("scores", ())


def test_a_line_without_scores_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"scores": {"crow": 0.6}}\n{"scores": {"crow": -0.6}}\n')
    with pytest.raises(DataError, match=r"line 2, row 1: .*no scores by class"):
        import_file(path, "scores", ImportOptions(top_k=1))


def test_whole_numbers_are_votes_or_scores_or_classes_by_annotator(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "p", "labels": {"elm": 3, "oak": 2}}\n{"id": "q", "labels": {"elm": 1}}\n')
    with pytest.raises(DataError, match=r"line 1, row 0.*'elm': 3(?s:.)*--format counts or scores(?s:.)*--c"):
        import_file(path, "records")
    made = import_file(path, "counts")
    assert made.ids == ("p", "q")
    assert made.candidates.sets() == [["elm", "oak"], ["elm"]]
    assert made.candidates.evidence[0] > made.candidates.evidence[1]
    by_people = import_file(path, "records", ImportOptions(classes=("1", "2", "3")))
    assert by_people.candidates.sets() == [["2", "3"], ["1"]]
    assert by_people.answers.workers == ("elm", "oak")


@pytest.mark.parametrize("order", [1, -1])
def test_a_row_of_scores_may_be_sure(tmp_path, order):
    path = tmp_path / "a.jsonl"
    rows = [{"crow": 0.7, "raven": 0.3}, {"crow": 1, "raven": 0}][::order]
    path.write_text("\n".join(json.dumps({"scores": row}) for row in rows))
    made = import_file(path, "scores", ImportOptions(top_p=0.9)).candidates
    assert made.sets() == [["crow", "raven"], ["crow"]][::order]
    with pytest.raises(DataError, match="are scores of classes"):
        import_file(path, "records", ImportOptions(label="scores"))


def test_answers_by_annotator_are_no_scores():
    assert scores_of({"ann": "cat", "bob": "dog"}) is None
    assert scores_of({"ann": 3, "bob": True}) is None
    assert scores_of([{"name": "a", "x": 1}]) is None
    assert scores_of([{"class": "a", "probability": 0.5}]) == {"a": 0.5}


# ---- names of classes -------------------------------------------------------------------------


def test_one_class_in_two_spellings_is_asked_about(tmp_path):
    lines = ["labels", "Sparrow|crow", "sparrow|crow", "crow"]
    with pytest.raises(
        DataError, match=r"a\.csv: 1 class spelled in several .*'Sparrow', 'sparrow'(?s:.)*--accept spelling"
    ):
        sets_of(tmp_path, lines)
    assert sets_of(tmp_path, lines, "spelling")[0] == ["Sparrow", "crow"]
    assert sets_of(tmp_path, lines, classes=("Sparrow", "sparrow", "crow"))[0] == ["Sparrow", "crow"]


def test_one_class_in_several_spellings_is_spelled_as_in_most_cells(tmp_path):
    lines = ["labels", "Sandy Loam|clay", "sandy_loam|Clay", "SANDY LOAM|clay|Clay", "Sandy Loam"]
    assert sets_of(tmp_path, lines, "alike") == [["Sandy Loam", "clay"]] * 3 + [["Sandy Loam"]]
    assert answered([["clay", "Clay"], 3, None, "clay", "clay"], ["alike"])[:3] == [
        ("clay",),
        3,
        None,
    ]


def answers_of_two(path, **rows):
    """A wide table of what two people say of each row, or a long one of the same answers."""
    lines = ["id,ann,bob", *(",".join([row, *labels]) for row, labels in rows.items())]
    if path.stem == "crowd":
        said = ((row, *one) for row, labels in rows.items() for one in zip(("ann", "bob"), labels) if one[1])
        lines = ["task,worker,label", *map(",".join, said)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["wide.csv", "crowd.csv"])
def test_labels_are_spelled_as_the_classes_that_are_given(tmp_path, name):
    path = answers_of_two(tmp_path / name, a=("Raven", "owl"), b=("Raven", "raven"))
    options = ImportOptions(classes=("crow", "raven", "owl", "OWL"), accept=("alike",))
    assert import_file(path, path.stem, options).candidates.sets() == [["raven", "owl"], ["raven"]]


@pytest.mark.parametrize("name", ["wide.csv", "crowd.csv"])
def test_whole_numbers_with_and_without_a_decimal_point_are_asked_about(tmp_path, name):
    path = answers_of_two(tmp_path / name, a=("1", "1.0"), b=("2", ""), c=("1", "2.0"))
    with pytest.raises(DataError, match=r"2 classes spelled in several ways, such as '1', '1\.0'"):
        import_file(path, path.stem)
    assert import_file(path, path.stem, ImportOptions(accept=("alike",))).candidates.classes == ("1", "2")
    assert len(import_file(path, path.stem, ImportOptions(accept=("spelling",))).candidates.classes) == 4
    (tmp_path / "t.csv").write_text("x,labels\n1,1|2\n2,1.0\n3,2\n4,1.5\n")
    with pytest.raises(QuestionError, match=r"1 class spelled in several ways, such as '1', '1\.0'"):
        read_table(tmp_path / "t.csv").candidates("labels", ())


def test_a_number_beside_a_name_stays_when_names_get_one_spelling():
    assert answered([["Crow", 3], "crow", "crow"], ["alike"]) == [("crow", 3), "crow", "crow"]
    assert about_classes(["crow", "crow\u200b"], 99)[0].answers.keys() == {"alike", "spelling"}
    assert answered(["crow\u200b", "crow", "\ufeffcrow", "crow"], ["alike"]) == ["crow"] * 4


def test_a_name_in_quotes_beside_the_plain_name_is_asked_about(tmp_path):
    lines = ["labels", "elm|oak", "'elm'|'oak'", "„elm“ | oak", "elm"]
    with pytest.raises(DataError, match=r"2 classes spelled in several ways"):
        sets_of(tmp_path, lines)
    assert sets_of(tmp_path, lines, "alike") == [["elm", "oak"]] * 3 + [["elm"]]


def test_spellings_are_counted_over_all_annotators(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("id,ann,bob\n0,peat,Peat\n1,Peat,Peat\n2,peat,CLAY\n3,clay,clay\n")
    made = import_file(path, "wide", ImportOptions(accept=("alike",))).candidates
    assert made.sets() == [["Peat"], ["Peat"], ["Peat", "clay"], ["clay"]]


@pytest.mark.parametrize(
    "word",
    [
        "n/a",
        "N/A",
        "NA",
        "None",
        "null",
        "?",
        "unknown",
        "don't know",
        "I don’t know",
        "Weiß nicht",
        "#N/A",
        "-",
        "-1",
    ],
)
def test_a_class_called_nothing_is_asked_about(tmp_path, word):
    lines = ["id,labels", "0,cat|dog", f"1,{word}", "2,dog"]
    with pytest.raises(
        DataError, match=r"stands for nothing in many files(?s:.)*--accept na(?s:.)*--accept na-empty"
    ):
        sets_of(tmp_path, lines)
    assert sets_of(tmp_path, lines, "na")[1] == [word]
    assert sets_of(tmp_path, lines, "na-empty", missing="drop") == [["cat", "dog"], ["dog"]]


def test_minus_one_among_numbers_is_asked_about(tmp_path):
    path = tmp_path / "wide.json"
    path.write_text(json.dumps([{"ann": 0, "bob": 1}, {"ann": 2, "bob": -1}]))
    with pytest.raises(DataError, match=r"-1 stands for nothing(?s:.)*--accept na-empty"):
        import_file(path, "wide")
    assert import_file(path, "wide", ImportOptions(accept=("na-empty",))).candidates.sets() == [[0, 1], [2]]


@pytest.mark.parametrize("classes", [[-1, 1], ["-1", "1"], [-2, -1, 0, 1, 2]])
def test_minus_one_is_a_class_beside_one_alone_and_beside_minus_two(classes):
    assert about_classes(classes, 1000) == []


def chosen(*labels):
    """A task of Label Studio, answered by one person."""
    return {
        "annotations": [{"result": [{"type": "choices", "from_name": "k", "value": {"choices": labels}}]}]
    }


MANY = ["Cat", "n/a", "cat"]


@pytest.mark.parametrize(
    ("format", "rows"),
    [
        ("records", [["n/a"], ["cat", "dog"], MANY]),
        ("records", [[["?"]], [["n/a"], ["cat", "dog"]], [["cat"], MANY]]),
        ("records", [{"ann": "NA"}, {"ann": ["cat", "dog", "None"]}, {"ann": MANY, "bob": ["cat"]}]),
        ("label-studio", [chosen("n/a"), chosen("cat", "dog"), chosen(*MANY)]),
        ("counts", [{"n/a": 2}, {"cat": 1, "dog": 1}, {"Cat": 1, "n/a": 1, "cat": 1}]),
        ("wide", [{"ann": ["n/a"], "bob": []}, {"ann": ["cat"], "bob": "dog"}, {"ann": MANY, "bob": "cat"}]),
        ("crowd", [["n/a"], ["cat", "dog"], MANY]),
    ],
)
def test_the_answers_about_names_count_wherever_labels_stand(tmp_path, format, rows):
    path = tmp_path / "a.json"
    if format == "counts":
        rows = [{name: row.get(name, 0) for name in ("cat", "n/a", "dog", "Cat")} for row in rows]
    named = [row if format in ("wide", "counts", "label-studio") else {"label": row} for row in rows]
    path.write_text(json.dumps([{"id": f"r{i}", **row} for i, row in enumerate(named)]))
    (tmp_path / "ids.txt").write_text("r0\nr1\nr2\n")
    more = {"skip_empty": True, "ids": str(tmp_path / "ids.txt")} if format == "crowd" else {}

    def made(**options):
        return import_file(path, format, ImportOptions(accept=("na-empty", "alike"), **options, **more))

    sets = made(missing="drop").candidates.sets()
    assert [set(map(str.lower, some)) for some in sets] == [{"cat", "dog"}, {"cat"}]
    with pytest.raises(DataError, match="1 of 3 rows have no answer; the first is row 0"):
        made()


def test_the_answers_about_names_count_in_lists_of_a_column(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"labels": [["n/a"], ["cat", "dog"], MANY]}).write_parquet(path)
    found = read_table(path).label_sets("labels", ["na-empty", "alike"])
    assert len(found[0]) == 0
    assert [[v.lower() for v in some] for some in found[1:]] == [["cat", "dog"], ["cat"]]
    path.with_suffix(".json").write_text('[{"labels": [["n/a"], ["cat"]]}, {"labels": ["cat", "Cat"]}]')
    with pytest.raises(CandidateError, match="row 0"):
        read_table(path.with_suffix(".json")).candidates("labels", ["na-empty", "alike"])


def test_a_column_of_remarks_is_no_column_of_labels(tmp_path):
    lines = ["labels", *(f"remark {i}|other" for i in range(30))]
    with pytest.raises(DataError, match=r"there are 31 classes in 30 rows(?s:.)*--accept many-classes"):
        sets_of(tmp_path, lines)
    assert len(sets_of(tmp_path, lines, "many-classes")) == 30
    assert not about_classes(["a", "b", "c"], 3)  # a small example is no mistake


def test_rows_without_any_ambiguity_are_asked_about(tmp_path):
    lines = ["labels", "cat", "dog", "cat"]
    with pytest.raises(
        DataError, match=r"every one of the 3 rows has a single candidate(?s:.)*--accept singletons"
    ):
        sets_of(tmp_path, lines)
    assert sets_of(tmp_path, lines, "singletons") == [["cat"], ["dog"], ["cat"]]
    assert sets_of(tmp_path, lines, rule="majority") == [
        ["cat"],
        ["dog"],
        ["cat"],
    ]  # one label is what it gives
    assert not about_sizes(np.array([1, 2]))


def test_all_questions_are_asked_at_once(tmp_path):
    with pytest.raises(DataError) as caught:
        sets_of(tmp_path, ["id,labels", "0,Cat", "1,cat", "2,n/a"])
    assert "--accept spelling" in str(caught.value)
    assert "--accept na" in str(caught.value)


def test_an_answer_that_does_not_exist():
    with pytest.raises(
        CandidateError, match="accept 'everything': there is no such answer; there are 'sets'"
    ):
        ask([], ["everything"], "a.csv")


# ---- old labels among the features ------------------------------------------------------------


def problem(n=200, c=5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(c, size=n)
    mask = rng.random((n, c)) < 0.3
    mask[np.arange(n), truth] = True
    return rng, truth, mask


@pytest.mark.parametrize(
    "column",
    [
        lambda truth: truth,
        lambda truth: truth.astype(float),
        lambda truth: [f"class {k}" for k in truth],
        lambda truth: [None if i % 3 == 0 else str(k) for i, k in enumerate(truth)],
    ],
    ids=["codes", "floats", "texts", "with gaps"],
)
def test_a_column_that_tells_the_label_is_asked_about(column):
    _, truth, mask = problem()
    (question,) = about_features({"old": column(truth), "row": np.arange(200)}, mask)
    assert 'column "old" tells the label' in str(question)
    assert "--accept leak" in str(question)


def test_columns_that_only_help_are_features():
    rng, truth, mask = problem()
    noisy = np.where(rng.random(200) < 0.1, rng.integers(5, size=200), truth)
    columns = {
        "noisy": noisy,
        "binary": truth % 2,
        "random": rng.integers(4, size=200),
        "number": rng.normal(size=200),
        "vector": [[1.0, 2.0]] * 200,
        "constant": np.ones(200),
        "text": [f"t{i}" for i in range(200)],
    }
    assert about_features(columns, mask) == []
    nearly_full = rng.random((200, 3)) < 0.97
    nearly_full[:, 0] = True
    assert about_features({"random": rng.integers(2, size=200)}, nearly_full) == []


# ---- unknown tasks ----------------------------------------------------------------------------


def test_answers_about_unknown_tasks_are_left_out_on_request(tmp_path):
    path, ids = tmp_path / "a.csv", tmp_path / "ids.txt"
    path.write_text("task,worker,label\np,ann,cat\np,bob,dog\nzz,ann,emu\nq,ann,dog\n")
    ids.write_text("p\nq\n")
    with pytest.raises(DataError, match=r"line 4.*'zz' is no known id(?s:.)*--accept unknown-tasks"):
        import_file(path, "crowd", ImportOptions(ids=str(ids)))
    made = import_file(path, "crowd", ImportOptions(ids=str(ids), accept=("unknown-tasks",)))
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.candidates.classes == ("cat", "dog")
    assert "answers about unknown tasks, left out: 1" in made.candidates.provenance["notes"]
    path.write_text("task,worker,label\n0,ann,cat\n0,bob,dog\n7,ann,emu\n1,ann,\n")
    with pytest.raises(DataError, match=r"line 5.*the label is empty"):
        import_file(path, "crowd", ImportOptions(n_rows=2, accept=("unknown-tasks",)))
    path.write_text("task,worker,label\n0,ann,cat\n0,bob,dog\n7,ann,emu\n")
    made = import_file(path, "crowd", ImportOptions(n_rows=1, accept=("unknown-tasks",)))
    assert made.candidates.sets() == [["cat", "dog"]]
    path.write_text("task,worker,label\n8,ann,cat\n7,ann,emu\n")
    with pytest.raises(DataError, match=r"task 8 is no row|task '8' is no row"):
        import_file(path, "crowd", ImportOptions(n_rows=2, accept=("unknown-tasks",)))
