import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from oneof.lab import LabError, prepared
from oneof.lab import run as lab
from oneof.lab.plan import Plan
from oneof.lab.progress import JobTimes
from oneof.lab.protocol import PAPER_RECIPE, Row
from oneof.lab.protocols import PROTOCOLS, default_rows
from oneof.lab.records import Job, Records
from oneof.lab.report import tried
from oneof.lab.run import run_lab
from oneof.lab.runners.local import LocalRunner, default_workers, free_memory
from oneof.lab.search import Search
from oneof.lab.summary import read_folder
from oneof.lab.tables import as_text
from tests.bench.toy import Inline, toy_protocol, write_mat

TIMES = ("seconds", "train_seconds")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_mat(tmp_path_factory.mktemp("data"))


def without_times(record):
    result = {k: v for k, v in record.get("result", {}).items() if k not in TIMES}
    return {k: v for k, v in record.items() if k not in TIMES} | {"result": result}


def run(protocol, folder, runner=None, **options):
    runner = runner or Inline()
    return run_lab(protocol, folder, runner, stream=io.StringIO(), **options), runner


def test_a_lab_runs_all_and_the_second_time_nothing(data, tmp_path):
    protocol = toy_protocol(data)
    outcome, runner = run(protocol, tmp_path)
    # two methods, each two configurations on one search split and three reported splits
    assert outcome.ran == len(runner.ran) == len(set(runner.ran)) == 2 * (2 + 3)
    assert outcome.plan.complete
    before = (tmp_path / "records.jsonl").read_bytes()
    again, runner = run(protocol, tmp_path)
    assert again.ran == 0
    assert runner.ran == []
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_a_grid_is_searched_and_its_trainings_are_not_repeated(data, tmp_path):
    grids = {"rplg-nm": {"alpha": [0.3, 0.5]}}  # 0.5 is the default, which comes first
    protocol = toy_protocol(data, search=Search(seeds=(0,), grids=grids), curves=1)
    outcome, _ = run(protocol, tmp_path)
    # two settings on split 0, the better one also on splits 1 and 2; PRODEN has nothing to choose
    assert outcome.ran == (2 + 2) + 3
    (result,) = read_folder(tmp_path)
    cell = result.nets["linear"].rows[data]["rplg-nm"]
    scores = {values["params"].get("alpha", 0.5): score for values, score in cell.tried}
    assert list(scores) == [0.5, 0.3]
    assert scores[cell.configuration["params"].get("alpha", 0.5)] == max(scores.values())
    assert result.nets["linear"].rows[data]["proden"].tried == []
    rows = tried(result.nets["linear"]).rows
    assert [("(chosen)" in row[3].text) for row in rows].count(True) == 1
    assert len(rows) == 2


def test_an_interrupted_lab_continues(data, tmp_path):
    protocol = toy_protocol(data)
    with pytest.raises(KeyboardInterrupt):
        run(protocol, tmp_path / "a", Inline(stop_after=4))
    assert len(Records(tmp_path / "a")) == 4
    (result,) = read_folder(tmp_path / "a")  # an unfinished lab can be looked at
    assert sum(len(cell.records) for cell in result.cells) == 0
    _, runner = run(protocol, tmp_path / "a")
    assert len(runner.ran) == 6
    run(protocol, tmp_path / "b")
    a, b = ({r["job"]: without_times(r) for r in Records(tmp_path / name)} for name in "ab")
    assert a == b


def test_a_failing_job_stops_nothing(data, tmp_path):
    protocol = toy_protocol(data, lr=1e30, search=None, entries=default_rows("rplg-nm"))
    stream = io.StringIO()
    outcome = run_lab(protocol, tmp_path, Inline(), stream=stream)
    assert outcome.ran == 3
    assert len(outcome.failed) == 3
    assert "failed: " in stream.getvalue()
    assert "TrainingError" in stream.getvalue()
    (result,) = read_folder(tmp_path)
    assert "No reported training succeeded; --retry-failed runs them again." in as_text(result)
    again, runner = run(protocol, tmp_path)
    assert again.ran == 0
    _, runner = run(protocol, tmp_path, retry_failed=True)
    assert len(runner.ran) == 3


def test_a_configuration_that_fails_is_not_chosen(data, tmp_path):
    protocol = toy_protocol(data, lr=1e30)  # the first configuration explodes, the second is drawn
    outcome, _ = run(protocol, tmp_path)
    assert [cell.chosen for cell in outcome.plan.cells] == [1, 1]
    assert len(outcome.failed) == 2
    (result,) = read_folder(tmp_path)
    assert all(len(cell.records) == 3 for cell in result.cells)


def test_where_nothing_can_be_trained_there_is_no_report(data, tmp_path):
    from oneof.lab.search import Search

    search = Search(configurations=2, seeds=(1000,), lr=(1e29, 1e30))
    outcome, runner = run(toy_protocol(data, lr=1e30, search=search), tmp_path)
    assert all(cell.dead for cell in outcome.plan.cells)
    assert len(runner.ran) == 4


def test_rows_that_vary_another_use_its_winner(data, tmp_path):
    entries = (
        Row("rplg-nm", "rplg-nm", reported=False),
        Row("alpha 0.2", "rplg-nm", {"alpha": 0.2}, tuned_as="rplg-nm"),
        Row("alpha 0.7", "rplg-nm", {"alpha": 0.7}, tuned_as="rplg-nm"),
    )
    outcome, runner = run(toy_protocol(data, entries=entries, reference="alpha 0.2"), tmp_path)
    assert len(runner.ran) == 2 + 3 + 3
    base, low, high = outcome.plan.cells
    winner = base.configurations[base.chosen]
    assert base.report == []
    for cell, alpha in ((low, 0.2), (high, 0.7)):
        values = cell.configurations[0]
        assert {k: values[k] for k in ("lr", "weight_decay", "scaling")} == {
            k: winner[k] for k in ("lr", "weight_decay", "scaling")
        }
        assert {job.config["method"]["alpha"] for job in cell.report} == {alpha}


def test_records_of_another_lab_are_copied(data, tmp_path):
    run(toy_protocol(data), tmp_path / "a")
    _, runner = run(toy_protocol(data, name="b"), tmp_path / "b", reuse=[tmp_path / "a"])
    assert runner.ran == []
    assert {r["job"] for r in Records(tmp_path / "a")} == {r["job"] for r in Records(tmp_path / "b")}


def test_a_folder_to_reuse_that_holds_no_records_is_refused(data, tmp_path):
    with pytest.raises(LabError, match="typo: there are no records"):
        run(toy_protocol(data), tmp_path / "lab", reuse=[tmp_path / "typo"])
    assert not (tmp_path / "lab").exists()


def test_copied_records_bring_the_versions_they_were_made_with(data, tmp_path, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr("oneof.lab.run.versions", lambda device: {"gpu": "big", "torch": "1.0"})
        run(toy_protocol(data, seeds=(0,)), tmp_path / "there")
    monkeypatch.setattr("oneof.lab.run.versions", lambda device: {"torch": "2.0"})
    outcome, _ = run(toy_protocol(data, seeds=(0,)), tmp_path / "here", reuse=[tmp_path / "there"])
    assert outcome.plan.earlier(tmp_path / "here")["versions"] == {"gpu": "big", "torch": "1.0"}
    outcome, _ = run(toy_protocol(data, seeds=(0, 1)), tmp_path / "both", reuse=[tmp_path / "there"])
    assert outcome.plan.earlier(tmp_path / "both")["versions"] == {"gpu": "big", "torch": "1.0, 2.0"}


def test_copies_bring_their_versions_from_another_protocol_and_after_a_search(data, tmp_path, monkeypatch):
    with monkeypatch.context() as there:
        there.setattr("oneof.lab.run.versions", lambda device: {"torch": "1.0"})
        run(toy_protocol(data, name="other"), tmp_path / "there")
    monkeypatch.setattr("oneof.lab.run.versions", lambda device: {"torch": "2.0"})
    outcome, _ = run(toy_protocol(data), tmp_path / "here", reuse=[tmp_path / "there"])
    assert outcome.plan.earlier(tmp_path / "here")["versions"] == {"torch": "1.0"}
    outcome, _ = run(toy_protocol(data), tmp_path / "there")  # beside the other protocol
    assert outcome.ran == 0
    assert outcome.plan.earlier(tmp_path / "there")["versions"] == {"torch": "1.0"}
    reported = Records(tmp_path / "there")
    searched = {job: r for job, r in reported.by_job.items() if r["config"]["split"]["seed"] == 1000}
    lines = (tmp_path / "there" / "records.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not any(job in line for job in searched)]
    (tmp_path / "there" / "records.jsonl").write_text("".join(kept))
    outcome, _ = run(toy_protocol(data), tmp_path / "later", reuse=[tmp_path / "there"])
    assert outcome.ran == len(searched)
    assert outcome.plan.earlier(tmp_path / "later")["versions"] == {"torch": "1.0, 2.0"}


def test_the_progress_shows_done_running_failed_and_time_left(data, tmp_path, monkeypatch):
    monkeypatch.setattr("oneof.lab.progress.EVERY_SECONDS", 0.0)
    stream = io.StringIO()
    run_lab(toy_protocol(data), tmp_path, Inline(), stream=stream)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("toy  0/10 done")
    assert "5/10 done  0 running  0 failed" in "\n".join(lines)
    assert "left" in lines[5]
    assert lines[-1].startswith("toy  10/10 done")


class Halfway(Inline):
    """Each job is seen once with two of its three epochs in its log before it runs."""

    def wait(self):
        folder = self.place.scratch / self.jobs[-1].hash
        if folder.exists():
            shutil.rmtree(folder)
            return super().wait()
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(2 * "{}\n")
        return []


def test_the_progress_shows_how_far_long_trainings_are(data, tmp_path, monkeypatch):
    monkeypatch.setattr("oneof.lab.progress.EVERY_SECONDS", 0.0)
    known = Records(tmp_path / "known")
    run(toy_protocol(data, search=None, seeds=(9,)), tmp_path / "before")
    for record in Records(tmp_path / "before"):
        known.add(record | {"seconds": 30.0})  # ten an epoch
    stream = io.StringIO()
    protocol = toy_protocol(data, search=None, seeds=(0,))
    run_lab(protocol, tmp_path / "lab", Halfway(), reuse=[tmp_path / "known"], stream=stream)
    lines = stream.getvalue().splitlines()
    assert "0/2 done  0 running  0 failed  0:01:00 left" in lines[0]
    assert "0/2 done  1 running (epoch 2/3)  0 failed  0:00:40 left" in lines[1]
    assert "1/2 done  0 running  0 failed" in lines[2]


def test_trainings_copied_after_a_search_count_as_done(data, tmp_path):
    """Four trainings of the search run here, the six reported ones are another lab's."""
    run(toy_protocol(data), tmp_path / "a")
    reported = Records(tmp_path / "reported")
    for record in Records(tmp_path / "a"):
        if record["config"]["split"]["seed"] != 1000:
            reported.add(record)
    stream = io.StringIO()
    outcome = run_lab(
        toy_protocol(data), tmp_path / "b", Inline(), stream=stream, reuse=[tmp_path / "reported"]
    )
    assert outcome.ran == 4
    assert stream.getvalue().splitlines()[-1].startswith("toy  10/10 done")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_a_bar(data, tmp_path):
    stream = Terminal()
    outcome = run_lab(toy_protocol(data, lr=1e30), tmp_path, Inline(), stream=stream)
    assert outcome.plan.complete
    assert "failed: " in stream.getvalue()
    assert "10/10" in stream.getvalue()


def test_a_terminal_without_rich_shows_lines(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = Terminal()
    assert run_lab(toy_protocol(data), tmp_path, Inline(), stream=stream).plan.complete
    assert stream.getvalue().splitlines()[-1].startswith("toy  10/10 done")


def test_what_cannot_run_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    for cache in (prepared._prepare, prepared._loaded):
        cache.cache_clear()
    with pytest.raises(LabError, match="none of its data sets is at hand"):
        run(PROTOCOLS["table1"], tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_processes_give_the_same_records_and_a_killed_one_is_replaced(data, tmp_path):
    """Two workers; one is killed in the middle of the work by the system, as when memory runs out."""
    protocol = toy_protocol(data)
    run(protocol, tmp_path / "inline")
    runner = LocalRunner(workers=2)
    killed = threading.Event()

    def kill_one():
        while len(Records(tmp_path / "local")) < 2:
            time.sleep(0.02)
        os.kill(runner.workers[0].process.pid, signal.SIGKILL)
        killed.set()

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    outcome, _ = run(protocol, tmp_path / "local", runner)
    assert killed.wait(10)
    assert outcome.plan.complete
    assert not outcome.failed
    a, b = ({r["job"]: without_times(r) for r in Records(tmp_path / name)} for name in ("inline", "local"))
    assert a == b
    assert not any(worker.process.is_alive() for worker in runner.workers)


INTERRUPTED = """
import signal, threading
from multiprocessing import Pipe
from oneof.lab import trial
from oneof.lab.runners.local import work
from oneof.training.loop import finish_epoch_on_interrupt

def run_job(job, place):
    with finish_epoch_on_interrupt(active=True) as interrupt:
        signal.raise_signal(signal.SIGINT)
        return interrupt.is_set()

trial.run_job = run_job
ours, theirs = Pipe()
ours.send({})
threading.Thread(target=lambda: (print(ours.recv()), ours.close())).start()
work(theirs, None)
"""


def test_ctrl_c_is_no_business_of_a_worker_that_trains_with_checkpoints():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_job_that_kills_its_worker_every_time_is_recorded_as_failed(monkeypatch):
    class Dead:
        def __init__(self, place, environment):
            import multiprocessing as mp

            self.pipe, other = mp.Pipe()
            other.close()
            self.job, self.tries = None, 0

        def give(self, job, tries):
            self.job, self.tries = job, tries

        def stop(self):
            return -9

    monkeypatch.setattr("oneof.lab.runners.local.Worker", Dead)
    with LocalRunner(workers=1) as runner:
        runner.start(Job({"x": 1}))
        records = []
        while not records:
            records = runner.wait()
    assert records[0]["status"] == "failed"
    assert "died 3 times (exit code -9)" in records[0]["error"]


def test_a_job_that_fails_on_a_gpu_leaves_a_fresh_worker(monkeypatch):
    made = []

    class Failing:
        def __init__(self, place, environment):
            import multiprocessing as mp

            self.pipe, self.other = mp.Pipe()
            self.job, self.alive = None, True
            made.append(self)

        def give(self, job, tries):
            self.job = job
            self.other.send({"job": job.hash, "status": "failed"})

        def stop(self):
            self.alive = False

    monkeypatch.setattr("oneof.lab.runners.local.Worker", Failing)
    for device, alive in (("cuda", [False, True]), ("cpu", [True])):
        made.clear()
        runner = LocalRunner(workers=1, device=device)
        with runner:
            runner.start(Job({"x": 1}))
            assert [record["status"] for record in runner.wait()] == ["failed"]
            assert [worker.alive for worker in made] == alive
            assert runner.free()


def test_workers_fit_cores_and_memory(monkeypatch):
    assert free_memory() > 2**20
    monkeypatch.setattr("oneof.lab.runners.local.free_memory", lambda: 1)
    assert default_workers() == 1


def test_no_second_job_starts_when_memory_is_short(monkeypatch):
    runner = LocalRunner(workers=2)
    monkeypatch.setattr("oneof.lab.runners.local.free_memory", lambda: 1)

    class Stub:
        job = None

    busy, idle = Stub(), Stub()
    busy.job = Job({"x": 1})
    runner.workers = [busy, idle]
    assert not runner.free()
    busy.job = None
    assert runner.free()


def test_versions_are_recorded():
    assert {"oneof", "lab", "torch", "numpy", "python"} <= set(lab.versions())


def test_who_only_looks_does_not_sign(data, tmp_path, monkeypatch):
    """A finished lab that is opened elsewhere keeps the versions that its numbers were made with."""
    protocol = toy_protocol(data)
    monkeypatch.setattr(lab, "versions", lambda device: {"torch": "there"})
    run(protocol, tmp_path)
    monkeypatch.setattr(lab, "versions", lambda device: {"torch": "here"})
    run(protocol, tmp_path)
    assert read_folder(tmp_path)[0].plan["versions"] == {"torch": "there"}
    more = toy_protocol(data, seeds=tuple(range(4)))  # one split more: trained here
    with pytest.raises(KeyboardInterrupt):
        run(more, tmp_path, Inline(stop_after=1))
    assert read_folder(tmp_path)[0].plan["versions"] == {"torch": "there, here"}
    run(more, tmp_path)
    assert read_folder(tmp_path)[0].plan["versions"] == {"torch": "there, here"}
    run(toy_protocol(data, recipe={**PAPER_RECIPE, "epochs": 2}), tmp_path)  # all of it anew
    assert read_folder(tmp_path)[0].plan["versions"] == {"torch": "here"}


def test_rows_that_leave_the_report_are_named(data, tmp_path):
    protocol = toy_protocol(data)
    run(protocol, tmp_path)
    said = io.StringIO()
    fewer = replace(protocol, entries=protocol.entries[:1])
    run_lab(fewer, tmp_path, Inline(), stream=said)
    gone = f"{protocol.entries[1].label} on {data}"
    assert f"had 1 other rows of toy, such as {gone}: their records stay" in said.getvalue()


def test_calls_on_other_data_sets_add_to_the_table(data, tmp_path):
    (tmp_path / "more").mkdir()
    other = write_mat(tmp_path / "more", n=100)
    folder, said = tmp_path / "lab", io.StringIO()
    first = toy_protocol(data)
    run_lab(first, folder, Inline(), command="one")
    fewer = replace(first, data=(other,), seeds=(0, 1), title="another wording", figures=())
    for _ in range(2):  # the second time nothing is left to do
        run_lab(fewer, folder, Inline(), command="two", stream=said)
    run_lab(first, folder, Inline(), command="one", stream=said)
    (result,) = read_folder(folder)
    assert "had" not in said.getvalue()
    assert result.data == [data, other]
    assert result.plan["command"] == "one && two"
    assert {(c.data, c.planned, len(c.records)) for c in result.cells} == {(data, 3, 3), (other, 3, 2)}

    run_lab(replace(first, data=(data, "gone.mat"), seeds=(0,)), folder, Inline(), command="one")
    run_lab(replace(first, data=(data,), seeds=(0,)), folder, Inline(), command="one")
    (result,) = read_folder(folder)
    assert list(result.plan["left_out"]) == ["gone.mat"]
    assert {(c.data, c.planned, len(c.records)) for c in result.cells} == {(data, 2, 1), (other, 2, 2)}

    run_lab(replace(fewer, lr=0.01), folder, Inline(), stream=said)  # numbers that do not belong together
    assert "had 2 other rows of toy" in said.getvalue()
    assert read_folder(folder)[0].data == [other]


def test_the_lab_runs_without_the_packages_of_the_command_line(tmp_path):
    data = write_mat(tmp_path)
    code = (
        "import sys; sys.modules['tyro'] = sys.modules['rich'] = None\n"
        "from oneof.lab.__main__ import main\n"
        "if __name__ == '__main__': sys.exit(main(sys.argv[1:]))"
    )
    script = tmp_path / "lab.py"
    script.write_text(code)
    command = ["table2", "--methods", "proden", "--data", data, "--nets", "linear", "--splits", "2"]
    more = [
        "--epochs",
        "2",
        "--set",
        "search.configurations=2",
        "--workers",
        "1",
        "--to",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [sys.executable, str(script), *command, *more], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (result,) = read_folder(tmp_path / "out")
    assert result.plan["command"].startswith("oneof bench table2 --methods proden")
    assert len(Records(tmp_path / "out")) == 6


# ---- a limited time ---------------------------------------------------------------------------


def test_only_jobs_that_end_in_time_are_started(data, tmp_path):
    """By the records of a lab before: jobs of PRODEN took a second, those of RPLG-NM an hour."""
    run(toy_protocol(data, search=None, seeds=(0, 1)), tmp_path / "before")
    slow = Records(tmp_path / "slow")
    for record in Records(tmp_path / "before"):
        slow.add(record | {"seconds": 3600.0 if record["config"]["method"]["name"] == "rplg-nm" else 1.0})
    said = io.StringIO()
    protocol = toy_protocol(data, search=None, seeds=(0, 1, 2, 3))
    options = {"minutes": 30, "reuse": [tmp_path / "slow"]}
    outcome = run_lab(protocol, tmp_path / "lab", Inline(), stream=said, **options)
    assert (outcome.ran, outcome.left) == (2, 2)
    assert not outcome.plan.complete
    assert "4 jobs can start, 1 at a time; 2 are expected to end in time" in said.getvalue()
    assert "rplg-nm: 2 jobs, about 1:00:00 each, 0 in time" in said.getvalue()
    assert "2 jobs did not fit into 30 minutes; the same command continues" in said.getvalue()
    again, _ = run(protocol, tmp_path / "lab")
    assert again.ran == 2
    assert again.plan.complete


def test_longer_trainings_are_expected_to_take_longer(data, tmp_path):
    """By the seconds of an epoch of the jobs before, three of which took a minute."""
    run(toy_protocol(data, search=None, seeds=(0,)), tmp_path / "before")
    known = Records(tmp_path / "known")
    for record in Records(tmp_path / "before"):
        known.add(record | {"seconds": 60.0})
    said = io.StringIO()
    longer = toy_protocol(data, search=None, seeds=(0,), recipe={**PAPER_RECIPE, "epochs": 250})
    options = {"minutes": 30, "reuse": [tmp_path / "known"], "stream": said}
    assert run_lab(longer, tmp_path / "lab", Inline(), **options).ran == 0
    assert "proden: 1 jobs, about 1:23:20 each, 0 in time" in said.getvalue()
    times = JobTimes(known)
    assert times.left(Plan(longer, Records(tmp_path / "lab")), slots=1) == pytest.approx(2 * 5000)


def test_the_seconds_of_another_device_say_nothing(data):
    (job, *_) = Plan(toy_protocol(data, search=None), Records("nowhere")).ready()
    record = {"config": job.config, "status": "ok", "seconds": 60.0}
    records = [record, {**record, "seconds": 6.0, "place": {"device": "a GPU"}}]
    assert JobTimes(records, device="a GPU").expected(job.config) == pytest.approx(33.0)
    assert JobTimes(records, device="cpu").expected(job.config) == pytest.approx(60.0)
    assert JobTimes(records).expected(job.config) == pytest.approx(33.0)


def test_jobs_of_unknown_length_are_tried_while_there_is_time(data, tmp_path):
    protocol = toy_protocol(data, search=None)
    outcome, _ = run(protocol, tmp_path / "a", minutes=0)
    assert (outcome.ran, outcome.left) == (0, 6)
    said = io.StringIO()
    outcome = run_lab(protocol, tmp_path / "b", Inline(), stream=said, minutes=60)
    assert (outcome.ran, outcome.left) == (6, 0)
    assert "6 jobs can start, 1 at a time; how many end in time is not known" in said.getvalue()
    assert "proden: 3 jobs, of unknown length\n" in said.getvalue()
