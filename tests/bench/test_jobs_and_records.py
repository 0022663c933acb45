import errno
import gzip
import io
import json
import os
import random
import subprocess
import sys

import pytest

import oneof
from oneof.lab import LabError
from oneof.lab import records as records_module
from oneof.lab.records import Job, Records, alone, as_line, pack, read, record_of
from oneof.lab.run import run_lab
from oneof.lab.summary import read_folder
from oneof.lab.tables import as_text
from oneof.tables import files
from tests.bench.toy import Inline, toy_protocol, write_mat


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
    monkeypatch.setattr(records_module, "LAB_VERSION", 999)
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


# ---- damage ---------------------------------------------------------------------------------------


def three_records(folder):
    records = Records(folder)
    for job in "abc":
        result = {"test": 0.875, "curves": {"loss": [0.5, 0.25]}}
        records.add(record(job, config={"method": {"name": "proden", "lr": 1e-05}}, result=result))
    return folder / "records.jsonl"


def test_every_changed_bit_of_a_record_is_found(tmp_path):
    file = three_records(tmp_path)
    whole, before = file.read_bytes(), Records(tmp_path).by_job
    first = whole.index(b"\n") + 1
    flips = [(place, 1 << bit) for place in range(first, 2 * first) for bit in range(8)]
    for place, bit in flips:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        again = Records(tmp_path)
        left = {job: again.by_job.get(job) for job in "abc"}
        if not again.damaged:  # 1E-05 is 1e-05
            assert left == before
            continue
        assert again.damaged[0].startswith("records.jsonl, line 2: ")
        assert all(left[job] in (None, before[job]) for job in "abc"), (place, bit)
        assert left["a"]
        assert not left["b"]


def test_a_damaged_record_is_named_and_its_job_runs_again(tmp_path):
    protocol = toy_protocol(write_mat(tmp_path), search=None, seeds=(0, 1))
    folder = tmp_path / "lab"
    run_lab(protocol, folder, Inline())
    file = folder / "records.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"epochs": 3', b'"epochs": 2', 1))
    (result,) = read_folder(folder)
    assert "Left out: records.jsonl, line 1: no whole record, it is damaged: its content" in as_text(result)
    with pytest.raises(LabError, match="line 1"):
        pack(folder)
    with pytest.raises(LabError, match=r"records.jsonl, line 1"):
        list(read(file))
    said = io.StringIO()
    assert run_lab(protocol, folder, Inline(), stream=said).ran == 1
    assert f"{folder}: records.jsonl, line 1: no whole record" in said.getvalue()
    assert run_lab(protocol, folder, Inline(), stream=said).ran == 0


def test_records_without_a_digest_are_read_and_get_one_when_packed(tmp_path):
    old = [record("a", result={"test": 0.5}), record("b", "failed", error="x", seconds=1.0, place={})]
    lines = [json.dumps(r) for r in old]
    (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n")
    records = Records(tmp_path)
    assert list(records) == old
    assert not records.damaged
    assert b'"sha256"' in gzip.decompress(pack(tmp_path).read_bytes())
    assert list(Records(tmp_path)) == old


@pytest.mark.parametrize(
    "line", ["[1]", '{"job": 3}', '{"status": "ok"}', "NaN", "[" * 100_000, '{"job":"a","x":1}']
)
def test_lines_that_are_no_records(line):
    with pytest.raises(ValueError, match=r"^it"):
        record_of(line.encode())


def test_packed_records_that_are_cut_off_or_changed(tmp_path):
    three_records(tmp_path)
    file = pack(tmp_path)
    whole, before = file.read_bytes(), Records(tmp_path).by_job
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        with pytest.raises(LabError, match="not a readable gzip file"):
            Records(tmp_path)
    draws = random.Random(0)
    for _ in range(400):
        place = draws.randrange(len(whole))
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << draws.randrange(8)]) + whole[place + 1 :])
        try:
            found = Records(tmp_path).by_job
        except LabError:
            continue
        assert found == before  # it was the time in gzip's header, say


def test_packed_records_that_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1000)
    (tmp_path / "records.jsonl.gz").write_bytes(gzip.compress(b"\n" * 100_000))
    with pytest.raises(LabError, match=r"it has .* would take"):
        Records(tmp_path)


def test_a_disk_that_takes_a_part_of_a_write(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    three_records(tmp_path)
    again = Records(tmp_path)
    assert list(again.by_job) == ["a", "b", "c"]
    assert not again.damaged


@pytest.mark.parametrize("room", [0, 1, 30, 60])
@pytest.mark.parametrize("can_cut", [True, False], ids=["cut off", "left there"])
def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch, room, can_cut):
    file = three_records(tmp_path)
    before = file.read_bytes()
    write, free = os.write, [room]

    def until_full(descriptor, data):
        if not free[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = write(descriptor, data[: free[0]])
        free[0] -= n
        return n

    records = Records(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", until_full)
        with pytest.raises(LabError, match=r"records.jsonl: .*: No space left on device\. Free"):
            records.add(record("d"))
    assert records.get("d") is None
    assert file.read_bytes() == before
    if not can_cut:  # the process was killed before it could cut the half line off
        file.write_bytes(before + as_line(record("d")).encode()[:room])
    assert list(Records(tmp_path).by_job) == ["a", "b", "c"]
    Records(tmp_path).add(record("e"))
    again = Records(tmp_path)
    assert list(again.by_job) == ["a", "b", "c", "e"]
    assert not again.damaged


def test_a_folder_that_may_not_be_written_to(tmp_path):
    (tmp_path / "lab").write_text("a file in the place of the folder")
    with pytest.raises(LabError, match="a record could not be written: File exists"):
        Records(tmp_path / "lab").add(record("a"))


def test_a_damaged_plan_says_what_to_do(tmp_path):
    for text in ("{", "[]", '{"cells": []}', "\udcff", "[" * 100_000):
        (tmp_path / "plan-toy.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(LabError, match=r"plan-toy.json: the plan is damaged"):
            read_folder(tmp_path)


def test_a_place_that_is_no_folder_is_told(tmp_path):
    with pytest.raises(LabError, match="gone: there is no such folder"):
        pack(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
    (tmp_path / "file").touch()
    with (
        pytest.raises(LabError, match="file: nothing can be kept there: File exists"),
        alone(tmp_path / "file"),
    ):
        pass
