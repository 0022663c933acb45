"""SIGKILL at random moments: the records are those of a lab that nobody disturbed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from oneof.lab.records import Records, read
from tests.bench.test_lab import run, without_times
from tests.bench.toy import toy_protocol, write_mat

SCRIPT = """
import signal
import sys
from pathlib import Path
from oneof.lab.run import run_lab
from oneof.lab.runners.local import LocalRunner
from tests.bench.test_kill import the_protocol

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background it is ignored
    runner = LocalRunner(workers=1)
    run_lab(the_protocol(sys.argv[1], int(sys.argv[3])), Path(sys.argv[2]), runner)
"""


def the_protocol(data, splits=8):
    return toy_protocol(data, seeds=tuple(range(splits)))


def start(script, data, folder, splits=8):
    here = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.path.join(here, "src")])}
    return subprocess.Popen(
        [sys.executable, str(script), data, str(folder), str(splits)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid):
    """Processes whose parent is pid, from /proc."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(name))
    return found


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon_dead(pids):
    until = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(alive(pid) for pid in pids)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for orphans in /proc")
def test_two_kills_lose_nothing_and_repeat_nothing(tmp_path):
    data = write_mat(tmp_path)
    script = tmp_path / "lab.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "killed"
    moments = random.Random(7)
    total = 2 * (2 + 8)
    for kill in range(2):
        lab = start(script, data, folder)
        before = len(Records(folder))
        wanted = min(total - 2, before + moments.randrange(1, 6))
        deadline = time.monotonic() + 60
        while len(Records(folder)) < wanted and time.monotonic() < deadline and lab.poll() is None:
            time.sleep(0.005)
        time.sleep(moments.random() * 0.05)
        assert lab.poll() is None, f"the lab ended before kill {kill}: {lab.stderr.read()}"
        workers = children(lab.pid)
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        lab.stderr.close()
        if kill == 1:  # a kill in the middle of a write, which a test can hardly hit by chance
            with open(folder / "records.jsonl", "ab") as file:
                file.write(b'{"job": "half a rec')
        assert soon_dead(workers), "a worker outlived its lab"
    lab = start(script, data, folder)
    _, errors = lab.communicate(timeout=120)
    assert lab.returncode == 0, errors

    run(the_protocol(data), tmp_path / "whole")
    killed = [json.dumps(without_times(r), sort_keys=True) for r in read(folder / "records.jsonl")]
    whole = [json.dumps(without_times(r), sort_keys=True) for r in read(tmp_path / "whole" / "records.jsonl")]
    assert len(killed) == len(set(killed)) == total
    assert sorted(killed) == sorted(whole)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for orphans in /proc")
def test_ctrl_c_ends_the_lab_and_its_workers(tmp_path):
    data = write_mat(tmp_path)
    script = tmp_path / "lab.py"
    script.write_text(SCRIPT)
    lab = start(script, data, tmp_path / "lab", splits=900)  # too many to end before the signal comes
    deadline = time.monotonic() + 60
    while len(Records(tmp_path / "lab")) < 1 and time.monotonic() < deadline and lab.poll() is None:
        time.sleep(0.01)
    workers = children(lab.pid)
    assert workers
    lab.send_signal(signal.SIGINT)
    _, errors = lab.communicate(timeout=20)
    assert lab.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert soon_dead(workers), "a worker outlived its lab"
