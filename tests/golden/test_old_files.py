"""Files that version 0.1.0 wrote are read by later ones, with the same result; see `write_files.py`."""

import json
import shutil

import numpy as np
import pytest

from tests.golden import histories, paths, write_files
from tests.golden.write_files import FILES, command

EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))
FOUR_DIGITS = 1e-3
"""Tolerance for probabilities in CSV files, whose last digit may round the other way."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A copy of the files, as the current folder: nothing here may change the stored ones."""
    monkeypatch.setenv("ONEOF_DEBUG", "1")  # errors with their origin
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def same(found, stored, relative=histories.RELATIVE):
    wrong = list(histories.differences(found, stored, relative))
    assert not wrong, f"{len(wrong)} differ (where, now, before): {wrong[:5]}"


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_a_saved_model_predicts_what_it_did(files, name):
    same(write_files.predictions(paths.load(files / name)), EXPECTED["models"][name])


def test_the_rplg_model_names_every_option_of_its_version(files):
    """So that reading it shows that none of them stands in the way."""
    stored = json.loads((files / "model_rplg" / "model.json").read_text(encoding="utf-8"))
    assert stored["method"] == {"name": "rplg", "params": write_files.RPLG_OPTIONS}


def test_an_option_that_was_dropped_is_refused_by_name(files):
    """With the value that all trainings have now it is ignored, see above."""
    file = files / "model_rplg" / "model.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["method"]["params"]["meta_every"] = 2
    with pytest.raises(ValueError, match="no longer has the hyper-parameter 'meta_every', which is 2 here"):
        paths.make_method("rplg", stored["method"]["params"])


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_a_saved_model_is_saved_again(files, name):
    paths.load(files / name).save(files / "again")
    same(write_files.predictions(paths.load(files / "again")), EXPECTED["models"][name])


def rows_of(file):
    """A CSV file as a tree: numbers as numbers, so that last digits may differ."""
    table = np.genfromtxt(file, delimiter=",", dtype=None, encoding="utf-8", names=True)
    return [dict(zip(table.dtype.names, row)) for row in table.tolist()]


def test_oneof_predict_with_a_model_of_oneof_fit(files):
    command([*write_files.PREDICT, "--out", "now.csv"])
    same(rows_of("now.csv"), rows_of("predictions.csv"), FOUR_DIGITS)


def test_oneof_fit_gives_the_same_labels(files):
    """Of PRODEN: the RPLG of the folder held sets out in the place of clean rows, which is withdrawn."""
    words = {"fitted": "again", "rplg": "proden"}
    command([words.get(word, word) for word in write_files.FIT])
    same(rows_of("again/labels.csv"), rows_of("proden_labels.csv"), FOUR_DIGITS)


def test_decisions_of_the_review_page(files):
    same(write_files.decisions_of(files / "fitted"), EXPECTED["decisions"])


def test_oneof_fit_learns_from_decisions(files, capsys):
    command([*write_files.FIT, "--clean", "fitted/decisions.jsonl", "--out", "more"])
    assert "2 trusted labels were given and all were learned from" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sets.npz", "digits.npz"])
def test_candidates(files, name):
    same(write_files.sets_of(paths.load_candidates(files / name)), EXPECTED["candidates"][name])


@pytest.mark.parametrize("name", ["answers.npz", "answers.parquet"])
def test_candidates_with_answers(files, name):
    same(write_files.annotations_of(paths.load_annotations(files / name)), EXPECTED["candidates"][name])


def test_the_commands_make_the_same_candidates(files):
    command([*write_files.GENERATE, "now-digits.npz"])
    same(write_files.sets_of(paths.load_candidates("now-digits.npz")), EXPECTED["candidates"]["digits.npz"])
    command([*write_files.IMPORT, "now-answers.npz"])
    now = paths.load_annotations("now-answers.npz")
    assert now.candidates.evidence is not None  # votes are kept since 2026-11; nothing else has changed
    sets = now.candidates.replace(evidence=None)
    made = write_files.annotations_of(type(now)(sets, now.ids, now.answers))
    same(made, EXPECTED["candidates"]["answers.npz"])


def test_a_stopped_run_goes_on_and_ends_as_if_it_had_not_been_stopped(files):
    progress = write_files.Stopping()
    found = write_files.proden_run(files / "run", progress)
    assert (progress.began, progress.epochs) == (2, 4)  # from its checkpoint
    same(found, EXPECTED["run"])
    lines = (files / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    same([json.loads(line) for line in lines], EXPECTED["run"]["history"])


def test_the_report_of_a_lab(files):
    command(["report", "lab", "--no-figures"])
    for name in ("report.md", "tables.tex", "summary.json"):
        now, before = ((files / place).read_text("utf-8") for place in (f"lab/{name}", f"expected-{name}"))
        assert now == before, name


def test_a_finished_lab_runs_nothing_again(files, capfd):
    """PRODEN's rows: its jobs are called what they were called."""
    plan = json.loads((files / "lab" / "plan-quick.json").read_text(encoding="utf-8"))
    if plan["versions"]["oneof"] != paths.__version__:
        pytest.skip("the version is part of a job's name")
    command([word for word in write_files.BENCH if word != "rplg"])
    assert "0 jobs run" in capfd.readouterr().out
