"""Saved models come back the same, and a folder that lies is refused before it costs anything."""

import copy
import json
import os
import pickle
import resource
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import oneof
from oneof import Candidates, PartialLabelClassifier
from oneof.persist import ModelError, _digest
from tests.test_inputs import problem

X, Y, MASK = problem()
FILES = ["model.json", "model.safetensors", "training.safetensors"]


def fitted(method="proden", y=MASK, x=X, **more):
    return PartialLabelClassifier(method, **{"hidden": (6,), "epochs": 3, "device": "cpu", **more}).fit(x, y)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model folder that tests copy before they damage it."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    fitted().save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def rewrite(folder, change):
    """Change model.json; keep the digests right, so that what is tested is behind them."""
    facts = json.loads((folder / "model.json").read_text())
    change(facts)
    for name in FILES[1:]:
        if isinstance(facts.get("sha256"), dict) and name in facts["sha256"] and (folder / name).exists():
            facts["sha256"][name] = _digest(folder / name)
    (folder / "model.json").write_text(json.dumps(facts))


# ---- there and back ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["rplg", "proden", "sdct"])
def test_a_model_comes_back_the_same(method, tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = fitted(method, x=frame, y=pd.DataFrame(MASK, columns=["ant", "bee", "cow"]), scaling="minmax")
    model.save(tmp_path / "deep" / "model")
    assert sorted(os.listdir(tmp_path / "deep" / "model")) == FILES
    back = oneof.load(str(tmp_path / "deep" / "model"))
    np.testing.assert_array_equal(back.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(back.transduction_, model.transduction_)
    assert back.classes_.dtype == model.classes_.dtype
    assert back.feature_names_in_.tolist() == list("abcd")
    assert back.n_features_in_ == 4
    assert back.method_ == model.method_
    assert len(back.net_) == (2 if method == "sdct" else 1)
    for name in ("history_", "best_epoch_", "clean_source_", "n_clean_", "n_selection_"):
        assert getattr(back, name) == getattr(model, name)
    before, after = model.get_params(), back.get_params()
    assert after["method_params"] == model.method_.params()
    before.pop("method_params"), after.pop("method_params")
    assert after == before
    with pytest.raises(ValueError, match="order"):
        back.predict(frame[["b", "a", "c", "d"]])
    back.fit(frame, MASK)  # and it can be trained again


@pytest.mark.parametrize("net", ["linear", "mlp"])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_nets_come_back(net, batch_norm, tmp_path):
    model = fitted(net=net, batch_norm=batch_norm, hidden=np.array([5, 4]), random_state=np.int64(3))
    model.save(tmp_path)
    back = oneof.load(tmp_path)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.random_state == 3
    assert back.score(X, MASK) == model.score(X, MASK)


@given(
    st.one_of(
        st.lists(st.text(min_size=1), min_size=3, max_size=3, unique=True),
        st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3, unique=True),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3, unique=True),
        st.just([1, "a", 2.5]),
        st.just([True, "True", "1"]),
    )
)
@settings(max_examples=25, deadline=None)
def test_class_names_come_back_as_they_were(tmp_path_factory, names):
    folder = tmp_path_factory.getbasetemp() / "names"
    model = fitted(y=Candidates.from_mask(MASK, names), net="linear", epochs=1)
    model.save(folder)
    back = oneof.load(folder)
    assert back.classes_.tolist() == model.classes_.tolist() == names
    assert list(map(type, back.classes_.tolist())) == list(map(type, model.classes_.tolist()))
    assert back.predict(X).tolist() == model.predict(X).tolist()


class Own(nn.Module):
    def __init__(self, hidden=5):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        self.out = nn.Linear(hidden, 3)

    def forward(self, x):
        return self.out(self.body(x))


@pytest.mark.parametrize("method", ["rplg", "sdct"])
@pytest.mark.parametrize("shape", [(4,), (1, 2, 2)], ids=["table", "image"])
def test_an_own_network_is_passed_to_load(method, shape, tmp_path):
    x = X.reshape(-1, *shape)
    model = fitted(method, x=x, net=Own())
    model.save(tmp_path)
    with pytest.raises(ModelError, match="network of your own"):
        oneof.load(tmp_path)
    net = Own()
    before = copy.deepcopy(net.state_dict())
    back = oneof.load(tmp_path, net=net)
    np.testing.assert_array_equal(back.predict_proba(x), model.predict_proba(x))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(ModelError, match="the network you passed needs"):
        oneof.load(tmp_path, net=Own(hidden=6))
    with pytest.raises(TypeError, match="a net is an"):
        oneof.load(tmp_path, net="mlp")


def test_a_model_is_usable_without_its_training_rows(folder):
    (folder / "training.safetensors").unlink()
    back = oneof.load(folder)
    assert not hasattr(back, "transduction_")
    assert back.score(X, Y) > 0
    back.save(folder.parent / "again")
    assert sorted(os.listdir(folder.parent / "again")) == FILES[:2]
    fitted().save(folder)
    back.save(folder)  # rows of another model must not stay beside it
    assert not hasattr(oneof.load(folder), "transduction_")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_model_from_a_machine_with_a_gpu(folder):
    rewrite(folder, lambda facts: facts["estimator"].update(device="cuda:1"))
    back = oneof.load(folder)
    assert back.device == "auto"
    assert back.predict(X).shape == (len(X),)


# ---- saving -----------------------------------------------------------------------------------


def test_saving_replaces_an_older_model(folder):
    other = fitted("average", y=Y, net="linear")
    other.save(folder)
    back = oneof.load(folder)
    assert (back.method, back.net) == ("average", "linear")
    np.testing.assert_array_equal(back.predict_proba(X), other.predict_proba(X))
    assert sorted(os.listdir(folder)) == FILES


def test_a_failure_leaves_what_was_there(folder, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in FILES}
    strange = fitted(y=Candidates.from_mask(MASK, [("a", 1), ("b", 2), ("c", 3)]))
    with pytest.raises(ModelError, match=r"class \('a', 1\) is a tuple"):
        strange.save(folder)
    odd = fitted()
    odd.set_params(verbose=object())
    with pytest.raises(ModelError, match="JSON"):
        odd.save(folder)
    calls = []

    def disk_full(tensors, path, *more):
        calls.append(path)
        save_file(tensors, path)
        if len(calls) == 2:
            raise OSError("no space left on device")

    monkeypatch.setattr("oneof.persist.save_file", disk_full)
    with pytest.raises(OSError, match="no space"):
        fitted("average").save(folder)
    assert len(calls) == 2
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


def test_a_file_is_no_place_for_a_model(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ModelError, match="is a file"):
        fitted().save(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


# ---- folders that lie -------------------------------------------------------------------------


class Trap:
    """Unpickling it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("name", FILES[1:])
@pytest.mark.parametrize("dump", [pickle.dumps, None], ids=["pickle", "torch"])
def test_no_code_is_run(folder, name, dump, tmp_path):
    trap = Trap(tmp_path / "sprung")
    if dump:
        (folder / name).write_bytes(dump(trap))
    else:
        torch.save({"0.head.weight": trap}, folder / name)
    rewrite(folder, lambda facts: None)  # with the right digest
    with pytest.raises(ModelError, match="not a safetensors file"):
        oneof.load(folder)
    assert not (tmp_path / "sprung").exists()


def test_json_is_not_replaced_by_a_pickle(folder, tmp_path):
    (folder / "model.json").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(ModelError, match="no JSON"):
        oneof.load(folder)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", FILES[1:])
def test_damage_is_found(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} has SHA-256"):
        oneof.load(folder)


@pytest.mark.parametrize("name", FILES[:2])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing"):
        oneof.load(folder)


def test_no_folder_at_all(tmp_path):
    with pytest.raises(ModelError, match="no model in"):
        oneof.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "null", '{"format": 1', '{"format": 2}', "[" * 200_000, "\x00", '{"format": 1}']
)
def test_broken_descriptions(folder, text):
    (folder / "model.json").write_text(text)
    with pytest.raises(ModelError, match=r"model\.json"):
        oneof.load(folder)
    (folder / "model.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ModelError, match="no JSON"):
        oneof.load(folder)


def test_truncated_anywhere(folder):
    """Any beginning of the description is refused with the one error."""
    text = (folder / "model.json").read_text().rstrip()
    for end in range(0, len(text), 97):
        (folder / "model.json").write_text(text[:end])
        with pytest.raises(ModelError):
            oneof.load(folder)


def test_every_entry_is_needed(folder):
    for key in json.loads((folder / "model.json").read_text()):
        if key == "versions":
            continue
        changed = shutil.copytree(folder, folder.parent / key)
        rewrite(changed, lambda facts, key=key: facts.pop(key))
        with pytest.raises(ModelError):
            oneof.load(changed)
        rewrite(shutil.copytree(folder, changed / "x"), lambda facts, key=key: facts.update({key: [[None]]}))
        with pytest.raises(ModelError):
            oneof.load(changed / "x")


def put(*path):
    """A change to model.json: the last argument goes to the place the others name."""

    def change(facts):
        for key in path[:-2]:
            facts = facts[key]
        facts[path[-2]] = path[-1]

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("net_options", "hidden", [10**9, 10**9]),
        put("net_options", "hidden", [10**30]),
        put("net_options", "hidden", [6] * 10**6),
        put("net_options", "hidden", [-6]),
        put("net_options", "hidden", {"6": 6}),
        put("net_options", "activation", "__import__"),
        put("net_options", "surprise", 1),
        put("net_options", None),
        put("net", "copies", 10**9),
        put("net", "copies", 0),
        put("net", "copies", -1),
        put("net", "copies", 2),
        put("net", "name", "../../mlp"),
        put("net", "name", "__class__"),
        put("net", "name", ["mlp"]),
        put("n_features_in", 10**12),
        put("n_features_in", -4),
        put("n_features_in", float("inf")),
        put("n_features_in", "../4"),
        put("classes", ["a", "b"]),
        put("classes", ["a", "a", "b"]),
        put("classes", [["a"], ["b"], ["c"]]),
        put("classes", [None, "a", "b"]),
        put("classes", "abc"),
        put("feature_names_in", ["a", "b", "c"]),
        put("scaling", {"kind": "standard", "shift": [0.0], "scale": [1.0]}),
        put("scaling", {"kind": "standard", "shift": [0.0] * 4, "scale": [0.0] * 4}),
        put("scaling", "kind", "../secret"),
        put("method", "name", "oneof.methods.proden:Proden"),
        put("method", "name", "__init__"),
        put("method", "params", {"run": "../elsewhere"}),
        put("estimator", "run", "../elsewhere"),
        put("estimator", "net", "linear"),
        put("estimator", "__class__", "x"),
        put("estimator", "device", 7),
        put("history", 7),
        put("best_epoch", "last"),
        put("clean", {"source": "given"}),
        put("sha256", {"model.safetensors": "0" * 64}),
        put("sha256", {"../model.safetensors": "0" * 64}),
        put("format", "1; rm"),
    ],
)
def test_lies_in_the_description_are_refused_without_memory(folder, change):
    rewrite(folder, change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError):
        oneof.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_weights_of_another_network_are_refused(folder):
    model = fitted(hidden=(7,))
    model.save(folder.parent / "other")
    shutil.copy(folder.parent / "other" / "model.safetensors", folder)
    with pytest.raises(ModelError, match="SHA-256"):
        oneof.load(folder)
    rewrite(folder, lambda facts: None)
    with pytest.raises(ModelError, match=r"has shape \(7, 4\), the network of model.json needs \(6, 4\)"):
        oneof.load(folder)


def test_training_rows_must_fit(folder):
    save_file({"transduction": torch.zeros(5, 2)}, folder / "training.safetensors")
    rewrite(folder, lambda facts: None)
    with pytest.raises(ModelError, match=r"training\.safetensors does not fit the 3 classes"):
        oneof.load(folder)
    save_file({"other": torch.zeros(5, 3)}, folder / "training.safetensors")
    rewrite(folder, lambda facts: None)
    with pytest.raises(ModelError):
        oneof.load(folder)


def test_other_files_in_the_folder_are_not_looked_at(folder, tmp_path):
    (folder / "model.pt").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    (folder / "oneof.py").write_text("raise SystemExit")
    oneof.load(folder)
    assert not (tmp_path / "sprung").exists()


def test_links_to_devices_are_no_files(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(ModelError, match="missing"):
        oneof.load(folder)
