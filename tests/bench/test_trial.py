import numpy as np
import pytest

from oneof.datasets import split_80_10_10
from oneof.lab.plan import Plan
from oneof.lab.prepared import prepare
from oneof.lab.protocol import Row
from oneof.lab.protocols import default_rows
from oneof.lab.records import Job, Records
from oneof.lab.trial import divide, label_free, run_job, run_trial
from tests.bench.toy import toy_protocol, write_mat


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_mat(tmp_path_factory.mktemp("data"))


def jobs(data, tmp_path, **changes):
    return list(Plan(toy_protocol(data, **changes), Records(tmp_path)).ready())


def with_values(job, **changes):
    return Job({**job.config, **changes})


def test_a_trial_is_repeatable_and_its_numbers_are_shares(data, tmp_path):
    job = jobs(data, tmp_path)[0]
    one, again = run_trial(job.config), run_trial(job.config)
    assert {k: v for k, v in one.items() if k != "train_seconds"} == {
        k: v for k, v in again.items() if k != "train_seconds"
    }
    for name in ("test", "selection", "covering", "approximated", "pseudo_labels"):
        assert 0 <= one[name] <= 1
    assert 0 <= one["epoch"] < one["epochs"] <= 3
    assert "curves" not in one


def test_the_test_accuracy_is_that_of_the_selected_epoch(data, tmp_path):
    job = jobs(data, tmp_path, search=None, curves=1)[0]
    result = run_trial(job.config)
    curves = result["curves"]
    assert len(curves["test"]) == result["epochs"]
    assert result["epoch"] == int(np.argmax(curves["selection"]))
    assert result["test"] == pytest.approx(curves["test"][result["epoch"]], abs=1e-4)
    assert result["selection"] == pytest.approx(max(curves["selection"]), abs=1e-4)


def test_curves_do_not_change_the_result(data, tmp_path):
    job = jobs(data, tmp_path)[0]
    plain, logged = run_trial(job.config), run_trial({**job.config, "curves": True})
    assert plain["test"] == logged["test"]


def test_equal_information_searches_with_half_and_reports_with_all(data, tmp_path):
    changes = {"information": "loss", "search": None}
    report = jobs(data, tmp_path, **changes)[0]
    search = jobs(data, tmp_path, information="loss")[0]
    prepared = prepare(data)
    all_rows = divide(prepared, report.config)
    halves = divide(prepared, search.config)
    assert (report.config["information"], search.config["information"]) == ("loss", "half")
    assert all_rows.clean is not None
    assert halves.clean is not None
    assert len(all_rows.clean) == len(halves.clean) + len(halves.selection) == 12
    learned = {row.tobytes() for row in halves.clean.x}
    assert not learned & {row.tobytes() for row in halves.selection.x}
    assert "selection" not in run_trial(report.config)  # those rows are in the loss
    assert "selection" in run_trial(search.config)


def test_a_search_learns_from_no_more_clean_rows_than_its_row_has(data, tmp_path):
    """A share of 2 % of 120 rows is two rows, in the search as in the report."""
    few = Row("few", "rplg+", information="loss", clean_share=0.02)
    changes = {"entries": (few,), "reference": "few"}
    search, report = jobs(data, tmp_path, **changes)[0], jobs(data, tmp_path, search=None, **changes)[0]
    assert (search.config["information"], report.config["information"]) == ("half", "loss")
    for job in (search, report):
        assert len(divide(prepare(data), job.config).clean) == 2


def test_selection_without_labels_sees_no_label(data, tmp_path):
    job = jobs(data, tmp_path, criterion="covering")[0]
    prepared = prepare(data)
    parts = divide(prepared, job.config)
    mask = prepared.candidates.mask[split_80_10_10(len(prepared.x), job.config["split"]["seed"]).validation]
    assert np.array_equal(parts.selection.mask, mask)
    assert parts.clean is None  # not even for methods that learn from labels
    result = run_trial(job.config)
    assert result["selection"] == result["covering"]


def test_without_information_no_method_sees_a_clean_row(data, tmp_path):
    changes = {"entries": default_rows("rplg+", "proden"), "reference": "rplg+", "search": None}
    by_name = {}
    for information in ("none", "select"):
        for job in jobs(data, tmp_path, information=information, **changes):
            if job.config["split"]["seed"] == 0:
                by_name[job.config["method"]["name"], information] = job
    # a method that learns from no clean row is the same training
    assert by_name["proden", "none"].hash == by_name["proden", "select"].hash
    assert by_name["rplg+", "none"].hash != by_name["rplg+", "select"].hash
    prepared = prepare(data)
    blind, seeing = (divide(prepared, by_name["rplg+", way].config) for way in ("none", "select"))
    assert blind.clean is None
    assert len(seeing.clean) == 12
    for parts in (blind, seeing):  # the epoch is chosen all the same
        assert len(parts.selection) == 12
    assert "selection" in run_trial(by_name["rplg+", "none"].config)
    assert run_trial(by_name["rplg+", "none"].config)["epochs"] == 3


def test_label_free_scores_by_hand():
    p = np.array([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]])
    mask = np.array([[True, True, False], [False, True, True]])
    covering, approximated = label_free(p, mask)
    assert covering.mean() == 0.5
    assert approximated.mean() == pytest.approx((0.5 / 0.8 + 0.0) / 2)


def test_scaling_sees_the_training_rows_only(data, tmp_path):
    job = jobs(data, tmp_path)[0]
    prepared = prepare(data)
    parts = divide(prepared, job.config)
    assert parts.x.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-5)


def test_a_failing_job_is_a_record(data, tmp_path):
    job = jobs(data, tmp_path)[0]
    exploding = with_values(job, recipe={**job.config["recipe"], "lr": 1e30})
    record = run_job(exploding)
    assert record["status"] == "failed"
    assert "TrainingError" in record["error"]
    assert record["job"] == exploding.hash


def test_other_data_than_planned_are_refused(data, tmp_path):
    job = jobs(data, tmp_path)[0]
    other = with_values(job, data={**job.config["data"], "hash": "0" * 16})
    assert "same files on all machines" in run_job(other)["error"]


def test_other_code_of_a_method_than_planned_is_refused(data, tmp_path):
    other = with_values(jobs(data, tmp_path)[0], code="0" * 16)
    assert "rplg-nm: its file is not the one of the plan; start the lab again" in run_job(other)["error"]


def test_an_unknown_rule_for_candidate_sets_is_refused():
    with pytest.raises(ValueError, match="unknown rule 'magic'"):
        prepare("digits", {"rule": "magic", "seed": 0})
