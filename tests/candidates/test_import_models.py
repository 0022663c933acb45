"""Importers of scores, prediction sets, records, complementary labels, taxonomies, Label Studio."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.candidates import CandidateError
from oneof.tables.importers import (
    CellError,
    Taxonomy,
    from_complementary,
    from_counts,
    from_label_studio,
    from_prediction_sets,
    from_records,
    from_scores,
    from_taxonomy,
    vaguest,
)

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")


@st.composite
def probabilities(draw):
    rows, classes = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    weight = st.integers(0, 20)
    values = draw(
        st.lists(st.lists(weight, min_size=classes, max_size=classes), min_size=rows, max_size=rows)
    )
    table = np.array(values, dtype=float) + 1e-3
    return table / table.sum(axis=1, keepdims=True)


@given(probabilities(), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_top_p_is_the_smallest_set_with_enough_mass(p, level):
    mask = from_scores(p, top_p=level).candidates.mask
    for row, inside in zip(p, mask):
        order = sorted(range(len(row)), key=lambda k: (-row[k], k))
        size, total = 0, 0.0
        while total < level - 1e-9:
            total += row[order[size]]
            size += 1
        assert set(np.flatnonzero(inside)) == set(order[:size])


@given(probabilities(), st.data())
def test_top_k_and_threshold(p, data):
    k = data.draw(st.integers(1, p.shape[1]))
    mask = from_scores(p, top_k=k).candidates.mask
    assert (mask.sum(axis=1) == k).all()
    for row, inside in zip(p, mask):
        assert inside.all() or row[inside].min() >= row[~inside].max()
    threshold = data.draw(st.sampled_from([0.0, 0.2, 0.5, 0.99]))
    made = from_scores(p, threshold=threshold).candidates
    for row, inside in zip(p, made.mask):
        assert set(np.flatnonzero(inside)) == (set(np.flatnonzero(row >= threshold)) or {int(row.argmax())})
    assert bool(made.provenance["notes"]) == bool((p.max(axis=1) < threshold).any())
    assert made.truth_may_be_outside


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ([[0.5, 0.5]], {}, "exactly one of top-k, top-p, threshold; 0"),
        ([[0.5, 0.5]], {"top_k": 1, "top_p": 0.5}, "exactly one"),
        ([[0.5, 0.5]], {"top_k": 3}, "top-k is 3, but there are 2"),
        ([[0.5, 0.5]], {"top_p": 0.0}, "above 0"),
        ([[0.5, 0.5], [2.0, -1.0]], {"top_p": 0.9}, "row 1: top-p needs probabilities"),
        (
            [[0.5, 0.5], [0.1, 0.2]],
            {"top_p": 0.9},
            "row 1: top-p needs probabilities, but this row sums to 0.3",
        ),
        ([[0.5, float("nan")]], {"top_k": 1}, "row 0, column 1: nan is not a finite number"),
        ([[0.5, 0.5], [1.0]], {"top_k": 1}, "ragged"),
        ([["a", "b"]], {"top_k": 1}, "give numbers"),
        ([0.5, 0.5], {"top_k": 1}, r"shape \(2,\)"),
        ([[0.5, 0.5]], {"top_k": 1, "classes": ["a"]}, "2 columns, but 1 classes"),
    ],
)
def test_bad_scores_are_refused(scores, options, message):
    with pytest.raises(CandidateError, match=message):
        from_scores(scores, **options)


def test_the_columns_of_a_data_frame_are_the_classes():
    frame = pd.DataFrame({"cat": [1, 0], "dog": [0, 1]})
    assert from_scores(frame, top_k=1).candidates.sets() == [["cat"], ["dog"]]
    assert from_counts(frame).candidates.sets() == [["cat"], ["dog"]]
    assert from_prediction_sets(frame, 0.9).candidates.sets() == [["cat"], ["dog"]]
    assert from_scores(frame, ["x", "y"], top_k=1).candidates.classes == ("x", "y")
    assert from_scores(pl.DataFrame(frame.to_dict("list")), top_k=1).candidates.classes == ("cat", "dog")
    assert from_scores(pd.DataFrame(np.eye(2)), top_k=1).candidates.classes == (0, 1)


def test_prediction_sets_keep_their_level():
    sets = np.array([[[1, 1], [0, 1]], [[0, 1], [1, 1]]], dtype=bool)  # (rows, classes, levels)
    made = from_prediction_sets(sets, 0.9, ["a", "b"])
    assert made.candidates.sets() == [["a"], ["b"]]
    assert from_prediction_sets(sets, 0.9, index=1).candidates.sizes.tolist() == [2, 2]
    assert made.candidates.provenance["settings"] == {"level": 0.9}
    assert "at most 10.0%" in made.describe()


def test_empty_prediction_sets():
    sets = [[1, 0], [0, 0], [0, 1]]
    with pytest.raises(CellError, match=r"row 1: its prediction set is empty \(1 such rows\)"):
        from_prediction_sets(sets, 0.9)
    assert from_prediction_sets(sets, 0.9, missing="drop").ids == (0, 2)
    assert from_prediction_sets(sets, 0.9, missing="all", ids="xyz").candidates.sizes.tolist() == [1, 2, 1]
    with pytest.raises(CandidateError, match="coverage"):
        from_prediction_sets(sets, 1.5)
    with pytest.raises(CellError, match=r"0\.5 is neither 0 nor 1"):
        from_prediction_sets([[1, 0.5]], 0.9)
    with pytest.raises(CandidateError, match="2 levels"):
        from_prediction_sets(np.ones((1, 2, 2)), 0.9, index=2)


# ---- records ----------------------------------------------------------------------------------


def test_forms_of_a_record():
    sets = from_records([["a", "b"], "c", ("a",)])
    assert sets.candidates.sets() == [["a", "b"], ["c"], ["a"]]
    lists = from_records([[["a", "b"], ["b"]], [["c"]]], rule=vaguest)
    assert lists.candidates.sets() == [["a", "b"], ["c"]]
    assert lists.answers.of(0) == {"answer 1": [0, 1], "answer 2": [1]}
    named = from_records([{"ann": "a", "bob": ["a", "b"]}, {"ann": None, "bob": "c"}], ids=["x", "y"])
    assert named.answers.of(0) == {"ann": [0], "bob": [0, 1]}
    assert named.ids == ("x", "y")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([], {}, "no record"),
        ([[], None], {}, 'no record has a label in "labels"'),
        (["a", []], {}, "1 of 2 rows have no answer"),
        ([["a", ["b"]]], {}, r'row 0, "labels": .* mixes labels and lists'),
        ([{"ann": "a"}, "b"], {}, r'row 1, "labels": this entry does not say who answered'),
        ([{"ann": {"a": 1}}], {}, "neither a label nor a list"),
        (["a", "b"], {"ids": ["x"]}, "1 ids for 2 rows"),
        (["a", "b"], {"ids": ["x", "x"]}, "stands for two rows"),
        (["a", 1], {}, r'row 1, "labels": this label is a number'),
    ],
)
def test_bad_records_are_refused(labels, options, message):
    with pytest.raises(CandidateError, match=message):
        from_records(labels, **options)


# ---- complementary labels and taxonomies ------------------------------------------------------


@given(st.lists(st.sets(st.sampled_from("abcd"), min_size=1, max_size=3), min_size=1, max_size=8))
def test_complementary_labels(rows):
    made = from_complementary(rows, "abcd")
    assert [set(s) for s in made.candidates.sets()] == [set("abcd") - row for row in rows]
    assert not made.candidates.truth_may_be_outside
    assert made.candidates.provenance["format"] == "complementary"
    assert made.answers is None  # a reader would take "not cat" for "cat"


def test_complementary_labels_that_leave_nothing():
    with pytest.raises(CandidateError, match=r"row 1 .* has no candidate left"):
        from_complementary([["a"], ["a", "b"]])


TREE = {"animal": {"bird": ["robin", "sparrow"], "cat": None}, "plant": ["oak", {"grass": ["rye"]}]}


def test_taxonomy():
    tree = Taxonomy.from_nested(TREE)
    assert tree.leaves == ("cat", "oak", "robin", "rye", "sparrow")
    assert tree.leaves_of("animal") == ("cat", "robin", "sparrow")
    assert tree.leaves_of("oak") == ("oak",)
    assert tree.leaves_of("grass") == ("rye",)
    made = from_taxonomy(["bird", ["cat", "plant"]], tree)
    assert made.candidates.sets() == [["robin", "sparrow"], ["cat", "oak", "rye"]]
    edges = [("animal", "bird"), ("animal", "cat"), ("bird", "robin"), ("bird", "sparrow")]
    assert Taxonomy(edges).leaves_of("animal") == tree.leaves_of("animal")
    assert Taxonomy.from_nested({"robin": "bird", "bird": "animal"}).leaves_of("animal") == ("robin",)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), min_size=1, max_size=20))
def test_a_label_covers_the_leaves_of_its_children(edges):
    tree = Taxonomy([(f"n{a}", f"n{b}") for a, b in edges])
    children = {}
    for a, b in edges:
        children.setdefault(f"n{a}", set()).add(f"n{b}")
    for parent, below in children.items():
        assert set(tree.leaves_of(parent)) == {leaf for child in below for leaf in tree.leaves_of(child)}
    assert set(tree.leaves) == {f"n{b}" for _, b in edges}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Taxonomy([("a", "b"), ("b", "c"), ("c", "a")]), "in a circle: a > b > c > a"),
        (lambda: Taxonomy([("a", "a")]), "in a circle: a > a"),
        (lambda: Taxonomy([]), "no label at all"),
        (lambda: Taxonomy([("a", "")]), "edge 0 of the taxonomy is incomplete"),
        (lambda: Taxonomy.from_nested({"a": [["b"]]}), "text or a number"),
        (
            lambda: from_taxonomy(["brid"], Taxonomy.from_nested(TREE)),
            r"row 0.*'brid'.*Did you mean 'bird'\?",
        ),
        (lambda: from_records(["a"], taxonomy=Taxonomy([("b", "a")]), classes=["a"]), "not both"),
    ],
)
def test_bad_taxonomies_are_refused(make, message):
    with pytest.raises(CandidateError, match=message):
        make()


def test_a_deep_taxonomy():
    tree = Taxonomy((f"n{k}", f"n{k + 1}") for k in range(5000))
    assert tree.leaves_of("n0") == ("n5000",)


# ---- Label Studio -----------------------------------------------------------------------------


def choice(*labels, name="kind"):
    return {"type": "choices", "from_name": name, "to_name": "img", "value": {"choices": list(labels)}}


def task(number, *annotations, **data):
    return {"id": number, "data": {"image": f"{number}.png", **data}, "annotations": list(annotations)}


def annotation(by, *results, **more):
    return {"completed_by": by, "result": list(results), "was_cancelled": False, **more}


EXPORT = [
    task(
        7,
        annotation(1, choice("cat")),
        annotation({"email": "b@x.org"}, choice("cat", "dog")),
        annotation(3, choice("cow"), was_cancelled=True),
    )
    | {"predictions": [{"result": [choice("cow")]}]},
    task(4, annotation(1, choice("dog"), {"type": "textarea", "value": {"text": ["hm"]}})),
]


def test_full_export():
    made = from_label_studio(EXPORT)
    assert made.ids == (7, 4)
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.answers.of(0) == {"1": [0], "b@x.org": [0, 1]}
    assert "cancelled annotations, left out: 1" in made.describe()
    assert made.candidates.provenance["control"] == "kind"
    assert from_label_studio(EXPORT, id_field="image").ids == ("7.png", "4.png")


def test_json_min():
    rows = [
        {"id": 7, "image": "a.png", "kind": "cat", "annotator": 1, "annotation_id": 11, "lead_time": 3.2},
        {"id": 7, "image": "a.png", "kind": {"choices": ["cat", "dog"]}, "annotator": 2, "annotation_id": 12},
        {"id": 4, "image": "b.png", "kind": "dog", "annotator": 1, "annotation_id": 13},
    ]
    made = from_label_studio(rows)
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.answers.of(0) == {"1": [0], "2": [0, 1]}
    plain = [{**row, "kind": "cat"} for row in rows]
    with pytest.raises(CandidateError, match="fields are 'image', 'kind'"):
        from_label_studio(plain)
    assert from_label_studio(plain, control="kind").candidates.sets() == [["cat"], ["cat"]]
    with pytest.raises(CandidateError, match="no field 'sort'"):
        from_label_studio(plain, control="sort")


def test_several_controls():
    both = [task(1, annotation(1, choice("cat"), choice("sharp", name="quality")))]
    with pytest.raises(CandidateError, match="several controls, 'kind', 'quality'"):
        from_label_studio(both)
    assert from_label_studio(both, control="quality").candidates.classes == ("sharp",)
    with pytest.raises(CandidateError, match="no control 'color' with choices; there are 'kind'"):
        from_label_studio(both, control="color")


def test_tasks_nobody_annotated():
    tasks = [*EXPORT, task(9)]
    with pytest.raises(CandidateError, match=r"1 of 3 rows have no answer; the first is row 2 \(id 9\)"):
        from_label_studio(tasks)
    assert from_label_studio(tasks, missing="drop").ids == (7, 4)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({}, "list of tasks"),
        ([], "list of tasks"),
        ([3], "task 0: 3 is no object"),
        ([{"id": 1, "annotations": {}}], "is {}, not a list"),
        ([{"id": 1, "annotations": [3]}], "has no list of results"),
        ([task(1, annotation(1, {"type": "choices", "value": 3}))], 'no "choices"'),
        ([task(1, annotation(1, {"type": "textarea"}))], "no choices; its results have the types 'textarea'"),
        ([task(1)], "nothing was annotated"),
        (
            [task(1, annotation(1, choice("a"))), task(1, annotation(1, choice("a")))],
            "id 1 stands for two tasks",
        ),
        ([{"annotations": [annotation(1, choice("a"))]}], "no 'id' to name it"),
        ([task(1, annotation(1, choice("a")), annotation(None, choice("b")))], "does not say who made it"),
        (
            [task(1, annotation(1, choice("a"))), task(2, annotation(1, choice(3)))],
            r"task 1 \(id 2\).*is a number",
        ),
    ],
)
def test_bad_exports_are_refused(tasks, message):
    with pytest.raises(CandidateError, match=message):
        from_label_studio(tasks)


def test_annotators_may_be_unknown():
    made = from_label_studio([task(1, annotation(None, choice("a")), annotation(None, choice("b")))])
    assert made.answers.of(0) == {"answer 1": [0], "answer 2": [1]}


def test_probabilities_that_were_rounded_are_probabilities():
    made = from_scores([[0.054, 0.356, 0.589], [0.335, 0.333, 0.333]], top_p=0.9).candidates
    assert made.sets() == [[1, 2], [0, 1, 2]]
