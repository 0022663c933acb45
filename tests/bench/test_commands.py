import os

from oneof.app.commands.lab import Bench, Report
from tests.bench.toy import write_mat


def test_bench_then_report(tmp_path, monkeypatch, capsys):
    """The commands as users run them, with real worker processes."""
    data = write_mat(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = Bench(
        "table2",
        to=tmp_path / "lab",
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
    assert "equal-information" in capsys.readouterr().out
