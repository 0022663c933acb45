"""Two processes against one that works on the same two shards."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from oneof.methods import list_methods, parallel
from oneof.training import Run
from oneof.training.checkpoint import load_tree, tree_from_bytes, tree_to_bytes
from oneof.training.distributed import Shards
from oneof.training.recipe import Recipe
from tests.training.together import SHARDABLE, TRAININGS, continued, training, work

DOCS = Path(__file__).parents[2] / "docs" / "distributed.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All trainings by two processes, once for all test processes: their start takes longer than they do."""
    base = tmp_path_factory.getbasetemp()
    to = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "two"
    with FileLock(f"{to}.lock"):
        if not (to / "made").exists():
            continued("rplg", to / "begun by one")[0]()
            torch.multiprocessing.spawn(work, (str(to),), nprocs=2)
            (to / "made").touch()
    return to


def by_two(folder, name, rank=0):
    return load_tree(folder / f"{name} {rank}.safetensors")


def assert_close(trained, kept, rel=1e-9):
    """Losses, reports, weights and pseudo-labels agree but for the order of sums."""
    for one, two in zip(trained.history, kept["history"], strict=True):
        assert two == pytest.approx(one, rel=rel)
    assert torch.allclose(torch.as_tensor(trained.pseudo_labels), kept["pseudo_labels"], rtol=rel, atol=rel)
    for name, value in trained.state.state_dict().items():
        assert torch.allclose(value.double(), kept["state"][name].double(), rtol=rel, atol=rel), name


@pytest.mark.parametrize("name", [name for name in TRAININGS if name != "noisy"])
def test_two_processes_give_what_one_with_two_shards_gives(name, folder, tmp_path):
    kept = by_two(folder, name)
    assert_close(TRAININGS[name](tmp_path), kept)


@pytest.mark.parametrize("name", TRAININGS)
def test_all_processes_return_the_same(name, folder):
    left, right = by_two(folder, name, 0), by_two(folder, name, 1)
    assert left["history"] == right["history"]
    assert left["best_epoch"] == right["best_epoch"]
    assert torch.equal(left["pseudo_labels"], right["pseudo_labels"])
    for key, value in left["state"].items():
        assert torch.equal(value, right["state"][key]), key


def test_noise_differs_between_processes(folder):
    saved = load_tree(folder / "noisy" / "checkpoint" / "last.safetensors")
    mine, (other,) = saved["generators"], saved["other_processes"]
    assert torch.equal(mine["order"], other["order"])
    assert torch.equal(mine["clean"], other["clean"])
    assert not torch.equal(mine["step"], other["step"])
    assert not torch.equal(mine["default"], other["default"])


# ---- run folders ------------------------------------------------------------------------------


def test_the_run_folder_is_that_of_one_process(folder, tmp_path):
    TRAININGS["run"](tmp_path)
    config, alone = (json.loads((to / "run" / "config.json").read_text()) for to in (folder, tmp_path))
    assert config == alone
    assert len((folder / "run" / "metrics.jsonl").read_text().splitlines()) == len(
        by_two(folder, "run")["history"]
    )
    assert Run(folder / "run").done


def test_two_processes_continue_what_one_began(folder):
    assert_close(training("rplg"), by_two(folder, "from one"))
    saved = load_tree(folder / "begun by one" / "checkpoint" / "last.safetensors")
    assert not torch.equal(saved["generators"]["step"], saved["other_processes"][0]["step"])


def test_one_process_continues_what_two_began(folder):
    assert len(by_two(folder, "begun")["history"]) == 1
    trained = continued("rplg", folder / "begun by two")[1]()
    whole = training("rplg")
    assert [row["loss"] for row in trained.history] == pytest.approx([r["loss"] for r in whole.history])


def test_a_run_in_two_parts_is_the_whole_run_bit_for_bit(folder):
    """With noise, dropout, batch normalisation and Adam: all of it is in the checkpoint."""
    for rank in (0, 1):
        whole, parts = by_two(folder, "noisy", rank), by_two(folder, "noisy in two parts", rank)
        assert whole["history"] == parts["history"]
        for key, value in whole["state"].items():
            assert torch.equal(value, parts["state"][key]), key


def test_one_process_needs_no_common_normalisation():
    alone = training("proden", sync_batch_norm=True, shards=1)
    plain = training("proden", shards=1)
    assert [row["loss"] for row in alone.history] == [row["loss"] for row in plain.history]


# ---- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("method", "ValueError: pico cannot be trained by 2 processes"),
        ("shards", "ValueError: shards is 3, but 2 processes train together"),
        ("batch", "ValueError: batch_size is 15, which 2 shards cannot take equal parts of"),
        ("batch norm", "ValueError: sync_batch_norm needs GPUs"),
        ("run", "RunError: .* holds a run with another method"),
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_errors_reach_every_process(name, text, rank, folder):
    assert re.match(text, load_tree(folder / f"errors {rank}.safetensors")[name])


def test_methods_that_compare_rows_are_not_divided():
    assert {info.name for info in list_methods()} - set(SHARDABLE) == {
        "able",
        "crowd",
        "dirk-ref",
        "pico",
        "sdct",
        "valen",
    }


def test_too_few_rows_for_the_shards():
    with pytest.raises(ValueError, match="123 rows cannot be divided into 200 shards"):
        training("proden", shards=200, batch_size=None)
    with pytest.raises(ValueError, match="3 clean rows in a step cannot be divided among 4 shards"):
        training("rplg", {"clean_batch": 3}, shards=4)


# ---- pieces -----------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 20), st.integers(0, 3))
def test_batches_take_an_equal_part_of_every_shard(n, count, part, seed):
    if n < count:
        return
    size = Recipe(batch_size=part * count).rows_per_step(n, count)
    assert size % count == 0
    shards = Shards(n, count)
    whole = shards.order(torch.Generator().manual_seed(seed), size).view(-1, size)
    assert len(whole) == shards.steps(size) >= 1
    assert len(whole.unique()) == whole.numel()
    assert all((batch % count).bincount(minlength=count).eq(size // count).all() for batch in whole)
    own = []
    for rank in range(count):
        with (
            mock.patch.object(parallel, "rank", return_value=rank),
            mock.patch.object(parallel, "world_size", return_value=count),
        ):
            own.append(shards.order(torch.Generator().manual_seed(seed), size).view(-1, size // count))
        assert (own[-1] % count == rank).all()
    assert torch.equal(torch.cat(own, dim=1), whole)


def test_one_process_does_nothing():
    tensors = [torch.ones(2), torch.zeros(())]
    assert all(a is b for a, b in zip(parallel.averaged(tensors), tensors))
    parallel.average_(tensors)
    parallel.from_first_(tensors)
    assert (parallel.rank(), parallel.world_size()) == (0, 1)
    assert parallel.agreed(0.5) == 0.5
    assert parallel.anywhere(True)
    with parallel.join():  # not started by torchrun
        assert parallel.world_size() == 1


def test_trees_survive_being_sent():
    tree = {"a": [torch.arange(3), None], "b": {0: 1.5}, "none": torch.zeros(0, 2)}
    back = tree_from_bytes(tree_to_bytes(tree))
    assert torch.equal(back["a"][0], torch.arange(3))
    assert back["b"] == {0: 1.5}
    assert tree_from_bytes(tree_to_bytes({})) == {}


def test_the_example_in_the_documentation_runs(tmp_path):
    example = re.search(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL).group(1)
    (tmp_path / "train.py").write_text(example)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"accuracy \d\.\d+", done.stdout.strip())  # one line: the first process prints
