import json
import subprocess
import sys

import pytest

import oneof
from oneof.lab import jobs as jobs_module
from oneof.lab.errors import LabError
from oneof.lab.jobs import Job
from oneof.lab.records import Records, alone, pack, read


def record(name, status="ok", **more):
    return {"job": name, "status": status, "config": {}, **more}


def test_the_hash_depends_on_values_and_not_on_order():
    a = Job({"x": 1, "y": {"b": [1, 2], "a": 0.1}})
    b = Job({"y": {"a": 0.1, "b": (1, 2)}, "x": 1})
    assert a.hash == b.hash
    assert a == b
    assert a.hash != Job({"x": 1, "y": {"b": [1, 2], "a": 0.2}}).hash


def test_the_hash_depends_on_the_code_version(monkeypatch):
    before = Job({"x": 1}).hash
    monkeypatch.setattr(oneof, "__version__", "999")
    changed = Job({"x": 1}).hash
    assert changed != before
    monkeypatch.setattr(jobs_module, "LAB_VERSION", 999)
    assert Job({"x": 1}).hash not in (before, changed)


def test_a_job_survives_json():
    job = Job({"lr": 0.1, "hidden": (300, 300), "none": None})
    assert Job(json.loads(json.dumps(dict(job.config)))) == job


def test_records_come_back_and_the_last_one_counts(tmp_path):
    records = Records(tmp_path)
    records.add(record("a", "failed", error="x"))
    records.add(record("b"))
    records.add(record("a"))
    again = Records(tmp_path)
    assert len(again) == 2
    assert again.get("a")["status"] == "ok"
    assert [r["job"] for r in read(tmp_path / "records.jsonl")] == ["a", "b", "a"]


@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_torn_line_loses_only_itself(tmp_path, cut):
    records = Records(tmp_path)
    records.add(record("a"))
    records.add(record("b"))
    file = tmp_path / "records.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) - cut])
    again = Records(tmp_path)
    if cut == 1:  # only the newline is missing: the record is whole
        assert set(again.by_job) == {"a", "b"}
    else:
        assert set(again.by_job) == {"a"}
    again.add(record("c"))
    assert set(Records(tmp_path).by_job) == set(again.by_job)


def test_one_lab_at_a_time(tmp_path):
    with alone(tmp_path):
        code = (
            "import sys; from pathlib import Path; from oneof.lab.records import alone\n"
            "alone(Path(sys.argv[1])).__enter__()"
        )
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
        assert other.returncode
        assert "another lab is writing" in other.stderr
    with alone(tmp_path):
        pass


def test_the_error_of_a_taken_folder_says_what_to_do(tmp_path):
    with alone(tmp_path), pytest.raises(LabError, match="--to"):
        alone(tmp_path).__enter__()


def test_packed_records_are_read_and_continued(tmp_path):
    records = Records(tmp_path)
    for job in ("b", "a"):
        records.add({"job": job, "status": "ok", "result": {"test": 0.5}})
    packed = pack(tmp_path)
    assert not (tmp_path / "records.jsonl").exists()
    first = packed.read_bytes()
    again = Records(tmp_path)
    assert {r["job"] for r in again} == {"a", "b"}
    again.add({"job": "c", "status": "failed", "error": "no"})
    assert len(Records(tmp_path)) == 3
    pack(tmp_path)
    assert len(Records(tmp_path)) == 3
    assert packed.read_bytes() != first
