"""Jobs on images, from the protocol to the record, at the smallest size; and TinyImageNet from its files."""

import io
import os
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from oneof.datasets import DataSet, MissingDataError, load
from oneof.lab import LabError, generator, prepared, trial
from oneof.lab import plan as planning
from oneof.lab.plan import Plan
from oneof.lab.protocol import NET_OF_IMAGES, Protocol
from oneof.lab.protocols import PROTOCOLS, SHORT_RECIPE, default_rows
from oneof.lab.records import Job, Records
from oneof.lab.run import run_lab
from oneof.lab.runners import Place
from oneof.lab.summary import read_folder
from oneof.lab.trial import divide, run_job
from oneof.training import Run
from oneof.training.checkpoint import load_tree, save_tree
from oneof.training.recipe import multiplies_bf16
from oneof.views import ImageViews
from tests.bench.toy import Inline
from tests.data.official import write_tiny_imagenet

CLASSES = 10
EPOCHS = 12  # a checkpoint after the tenth


def small(name):
    """Sixty training and twenty test images whose brightness tells the class."""
    rng = np.random.default_rng(len(name))
    shape = (1, 16, 16) if name.endswith("mnist") else (3, 16, 16)

    def images(n):
        y = np.arange(n) % CLASSES
        x = 22 * y[:, None, None, None] + rng.integers(0, 50, size=(n, *shape))
        return x.astype(np.uint8), y

    (x, y), (x_test, y_test) = images(60), images(20)
    facts = {"mean": (0.45,) * shape[0], "std": (0.27,) * shape[0]}
    return DataSet(name, x, y, tuple("abcdefghij"), x_test, y_test, facts=facts)


@pytest.fixture(autouse=True)
def small_world(monkeypatch, tmp_path):
    """Nets that train in a moment, generators of one epoch, a data folder of one's own."""
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path / "data"))
    for name in NET_OF_IMAGES:
        monkeypatch.setitem(NET_OF_IMAGES, name, "lenet")
    for name, made in generator.GENERATORS.items():
        quick = replace(made, recipe=replace(made.recipe, epochs=1))
        monkeypatch.setitem(generator.GENERATORS, name, quick)
    caches = prepared._prepare, prepared._loaded
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def small_data(monkeypatch):
    def loaded(name):
        if name == "tiny-imagenet":
            raise MissingDataError("tiny-imagenet: not here")
        return small(name)

    monkeypatch.setattr(prepared, "_loaded", loaded)


def image_protocol(**changes):
    values = {
        "name": "small-images",
        "title": "a test",
        "entries": default_rows("rplg", "proden"),
        "data": ("cifar10",),
        "nets": ("by data",),
        "recipe": {**SHORT_RECIPE, "epochs": EPOCHS, "batch_size": 16},
        "search": None,
        "seeds": (0, 1),
        "curves": 2,
        "lr": 0.01,
    }
    return Protocol(**(values | changes))


def jobs_of(protocol, folder):
    return list(Plan(protocol, Records(folder)).ready())


def without_times(record):
    return {k: v for k, v in record["result"].items() if k != "train_seconds"}


# ---- plans ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["images", "images-equal-information", "images-no-clean", "table1"])
def test_the_declared_protocols_plan(name, small_data, tmp_path):
    declared = PROTOCOLS[name]
    plan = Plan(declared, Records(tmp_path))
    jobs = list(plan.ready())
    here = [data for data in declared.data if data != "tiny-imagenet"]
    assert list(plan.data) == here
    assert len(jobs) == len(declared.entries) * len(here) * len(declared.seeds)
    assert len({job.hash for job in jobs}) == len(jobs)
    by_draw = {}
    for job in jobs:
        config = job.config
        assert config["split"]["rule"] == "90/10, official test"
        assert config["net"] == {"name": "lenet"}
        assert config["scaling"] == "pixels"
        assert config["views"]["policy"] == "bilinear"
        learns = config["method"]["name"] in ("rplg", "rplg+")
        expected = {"images-equal-information": "loss", "images-no-clean": "none" if learns else "select"}
        assert config["information"] == expected.get(name, "select")
        # every trial has a draw of its own, the same for all methods
        assert config["data"]["candidates"]["seed"] == config["split"]["seed"]
        by_draw.setdefault((config["data"]["name"], config["split"]["seed"]), set()).add(
            config["data"]["hash"]
        )
    assert all(len(hashes) == 1 for hashes in by_draw.values())
    assert len(set.union(*by_draw.values())) == len(by_draw)


def test_a_draw_is_made_once_per_plan(small_data, tmp_path, monkeypatch):
    draws = []
    drawn = prepared._drawn
    monkeypatch.setattr(prepared, "_drawn", lambda data, rule: draws.append(rule) or drawn(data, rule))
    jobs_of(replace(PROTOCOLS["table1"], data=("cifar10",)), tmp_path)
    assert len(draws) <= 1 + 5


# ---- jobs -------------------------------------------------------------------------------------


def test_the_parts_of_a_split(small_data, tmp_path):
    job = jobs_of(image_protocol(), tmp_path)[0]
    data = prepared.prepare("cifar10", job.config["data"]["candidates"])
    parts = divide(data, job.config)
    assert isinstance(parts.views, ImageViews)
    assert parts.views.describe()["mean"] == pytest.approx([0.45] * 3)
    assert len(parts.clean) == len(parts.selection) == 6
    assert len(parts.test[1]) == 20
    assert parts.clean.x.dtype == np.uint8  # pixels stay bytes


@pytest.mark.parametrize("data", ["cifar10", "fmnist"])
@pytest.mark.parametrize("information", ["select", "loss"])
def test_an_image_job_ends_in_a_record_with_curves(data, information, small_data, tmp_path):
    changes = {"data": (data,), "entries": default_rows("rplg"), "information": information}
    recipe = {**SHORT_RECIPE, "epochs": 3, "batch_size": 16}
    if information == "loss":
        recipe |= {"clean_weight": 0.5, "patience": None, "select": "last"}
    job = jobs_of(image_protocol(recipe=recipe, **changes), tmp_path)[0]
    record = run_job(job, Place(scratch=tmp_path / "running"))
    assert record["status"] == "ok", record
    result = record["result"]
    curves = result["curves"]
    for name in ("loss", "selection", "test", "q_change", "w_entropy", "w_on_truth", "q_accuracy"):
        assert len(curves[name]) == 3, name
    assert result["epochs"] == 3
    assert ("selection" in result) == (information == "select")
    assert 0 <= result["test"] <= 1
    place = {"device": "cpu", "speed": "auto", "torch": torch.__version__}
    assert record["place"] == place | {"bf16": multiplies_bf16(torch.device("cpu"))}
    again = run_job(job, Place(scratch=tmp_path / "running"))
    assert without_times(again) == without_times(record)


@pytest.mark.parametrize("method", ["plcr", "pico", "dirk"])
def test_methods_with_several_views_run(method, small_data, tmp_path):
    recipe = {**SHORT_RECIPE, "epochs": 1, "batch_size": 16}
    job = jobs_of(image_protocol(entries=default_rows(method), reference=method, recipe=recipe), tmp_path)[0]
    assert run_job(job)["status"] == "ok"


class Killed(BaseException):
    """As the end of the process would be: no handler for errors sees it."""


def test_a_job_continues_from_its_checkpoint(small_data, tmp_path, monkeypatch):
    job = jobs_of(image_protocol(), tmp_path)[0]
    place = Place(scratch=tmp_path / "running")
    whole = run_job(job)
    logged, log = [], Run.log

    def counted(self, row):
        if row["epoch"] == 11 and len(logged) == 11:
            raise Killed
        logged.append(row["epoch"])
        log(self, row)

    monkeypatch.setattr(Run, "log", counted)
    with pytest.raises(Killed):
        run_job(job, place)
    checkpoint = tmp_path / "running" / job.hash / "checkpoint" / "last.safetensors"
    saved = load_tree(checkpoint)
    save_tree(checkpoint, saved | {"seconds": saved["seconds"] + 1000})
    logged.clear()
    continued = run_job(job, place)
    assert logged == [10, 11]  # only what came after the checkpoint
    assert continued["seconds"] > continued["result"]["train_seconds"] > 1000  # with what came before it
    assert without_times(continued) == without_times(whole)


def test_a_training_stops_at_a_checkpoint_when_time_is_up_and_continues(small_data, tmp_path):
    protocol = image_protocol(entries=default_rows("proden"), reference="proden", seeds=(0,))
    (job,) = jobs_of(protocol, tmp_path)
    whole = run_job(job)
    assert run_job(job, Place(scratch=tmp_path / "running", until=0.0))["status"] == "stopped"
    assert len((tmp_path / "running" / job.hash / "metrics.jsonl").read_text().splitlines()) == 10

    outcome = run_lab(protocol, tmp_path, Inline(), stream=io.StringIO(), minutes=0.5)
    assert (outcome.ran, outcome.left) == (1, 0)
    (record,) = Records(tmp_path)
    assert without_times(record) == without_times(whole)
    assert record["seconds"] > record["result"]["train_seconds"] > 0
    assert not os.listdir(tmp_path / "running")


def test_a_training_whose_record_cannot_be_written_is_not_lost(small_data, tmp_path, monkeypatch):
    protocol = image_protocol(entries=default_rows("proden"), reference="proden", seeds=(0,))
    with monkeypatch.context() as disk:
        disk.setattr(Records, "add", Mock(side_effect=LabError("no space left")))
        with pytest.raises(LabError, match="no space"):
            run_lab(protocol, tmp_path, Inline(), stream=io.StringIO())
    monkeypatch.setattr(Run, "log", Mock(side_effect=AssertionError("an epoch is trained again")))
    outcome = run_lab(protocol, tmp_path, Inline(), stream=io.StringIO())
    assert (outcome.ran, outcome.failed) == (1, [])
    assert not os.listdir(tmp_path / "running")


def test_jobs_on_tables_keep_no_checkpoint(small_data, tmp_path):
    job = jobs_of(image_protocol(), tmp_path)[0]
    table = Job({name: value for name, value in job.config.items() if name != "views"})
    run_job(table, Place(scratch=tmp_path / "running"))  # whatever becomes of it
    assert not (tmp_path / "running").exists()


# ---- TinyImageNet, from files to a trained net ------------------------------------------------


def test_tiny_imagenet_from_its_files_to_a_record(tmp_path, monkeypatch):
    pytest.importorskip("PIL", reason="JPEG files need Pillow")
    write_tiny_imagenet(tmp_path / "data" / "tiny-imagenet-200", per_class=8)
    rule = {"rule": "instance", "rate": 0.4, "seed": 0}  # the paper's rate asks for more classes
    monkeypatch.setattr(prepared, "candidate_rule", lambda n_classes: rule)
    data = load("tiny-imagenet")
    assert data.x_train.shape[1:] == (3, 64, 64)
    recipe = {**SHORT_RECIPE, "epochs": 2, "batch_size": 8}
    protocol = image_protocol(data=("tiny-imagenet",), recipe=recipe, seeds=(0,), curves=1)
    outcome = run_lab(protocol, tmp_path / "lab", Inline(), stream=io.StringIO())
    assert outcome.failed == []
    assert outcome.ran == 2
    for record in Records(tmp_path / "lab"):
        assert record["config"]["data"]["candidates"] == rule
        assert len(record["result"]["curves"]["test"]) == 2
    (result,) = read_folder(tmp_path / "lab")
    assert {cell.label for cell in result.cells} == {"rplg", "proden"}
    # the generator is trained once and kept
    assert (tmp_path / "data" / "candidates" / "tiny-imagenet_conv_q.npy").exists()


def test_the_small_world_is_used(small_data):
    """What is replaced above is what the lab looks at."""
    assert planning.net_for("by data", "cifar10") == {"name": "lenet"}
    assert trial.prepare is prepared.prepare
    assert torch.get_num_threads() == 1
