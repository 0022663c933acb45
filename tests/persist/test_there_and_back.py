"""Saved models come back the same."""

import copy
import os
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

import oneof
from oneof import Candidates
from oneof.classifier.persist import ModelError
from oneof.tables.encoding import TableEncoder
from tests.persist.folders import FILES, MASK, X, Y, fitted, rewrite


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
    for name in ("history_", "best_epoch_", "clean_source_", "n_clean_", "n_selection_", "trained_on_"):
        assert getattr(back, name) == getattr(model, name)
    before, after = model.get_params(), back.get_params()
    assert after["method_params"] == vars(model.method_)
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


def test_settings_of_numpy_and_torch_come_back(tmp_path):
    given = {"hidden": (np.int64(5),), "method_params": {"alpha": np.float32(0.5)}}
    model = fitted(method="rplg+", device=torch.device("cpu"), **given)
    model.save(tmp_path)
    back = oneof.load(tmp_path)
    assert (back.hidden, back.method_params["alpha"], back.device) == ((5,), 0.5, "cpu")


@given(
    st.one_of(
        st.lists(st.text(min_size=1).filter(str.strip), min_size=3, max_size=3, unique=True),
        st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3, unique=True),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3, unique=True),
        st.just([1, "a", 2.5]),
        st.just([True, "True", "1"]),
    )
)
@settings(max_examples=25)
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
    assert sorted(os.listdir(folder.parent / "again")) == FILES[:4]
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

    monkeypatch.setattr("oneof.classifier.persist.model.save_file", disk_full)
    with pytest.raises(ModelError, match="no space"):
        fitted("average").save(folder)
    assert len(calls) == 2
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


@pytest.mark.parametrize("names", [np.array(["ant", "bee", "cow"]), np.arange(3), np.array([1.0, 2.0, 10.0])])
def test_weights_of_classes_are_those_of_the_same_classes_after_loading(tmp_path, names):
    weights = dict(zip(names, np.float32([1, 2, 3])))
    fitted(y=names[Y], class_weight=weights).save(tmp_path / "model")
    back = oneof.load(tmp_path / "model")
    assert back.class_weight == {name: float(w) for name, w in weights.items()}
    back.fit(X, names[Y])


def test_a_file_is_no_place_for_a_model(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ModelError, match="is a file"):
        fitted().save(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


def test_calibration_comes_back(tmp_path):
    model = fitted(clean_weight=1, selection_share=0.5, clean=(X[:60], Y[:60]))
    model.save(tmp_path / "m")
    back = oneof.load(tmp_path / "m")
    assert back.calibration_scores_.keys() == model.calibration_scores_.keys()
    for score in ("probability", "adaptive"):
        np.testing.assert_array_equal(
            back.predict_set(X, 0.8, score=score), model.predict_set(X, 0.8, score=score)
        )
    fitted().save(tmp_path / "m")
    assert sorted(os.listdir(tmp_path / "m")) == FILES  # the scores of the older model are gone
    assert not hasattr(oneof.load(tmp_path / "m"), "calibration_scores_")


def test_the_accuracy_on_the_card_stays_when_a_loaded_model_is_saved_again(tmp_path):
    model = fitted().calibrate(X[:30], Y[:30], record_accuracy=True)
    model.save(tmp_path / "m")
    back = oneof.load(tmp_path / "m")
    assert back.checked_ == model.checked_
    back.save(tmp_path / "again")
    cards = [(tmp_path / name / "README.md").read_text(encoding="utf-8") for name in ("m", "again")]
    assert all("accuracy on 30 rows that nothing was learned from" in card for card in cards)


def test_an_encoder_comes_back(tmp_path):
    columns = {"size": X[:, 0].tolist(), "colour": [["red", "blue", ""][k] for k in Y], "age": [1, None] * 45}
    encoder = TableEncoder.fit(columns)
    model = fitted(x=encoder.transform(columns))
    model.encoder_ = encoder
    model.save(tmp_path / "m")
    assert "encoder.json" in os.listdir(tmp_path / "m")
    assert "made from a table: " + encoder.describe() in (tmp_path / "m" / "README.md").read_text()
    back = oneof.load(tmp_path / "m")
    assert back.encoder_ == encoder
    rewrite(tmp_path / "m", lambda facts: facts["columns"].pop(), "encoder.json")
    with pytest.raises(ModelError, match=r"encoder.json does not give the features"):
        oneof.load(tmp_path / "m")
    rewrite(tmp_path / "m", lambda facts: facts.update(columns=[{"kind": "os.system"}]), "encoder.json")
    with pytest.raises(ModelError, match=r"encoder.json describes no encoder"):
        oneof.load(tmp_path / "m")
    model.encoder_ = object()
    with pytest.raises(ModelError, match="cannot be saved"):
        model.save(tmp_path / "n")
    assert not (tmp_path / "n").exists()


def test_other_files_of_a_folder_stay(folder):
    (folder / "labels.csv").write_text("mine")
    (folder / "run").mkdir()
    (folder / "README.md").write_text("# My project")
    with pytest.warns(UserWarning, match="not a model card of oneof"):
        fitted("average").save(folder)
    assert (folder / "README.md").read_text() == "# My project"
    assert (folder / "labels.csv").read_text() == "mine"
    assert sorted(os.listdir(folder)) == sorted([*FILES, "labels.csv", "run"])
    assert oneof.load(folder).method == "average"


def test_saving_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted().save(".")
    assert oneof.load(".").score(X, Y) > 0
    os.umask(os.umask(0o022))
    assert {file.stat().st_mode & 0o044 for file in tmp_path.iterdir()} == {0o044}  # others may read it


@pytest.mark.parametrize("killed_after", range(1, 5))
def test_killed_while_renaming_no_mixture_is_believed(folder, monkeypatch, killed_after):
    before = oneof.load(folder).predict_proba(X)
    other = fitted("average", random_state=1)
    replace, calls = os.replace, []

    def kill(source, target):
        calls.append(target)
        if len(calls) > killed_after:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr("oneof.classifier.persist.folder.os.replace", kill)
    with pytest.raises(KeyboardInterrupt):
        other.save(folder)
    monkeypatch.undo()
    with suppress(ModelError):  # refused, or one of the two models and no mixture
        after = oneof.load(folder).predict_proba(X)
        assert any(np.array_equal(after, p) for p in (before, other.predict_proba(X)))
    other.save(folder)  # and saving again repairs it
    np.testing.assert_array_equal(oneof.load(folder).predict_proba(X), other.predict_proba(X))


def test_a_model_of_a_method_that_is_not_known_here_says_what_to_do(tmp_path):
    fitted("proden").save(tmp_path / "model")
    rewrite(tmp_path / "model", lambda facts: facts["method"].update(name="mine"))
    with pytest.raises(ModelError, match="trained with 'mine', a method that is not known here") as caught:
        oneof.load(tmp_path / "model")
    assert "Import the module that registers it first, or add --plugin FILE.py." in str(caught.value)


def test_the_card_of_a_model_with_ones_own_method_names_the_module(tmp_path, monkeypatch):
    model = fitted("proden")
    model.save(tmp_path / "model")
    card = tmp_path / "model" / "README.md"
    assert "```python\nimport oneof\n" in card.read_text()
    monkeypatch.setattr(type(model.method_), "__module__", "mine")
    model.save(tmp_path / "model")
    assert "```python\nimport mine  # which has the method\nimport oneof\n" in card.read_text()
