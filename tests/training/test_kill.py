"""A training killed by the system continues and gives what an undisturbed one gives, bit for bit."""

import contextlib
import json
import multiprocessing
import os
import signal

import pytest
import torch

from oneof.methods import list_methods, make_method
from oneof.training import Run
from oneof.training.checkpoint import load_tree
from tests.methods.harness import fit
from tests.training.kill_me import train

RECIPE = {"epochs": 12, "checkpoint_every": 2}


# children of a process that has imported everything: a new Python per training takes longer than the training
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.training.kill_me"])


def killed_after(name: str, folder, epochs: int, number: int) -> None:
    """Start a training in a process of its own and send it a signal after some epochs."""
    said, say = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=train, args=(name, folder, 0.05, say.send))
    process.start()
    say.close()
    with contextlib.suppress(EOFError):  # it has ended before the signal came
        while said.recv() < epochs:
            pass
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode not in (None, 0)


@pytest.mark.parametrize("name", [info.name for info in list_methods()])
def test_killed_training_resumes_bit_identically(name, tmp_path):
    killed_after(name, tmp_path / "killed", 6, signal.SIGKILL)
    assert not Run(tmp_path / "killed").done
    resumed = fit(make_method(name), recipe=RECIPE, run=Run(tmp_path / "killed"))
    whole = fit(make_method(name), recipe=RECIPE, run=Run(tmp_path / "whole"))
    assert (tmp_path / "killed" / "metrics.jsonl").read_bytes() == (
        tmp_path / "whole" / "metrics.jsonl"
    ).read_bytes()
    left, right = (load_tree(tmp_path / n / "checkpoint" / "last.safetensors") for n in ("killed", "whole"))
    assert json.dumps(left, default=_bytes) == json.dumps(right, default=_bytes)
    for a, b in zip(resumed.state.state_dict().values(), whole.state.state_dict().values()):
        assert torch.equal(a, b)


def _bytes(tensor):
    return tensor.contiguous().view(-1).numpy().tobytes().hex()


def test_interrupt_leaves_a_resumable_run_at_the_epoch_it_came_in(tmp_path):
    killed_after("proden", tmp_path, 6, signal.SIGINT)
    saved = load_tree(tmp_path / "checkpoint" / "last.safetensors")
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert saved["epoch"] == len(lines)  # nothing is lost, also between two regular checkpoints
    assert fit(make_method("proden"), recipe=RECIPE, run=Run(tmp_path)).history[-1]["epoch"] == 11
    assert os.path.exists(tmp_path / "done")
