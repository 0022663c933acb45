"""Pages that nobody writes, and what is done to those that somebody wrote."""

import dataclasses
import re
import shutil
from pathlib import Path

import generated_pages
import method_pages
import pytest
from plain_docstrings import Docstrings, as_rst
from result_links import inside
from tutorial_outputs import LONGEST, with_outputs

from oneof.methods import list_methods

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("info", list_methods(), ids=lambda info: info.name)
def test_the_page_of_a_method_says_everything(info):
    page = method_pages.method_page(info)
    assert page.startswith("# ")
    assert f"`{info.name}`" in page
    for field in dataclasses.fields(info.cls):
        assert f"| `{field.name}` | `{field.default}` |" in page
        assert method_pages.escaped(field.metadata["text"]) in page
    assert page.count("```") % 2 == 0


def test_pages_are_written_once_and_old_ones_removed(tmp_path):
    results = tmp_path / "results"
    (results / "a").mkdir(parents=True)
    (results / "a" / "README.md").write_text("# A\n", encoding="utf-8")
    made = tmp_path / "generated"
    generated_pages.write_pages(made, results)
    page = made / "results" / "a" / "README.md"
    assert page.read_text(encoding="utf-8").endswith("# A\n")
    assert len(list((made / "methods").glob("*.md"))) == len(list_methods()) + 1
    old = made / "methods" / "forgotten.md"
    old.write_text("# Forgotten\n", encoding="utf-8")
    before = page.stat().st_mtime_ns
    generated_pages.write_pages(made, results)
    assert not old.exists()
    assert page.stat().st_mtime_ns == before, "a page that is still right is not written again"


def test_figures_are_drawn_from_the_records_and_once(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "results" / "digits", tmp_path / "results" / "digits")
    shutil.copytree(ROOT / "results" / "theory", tmp_path / "results" / "theory")
    made = tmp_path / "generated"
    generated_pages.write_pages(made, tmp_path / "results")
    page = made / "results" / "digits" / "report.md"
    pictures = re.findall(r"\]\((figures/[^)]+)\)", page.read_text(encoding="utf-8"))
    assert "figures/sizes.png" in pictures
    assert all((page.parent / picture).is_file() for picture in pictures)
    assert (made / "results" / "theory" / "theory.png").is_file()
    assert not list((tmp_path / "results").rglob("*.png"))
    before = page.read_text(encoding="utf-8")
    monkeypatch.setattr(generated_pages, "drawn_report", None)  # nothing has changed: nothing is drawn again
    monkeypatch.setattr(generated_pages, "save_figure", None)
    generated_pages.write_pages(made, tmp_path / "results")
    assert page.read_text(encoding="utf-8") == before


def test_a_docstring_as_markdown():
    text = "With p_ij:\n\n    L = a_b\n\n    M\n\nand `x_y`\n+ L_g."
    assert method_pages.as_markdown(text) == (
        "With p\\_ij:\n\n```{code-block} text\n:class: formula\n\nL = a_b\n\nM\n```\n\nand `x_y`\n\\+ L\\_g."
    )


def test_links_into_results_stay_inside_the_pages():
    assert inside("[a](../results/crowd/)") == "[a](/generated/results/crowd/README.md)"
    assert inside("![b](../../results/t/x.png)") == "![b](/generated/results/t/x.png)"
    assert (
        inside("[c](../results/t/report.md#x) [d](fit.md)")
        == "[c](/generated/results/t/report.md#x) [d](fit.md)"
    )


def test_a_docstring_as_rst():
    assert as_rst(["Text |S|:", "", "    f(|S|)", "", "more"]) == [
        "Text \\|S\\|:", "", "::", "", "    f(|S|)", "", "more",
    ]  # fmt: skip
    field = [":param x: one", "", "    more of it"]
    assert as_rst(field) == field


def test_a_colon_in_the_line_of_an_attribute_is_no_type():
    docstrings, lines = Docstrings(), ["Whether it can: always."]
    docstrings.before(None, "attribute", "a.b", None, None, lines)
    lines[:] = ["always.", "", ":type: Whether it can"]  # what napoleon makes of it
    docstrings.after(None, "attribute", "a.b", None, None, lines)
    assert lines == ["Whether it can: always."]


def test_outputs_stand_below_their_blocks():
    text = "a\n```python\nx\n```\nb\n```bash\ny\n```\n"
    shown = with_outputs(text, ["", "one\ntwo\n"])
    assert shown.startswith("a\n```python\nx\n```\nb\n")
    assert shown.endswith("```bash\ny\n```\n\n```{code-block} text\n:class: output\n\none\ntwo\n```\n")
    assert with_outputs(text, ["", "z\n" * 99]).count("z") == LONGEST


def test_the_architecture_names_every_part():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = [
        p
        for p in (ROOT / "src" / "oneof").iterdir()
        if p.name not in ("__pycache__", "__init__.py", "py.typed")
    ]
    missing = [p.name for p in parts if (f"{p.name}/" if p.is_dir() else p.name) not in text]
    assert not missing, "docs/architecture.md shows the present picture"
