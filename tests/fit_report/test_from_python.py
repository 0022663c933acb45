"""The report for a model with a network of one's own."""

import numpy as np
import pytest
from torch import nn

from oneof import PartialLabelClassifier
from oneof.app.fit_page import write_model_report
from tests.test_inputs import problem


def test_any_network_has_a_report(tmp_path):
    x, y, mask = problem(120)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model = PartialLabelClassifier("proden", net=net, epochs=15, device="cpu").fit(x[:90], mask[:90])
    path = tmp_path / "report.html"
    ids = [f"row {i}" for i in range(90)]
    facts = write_model_report(path, model, x[:90], mask[:90], checked=(x[90:], y[90:]), ids=ids)
    right = (model.predict(x[90:]) == y[90:]).sum()
    assert (facts.accuracy.k, facts.accuracy.n) == (right, 30)
    html = path.read_text()
    assert "Sequential, 67 parameters" in html
    assert "30 rows with a known label" in html
    assert write_model_report(path, model, x[:90], mask[:90]).accuracy is None
    with pytest.raises(ValueError, match="y has 120 rows, but the model has a transduction_ of 90"):
        write_model_report(path, model, x, mask)
    with pytest.raises(ValueError, match="is not one of the classes"):
        write_model_report(path, model, x[:90], mask[:90], checked=(x[90:], np.full(30, 7)))
