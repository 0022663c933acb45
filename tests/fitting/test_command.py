"""`oneof fit` on the kinds of data people have, from files to a folder with a report."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import oneof
from oneof.app.cli import main
from oneof.app.commands.fit import Fit
from oneof.app.review import ReviewData
from oneof.app.review.ranking import ReviewList
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations
from oneof.tables.candidate_files import save_annotations
from tests.test_inputs import problem

N = 240
X, Y, MASK = problem(N)
NAMES = np.array(["ant", "bee", "<script>cow"])
AUTO = ["--epochs", "4", "--device", "cpu"]
QUICK = [*AUTO, "--method", "proden"]


@pytest.fixture
def fit(capsys, tmp_path, monkeypatch):
    """Runs `oneof fit` in a folder of its own; gives its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["fit", *map(str, arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return end.value.code, out, err

    return run


def write_table(path, sets=True):
    """Numbers with gaps, a text column that helps, an id, free text."""
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "a", "b", "kind", "note", *(["labels"] if sets else [])])
        for i in range(N):
            b = "" if rng.random() < 0.2 else X[i, 1]
            kind = "xyz"[
                Y[i] if i % 10 else 0
            ]  # always the class would be an old label, which is asked about
            row = [f"r{i}", X[i, 0], b, kind, f"note number {i}"]
            writer.writerow([*row, *(["|".join(NAMES[MASK[i]])] if sets else [])])


def write_clean(path, n):
    path.write_text("name,label\n" + "".join(f"r{i},{NAMES[Y[i]]}\n" for i in range(n)))


def labels(folder):
    with open(folder / "labels.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_mixed_table_with_clean_labels(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    write_clean(tmp_path / "gold.csv", 120)
    code, out, err = fit("t.csv", "--candidates", "labels", "--id", "name", "--clean", "gold.csv", *AUTO)
    assert code == 0, err
    assert "2 numeric and 1 categorical columns, 1 with missing values: 6 features: a, b, kind" in out
    assert 'left out: column "note" has a different text in every row' in out
    assert "120 trusted labels were given: 96 were learned from, 24 kept aside." in out
    assert "estimate: 216 training rows" in out
    assert "for the whole comparison" in out
    assert "accuracy on clean rows, out of fold" in out
    assert "linear model, clean rows alone" in out
    assert "accuracy on rows that nothing was learned from: " in out
    assert "24 rows)" in out
    model = oneof.load(tmp_path / "model")
    assert model.selection_note_ in out
    assert model.encoder_.column_names == ["a", "b", "kind"]
    assert model.transduction_.shape == (N, 3)
    assert model.calibration_scores_
    rows = labels(tmp_path / "model")
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(N)]
    assert all(row["label"] == NAMES[k] for row, k in zip(rows[:120], Y))
    review = ReviewData.load(tmp_path / "model")
    assert review.ids == tuple(f"r{i}" for i in range(N))
    assert review.trusted.sum() == 120
    assert (review.wrong[review.trusted] == 0).all()
    assert f"labels expected to be wrong: {review.expected_errors} of the 120 it chose" in out
    listed = ReviewList(review).rows("doubtful")
    assert len(listed) == review.expected_errors
    assert [review.wrong[row] for row in listed] == sorted(review.wrong, reverse=True)[: len(listed)]
    sure = [float(row["confidence"]) for row in rows]
    np.testing.assert_allclose(sure, 1 - review.wrong, atol=1e-4)
    assert list(review.features) == ["note", "a", "b", "kind"]
    page = (tmp_path / "model" / "report.html").read_text()
    assert "<script" not in page
    assert "24 kept aside" in page
    assert "What was compared" in page
    assert "labels expected to be wrong" in page
    assert not (tmp_path / "model" / "run").exists()
    assert "Wilson" in page


def test_without_clean_labels_the_accuracy_stays_unknown(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    code, out, err = fit("t.csv", "--candidates", "labels", "--id", "name", *QUICK)
    assert code == 0, err
    assert "accuracy" not in out
    page = (tmp_path / "model" / "report.html").read_text()
    assert "The accuracy is not known." in page
    assert "Method: proden, as asked for." in page
    assert "What was compared" not in page


def test_a_method_that_ignores_clean_rows_is_checked_on_all_of_them(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    write_clean(tmp_path / "gold.csv", 30)
    arguments = ["t.csv", "--candidates", "labels", "--id", "name", "--clean", "gold.csv", *AUTO]
    code, out, err = fit(*arguments, "--method", "cc", "--clean-weight", "0")
    assert code == 0, err
    assert "the method does not learn from them, so all are checked" in out
    assert "30 rows)" in out
    assert "cc does not learn from the clean rows" in err


def test_a_second_round_takes_the_decisions_of_a_review(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    arguments = ["t.csv", "--candidates", "labels", "--id", "name", *QUICK, "--no-report"]
    assert fit(*arguments)[0] == 0
    assert not (tmp_path / "model" / "report.html").exists()
    decisions = tmp_path / "model" / "decisions.jsonl"
    lines = [{"row": i, "id": f"r{i}", "label": NAMES[Y[i]], "action": "decide"} for i in range(10)]
    decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = fit(*arguments, "--clean", decisions)
    assert code == 0, err
    assert "10 trusted labels were given and all were learned from" in out
    assert decisions.exists()
    assert "accuracy: not known, all 10 clean rows were learned from" in out
    write_clean(tmp_path / "gold.csv", 15)
    code, out, err = fit(*arguments, "--clean", "gold.csv", "--clean", decisions)
    assert code == 0, err
    assert "15 trusted labels were given and all were learned from" in out


def test_embeddings_with_a_candidate_file_and_further_clean_rows(fit, tmp_path):
    np.save(tmp_path / "x.npy", X)
    candidates = Candidates.from_mask(MASK, NAMES.tolist())
    save_annotations(Annotations(candidates, tuple(range(N))), tmp_path / "c.npz")
    np.savez(tmp_path / "gold.npz", X_valid=X[:110], label=NAMES[Y[:110]])
    code, out, err = fit("x.npy", "--candidates", "c.npz", "--clean", "gold.npz", *QUICK)
    assert code == 0, err
    assert "ids are row numbers" in out
    assert "1 vector column: 4 features: x" in out
    assert "110 trusted labels were given: 88 were learned from, 22 kept aside." in out
    assert oneof.load(tmp_path / "model").predict_proba(X).shape == (N, 3)


def test_images_with_a_candidate_file(fit, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "im").mkdir()
    for i in range(60):
        pixels = rng.integers(0, 80, (10, 12, 3), dtype=np.uint8)
        pixels[:, :, Y[i]] += 150
        Image.fromarray(pixels).save(tmp_path / "im" / f"{i}.png")
    names = tuple(f"{i}.png" for i in range(60))
    candidates = Candidates.from_mask(MASK[:60], NAMES.tolist())
    save_annotations(Annotations(candidates, names), tmp_path / "c.npz")
    code, out, err = fit("--images", "im", "--candidates", "c.npz", "--net", "lenet", *QUICK)
    if code:  # the estimator does not take images by the name of a net
        assert "does not take images here" in err
        pytest.skip("the estimator takes no images yet")
    assert "images of 3 x 32 x 32" in out
    assert ReviewData.load(tmp_path / "model").images[0].endswith("0.png")


def test_a_choice_keeps_to_a_budget(fit, tmp_path):
    """So short a budget leaves one epoch, and no time to compare much."""
    write_table(tmp_path / "t.csv")
    arguments = ["t.csv", "--candidates", "labels", "--id", "name", "--device", "cpu", "--no-report"]
    code, out, err = fit(*arguments, "--budget", "0.01s")
    assert code == 0, err
    model = oneof.load(tmp_path / "model")
    assert model.selection_note_ in out
    methods = [row for row in model.selection_ if row["kind"] == "method"]
    assert sum(row["rounds"] for row in methods) <= 3
    assert len(model.history_) == 1


def test_trusted_labels_of_rows_without_candidates_are_left_out(fit, tmp_path):
    lines = [f"r{i},{X[i, 0]},{X[i, 1]},{'' if i % 9 == 0 else '|'.join(NAMES[MASK[i]])}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["name,a,b,labels", *lines]))
    write_clean(tmp_path / "gold.csv", 40)
    code, out, err = fit("t.csv", "--candidates", "labels", "--id", "name", "--clean", "gold.csv", *QUICK)
    assert code == 0, err
    assert "5 trusted labels of gold.csv are of rows without features or candidates, and not used" in out
    assert "35 trusted labels were given" in out
    assert "valid feature names" not in err


def test_a_budget_is_kept_or_said_to_be_too_small(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    arguments = ["t.csv", "--candidates", "labels", "--id", "name", "--device", "cpu", "--no-report"]
    arguments += ["--method", "proden"]
    code, out, err = fit(*arguments, "--budget", "20s", "--epochs", "3")
    assert code == 0, err
    assert "budget 20 s: all 3 epochs fit" in out
    code, out, err = fit(*arguments, "--budget", "0.01s", "--epochs", "50")
    assert code == 0, err
    assert "1 of 50 epochs" in out
    assert "not even one epoch fits" in out
    assert len(oneof.load(tmp_path / "model").history_) == 1


def test_a_share_that_cannot_be_kept_aside_is_refused_first(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    for share in ("-1", "1.5"):
        code, _, err = fit("t.csv", "--candidates", "labels", f"--check-share={share}")
        assert code == 1
        assert f"--check-share {share}: give a part of the clean rows, below 1." in err


def test_an_interrupted_fit_with_a_budget_goes_on_with_its_number_of_epochs(fit, tmp_path):
    from oneof.app.fit.plan import epochs_of_run

    assert epochs_of_run(tmp_path) is None
    (tmp_path / "config.json").write_text(json.dumps({"recipe": {"epochs": 17}}))
    assert epochs_of_run(tmp_path) == 17
    (tmp_path / "config.json").write_text("nonsense")
    assert epochs_of_run(tmp_path) is None


def write_birds(path, rows=40):
    rng = np.random.default_rng(0)
    names = ["crow", "jay"]
    lines = ["weight,checked,labels"]
    for i in range(rows):
        k = i % 2
        both = "crow|jay" if rng.random() < 0.5 else names[k]
        lines.append(f"{k + rng.normal() / 4:.3f},{names[k] if i % 4 else ''},{both}")
    path.write_text("\n".join(lines) + "\n")


def test_a_column_of_class_names_is_no_feature(tmp_path, capsys):
    write_birds(tmp_path / "birds.csv")
    command = ["fit", str(tmp_path / "birds.csv"), "--candidates", "labels", *QUICK]
    with pytest.raises(SystemExit) as end:
        main([*command, "--out", str(tmp_path / "model"), "--no-report"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert 'left out: column "checked" holds class names' in said
    assert "1 feature" in said


@pytest.mark.parametrize("name", ["labels.csv", "annotators.csv", "report.html"])
def test_a_folder_with_files_of_somebody_else_is_left_alone(tmp_path, capsys, name):
    write_birds(tmp_path / "birds.csv")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / name).write_text("mine")
    command = ["fit", str(tmp_path / "birds.csv"), "--candidates", "labels", *QUICK]
    with pytest.raises(SystemExit) as end:
        main([*command, "--out", str(tmp_path / "project")])
    assert end.value.code == 1
    assert "no model" in capsys.readouterr().err
    assert (tmp_path / "project" / name).read_text() == "mine"


def test_a_fit_does_not_replace_the_labels_that_it_is_given(fit, tmp_path):
    write_table(tmp_path / "t.csv")
    arguments = ["t.csv", "--candidates", "labels", "--id", "name", *QUICK, "--no-report"]
    assert fit(*arguments)[0] == 0
    labels = tmp_path / "model" / "labels.csv"
    labels.write_text("".join(labels.read_text().splitlines(keepends=True)[:30]))  # those that are right
    corrected = labels.read_text()
    code, _, err = fit(*arguments, "--clean", str(labels))
    assert code == 1
    assert "labels.csv would be replaced, and it is what this fit reads" in err
    assert labels.read_text() == corrected


def test_a_link_in_the_folder_of_a_model_is_not_followed(fit, tmp_path):
    write_table(tmp_path / "birds.csv")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "run").symlink_to(tmp_path / "elsewhere")
    code, _, err = fit("birds.csv", "--candidates", "labels", *QUICK)
    assert code == 1
    assert "run is a link to" in err
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_rows_without_candidates_are_predicted(fit, tmp_path):
    """A table of which only a part is annotated: nothing is refused, labels.csv has every row."""
    with open(tmp_path / "t.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["name", "a", "b", "labels"])
        for i in range(N):
            writer.writerow([f"r{i}", X[i, 0], X[i, 1], "" if i % 4 == 0 else "|".join(NAMES[MASK[i]])])
    code, out, err = fit("t.csv", "--candidates", "labels", "--id", "name", *QUICK)
    assert code == 0, err
    assert "60 of 240 rows have no candidates" in out
    assert "cells separated by ;" in out
    made = labels(tmp_path / "model")
    assert len(made) == N
    assert [row["id"] for row in made[:3]] == ["r1", "r2", "r3"]
    unseen = made[180:]
    assert [row["id"] for row in unseen] == [f"r{i}" for i in range(0, N, 4)]
    assert all(row["candidates"] == "" for row in unseen)
    assert all(f"r{row['row']}" == row["id"] for row in made), "row is the number of the row in the table"
    right = [row["label"] == NAMES[Y[int(row["id"][1:])]] for row in unseen]
    assert np.mean(right) > 0.7
    assert (tmp_path / "model" / "report.html").exists()


def test_an_old_label_among_the_features_stops_the_fit(fit, tmp_path):
    lines = [f"{X[i, 0]},{'xyz'[Y[i]]},{'|'.join(NAMES[MASK[i]])}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["a,code,labels", *lines]))
    arguments = ["t.csv", "--candidates", "labels", *QUICK, "--no-report"]
    code, _, err = fit(*arguments)
    assert code == 1
    assert 'column "code" tells the label' in err
    assert "--ignore code" in err
    assert "--accept leak" in err
    assert fit(*arguments, "--ignore", "code")[0] == 0
    assert fit(*arguments, "--accept", "leak")[0] == 0


@pytest.mark.parametrize("name", ["labels", "gold", "id", "other"])
def test_what_is_an_answer_or_left_out_is_no_feature(fit, tmp_path, name):
    lines = [f"r{i},{X[i, 0]},{X[i, 1]},{NAMES[Y[i]]},{'|'.join(NAMES[MASK[i]])}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,other,gold,labels", *lines]))
    arguments = ["t.csv", "--candidates", "labels", "--clean", "gold", "--id", "id", "--ignore", "other"]
    code, _, err = fit(*arguments, *QUICK, "--features", "a", name)
    assert code == 1
    assert f"--features {name}: it holds candidates, ids, trusted labels, or is ignored" in err


def test_plain_labels_stop_the_fit_until_they_are_meant(fit, tmp_path):
    lines = [f"{X[i, 0]},{X[i, 1]},{NAMES[Y[i]]}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,labels", *lines]))
    arguments = ["t.csv", "--candidates", "labels", *QUICK, "--no-report"]
    code, _, err = fit(*arguments)
    assert code == 1
    assert "every one of the 240 rows has a single candidate" in err
    assert fit(*arguments, "--accept", "singletons")[0] == 0


def test_an_array_in_a_file_stays_there(fit, tmp_path, monkeypatch):
    """The rows of an npy file are never copied: `fit` gets the memory-mapped array itself."""
    from oneof import PartialLabelClassifier
    from oneof.tables.encoding import TableEncoder

    np.save("x.npy", X.astype(np.float32))
    save_annotations(Annotations(Candidates.from_mask(MASK, NAMES)), tmp_path / "sets.parquet")
    given, fitted = [], PartialLabelClassifier.fit

    def recorded(self, x, *arguments, **more):
        given.append(x)
        return fitted(self, x, *arguments, **more)

    monkeypatch.setattr(PartialLabelClassifier, "fit", recorded)
    monkeypatch.setattr(TableEncoder, "transform", None)
    code, out, _ = fit("x.npy", "--candidates", "sets.parquet", "--method", "proden", *QUICK)
    assert code == 0, out
    assert isinstance(given[-1], np.memmap)
    assert len(labels(tmp_path / "model")) == N
    assert oneof.load(tmp_path / "model").score(X.astype(np.float32), NAMES[Y]) > 0.8


# ---- which net --------------------------------------------------------------------------------


@pytest.mark.parametrize("net", ["mlp", "linear"])
def test_nets_for_tables_take_no_images(fit, tmp_path, net):
    (tmp_path / "photos").mkdir()
    code, _, err = fit("--images", "photos", "--candidates", "c.npz", "--net", net)
    assert code != 0
    assert f"--net {net} takes no images; those that do are lenet" in err


@pytest.mark.parametrize(
    ("asked", "chosen", "told"), [("mlp", "linear", True), ("auto", "linear", False), ("mlp", "mlp", False)]
)
def test_it_is_said_where_a_linear_net_did_better_than_the_one_asked_for(capsys, asked, chosen, told):
    row = {"rounds": 3, "as_good": True, "kind": "method", "judged_by": "covering rate", "name": chosen}
    model = SimpleNamespace(
        selection_=[{**row, "score": 0.8, "standard_error": 0.1, "chosen": True}],
        selection_note_="chosen.",
        chosen_model=lambda: SimpleNamespace(net=chosen),
    )
    Fit("labels", net=asked)._say_what_was_chosen(model)
    assert ("which did better" in capsys.readouterr().out) == told


def test_an_equal_score_that_is_not_as_good_is_explained_by_the_second_criterion(capsys):
    row = {"rounds": 2, "kind": "method", "judged_by": "accuracy on clean rows", "score": 0.975}
    row |= {"standard_error": 0.02, "chosen": False, "as_good": False, "name": "b", "covering_rate": 0.9825}
    first = row | {"name": "a", "chosen": True, "as_good": True, "covering_rate": 0.985}
    model = SimpleNamespace(selection_=[first, row], selection_note_="a was chosen.")
    Fit("labels", method="auto")._say_what_was_chosen(model)
    said = " ".join(capsys.readouterr().out.split())
    assert "covering rate" in said
    assert "98.2%" in said
    assert "no" in said.split()
