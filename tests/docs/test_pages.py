"""Pages that nobody writes, and what is done to those that somebody wrote."""

import builtins
import dataclasses
import inspect
import pkgutil
import re
import shutil
from importlib import import_module
from pathlib import Path

import generated_pages
import method_pages
import pytest
from gallery import FIGURES
from paper_tables import paper_tables
from plain_docstrings import Docstrings, as_rst
from records import lookup
from result_links import inside
from tutorial_outputs import LONGEST, with_outputs

import oneof
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


def page_of(name):
    (info,) = (info for info in list_methods() if info.name == name)
    return method_pages.method_page(info)


@pytest.mark.parametrize(
    ("name", "learns_from", "told"),
    [
        ("proden", "candidate sets only", "--candidates labels --method proden\n"),
        ("crowd", "answers and who gave them", "--candidates candidates.npz --id task --method crowd\n"),
        ("clean-only", "clean rows alone", "--candidates labels --clean checked.csv --method clean-only\n"),
    ],
)
def test_the_page_of_a_method_says_what_it_needs(name, learns_from, told):
    assert f"| learns from | {learns_from}" in page_of(name)
    assert told in page_of(name)
    assert "oneof fit" not in page_of("oracle"), "no table holds the true labels"


def test_the_page_of_the_default_method_has_its_numbers():
    mean = lookup("results/rplg_plus/summary.json:plus-paper/mlp/lost/rplg+/mean")
    assert f"Lost {mean:.2f} ± " in page_of("rplg+")


def test_one_training_has_neither_a_spread_nor_a_rank_among_other_methods():
    (line,) = (line for line in page_of("idgp").splitlines() if "table1" in line)
    mean = lookup("results/table1/summary.json:images/by data/cifar10/idgp/mean")
    assert line.endswith(f"| CIFAR-10 {mean:.2f} | not ranked |")


def test_a_rank_is_said_where_other_methods_are_on_some_data_sets_only():
    (line,) = (line for line in page_of("proden").splitlines() if "table1" in line)
    ranks = lookup("results/table1/summary.json:mean_rank/images/by data")
    assert line.endswith(f"| {ranks['proden']:.2f} of {len(ranks)} |")
    assert ranks["proden"] <= len(ranks)


def test_pages_are_written_once_and_old_ones_removed(tmp_path):
    results = tmp_path / "results"
    (results / "a").mkdir(parents=True)
    (results / "a" / "README.md").write_text("# A\n", encoding="utf-8")
    made = tmp_path / "generated"
    generated_pages.write_pages(made, results)
    page = made / "results" / "a" / "README.md"
    assert page.read_text(encoding="utf-8").endswith("# A\n")
    assert len(list((made / "methods").glob("*.md"))) == len(list_methods()) + 1
    assert (made / "gallery.md").is_file()
    old = made / "methods" / "forgotten.md"
    old.write_text("# Forgotten\n", encoding="utf-8")
    before = page.stat().st_mtime_ns
    generated_pages.write_pages(made, results)
    assert not old.exists()
    assert page.stat().st_mtime_ns == before, "a page that is still right is not written again"


def test_figures_are_drawn_from_the_records_and_once(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    shutil.copytree(ROOT / "results" / "digits", tmp_path / "results" / "digits")
    for name in ("theory", "scale"):
        shutil.copytree(ROOT / "results" / name, tmp_path / "results" / name)
    made = tmp_path / "generated"
    generated_pages.write_pages(made, tmp_path / "results")
    page = made / "results" / "digits" / "report.md"
    pictures = re.findall(r"\]\((figures/[^)]+)\)", page.read_text(encoding="utf-8"))
    assert "figures/sizes.png" in pictures
    assert all((page.parent / picture).is_file() for picture in pictures)
    assert (made / "results" / "theory" / "theory.png").is_file()
    assert (made / "results" / "scale" / "growth.png").is_file()
    assert not list((tmp_path / "results").rglob("*.png"))
    before = page.read_text(encoding="utf-8")
    monkeypatch.setattr(generated_pages, "drawn_report", None)  # nothing has changed: nothing is drawn again
    monkeypatch.setattr(generated_pages, "save_figure", None)
    monkeypatch.setattr(generated_pages.growth, "draw", None)
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


def test_the_papers_numbers_stand_beside_ours():
    text = paper_tables().replace("\u00a0", " ")
    assert text.count("\n## Table ") == 3
    (lost,) = (line for line in text.splitlines() if line.startswith("| PRODEN | 76.47 ± 0.25 |"))
    ours = lookup("results/table2/summary.json:table2/mlp/lost/proden/mean")
    assert f"| {ours:.2f} ± " in lost
    assert "CIFAR-10, paper | CIFAR-10, ours |" in text
    assert "87.53 ± 0.21" in text


def test_every_figure_of_the_gallery_is_drawn_from_a_record():
    records = {path.parent.name for path in (ROOT / "results").glob("*/summary.json")}
    assert {place.split("/")[0] for place in FIGURES} <= records


def test_what_is_public_can_be_imported():
    text = (ROOT / "docs" / "public.md").read_text(encoding="utf-8")
    lines = re.findall(r"`(from oneof\S* import [^`]+)`", text)
    assert len(lines) > 8
    for line in lines:
        exec(line, {})
    (first,) = (line for line in lines if line.startswith("from oneof import"))
    assert set(oneof.__all__) - {"__version__"} == set(first.split("import ")[1].split(", "))


def test_errors_are_of_the_kinds_that_the_page_names():
    for module in pkgutil.walk_packages(oneof.__path__, "oneof."):
        if "__main__" not in module.name and "ray" not in module.name:
            import_module(module.name)
    own = [
        cls
        for _, cls in inspect.getmembers(builtins, inspect.isclass)
        if issubclass(cls, Exception)
        for cls in cls.__subclasses__()
        if cls.__module__.startswith("oneof.") and cls.__name__.endswith("Error")
    ]
    assert own
    assert [cls for cls in own if not issubclass(cls, ValueError | RuntimeError | OSError)] == []
