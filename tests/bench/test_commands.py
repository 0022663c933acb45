import gzip
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from oneof.app.commands import lab
from oneof.app.commands.lab import Bench, Report
from oneof.lab.bench import recorded
from oneof.lab.records import device_of
from oneof.lab.runners import Runner
from oneof.tables.errors import DataError
from tests.bench.toy import write_mat


def test_bench_then_report(tmp_path, monkeypatch, capsys):
    """The commands as users run them, with real worker processes."""
    data = write_mat(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = Bench(
        "table2",
        out=tmp_path / "lab",
        data=(data,),
        methods=("rplg", "proden"),
        nets=("linear",),
        splits=2,
        epochs=2,
        configurations=1,
        workers=1,
    )
    assert command.run() == 0
    out = capsys.readouterr().out
    assert "table2" in out
    assert "4 jobs run" in out
    assert command.run() == 0
    assert "0 jobs run" in capsys.readouterr().out
    assert Report(tmp_path / "lab").run() == 0
    assert "report.html" in capsys.readouterr().out
    assert os.path.exists(tmp_path / "lab" / "report.html")


@pytest.mark.parametrize(
    "typed",
    [
        "images --data fmnist --minutes 0 --reuse runs/a runs/b --to here",
        "images --workers 4 --data fmnist --minutes=5 --retry-failed --to here",
        "--minutes 5 images --data fmnist --to here --reuse runs/a",
    ],
)
def test_the_recorded_command_is_what_makes_the_table(typed):
    assert " ".join(recorded(typed.split())) == "images --data fmnist --to here"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("nonsense", "no protocol 'nonsense'"),
        ("quick --set lr=0.2 --set recipe.batch_size=64", "--set is given more than once"),
        ("quick --methods=rplg --methods proden", "--methods is given more than once"),
    ],
)
def test_mistakes_on_the_command_line_are_told(typed, said, tmp_path):
    for program in ("oneof.lab", "oneof bench"):
        command = [sys.executable, "-m", *program.split(), *typed.split(), "--to", str(tmp_path / "lab")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 1
        assert done.stderr.startswith("oneof: ")
        assert said in done.stderr
    assert not (tmp_path / "lab").exists()


def test_the_list_of_protocols(capsys):
    assert Bench("list").run() == 0
    out = capsys.readouterr().out
    assert "equal-information" in out
    assert "takes about" in out
    assert Bench("list", json=True).run() == 0
    known = {facts["name"]: facts for facts in json.loads(capsys.readouterr().out)}
    quick = known["quick"]
    assert (quick["trainings"], quick["data"]) == (65, {"digits": True})  # 13 methods, 5 splits, no search
    assert quick["core_seconds"] > 0 == quick["gpu_seconds"]
    assert known["table1"]["gpu_seconds"] > 0
    # eleven methods, each 8 configurations on 2 splits and 10 reported ones; 5 sets, 2 nets
    assert known["table2"]["trainings"] == 11 * (16 + 10) * 5 * 2


@pytest.mark.parametrize(("known", "epochs"), [("SECONDS", None), ("GPU_SECONDS", 70)])
def test_times_in_the_list_are_those_of_our_records(known, epochs):
    """Within a factor of two: they are rounded, and records differ in methods and machines."""
    seconds = defaultdict(list)
    for file in (Path(__file__).parents[2] / "results").glob("*/records.jsonl.gz"):
        for record in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
            on_gpu = device_of(record) != "cpu" and record["config"]["recipe"]["epochs"] == epochs
            if epochs is None or on_gpu:
                seconds[record["config"]["data"]["name"]].append(record["seconds"])
    for name, said in getattr(lab, known).items():
        assert said / 2 < mean(seconds[name]) < said * 2, name


def write_table(folder, name="birds.csv"):
    """Three classes of rows with joined candidates, a true label in most of them, and a gap."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    x = rng.normal(size=(90, 4)) + 4 * np.eye(3, 4)[labels]
    names = np.array(["crow", "raven", "jay"])
    lines = ["id,a,b,c,d,heard,bird"]
    for i, (row, y) in enumerate(zip(x, labels)):
        other = names[(y + rng.integers(0, 3)) % 3]
        heard = "|".join(dict.fromkeys([names[y], other])) if i % 30 else ""
        numbers = [f"{v:.3f}" for v in row]
        numbers[i % 4] = "" if i % 17 == 0 else numbers[i % 4]
        lines.append(",".join([f"r{i}", *numbers, heard, names[y] if i % 11 else ""]))
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_table_of_ones_own(tmp_path, capsys, monkeypatch):
    """`oneof bench --data FILE.csv`: the quick protocol on random splits, and the usual report."""
    path = write_table(tmp_path)
    options = {
        "candidates": "heard",
        "truth": "bird",
        "methods": ("proden", "rplg"),
        "splits": 2,
        "epochs": 3,
    }
    monkeypatch.setattr(Bench, "_runner", lambda self: Runner())
    command = Bench(data=(path,), out=tmp_path / "lab", **options)
    assert command.run() == 0
    out = capsys.readouterr().out
    assert "quick: The methods of quick on birds" in out
    assert "4 jobs run" in out
    plan = json.loads((tmp_path / "lab" / "plan-quick.json").read_text())
    facts = plan["data"][path]
    kept = [i for i in range(90) if i % 30 and i % 11]
    assert facts["rows"] == len(kept)  # rows without candidates or without a true label are left out
    assert facts["features"] == 8  # numbers and their gaps; neither ids nor labels
    assert facts["classes"] == 3
    assert Report(tmp_path / "lab", figures=False).run() == 0
    assert 'candidates are the column "heard"' in (tmp_path / "lab" / "report.md").read_text(encoding="utf-8")
    assert command.run() == 0  # finished jobs are known again by their hash
    assert "0 jobs run" in capsys.readouterr().out


def test_a_table_without_the_columns_is_told(tmp_path):
    path = write_table(tmp_path)
    with pytest.raises(DataError, match=r'no column "truth".*it has .*heard'):
        Bench(data=(path,), candidates="heard", out=tmp_path / "lab").run()
    empty = tmp_path / "empty.csv"
    empty.write_text("a,heard,bird\n1,crow|jay,\n2,,jay\n")
    with pytest.raises(DataError, match=r'no row has both candidates .*"heard".* and a true label .*"bird"'):
        Bench(data=(str(empty),), candidates="heard", truth="bird", out=tmp_path / "lab").run()
    assert not (tmp_path / "lab").exists()
