"""`oneof candidates import` as a person types it."""

import json

import numpy as np
import pytest

from oneof.app.cli import main
from oneof.tables.candidate_files import load_annotations
from tests.candidates.test_import_files import CROWD


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_the_command_writes_one_file(file, tmp_path, capsys, ending):
    path, out = file("a.csv", CROWD), tmp_path / f"sets.{ending}"
    truth = file("truth.txt", "cat\ndog\n")
    arguments = [str(path), "--format", "crowd", "--rule", "share", "--at-least", "0.5", "--out", str(out)]
    with pytest.raises(SystemExit) as end:
        main(["candidates", "import", *arguments, "--truth", str(truth)])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert "a.csv, format crowd, rule share (at_least 0.5)" in text
    assert "true label among the candidates: 100.00%" in text
    assert "may be missing" in text
    made = load_annotations(out)
    assert made.candidates.sets() == [["cat", "dog"], ["dog"]]
    assert made.answers.workers == ("ann", "bob")
    with pytest.raises(SystemExit) as end:
        main(["candidates", "describe", str(out), "--no-plots"])
    assert end.value.code == 0


def test_the_command_as_json(file, tmp_path, capsys):
    path, out = file("a.jsonl", '{"labels": ["a", "b"]}\n{"labels": ["b"]}\n'), str(tmp_path / "x.npz")
    with pytest.raises(SystemExit):
        main(["candidates", "import", str(path), "--format", "jsonl", "--out", out, "--json"])
    facts = json.loads(capsys.readouterr().out)
    assert facts["mean_size"] == 1.5
    assert facts["provenance"]["rule"] == "union"


def test_the_command_refuses_a_wrong_place_before_reading(file, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["candidates", "import", "none.csv", "--format", "crowd", "--out", str(tmp_path / "x.csv")])
    assert end.value.code == 1
    assert "must end in .npz or .parquet" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--annotator-table"])
def test_the_command_does_not_replace_its_input(tmp_path, capsys, option):
    path = tmp_path / "scores.npz"
    np.savez(path, scores=np.eye(2))
    with pytest.raises(SystemExit) as end:
        main(["candidates", "import", str(path), "--format", "scores", "--top-k", "1", option, str(path)])
    assert end.value.code == 1
    assert f"{option} {path} would replace the file" in capsys.readouterr().err
    assert np.load(path).files == ["scores"]
