import json
import sys

import numpy as np
import pytest

from oneof.app.commands.candidates import CandidatesDescribe, CandidatesGenerate
from oneof.candidates import CandidateError, Candidates
from oneof.candidates.describe import as_text, describe
from oneof.candidates.generate import flip_sets
from oneof.datasets import DataError
from oneof.lab import LabError
from oneof.lab.candidate_pictures import save_heat_map, save_size_chart
from oneof.tables.candidate_files import load_candidates
from tests.data.official import partial_label_table, write_mat

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

SETS = [["a"], ["a", "b"], ["a", "b"], ["c", "d"], ["c", "d", "e"], ["a", "b", "c", "d", "e"]]


def test_facts_by_hand():
    c = Candidates.from_sets(SETS, classes="abcdef", truth=[0, 0, 1, 2, 4, 0])
    facts = describe(c)
    assert facts["rows"] == 6
    assert facts["mean_size"] == 2.5
    assert facts["sizes"] == {"1": 1, "2": 3, "3": 1, "5": 1}
    assert facts["singletons"] == round(1 / 6, 5)
    assert facts["pairs"] == 0.5
    assert describe(Candidates.from_sets(SETS[:3]))["pairs"] == round(2 / 3, 5)
    assert facts["full_rows"] == 0  # f is nowhere, so no row has all classes
    assert facts["classes_never_alone"] == ["b", "c", "d", "e"]
    assert facts["classes_never_candidate"] == ["f"]
    assert facts["classes_never_apart"] == [["c", "d"]]
    assert facts["confused_pairs"][0] == {"a": "a", "b": "b", "rows": 3, "share": 0.75}
    assert facts["truth_inside"] == 1.0
    assert facts["ambiguity"] == 1.0
    json.dumps(facts)
    text = as_text(facts)
    assert "classes no row tells apart: c and d" in text
    assert "6 rows, 6 classes, 2.50 candidates per row" in text


def test_rows_without_information_are_counted():
    with pytest.warns(UserWarning, match="no information"):
        c = Candidates.from_mask([[1, 1], [1, 0]])
    assert describe(c)["full_rows"] == 1


def test_classes_that_are_candidates_together_are_counted():
    c = flip_sets(np.arange(200) % 5, 5, 0.4, seed=0)
    table = c.compact.together().toarray()
    for a in range(5):
        for b in range(5):
            assert table[a, b] == (c.mask[:, a] & c.mask[:, b]).sum()


def test_truth_outside_is_reported():
    c = Candidates.from_sets([["a"], ["b"]], classes="ab", truth=[0, 0], truth_may_be_outside=True)
    assert describe(c)["truth_inside"] == 0.5


def test_nothing_to_describe():
    with pytest.raises(CandidateError, match="no rows"):
        describe(Candidates(np.zeros((0, 2), dtype=bool), ("a", "b")))


@pytest.mark.parametrize("k", [2, 10, 60])
def test_pictures_are_written(tmp_path, k):
    c = flip_sets(np.arange(300) % k, k, min(0.5, 3 / k), seed=0)
    for save in (save_size_chart, save_heat_map):
        path = save(c, tmp_path / "sub" / f"{save.__name__}.png")
        assert path.read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "sub").iterdir())) == 2


def test_matplotlib_is_named_when_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LabError, match=r"oneof\[report\]"):
        save_size_chart(flip_sets([0, 1], 3, 0.5, seed=0), tmp_path / "a.png")


def test_describe_command(tmp_path, capsys):
    x, mask, truth = partial_label_table(50, 3, 6)
    path = write_mat(tmp_path / "mine.mat", x, mask, truth)
    assert CandidatesDescribe(str(path), out=tmp_path / "pictures").run() == 0
    assert "50 rows, 6 classes" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == [
        "mine-sizes.png",
        "mine-together.png",
    ]
    assert CandidatesDescribe(str(path), figures=False, json=True).run() == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 50


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "uniform"},
        {"rule": "flips", "rate": 0.2, "forbid_singletons": True},
        {"rule": "class", "matrix": "flips.csv"},
        {"rule": "class", "similarity": "similar.npy", "rate": 0.3},
    ],
)
def test_generate_command(tmp_path, monkeypatch, capsys, options):
    monkeypatch.chdir(tmp_path)
    np.savetxt("flips.csv", np.full((10, 10), 0.25), delimiter=",")
    np.save("similar.npy", np.random.default_rng(0).random((10, 10)))
    options = {k: tmp_path / v if k in ("matrix", "similarity") else v for k, v in options.items()}
    out = tmp_path / "sets.npz"
    assert CandidatesGenerate("digits", seed=3, out=out, **options).run() == 0
    said = capsys.readouterr().out
    assert "1797 rows, 10 classes" in said
    assert str(out) in said
    made = load_candidates(out)
    assert made.provenance["seed"] == 3
    assert CandidatesGenerate("digits", seed=3, json=True, **options).run() == 0
    assert json.loads(capsys.readouterr().out)["hash"] == made.hash
    assert CandidatesDescribe(str(out), figures=False).run() == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rule": "flips"}, "needs --rate"),
        ({"rule": "class"}, "either --matrix or --similarity"),
        ({"rule": "uniform", "rate": 0.1}, "no meaning"),
        ({"rule": "flips", "rate": 0.1, "matrix": "x.csv"}, "belong to --rule class"),
        ({"rule": "class", "matrix": "none.csv"}, "no file none.csv"),
    ],
)
def test_generate_command_refuses(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    options = {k: Path(v) if k == "matrix" else v for k, v in options.items()}
    with pytest.raises(DataError, match=words):
        CandidatesGenerate("digits", **options).run()


@pytest.mark.parametrize(
    ("cells", "words"), [("0,a\n1,0\n", "row 0"), ("0,1\n1\n", "1 cells"), ("", "empty")]
)
def test_a_matrix_that_is_none_is_refused_in_words(tmp_path, cells, words):
    (tmp_path / "flips.csv").write_text(cells)
    with pytest.raises(DataError, match=rf"(?s){words}.*A matrix is a"):
        CandidatesGenerate("digits", rule="class", matrix=tmp_path / "flips.csv").run()
