"""Trainings share a GPU by a service, which here is a program that writes down what it hears."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from oneof.lab.runners import sharing
from oneof.lab.runners.local import LocalRunner
from oneof.lab.runners.sharing import LOGS, PIPES, SERVICE, shared_gpu

HEARD = "heard.jsonl"
PROGRAM = """#!{python}
import json, os, sys
with open({heard!r}, "a") as file:
    names = {pipes!r}, {logs!r}, "CUDA_VISIBLE_DEVICES"
    facts = sys.argv[1:], sys.stdin.read(), *map(os.environ.get, names)
    file.write(json.dumps(facts) + "\\n")
sys.exit({code})
"""


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """What the program was told so far; it stands first on the PATH."""
    monkeypatch.setattr(sharing, "USUAL", tmp_path / "usual")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return lambda: [json.loads(line) for line in (tmp_path / HEARD).read_text().splitlines()]


def install(tmp_path, code=0):
    facts = {"python": sys.executable, "heard": str(tmp_path / HEARD), "pipes": PIPES, "logs": LOGS}
    file = tmp_path / "bin" / SERVICE
    file.parent.mkdir()
    file.write_text(PROGRAM.format(code=code, **facts))
    file.chmod(0o755)


def test_the_service_runs_as_long_as_it_is_needed(tmp_path, heard):
    install(tmp_path)
    with shared_gpu() as environment:
        folder = environment[PIPES]
        assert environment == {PIPES: folder, LOGS: folder}
        assert os.path.isdir(folder)
        assert heard() == [[["-d"], "", folder, folder, None]]
        assert PIPES not in os.environ  # only those who train get it
    assert heard()[1:] == [[[], "quit\n", folder, folder, None]]
    assert not os.path.exists(folder)


def test_it_ends_after_an_error_too(tmp_path, heard):
    install(tmp_path)
    with pytest.raises(KeyError), shared_gpu():
        raise KeyError
    assert [told for _, told, *_ in heard()] == ["", "quit\n"]


def test_one_that_runs_already_is_left_alone(tmp_path, heard, monkeypatch):
    install(tmp_path)
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "control").touch()
    with shared_gpu() as environment:
        assert environment == {}
    monkeypatch.setattr(sharing, "USUAL", tmp_path / "nowhere")
    monkeypatch.setenv(PIPES, "/somewhere")
    with shared_gpu() as environment:
        assert environment == {}
    assert not (tmp_path / HEARD).exists()


def test_trainings_that_take_turns_say_why(tmp_path, heard, capsys):
    with shared_gpu() as environment:
        assert environment is None
    assert f"take turns on the GPU: {SERVICE} is not installed" in capsys.readouterr().err
    install(tmp_path, code=3)
    with shared_gpu() as environment:
        assert environment is None
    assert f"{SERVICE} did not start (exit code 3)" in capsys.readouterr().err
    assert len(heard()) == 1


def test_it_ends_with_a_process_that_is_killed(tmp_path, heard, monkeypatch):
    install(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from oneof.lab.runners import sharing\n"
        f"sharing.USUAL = Path({str(tmp_path)!r}, 'usual')\n"
        "with sharing.shared_gpu():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    while len(heard()) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    (_, _, folder, _, seen), (_, told, *_) = heard()
    assert seen is None  # of all GPUs the service must know
    assert told == "quit\n"
    while os.path.exists(folder) and time.monotonic() < until:
        time.sleep(0.05)
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("device", "workers", "shares"), [("cuda", 2, True), ("cuda", 1, False), ("cpu", 2, False)]
)
def test_the_workers_of_a_lab_share_a_gpu(tmp_path, heard, monkeypatch, device, workers, shares):
    install(tmp_path)
    given = []

    class Worker:
        def __init__(self, place, environment):
            given.append(dict(environment))

        def stop(self):
            given.append("stopped")

    monkeypatch.setattr("oneof.lab.runners.local.Worker", Worker)
    with LocalRunner(workers, device):
        assert len(given) == workers
        assert all((PIPES in environment) == shares for environment in given)
    assert given[workers:] == ["stopped"] * workers
    assert not shares or heard()[-1][1] == "quit\n"


def test_a_worker_has_the_variables_it_is_given_and_this_process_keeps_its_own(monkeypatch):
    from oneof.lab.runners.local import _in_environment

    monkeypatch.setenv("ONE", "before")
    monkeypatch.delenv("TWO", raising=False)
    with _in_environment({"ONE": "1", "TWO": "2"}):
        assert (os.environ["ONE"], os.environ["TWO"]) == ("1", "2")
    assert os.environ["ONE"] == "before"
    assert "TWO" not in os.environ
