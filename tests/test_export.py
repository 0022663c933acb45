"""An exported model says the same as the model, without torch."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import oneof.classifier.export
from oneof.classifier.export import ExportError, export_onnx
from tests.persist.folders import MASK, X, fitted

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")


def run(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"features": np.asarray(x, dtype=np.float32)})
    return made, session.get_modelmeta().custom_metadata_map


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("proden", {}),
        ("proden", {"net": "linear", "scaling": "none"}),
        ("proden", {"batch_norm": False, "scaling": "minmax"}),
        ("sdct", {"scaling": "global"}),
    ],
)
def test_the_file_agrees_with_the_model(method, more, tmp_path):
    frame = pd.DataFrame(1e4 + 30 * X, columns=list("abcd"))  # far from zero, so that scaling matters
    model = fitted(method, x=frame, y=pd.DataFrame(MASK, columns=["ant", "bee", "cow"]), **more)
    difference = export_onnx(model, tmp_path / "m.onnx")
    assert difference <= 1e-5
    for rows in (1, 2, 90):
        made, facts = run(tmp_path / "m.onnx", frame[:rows])
        np.testing.assert_allclose(made, model.predict_proba(frame[:rows].astype(np.float32)), atol=1e-5)
    assert json.loads(facts["classes"]) == ["ant", "bee", "cow"]
    assert json.loads(facts["features"]) == list("abcd")


def test_logits(tmp_path):
    model = fitted()
    export_onnx(model, tmp_path / "m.onnx", probabilities=False)
    made, _ = run(tmp_path / "m.onnx", X)
    p = torch.from_numpy(made).double().softmax(dim=-1).numpy()
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)


def test_an_own_network_for_images(tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))
    model = fitted(x=X.reshape(-1, 1, 2, 2), net=net)
    with pytest.raises(ExportError, match="no table"):
        export_onnx(model, tmp_path / "m.onnx")
    export_onnx(model, tmp_path / "m.onnx", example=X.reshape(-1, 1, 2, 2)[:2])
    made, _ = run(tmp_path / "m.onnx", X.reshape(-1, 1, 2, 2))
    np.testing.assert_allclose(made, model.predict_proba(X.reshape(-1, 1, 2, 2)), atol=1e-5)


def test_a_file_that_disagrees_is_not_kept(tmp_path, monkeypatch):
    model = fitted(net="linear")
    right = oneof.classifier.export.WholeModel.forward
    monkeypatch.setattr(oneof.classifier.export.WholeModel, "forward", lambda self, x: right(self, x + 0.01))
    with pytest.raises(ExportError, match=r"differ by .* at most 1e-05 is accepted"):
        export_onnx(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


class Strange(nn.Module):
    """What it does depends on the values: no graph can hold that."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(x if float(x.sum()) > 0 else -x)


def test_what_cannot_be_exported_is_said(tmp_path):
    with pytest.raises(ExportError, match="torch cannot export this network"):
        export_onnx(fitted(net=Strange()), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ExportError, match=r"pip install 'oneof\[export\]'"):
        export_onnx(fitted(net="linear"), tmp_path / "m.onnx")
