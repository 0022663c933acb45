"""A folder that lies is refused before it costs anything, with one kind of error that says why."""

import json
import os
import pickle
import resource
import shutil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import oneof
from oneof.classifier.persist import ModelError, model
from oneof.classifier.persist.folder import MANIFEST, ModelFolder, parse
from tests.persist.folders import TENSORS, X, fitted, rewrite, sign


class Trap:
    """Unpickling it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("dump", [pickle.dumps, None], ids=["pickle", "torch"])
def test_no_code_is_run(folder, name, dump, tmp_path):
    trap = Trap(tmp_path / "sprung")
    if dump:
        (folder / name).write_bytes(dump(trap))
    else:
        torch.save({"0.head.weight": trap}, folder / name)
    sign(folder)  # with the right digest
    with pytest.raises(ModelError, match="not a safetensors file"):
        oneof.load(folder)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["manifest.json", "model.json", "README.md"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_text_is_not_replaced_by_a_pickle(folder, name, protocol, tmp_path):
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung"), protocol))
    if name == "model.json":
        sign(folder)
    with pytest.raises(ModelError, match=f"{name} is a pickle|{name} is no JSON"):
        oneof.load(folder)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("features", range(1, 12))
def test_weights_whose_header_looks_like_a_pickle(features, tmp_path):
    """A header of 640 bytes begins with the bytes 80 02, as a pickle does."""
    model = fitted(x=np.zeros((90, features)), y=[["a" * features], ["b"]] * 45, net="linear", epochs=1)
    model.save(tmp_path / "m")
    (tmp_path / "m" / "more.safetensors").write_bytes(b"\x80\x02.")
    oneof.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["model.pkl", "weights.PT", "pytorch_model.bin", "a.joblib", "harmless.txt"])
def test_a_pickle_beside_the_model_is_refused(folder, name, tmp_path):
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(ModelError, match=f"{name} is a pickle.*never read"):
        oneof.load(folder)
    with pytest.raises(ModelError, match=f"{name} is a pickle"):
        fitted().save(folder)  # a folder that could not be loaded is no place to save to
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["model.json", *TENSORS])
def test_damage_is_found(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} has SHA-256.*damaged or not the one"):
        oneof.load(folder)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(ModelError, match=f"{name} has {len(content) - 1} bytes, but manifest.json says"):
        oneof.load(folder)


@pytest.mark.parametrize("name", ["manifest.json", "model.json", "model.safetensors"])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing"):
        oneof.load(folder)


def test_no_folder_at_all(tmp_path):
    with pytest.raises(ModelError, match="no model in"):
        oneof.load(tmp_path / "nowhere")


BROKEN = ["", "{", "[1]", "null", '{"format": 2', '{"format": 1}', "[" * 200_000, "\x00", '{"format": 2}']


@pytest.mark.parametrize("name", ["manifest.json", "model.json"])
@pytest.mark.parametrize("text", BROKEN)
def test_broken_descriptions(folder, name, text):
    def written(content):
        (folder / name).write_bytes(content)
        if name != MANIFEST:
            sign(folder)

    written(text.encode())
    with pytest.raises(ModelError, match=name):
        oneof.load(folder)
    written(b"\xff\xfe{}")
    with pytest.raises(ModelError, match="no JSON"):
        oneof.load(folder)


def test_truncated_anywhere(folder):
    """Any beginning of the description is refused with the one error."""
    text = (folder / "model.json").read_text().rstrip()
    for end in range(0, len(text), 97):
        (folder / "model.json").write_text(text[:end])
        sign(folder)
        with pytest.raises(ModelError):
            oneof.load(folder)


def test_a_model_of_the_first_format(folder):
    (folder / MANIFEST).unlink()
    with pytest.raises(ModelError, match="older version: fit and save"):
        oneof.load(folder)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "stands twice"),
        ("[" * 65 + "]" * 65, "nested deeper"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested deeper"),
        ("9" * 10_000, "digits"),
        ('"' + '\\"' * 300_000 + "\\", "no JSON"),
    ],
    ids=["twice", "deep", "deeper", "number", "endless text"],
)
def test_json_that_is_a_trap(text, why, tmp_path):
    with pytest.raises(ModelError, match=why):
        parse(tmp_path, text.encode())


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_within_the_limits_is_read(value):
    assert parse("x", json.dumps(value).encode()) == value


# ---- the manifest -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../model.json", "without a path"),
        ("/etc/passwd", "without a path"),
        ("..", "without a path"),
        ("C:\\model.json", "without a path"),
        ("sub/model.json", "without a path"),
        ("model.pkl", "pickles are never read"),
        ("code.py", "no such file"),
        ("", "no such file"),
    ],
)
def test_names_in_the_manifest(folder, name, why):
    rewrite(folder, lambda facts: facts["files"].update({name: {"bytes": 1, "sha256": "0"}}), MANIFEST)
    with pytest.raises(ModelError, match=why):
        oneof.load(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "training.safetensors"])
def test_what_is_not_listed_is_not_read(folder, name):
    rewrite(folder, lambda facts: facts["files"].pop(name), MANIFEST)
    with pytest.raises(ModelError, match=f"{name}"):
        oneof.load(folder)


@pytest.mark.parametrize(
    "entry", [None, [], {"sha256": "0"}, {"bytes": 10**30, "sha256": "0"}, {"bytes": "1"}]
)
def test_entries_of_the_manifest(folder, entry):
    rewrite(folder, lambda facts: facts["files"].update({"model.safetensors": entry}), MANIFEST)
    with pytest.raises(ModelError, match=r"manifest\.json"):
        oneof.load(folder)


@pytest.mark.parametrize("change", [{"format": 3}, {"format": "2"}, {"files": [1]}, {"extra": 1}])
def test_the_manifest_itself(folder, change):
    rewrite(folder, lambda facts: facts.update(change), MANIFEST)
    with pytest.raises(ModelError, match=r"manifest\.json"):
        oneof.load(folder)


def test_files_beyond_all_reason_are_not_hashed(folder):
    with open(folder / "model.json", "wb") as file:
        file.truncate(10**12)  # takes no space on the disk
    with pytest.raises(ModelError, match=r"model\.json has 1000000000000 bytes; more than"):
        oneof.load(folder)


@pytest.mark.parametrize("name", ["manifest.json", "model.json", "model.safetensors", "README.md", "other"])
@pytest.mark.parametrize("target", ["/dev/zero", "/etc/hostname", "nowhere", "copy"])
def test_links_are_refused(folder, name, target):
    if (folder / name).exists():
        shutil.move(folder / name, folder.parent / "copy")
    (folder / name).symlink_to(folder.parent / "copy" if target == "copy" else target)
    with pytest.raises(ModelError, match=f"{name} is a link"):
        oneof.load(folder)


def test_a_pipe_is_no_file(folder):
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")  # reading it would wait for ever
    with pytest.raises(ModelError, match="not a plain file"):
        oneof.load(folder)


# ---- the description --------------------------------------------------------------------------


def test_every_entry_is_needed(folder):
    for key in json.loads((folder / "model.json").read_text()):
        if key == "versions":
            continue
        changed = shutil.copytree(folder, folder.parent / key)
        if key not in ("temperature", "choice", "checked"):  # models of earlier versions have none
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
        put("net", "code", "import os"),
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
        put("scaling", "scale", [1e-300, 1.0, 1.0, 1.0]),
        put("scaling", "scale", [1.0, 1e300, 1.0, 1.0]),
        put("scaling", "shift", [0.0, -1e300, 0.0, 0.0]),
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
        put("trained_on", 7),
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
    with pytest.raises(ModelError, match="not the one that was saved"):
        oneof.load(folder)
    sign(folder)
    with pytest.raises(ModelError, match=r"has shape \(7, 4\), the network of model.json needs \(6, 4\)"):
        oneof.load(folder)


def test_training_rows_must_fit(folder):
    save_file({"transduction": torch.zeros(5, 2)}, folder / "training.safetensors")
    sign(folder)
    with pytest.raises(ModelError, match=r"training\.safetensors does not fit the 3 classes"):
        oneof.load(folder)
    save_file({"other": torch.zeros(5, 3)}, folder / "training.safetensors")
    sign(folder)
    with pytest.raises(ModelError):
        oneof.load(folder)


# ---- the weights ------------------------------------------------------------------------------


def declare(folder, change):
    """Change the header of the weights; the manifest is made right for it."""
    file = folder / "model.safetensors"
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    sign(folder)


def tensor(name="0.head.weight", **facts):
    return lambda header: header[name].update(facts)


@pytest.mark.parametrize(
    "change",
    [
        tensor(shape=[10**9, 10**9]),
        tensor(shape=[2**62, 4]),
        tensor(shape=[2**64 + 3, 6]),
        tensor(shape=[-3, -6]),
        tensor(shape=[3.0, 6]),
        tensor(shape=None),
        tensor(shape=[10**6], data_offsets=[0, 4 * 10**6]),
        tensor(shape=[3 * 10**11, 6], data_offsets=[0, 72 * 10**11]),
        tensor(data_offsets=[0]),
        tensor(data_offsets=None),
        tensor(data_offsets=[8, 0]),
        tensor(data_offsets=[0, True]),
        tensor(dtype="OBJECT"),
        tensor(dtype=["F32"]),
        lambda header: header.update({"0.more": 7}),
        lambda header: header.pop("0.head.weight"),
        lambda header: header.update({"0.twice": dict(header["0.head.weight"])}),
    ],
)
def test_declared_shapes_are_compared_with_the_file(folder, change):
    declare(folder, change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match=r"model\.safetensors is not a safetensors file"):
        oneof.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 7, b"\xff" * 8, (2**40).to_bytes(8, "little") + b"{}", b"\2" + b"\0" * 7 + b"[]"]
)
def test_headers_that_lie_about_themselves(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    sign(folder)
    with pytest.raises(ModelError, match=r"model\.safetensors is not a safetensors file"):
        oneof.load(folder)


@given(
    st.dictionaries(
        st.text(min_size=1).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool, torch.float16]),
            st.lists(st.integers(0, 4), max_size=3),
        ),
        max_size=4,
    )
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_honest_files_pass(folder, wanted):
    file = folder / "model.safetensors"
    save_file({name: torch.zeros(shape, dtype=dtype) for name, (dtype, shape) in wanted.items()}, file)
    sign(folder)
    with ModelFolder(folder).tensors(file.name) as weights:
        assert set(weights.keys()) == set(wanted)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["0.head.weight", "0.head.bias", "0.features.1.running_var"])
def test_weights_that_are_no_numbers_are_refused(folder, name, value):
    weights = load_file(folder / "model.safetensors")
    weights[name].view(-1)[1] = value
    save_file(weights, folder / "model.safetensors")
    sign(folder)
    with pytest.raises(ModelError, match=rf"model.safetensors: the weight '{name[2:]}' holds (nan|-?inf)"):
        oneof.load(folder)


def test_a_negative_variance_is_refused(folder):
    """Batch normalisation would take its root, and every prediction be NaN."""
    weights = load_file(folder / "model.safetensors")
    weights["0.features.1.running_var"][1] = -0.25
    save_file(weights, folder / "model.safetensors")
    sign(folder)
    with pytest.raises(ModelError, match=r"the weight 'features.1.running_var' holds -0.25"):
        oneof.load(folder)


def test_what_loading_would_refuse_is_not_saved(folder):
    before = (folder / "manifest.json").read_bytes()
    model = oneof.load(folder)
    with torch.no_grad():
        model.net_[0].head.bias[0] = np.nan
    with pytest.raises(ModelError, match=r"cannot be saved: the weight 'head.bias' holds nan"):
        model.save(folder)
    model = fitted(x=X.astype(float) * 1e-200, scaling="minmax")
    with pytest.raises(ModelError, match=r"cannot be saved: the scale of feature 0 is .*e-200"):
        model.save(folder)
    assert (folder / "manifest.json").read_bytes() == before


class Masked(torch.nn.Module):
    """A buffer with infinities, as masks of attention have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([0.0, -np.inf]))
        self.out = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.out(x + self.mask.exp().sum() - 1)


def test_an_own_network_may_hold_infinities_in_its_buffers(tmp_path):
    model = fitted(net=(Masked(), torch.nn.Linear(3, 3)))
    model.save(tmp_path / "m")
    back = oneof.load(tmp_path / "m", net=(Masked(), torch.nn.Linear(3, 3)))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


def test_facts_too_deep_to_save(tmp_path):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    model = fitted()
    model.history_ = deep
    with pytest.raises(ModelError, match="cannot be saved as JSON"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_leaves_what_was_there(folder, monkeypatch, new, error):
    def full(*arguments):
        raise error

    target = folder.parent / "other" if new else folder
    before = sorted(os.listdir(folder)), (folder / "model.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(model, "save_file", full)
        with pytest.raises(
            ModelError, match=r"cannot be saved to .*: No space left on device\. Free some space"
        ):
            fitted(epochs=1).save(target)
    assert (sorted(os.listdir(folder)), (folder / "model.safetensors").read_bytes()) == before
    assert os.listdir(folder.parent) == ["model"]


def test_calibration_must_be_one(folder, tmp_path):
    for scores in (
        {},
        {"probability": torch.zeros(3)},
        {"probability": torch.zeros(3), "adaptive": torch.zeros(2)},
    ):
        save_file(scores, folder / "calibration.safetensors")
        sign(folder)
        with pytest.raises(ModelError, match="calibration scores"):
            oneof.load(folder)
    nan = torch.full((3,), np.nan)
    save_file({"probability": nan, "adaptive": nan.clone()}, folder / "calibration.safetensors")
    sign(folder)
    with pytest.raises(ModelError, match="finite"):
        oneof.load(folder)


def test_harmless_files_in_the_folder_are_not_looked_at(folder):
    (folder / "oneof.py").write_text("raise SystemExit")
    (folder / "labels.csv").write_text("row,label")
    (folder / "run").mkdir()
    (folder / "README.md").write_text("# edited")
    oneof.load(folder)
