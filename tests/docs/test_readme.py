"""What README.md shows works as it stands, with what its own install line installs."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tyro
from records import lookup
from tutorial import blocks

from oneof.app.cli import command_class
from oneof.lab.paper import published

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = [code for language, code in blocks(TEXT) if language == "python"]
COMMANDS = [shlex.split(line, comments=True) for line in re.findall(r"^    (oneof .+)$", TEXT, re.MULTILINE)]


@pytest.fixture
def run(tmp_path):
    """Runs Python in an empty folder that has the examples; gives what was printed."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def execute(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return execute


def test_the_first_snippet_learns_digits(run):
    shares = [float(line.split(": ")[1]) for line in run("-c", SNIPPETS[0]).splitlines()]
    assert len(shares) == 2
    assert min(shares) > 0.9


def test_the_second_snippet_saves_and_loads_birds(run, tmp_path):
    printed = run("-c", SNIPPETS[1])
    assert len(re.findall(r"'[a-z ]+'", printed)) == 3
    assert (tmp_path / "bird_model" / "manifest.json").is_file()
    assert len(SNIPPETS) == 2, "a new snippet needs a test"


def test_a_table_becomes_a_model_and_predictions(run, tmp_path):
    (fit,) = (command for command in COMMANDS if command[1] == "fit")
    (predict,) = (command for command in COMMANDS if command[1] == "predict")
    run("-m", "oneof.app.cli", *fit[1:])
    assert (tmp_path / "birds" / "report.html").is_file()
    assert (tmp_path / "birds" / "labels.csv").is_file()
    run("-m", "oneof.app.cli", *predict[1:])
    told = {row["id"]: row["label"] for row in rows(tmp_path / "new_labels.csv")}
    true = {row["id"]: row["label"] for row in rows(ROOT / "examples" / "new_birds_truth.csv")}
    assert told.keys() == true.keys()
    assert sum(told[bird] == true[bird] for bird in true) > 0.7 * len(true)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_understood(command):
    made = tyro.cli(
        command_class(command[1]),
        args=command[2:],
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
    )
    assert callable(made.run)


def mean(protocol, method, digits=2):
    return f"{lookup(f'results/table1/summary.json:{protocol}/by data/cifar10/{method}/mean'):.{digits}f}"


def test_the_picture_of_results_is_that_of_the_records():
    picture = (ROOT / "docs" / "static" / "results.svg").read_text(encoding="utf-8")
    none = [("images-no-clean", method) for method in ("proden", "rplg-nm", "rplg+")]
    clean = [("images", "rplg"), ("images", "rplg+")]
    both = [("images-equal-information", method) for method in ("proden", "rplg+")]
    drawn = re.findall(r">(\d\d\.\d)</text>", picture)
    assert drawn == [mean(*cell, digits=1) for cell in none + clean + both]


def test_the_table_of_results_is_that_of_the_records():
    none, paper, equal = "images-no-clean", "images", "images-equal-information"
    rows = [
        re.findall(r"\d\d\.\d\d", line) for line in TEXT.splitlines() if line.startswith("|") and "." in line
    ]
    assert rows == [
        [mean(none, "proden"), mean(equal, "proden")],
        [mean(paper, "rplg"), f"{published('table1', 'rplg', 'cifar10')[0]:.2f}"],
        [mean(none, "rplg+"), mean(paper, "rplg+"), mean(equal, "rplg+")],
    ]


def test_the_numbers_below_the_table_are_those_of_the_records():
    text = " ".join(TEXT.split())
    rplg, plus, proden = (mean("images-long", method) for method in ("rplg", "rplg+", "proden"))
    assert f"reaches {plus}, PRODEN {proden} and published RPLG {rplg} (one seed)" in text
    cells = lookup("results/table1/summary.json:images/by data/cifar100")
    ahead = [cells["rplg+"]["mean"] - cells[rival]["mean"] for rival in cells if rival != "rplg+"]
    assert f"VALEN one): {min(ahead):.1f} to {max(ahead):.1f} points ahead of PRODEN, RPLG, RPLG-NM," in text
    named = {"proden", "rplg", "rplg-nm", "rplg+", "pop", "sdct", "valen"}
    assert set(cells) == named, "other rivals have been trained"
    for protocol, data, first in (("images", "fmnist", "valen"), ("images-tiny", "tiny-imagenet", "rplg")):
        cells = lookup(f"results/table1/summary.json:{protocol}/by data/{data}")
        assert max(cells, key=lambda method: cells[method]["mean"]) == first
        behind = cells[first]["mean"] - cells["rplg+"]["mean"]
        said = {
            "fmnist": "VALEN is {:.1f} points ahead on Fashion-MNIST",
            "tiny-imagenet": "{:.1f} on TinyImageNet",
        }
        assert said[data].format(behind + 1e-9) in text


def test_snippets_import_only_what_the_install_line_installs():
    line = re.search(r"pip install .*", TEXT)[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.search(r"\[(.+)\]", line)[1].split(",")
    declared = project["dependencies"] + [p for e in extras for p in project["optional-dependencies"][e]]
    installed = {re.split(r"[<>=]", package)[0] for package in declared}
    installed |= {*shlex.split(line, comments=True), "oneof"}
    for code in SNIPPETS:
        for name in re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE):
            assert {"sklearn": "scikit-learn"}.get(name, name) in installed


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
