"""The role and the table that bring numbers from records into pages."""

import json

import pytest
import records
from docutils.core import publish_doctree
from docutils.parsers.rst import directives, roles


@pytest.fixture
def record(tmp_path, monkeypatch):
    """A small record in place of ours."""
    content = {
        "lab": {"mlp": {"lost": {"rplg": {"mean": 61.239, "std": 2.0}, "cc": {"mean": 70.0, "std": 1.5}}}},
        "mean_rank": {"lab": {"mlp": {"rplg": 2.0, "cc": 1.0}}},
        "lines": [{"line": "share 0.5", "mean": 78.9}, {"line": "union", "mean": 82.0}],
    }
    (tmp_path / "summary.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(records, "ROOT", tmp_path)
    records.read.cache_clear()
    yield "summary.json"
    records.read.cache_clear()


def test_a_number_with_its_format_and_source(record):
    assert records.formatted("summary.json:lab/mlp/lost/rplg/mean | .1f") == (
        "61.2",
        "summary.json:lab/mlp/lost/rplg/mean",
    )
    assert records.formatted("summary.json:lines/line=share 0.5/mean")[0] == "78.9"
    assert records.formatted("summary.json:lines/1/line")[0] == "union"
    assert records.formatted("summary.json:lines/1/mean | .1f %")[0] == "82.0\u00a0%"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("missing.json:a", "no record missing.json"),
        ("summary.json:lab/linear", "no 'linear'; there is mlp"),
        ("summary.json:lines/line=majority/mean", "no 'line=majority'"),
        ("summary.json:lines/7", "no '7'"),
        ("summary.json:lab/mlp", "no single value"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(record, address, said):
    with pytest.raises(records.RecordError, match=said):
        records.formatted(address)


def test_the_table_marks_the_best_of_every_column(record):
    headings, rows = records.accuracy_rows("summary.json:lab/mlp")
    assert headings == ["Lost", "mean rank"]
    assert rows == [("rplg", ["61.24 ± 2.00", "2.00"], 0), ("cc", ["70.00 ± 1.50", "1.00"], 0b11)]


@pytest.fixture
def registered():
    """Role and directive as Sphinx registers them."""
    roles.register_local_role("record", records.record_role)
    directives.register_directive("accuracy-table", records.AccuracyTable)
    yield
    roles._roles.pop("record")
    directives._directives.pop("accuracy-table")


def test_in_a_page(record, registered):
    text = "It has :record:`summary.json:lines/1/mean | .2f` %.\n\n.. accuracy-table:: summary.json:lab/mlp\n"
    page = publish_doctree(text)
    (number,) = page.findall(records.Number)
    assert number.astext() == "82.00"
    assert number["source"] == "summary.json:lines/1/mean"
    assert "61.24 ± 2.00" in page.astext()
    assert "From summary.json." in page.astext()


def test_a_wrong_address_is_an_error_of_the_page(record, registered, capsys):
    text = ":record:`summary.json:none`\n\n.. accuracy-table:: summary.json:none\n"
    publish_doctree(text, settings_overrides={"halt_level": 5})
    said = capsys.readouterr().err
    assert said.count("there is no 'none'") == 2
