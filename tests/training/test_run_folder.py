"""A run folder continues what was begun in it, exactly, or says why it does not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors import SafetensorError

from oneof import PartialLabelClassifier
from oneof.methods.proden import Proden
from oneof.methods.rplg import Rplg
from oneof.tables.files import SEAL
from oneof.training import CleanRows, Recipe, Run, RunError, checkpoint, train
from oneof.training import run as run_module
from oneof.training.checkpoint import load_tree
from tests.methods.harness import (
    C,
    KillAfter,
    Killed,
    assert_same_fit,
    blobs,
    fit,
    random_candidates,
    tiny_net,
)
from tests.training.test_loop import Rows

RECIPE = {"epochs": 6, "checkpoint_every": 2}


def begun(folder, **more):
    """A run of six epochs that was killed in its fifth: its last checkpoint is of the fourth."""
    with pytest.raises(Killed):
        fit(Rplg(), recipe=RECIPE, run=Run(folder), progress=KillAfter(5), **more)


def continued(folder, **more):
    return fit(Rplg(), recipe=RECIPE, run=Run(folder), **more)


def test_what_was_trained_when_the_time_was_up_is_kept(tmp_path):
    recipe = {"epochs": 9, "checkpoint_every": 5}
    fit(Rplg(), recipe={**recipe, "max_seconds": 0.0}, run=Run(tmp_path))
    assert load_tree(Run(tmp_path).checkpoint_file)["epoch"] == 1
    assert_same_fit(fit(Rplg(), recipe=recipe, run=Run(tmp_path)), fit(Rplg(), recipe=recipe))
    assert json.loads((tmp_path / "done").read_text())["epochs"] == 9


def test_numbers_of_numpy_are_written_as_others_are(tmp_path):
    numbers = {
        "epochs": np.int64(6),
        "checkpoint_every": np.int64(2),
        "seed": np.int64(0),
        "lr": np.float32(0.25),
    }
    method = Rplg(alpha=np.float32(0.5), meta_lr=np.float32(0.125))
    with pytest.raises(Killed):
        fit(method, recipe=numbers, run=Run(tmp_path), progress=KillAfter(5))
    plain = {"recipe": {**RECIPE, "seed": 0, "lr": 0.25}}
    assert_same_fit(fit(Rplg(meta_lr=0.125), run=Run(tmp_path), **plain), fit(Rplg(meta_lr=0.125), **plain))


# ---- other content ----------------------------------------------------------------------------


def labelled(wrong=0, shift=0.0):
    x, y = blobs(40, seed=5)
    y[:wrong] = (y[:wrong] + 1) % C
    return CleanRows(x + np.float32(shift), np.eye(C, dtype=bool)[y])


def sets(unknown=0):
    made = random_candidates(blobs()[1], rate=0.1, special=False)
    truth = made.truth.copy()
    truth[:unknown] = -1
    return made.replace(truth=truth)


OTHER = {
    "labels": ("clean rows", {"clean": labelled()}, {"clean": labelled(wrong=1)}),
    "clean inputs": ("clean rows", {"clean": labelled()}, {"clean": labelled(shift=0.01)}),
    "none": ("clean rows", {"clean": labelled()}, {"clean": None}),
    "selection": ("rows to select by", {"selection": labelled()}, {"selection": labelled(wrong=1)}),
    "test": ("test rows", {"test": blobs(80, seed=9)}, {"test": blobs(80, seed=8)}),
    "test labels": ("test rows", {"test": blobs(80)}, {"test": (blobs(80)[0], blobs(80)[1][::-1])}),
    "truth": ("true labels", {"candidates": sets()}, {"candidates": sets(unknown=3)}),
    "a Dataset": ("features", {"x": Rows(blobs()[0])}, {"x": Rows(blobs()[0] + 1)}),
    "an array": ("features|inputs", {"x": blobs()[0]}, {"x": blobs()[0] + 1}),
    "candidates": ("candidates", {}, {"candidates": random_candidates(blobs()[1], seed=2)}),
}


@pytest.mark.parametrize("case", OTHER)
@pytest.mark.parametrize("finished", [False, True])
def test_other_rows_are_refused_by_name(case, finished, tmp_path):
    name, first, then = OTHER[case]
    begun(tmp_path, **first)
    if finished:
        continued(tmp_path, **first)
    with pytest.raises(
        RunError, match=f"holds a run with (an)?other ({name}|clean)[:\n](.|\n)*delete this one"
    ):
        continued(tmp_path, **then)
    continued(tmp_path, **first)


def test_a_network_with_other_weights_is_refused(tmp_path):
    x, y = blobs()
    nets = [tiny_net(), tiny_net()]
    arguments = {"recipe": Recipe(epochs=2, device="cpu"), "run": Run(tmp_path)}
    train(Proden(), nets[0], x, random_candidates(y), **arguments)
    with pytest.raises(RunError, match="other weights of the network"):
        train(Proden(), nets[1], x, random_candidates(y), **arguments)


def test_other_code_of_ones_own_method_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "code_of", lambda method: {"code": "first"})
    fit(Proden(), run=Run(tmp_path))
    monkeypatch.setattr(run_module, "code_of", lambda method: {"code": "second"})
    with pytest.raises(RunError, match=r"other code of the method: their digests are\n  there: .*first"):
        fit(Proden(), run=Run(tmp_path))


def test_a_run_divided_in_another_way_is_refused(tmp_path):
    fit(Proden(), run=Run(tmp_path), recipe={"shards": 2, "epochs": 2})
    with pytest.raises(RunError, match="shards"):
        fit(Proden(), run=Run(tmp_path), recipe={"epochs": 2})


def test_the_estimator_does_not_return_the_model_of_other_labels(tmp_path):
    x, _ = blobs()
    x_clean, y_clean = blobs(40, seed=5)
    settings = {"hidden": (8,), "epochs": 2, "device": "cpu", "run": tmp_path}
    PartialLabelClassifier("rplg", **settings).fit(x, sets(), clean=(x_clean, y_clean))
    with pytest.raises(RunError, match="holds a run with other clean rows"):
        PartialLabelClassifier("rplg", **settings).fit(x, sets(), clean=(x_clean, (y_clean + 1) % C))


def test_the_estimator_knows_the_weights_of_an_own_network(tmp_path):
    x, _ = blobs()
    settings = {"epochs": 2, "device": "cpu", "run": tmp_path}
    PartialLabelClassifier("proden", net=tiny_net(), **settings).fit(x, sets())
    with pytest.raises(RunError, match="other weights of the network"):
        PartialLabelClassifier("proden", net=tiny_net(), **settings).fit(x, sets())


def test_inputs_that_are_random_can_be_continued(tmp_path):
    """Augmentation in a Dataset: there is no digest of what never comes twice."""

    class Noisy(Rows):
        def __getitem__(self, i):
            return self.x[i] + 0.01 * torch.rand(len(self.x[i]))

    begun(tmp_path, x=Noisy(blobs()[0]))
    assert continued(tmp_path, x=Noisy(blobs()[0])).history[-1]["epoch"] == 5


def test_a_folder_of_an_earlier_version_is_continued_and_then_knows_its_rows(tmp_path):
    begun(tmp_path)
    whole = fit(Rplg(), recipe=RECIPE)
    without_digests(tmp_path)
    with pytest.raises(Killed):
        fit(Rplg(), recipe=RECIPE, run=Run(tmp_path), progress=KillAfter(1))
    with pytest.raises(RunError, match="other clean rows"):
        continued(tmp_path, clean=labelled(wrong=1))
    assert_same_fit(whole, continued(tmp_path))


def without_digests(folder):
    """As version 0.1.0 wrote it."""
    config = json.loads((folder / "config.json").read_text())
    for name in ("contents", SEAL):
        del config[name]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "checkpoint" / "previous.safetensors").unlink()
    file = folder / "checkpoint" / "last.safetensors"
    tree = load_tree(file)
    del tree["config"]
    tensors = {}
    text = json.dumps(checkpoint._flatten(tree, tensors))
    checkpoint.save_file(tensors, file, metadata={"tree": text})


# ---- damage -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    begun(folder)
    return folder, fit(Rplg(), recipe=RECIPE)


def flipped(file, bit):
    content = bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)


def recovered_or_refused(folder, whole):
    """Continue; the result is what it would have been, or there is an error of ours that says what to do."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = continued(folder)
        except RunError as error:
            assert "delete" in str(error)  # noqa: PT017
            return "refused"
    assert_same_fit(whole, found)
    return "recovered" if any("is damaged" in str(w.message) for w in said) else "as it was"


FILES = ["config.json", "metrics.jsonl", "checkpoint/last.safetensors", "checkpoint/previous.safetensors"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_changes_nothing(name, stopped, tmp_path):
    rng = np.random.default_rng(0)
    bits = 8 * (stopped[0] / name).stat().st_size
    # some in the first bytes of a file, where a header is
    for bit in {0, 3, 8, 70, 100, *rng.integers(min(bits, 16_000), size=4), *rng.integers(bits, size=4)}:
        folder = shutil.copytree(stopped[0], tmp_path / str(bit))
        flipped(folder / name, int(bit))
        assert recovered_or_refused(folder, stopped[1]) in ("recovered", "as it was")
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_changes_nothing(name, stopped, tmp_path):
    size = (stopped[0] / name).stat().st_size
    for end in (0, 1, 7, 100, size // 2, size - 1):
        folder = shutil.copytree(stopped[0], tmp_path / str(end))
        os.truncate(folder / name, end)
        assert recovered_or_refused(folder, stopped[1]) in ("recovered", "as it was")


def test_the_checkpoint_before_it_is_used_and_takes_its_place(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    before = load_tree(folder / "checkpoint" / "previous.safetensors")["epoch"]
    os.truncate(folder / "checkpoint" / "last.safetensors", 1000)
    with (
        pytest.raises(Killed),
        pytest.warns(UserWarning, match="is damaged(.|\n)*from the checkpoint before it"),
    ):
        fit(Rplg(), recipe=RECIPE, run=Run(folder), progress=KillAfter(1))
    assert load_tree(folder / "checkpoint" / "last.safetensors")["epoch"] == before == 2
    assert recovered_or_refused(folder, stopped[1]) == "as it was"


def test_killed_between_two_renames(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    (folder / "checkpoint" / "last.safetensors").unlink()
    assert recovered_or_refused(folder, stopped[1]) == "as it was"


def test_no_checkpoint_left(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    for name in FILES[2:]:
        flipped(folder / name, 5000)
    with pytest.raises(RunError, match=r"is damaged(.|\n)*delete .*checkpoint to train from the beginning"):
        continued(folder)
    shutil.rmtree(folder / "checkpoint")
    assert recovered_or_refused(folder, stopped[1]) == "as it was"


def test_a_configuration_comes_back_from_the_checkpoint(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    (folder / "config.json").write_text('{"a":' * 100_000)
    with pytest.raises(RunError, match="other clean rows"):  # it is still known what was trained here
        continued(folder, clean=labelled(wrong=1))
    with pytest.warns(UserWarning, match=r"config.json is damaged(.|\n)*restored from the checkpoint"):
        assert_same_fit(stopped[1], continued(folder))
    (folder / "config.json").unlink()
    assert recovered_or_refused(folder, stopped[1]) == "as it was"


def test_a_damaged_configuration_alone(tmp_path):
    tmp_path.joinpath("config.json").write_text("{")
    with pytest.raises(RunError, match=r"config.json is damaged(.|\n)*delete this one"):
        continued(tmp_path)


def test_a_checkpoint_without_a_digest_is_not_believed_where_all_have_one(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    config = (folder / "config.json").read_bytes()
    without_digests(folder)
    (folder / "config.json").write_bytes(config)
    with pytest.raises(RunError, match="is damaged"):
        continued(folder)


@pytest.mark.parametrize("change", [{"state": {}}, {"epoch": None}, {"history": 3}, {"optimiser": [1]}])
def test_a_checkpoint_of_something_else(change, stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    file = folder / "checkpoint" / "last.safetensors"
    (folder / "checkpoint" / "previous.safetensors").unlink()
    checkpoint.save_tree(file, load_tree(file) | change)
    with pytest.raises(RunError, match="delete"):
        continued(folder)


# ---- the disk ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "file"), [("save_tree", ""), ("write_text", ""), ("write_text", "done")])
def test_a_full_disk(name, file, tmp_path, monkeypatch):
    write = run_module.write_text

    def full(path, *arguments):
        if file and path.name != file:
            return write(path, *arguments)
        if name == "save_tree":
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, name, full)
        with pytest.raises(RunError, match=r"No space left on device\. Free some space"):
            continued(tmp_path)
    assert_same_fit(continued(tmp_path), fit(Rplg(), recipe=RECIPE))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="Choose a folder that you may write to"):
        continued(tmp_path / "run")


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "run").write_text("notes")
    with pytest.raises(RunError, match="cannot be started"):
        continued(tmp_path / "run")


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoint", "lock", "done"])
def test_links_are_refused(name, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=f"{name} is a link"):
        continued(tmp_path / "run")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_linked_checkpoint_is_refused(stopped, tmp_path):
    folder = shutil.copytree(stopped[0], tmp_path / "run")
    file = folder / "checkpoint" / "last.safetensors"
    shutil.move(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="is a link"):
        continued(folder)


# ---- two at once ------------------------------------------------------------------------------


def test_a_folder_in_use_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "PATIENCE", 0.01)
    with (
        FileLock(tmp_path / "lock"),
        pytest.raises(RunError, match=r"another process is training in .*\n  Wait until it has ended"),
    ):
        continued(tmp_path)
    continued(tmp_path)  # and free afterwards
    continued(tmp_path)


def test_the_folder_is_free_after_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "PATIENCE", 0.01)
    begun(tmp_path)
    with pytest.raises(RunError, match="clean rows"):
        continued(tmp_path, clean=labelled(wrong=1))
    continued(tmp_path)


def test_a_killed_process_leaves_no_lock(tmp_path, monkeypatch):
    command = [sys.executable, "-m", "tests.training.kill_me", "proden", str(tmp_path), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()  # it has ended an epoch and sleeps
        monkeypatch.setattr(run_module, "PATIENCE", 0.01)
        recipe = {"epochs": 12, "checkpoint_every": 2}
        with pytest.raises(RunError, match="another process is training"):
            fit(Proden(), recipe=recipe, run=Run(tmp_path))
        process.send_signal(signal.SIGKILL)
    assert fit(Proden(), recipe=recipe, run=Run(tmp_path)).history[-1]["epoch"] == 11
