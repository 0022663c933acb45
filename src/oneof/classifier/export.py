"""A model as one ONNX file, for places without Python or torch. The file is checked before it is kept.

The graph takes raw features and does the scaling itself, in double precision as training did. Any number
of rows can be given at once. Names of classes and features are in the metadata of the file, as JSON.
"""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import oneof
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.tables.files import write_with

TOLERANCE = 1e-5
TRIED_ROWS = (1, 7, 256)
"""Numbers of rows the exported graph is tried with: the first is not the one it was made with."""


class ExportError(ValueError):
    """A model that cannot be exported, or whose exported form does not agree with it."""


class WholeModel(nn.Module):
    """Scaling, networks and softmax as one module."""

    def __init__(self, model: PartialLabelClassifier, probabilities: bool) -> None:
        super().__init__()
        self.nets = nn.ModuleList(copy.deepcopy(net).cpu().eval() for net in model.net_)
        self.probabilities = probabilities
        self.dtype = next((p.dtype for p in self.nets.parameters()), torch.float32)
        self.scaled = model.scaling_ is not None
        shift, scale = (model.scaling_.shift, model.scaling_.scale) if model.scaling_ else ([0.0], [1.0])
        form = (-1, 1, 1) if model.scaling_ is not None and model.scaling_.kind == "pixels" else (-1,)
        self.shift = nn.Buffer(torch.tensor(shift, dtype=torch.float64).view(form))
        self.scale = nn.Buffer(torch.tensor(scale, dtype=torch.float64).view(form))

    def forward(self, x: Tensor) -> Tensor:
        if self.scaled:
            x = ((x.double() - self.shift) / self.scale).float()
        x = x.to(self.dtype)
        logits = torch.stack([net(x) for net in self.nets]).mean(dim=0)
        return logits.softmax(dim=-1) if self.probabilities else logits


def export_onnx(
    model: PartialLabelClassifier,
    path: str | Path,
    *,
    probabilities: bool = True,
    example: Any = None,
) -> float:
    """Write a fitted model as an ONNX file and compare the file with the model.

    Parameters
    ----------
    model : PartialLabelClassifier
        A fitted model.
    path : path
        The file. Its input is called "features" (float32, any number of rows), its output "probabilities"
        or "logits".
    probabilities : bool, default=True
        Whether the graph ends with a softmax.
    example : array (m, ...), optional
        Some inputs. Needed for a network of your own whose inputs are no table; used in the comparison.

    Returns
    -------
    float
        The largest difference between the file, run by onnxruntime, and the model, on random inputs of
        the size the model was trained on. Above 1e-5 (of the largest logit, for logits) the file is not
        kept and an error is raised.
    """
    check_is_fitted(model)
    onnx, onnxruntime = _tools()
    inputs = _example_inputs(model, example)
    whole = WholeModel(model, probabilities).eval()
    output = "probabilities" if probabilities else "logits"
    graph = _graph(whole, inputs, output)
    facts = {
        "oneof": oneof.__version__,
        "classes": json.dumps(model.classes_.tolist(), default=str),
        "features": json.dumps(list(getattr(model, "feature_names_in_", []))),
    }
    if model.encoder_ is not None:
        facts["encoder"] = json.dumps(model.encoder_.to_dict())
    onnx.helper.set_model_props(graph, facts)
    onnx.checker.check_model(graph)
    content = graph.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    difference = _difference(session, model, whole, inputs)
    if not difference <= TOLERANCE:
        raise ExportError(
            f"the exported graph gives {output} that differ by {difference:.1e} from those of the model; "
            f"at most {TOLERANCE:g} is accepted, so {path} is not written.\n"
            "  A network of your own may do something that ONNX does differently."
        )
    write_with(path, lambda file: file.write(content))
    return difference


def _tools() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 (torch's exporter needs it)
    except ImportError as error:
        raise ExportError(
            f"exporting needs onnx, onnxscript and onnxruntime: pip install 'oneof[export]' ({error})."
        ) from error
    return onnx, onnxruntime


def _example_inputs(model: PartialLabelClassifier, example: Any) -> Tensor:
    """Random rows as the model may meet them; for inputs that are no table, those that were given."""
    most = max(TRIED_ROWS)
    if example is not None:
        given = torch.as_tensor(np.asarray(example), dtype=torch.float32)
        return given[torch.arange(most) % len(given)]
    if model.scaling_ is None:
        raise ExportError(
            "the inputs of this model are no table: give export_onnx some of them, example=X[:2]."
        )
    rng = np.random.default_rng(0)
    if model.scaling_.kind == "pixels":
        pixels = rng.integers(0, 256, size=(most, *model.input_shape_))
        return torch.from_numpy(pixels.astype(np.float32))
    rows = model.scaling_.shift + model.scaling_.scale * rng.standard_normal((most, *model.input_shape_))
    return torch.from_numpy(rows.astype(np.float32))


def _graph(whole: WholeModel, inputs: Tensor, output: str) -> Any:
    rows = torch.export.Dim("rows", min=1)
    with _quiet(), torch.no_grad():
        try:
            program: Any = torch.onnx.export(
                whole,
                (inputs[:3],),
                dynamo=True,
                input_names=["features"],
                output_names=[output],
                dynamic_shapes={"x": {0: rows}},
                verbose=False,
            )
        except Exception as error:  # the exporter has no common base for what it cannot do
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise ExportError(f"torch cannot export this network to ONNX: {reason[0]}") from error
    return program.model_proto


def _difference(session: Any, model: PartialLabelClassifier, whole: WholeModel, inputs: Tensor) -> float:
    """How far the graph is from `predict_proba` and, where it gives logits, also from those."""
    worst = 0.0
    for rows in TRIED_ROWS:
        x = inputs[:rows].numpy()
        got = session.run(None, {"features": x})[0].astype(np.float64)
        expected = model.prepared_proba(model.prepare(x))
        apart = [np.abs((got if whole.probabilities else softmax(got, axis=1)) - expected).max()]
        if not whole.probabilities:
            with torch.no_grad():
                logits = whole(inputs[:rows]).numpy()
            apart.append(np.abs(got - logits).max() / max(1.0, np.abs(logits).max()))
        worst = max(worst, *(float(a) if np.isfinite(a) else np.inf for a in apart))
    return worst


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's remarks about packages that nobody asked for."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
