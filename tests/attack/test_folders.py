"""Folders that somebody else has filled: links, pipes, and plans that point elsewhere."""

import json
import os
import shutil

import numpy as np
import pytest

from oneof.app.review import ReviewData
from oneof.app.review import decisions as decisions_module
from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewError
from oneof.app.review.ranking import ReviewList
from oneof.classifier.persist import ModelError
from oneof.classifier.persist.folder import check_entries
from oneof.lab import LabError
from oneof.lab.plots import PLOTS
from oneof.lab.protocols import default_rows
from oneof.lab.records import Records, alone, as_line, read
from oneof.lab.report import draw_figures
from oneof.lab.summary import read_folder
from oneof.tables.errors import DataError
from tests.bench.toy import made_up_folder, toy_protocol, write_mat
from tests.review.made import review_data

SCORES = {"proden": 0.75, "cc": 0.8}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = tmp_path_factory.mktemp("lab")
    rows = default_rows("proden", "cc")
    protocol = toy_protocol(write_mat(place), entries=rows, reference="cc", seeds=(0, 1), search=None)
    return made_up_folder(place / "lab", protocol, SCORES)


@pytest.fixture
def lab(made, tmp_path):
    return shutil.copytree(made, tmp_path / "lab")


def change_plan(lab, change, seal=False):
    file = lab / "plan-toy.json"
    plan = json.loads(file.read_text())
    if not seal:
        del plan["sha256"]  # as by somebody who knows how
    change(plan)
    file.write_text(json.dumps(plan))


# ---- pipes and links --------------------------------------------------------------------------


def test_review_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "decisions.jsonl")
    with pytest.raises(DataError, match="not a plain file"):
        Decisions(tmp_path, review_data(3))


def test_a_model_is_not_saved_beside_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "README.md")
    with pytest.raises(ModelError, match=r"README\.md is not a plain file"):
        check_entries(tmp_path)


@pytest.mark.parametrize("name", ["plan-toy.json", "plan-other.json", "records.jsonl", "records.jsonl.gz"])
def test_a_report_does_not_wait_for_a_pipe(lab, name):
    (lab / name).unlink(missing_ok=True)
    os.mkfifo(lab / name)
    with pytest.raises(LabError, match="not a plain file"):
        read_folder(lab)


def test_locking_a_lab_leaves_alone_what_a_link_leads_to(lab, tmp_path):
    (tmp_path / "precious").write_text("mine")
    (lab / ".lock").unlink(missing_ok=True)
    (lab / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LabError, match="links in this folder are not followed"), alone(lab):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_records_are_not_added_through_a_link(lab, tmp_path):
    (lab / "records.jsonl").rename(tmp_path / "elsewhere")
    (lab / "records.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match="links in this folder are not followed"):
        Records(lab)


# ---- plans --------------------------------------------------------------------------------------


def test_a_changed_plan_is_noticed(lab):
    change_plan(lab, lambda plan: plan["data"].clear(), seal=True)
    with pytest.raises(LabError, match="the plan is damaged"):
        read_folder(lab)


def test_a_plan_with_the_records_of_another_method_is_refused(lab):
    def swapped(plan):
        a, b = plan["cells"]
        a["report"], b["report"] = b["report"], a["report"]

    change_plan(lab, swapped)
    with pytest.raises(LabError, match=r"is of cc on .*, but the plan has it as one of proden"):
        read_folder(lab)


@pytest.mark.parametrize("field", ["protocol", "versions", "cells", "chosen"])
def test_a_plan_of_another_form_is_an_error_of_ours(lab, field):
    def changed(plan):
        if field == "chosen":
            plan["cells"][0]["chosen"] = 99
        else:
            plan[field] = {} if field == "protocol" else None

    change_plan(lab, changed)
    with pytest.raises(LabError, match="the plan is damaged"):
        read_folder(lab)


@pytest.mark.parametrize("change", [{"result": {"test": 7}}, {"result": "x"}, {"config": {}}])
def test_a_record_that_cannot_be_shown_is_an_error_of_ours(lab, change):
    records = [record | change for record in read(lab / "records.jsonl")]
    (lab / "records.jsonl").write_text("".join(map(as_line, records)))
    with pytest.raises(LabError):
        read_folder(lab)


def test_figures_stay_in_their_folder(lab, tmp_path, monkeypatch):
    def outside(plan):
        plan["protocol"] |= {"name": "../../outside", "figures": ["accuracies"]}

    places = []
    monkeypatch.setitem(PLOTS, "accuracies", (lambda part, path: places.append(path), ""))
    change_plan(lab, outside)
    (result,) = read_folder(lab)
    draw_figures(result.nets["linear"], tmp_path)
    assert places == [tmp_path / "..-..-outside-linear-accuracies.png"]


# ---- review data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a\0.png", "i.png" * 1000])
def test_an_image_that_no_file_can_be(tmp_path, name):
    data = review_data(3)
    data.images, data.image_folder = [str(tmp_path / name)] * 3, str(tmp_path)
    assert ReviewList(data).image(0) is None


@pytest.mark.parametrize(
    "wrong", [{"wrong": np.full(12, np.nan)}, {"wrong": np.full(12, 9.0)}, {"trusted": np.zeros((12, 2))}]
)
def test_review_data_that_no_fit_writes(wrong):
    with pytest.raises(ReviewError, match=r"wrong|trusted"):
        review_data(12, **wrong)


def test_a_file_of_decisions_beyond_all_reason_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(decisions_module, "MOST_BYTES", 1000)
    (tmp_path / "decisions.jsonl").write_bytes(b"\n" * 1001)
    with pytest.raises(ReviewError, match="1,001 bytes"):
        Decisions(tmp_path, review_data(3))


def test_what_a_fit_writes_is_read(tmp_path):
    review_data(12, wrong=np.linspace(0, 1, 12)).save(tmp_path)
    assert len(ReviewData.load(tmp_path)) == 12
