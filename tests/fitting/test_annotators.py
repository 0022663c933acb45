"""What a fit says about annotators: a table in the report and as CSV, where it is known who answered."""

import csv

import numpy as np
import pytest

from oneof import PartialLabelClassifier
from oneof.app.cli import main
from oneof.app.fit_page import write_model_report
from oneof.candidates.annotations import Annotations
from oneof.tables.candidate_files import save_annotations
from oneof.tables.importers import from_answers
from tests.review.made import review_data
from tests.test_inputs import problem

N = 200
X, Y, _ = problem(N)
RIGHT = {"<b>ann": 0.95, "bob": 0.8, "cy": 0.55}


def crowd():
    """Three annotators with known accuracies answer every row."""
    rng = np.random.default_rng(3)
    names = np.array(["ant", "bee", "cow"])
    task, worker, label = [], [], []
    for i in range(N):
        for who, share in RIGHT.items():
            wrong = (Y[i] + rng.integers(1, 3)) % 3
            task.append(i)
            worker.append(who)
            label.append(names[Y[i] if rng.random() < share else wrong])
    return from_answers(task, worker, label)


def test_annotators_in_report_and_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    save_annotations(crowd(), "c.npz")
    quick = ("--method", "proden", "--epochs", "2", "--device", "cpu", "--candidates")

    def fit(sets):
        with pytest.raises(SystemExit) as end:
            main(["fit", "x.npy", *quick, sets])
        assert end.value.code == 0, capsys.readouterr().err

    fit("c.npz")
    with open("model/annotators.csv", newline="") as file:
        lines = {line["annotator"]: line for line in csv.DictReader(file)}
    assert set(lines) == set(RIGHT)
    for who, share in RIGHT.items():  # a short training does not make anybody look worse
        low, high = float(lines[who]["accuracy_low"]), float(lines[who]["accuracy_high"])
        assert 0 <= low < share < high <= 1
        assert lines[who]["answers"] == str(N)
    page = (tmp_path / "model/report.html").read_text()
    assert "<h2>Annotators</h2>" in page
    assert "&lt;b&gt;ann" in page
    assert "<b>ann" not in page
    save_annotations(Annotations(crowd().candidates.replace(answers=None)), "nobody.npz")
    fit("nobody.npz")
    assert "<h2>Annotators</h2>" not in (tmp_path / "model/report.html").read_text()
    assert not (tmp_path / "model/annotators.csv").exists()


def test_trusted_labels_judge_annotators():
    data = review_data(n=40)
    said = data.answers.label[data.answers.worker == 0]
    trusted = np.ones(40, dtype=bool)
    known = review_data(n=40, transduction=np.eye(4)[said], trusted=trusted)
    assert next(a for a in known.annotators if a.name == "ann").accuracy == 1
    assert review_data(answers=None).annotators == []


def test_annotators_in_a_report_from_python(tmp_path):
    made = crowd()
    model = PartialLabelClassifier("proden", net="linear", epochs=2, device="cpu").fit(X, made.candidates)
    write_model_report(tmp_path / "report.html", model, X, made.candidates)
    assert "<h2>Annotators</h2>" in (tmp_path / "report.html").read_text()
