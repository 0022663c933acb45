import gzip
import json
import os
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest

from oneof.app.commands import protocol_list
from oneof.app.commands.lab import Bench, Report
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


def test_the_list_of_protocols(capsys):
    assert Bench("list").run() == 0
    out = capsys.readouterr().out
    assert "equal-information" in out
    assert "takes about" in out
    assert Bench("list", json=True).run() == 0
    known = {facts["name"]: facts for facts in json.loads(capsys.readouterr().out)}
    quick = known["quick"]
    assert (quick["trainings"], quick["data"]) == (60, {"digits": True})  # 12 methods, 5 splits, no search
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
            if epochs is None or record["config"]["recipe"]["epochs"] == epochs:
                seconds[record["config"]["data"]["name"]].append(record["seconds"])
    for name, said in getattr(protocol_list, known).items():
        assert said / 2 < mean(seconds[name]) < said * 2, name
