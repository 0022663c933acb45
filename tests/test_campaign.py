"""A short run of the campaign of faults (`benchmarks/campaign/`)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRIES = {"kills": 6, "faults": 60, "fuzz": 300, "server": 60, "numbers": 48, "threads": 16}


def campaign(part, out, *more):
    """The summary of a run, and what it printed last."""
    command = [sys.executable, "-m", "benchmarks.campaign", "--part", part, "--out", str(out), *more]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True)
    return json.loads((out / f"{part}.json").read_text()), json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("part", TRIES)
def test_nothing_is_lost_or_silent(part, tmp_path):
    if part == "fuzz":
        pytest.importorskip("polars")
    if part in ("fuzz", "server"):
        pytest.importorskip("PIL")
    if part == "server":
        pytest.importorskip("uvicorn")
    summary, printed = campaign(part, tmp_path, "--tries", str(TRIES[part]), "--minutes", "5")
    assert printed["tries"] == summary["tries"] == TRIES[part]
    assert summary["hits"] > 0
    assert summary["failures"] == 0, summary["failed"]


def test_calls_add_up_and_an_attempt_can_be_made_again(tmp_path):
    first, _ = campaign("numbers", tmp_path, "--tries", "3", "--seed", "5")
    assert first["seeds"] == [[5, 7]]
    both, _ = campaign("numbers", tmp_path, "--tries", "1")
    assert (both["seeds"], both["tries"]) == ([[5, 8]], 4)
    again, printed = campaign("numbers", tmp_path, "--tries", "1", "--seed", "7")
    assert again == both  # counted already
    (kind,) = printed["kinds"]
    assert both["kinds"][kind]["tries"] >= 1


@pytest.mark.parametrize("part", TRIES)
def test_the_committed_summary_has_no_failure(part):
    summary = json.loads((ROOT / "results" / "campaign" / f"{part}.json").read_text())
    assert summary["failures"] == 0
    assert summary["tries"] == sum(last - first + 1 for first, last in summary["seeds"])
