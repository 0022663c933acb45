"""A short run of the campaign of faults (`benchmarks/campaign.py`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def campaign(part, out, *more):
    """The summary of a run."""
    command = [sys.executable, "benchmarks/campaign.py", "--part", part, "--out", str(out), *more]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True)
    summary = json.loads((out / f"{part}.json").read_text())
    assert json.loads(done.stdout.splitlines()[-1])["tries"] == summary["tries"]
    return summary


@pytest.mark.parametrize(("part", "tries"), [("faults", 80), ("threads", 24)])
def test_nothing_is_lost_or_silent(part, tries, tmp_path):
    summary = campaign(part, tmp_path, "--tries", str(tries), "--minutes", "5")
    assert summary["tries"] == tries
    assert summary["hits"] > 0
    # files of other rooms have tests of their own
    ours = {
        kind: n["failures"] for kind, n in summary["kinds"].items() if kind not in ("records", "candidates")
    }
    assert set(ours.values()) == {0}, summary["failed"]


def test_an_attempt_can_be_made_again(tmp_path):
    first = campaign("faults", tmp_path / "a", "--tries", "6", "--seed", "5")
    again = campaign("faults", tmp_path / "b", "--tries", "1", "--seed", "10")
    assert first["seeds"] == [5, 10]
    (kind,) = again["kinds"]
    assert first["kinds"][kind]["tries"] >= 1
