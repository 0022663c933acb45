"""The table of annotators: answers, agreement, accuracy with an interval, confusions."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from oneof.app.cli import main
from oneof.candidates import CandidateError
from oneof.candidates.annotators import annotator_table
from oneof.tables.importers import from_answers, from_counts


def small():
    task = ["a", "a", "b", "b", "b", "c"]
    worker = ["ann", "bob", "ann", "bob", "cem", "ann"]
    return from_answers(task, worker, ["x", "x", "y", "x", "y", "y"])


def test_the_numbers_by_hand():
    beliefs = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    ann, bob, cem = annotator_table(small(), beliefs)
    assert [ann.name, bob.name, cem.name] == ["ann", "bob", "cem"]
    assert [ann.answers, bob.answers, cem.answers] == [3, 2, 1]
    assert ann.agreement == pytest.approx((1 + 1 / 2) / 2)  # nobody else answered c
    assert bob.agreement == pytest.approx((1 + 0) / 2)
    assert cem.agreement == pytest.approx(1 / 2)
    assert ann.accuracy == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert bob.accuracy == pytest.approx((1 + 0.25) / 2)
    assert all(line.interval[0] < line.accuracy < line.interval[1] for line in (ann, bob))
    assert ann.confusions == (("x", "y", pytest.approx((0.25 + 0.5) / (1 + 0.25 + 0.5))),)
    assert bob.confusions == (("y", "x", pytest.approx(1.0)),)


def test_beliefs_of_many_rows_may_be_sparse_and_are_taken_in_blocks(monkeypatch):
    beliefs = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    table, own = annotator_table(small(), beliefs), annotator_table(small())
    monkeypatch.setattr("oneof.candidates.compact.BLOCK", 4)
    for given in (beliefs, csr_array(beliefs)):
        assert annotator_table(small(), given) == table
    for line, before in zip(annotator_table(small()), own, strict=True):
        assert (line.name, line.accuracy) == (before.name, pytest.approx(before.accuracy))


def test_intervals_hold_what_people_are_worth():
    rng = np.random.default_rng(0)
    y, right = rng.integers(4, size=600), rng.uniform(0.4, 0.95, 20)
    row = np.repeat(np.arange(600), 6)
    worker = np.concatenate([rng.choice(20, 6, replace=False) for _ in y])
    label = np.where(rng.random(len(row)) < right[worker], y[row], rng.integers(4, size=len(row)))
    made = annotator_table(from_answers(row, [f"w{k}" for k in worker], label))
    inside = []
    for line in made:
        mine = worker == int(line.name[1:])
        inside.append(line.interval[0] <= (label[mine] == y[row[mine]]).mean() <= line.interval[1])
    assert len(made) == 20
    assert np.mean(inside) >= 0.9


def test_somebody_who_names_two_labels_counts_once():
    made = annotator_table(from_answers(["a", "a", "b"], ["ann", "ann", "bob"], ["x", "y", "x"]))
    assert {line.name: line.answers for line in made} == {"ann": 1, "bob": 1}


def test_without_names_there_is_no_table():
    with pytest.raises(CandidateError, match="nobody knows who answered"):
        annotator_table(from_counts([[2, 1]]))


def test_the_command_writes_it(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("task,worker,label\n1,ann,x\n1,bob,x\n2,ann,y\n2,bob,x\n2,cem,y\n")
    out, table = tmp_path / "sets.npz", tmp_path / "people.csv"
    given = ["candidates", "import", str(tmp_path / "a.csv"), "--format", "crowd", "--out", str(out)]
    with pytest.raises(SystemExit, match="0"):
        main([*given, "--annotator-table", str(table)])
    lines = table.read_text().splitlines()
    assert lines[0] == "annotator,answers,agreement,accuracy,accuracy_low,accuracy_high,confusions"
    assert lines[1].startswith("ann,2,0.7500,")
    assert len(lines) == 4
