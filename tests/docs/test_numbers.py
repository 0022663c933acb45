"""Every figure on a page that people read first comes from a record, or is no result at all."""

import re
from pathlib import Path

import pytest

from oneof.lab.records import Records

DOCS = Path(__file__).parents[2] / "docs"

# figures that are no results: settings, versions, definitions
ALLOWED = {
    "index.md": {"0.5", "3.11"},
    "faq.md": {"0.5", "90 %"},
    "methods.md": set(),
    "results.md": set(),
    "tutorials/index.md": set(),
    "tutorials/crowd.md": set(),
    "tutorials/network.md": {"0.3"},
    "tutorials/topk.md": {"90 %"},
    "tutorials/sets.md": set(),
    "tutorials/images.md": set(),
    "tutorials/text.md": set(),
    "tutorials/pipeline.md": set(),
    "tutorials/own.md": set(),
    "tutorials/paper.md": set(),
    "answers.md": {"90 %"},
    "public.md": {"0.1"},
    "gallery.md": set(),
    "paper-tables.md": set(),
}
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
RECORD = re.compile(r"\{record\}`[^`]+`")
CODE = re.compile(r"`[^`]+`")
FIGURE = re.compile(r"\d+(?:[.,]\d+)?\s?%|\d+\.\d+")


def figures(text: str) -> list[str]:
    """Percentages and decimals of a page that are neither code nor taken from a record."""
    for pattern in (FENCE, RECORD, CODE):
        text = pattern.sub("", text)
    return [re.sub(r"\s", " ", figure) for figure in FIGURE.findall(text)]


@pytest.mark.parametrize("page", ALLOWED)
def test_figures_come_from_records(page):
    found = set(figures((DOCS / page).read_text(encoding="utf-8")))
    assert not found - ALLOWED[page], "take them from a record: {record}`results/…/summary.json:path | .1f`"
    assert not ALLOWED[page] - found, "no longer on the page"


def test_all_tutorials_are_looked_at():
    assert {f"tutorials/{page.name}" for page in (DOCS / "tutorials").glob("*.md")} <= set(ALLOWED)


def test_why_the_prior_has_the_numbers_of_the_records():
    text = " ".join((DOCS / "why-the-prior.md").read_text(encoding="utf-8").split())
    tests = {}
    for record in Records(DOCS.parent / "results" / "table1"):
        config, result = record["config"], record["result"]
        key = config["data"]["name"], config["method"]["name"], config["information"], result["epochs"]
        tests.setdefault(key, {})[config["split"]["seed"]] = 100 * result["test"]

    def cell(data, method, *seeds, information="select", epochs=70):
        found = tests[data, method, information, epochs]
        return f"{sum(found[seed] for seed in seeds) / len(seeds) + 1e-9:.1f}"  # 88.15 is 88.2

    for name, data, seeds in (
        ("CIFAR-10, three seeds", "cifar10", (0, 1, 2)),
        ("CIFAR-100, seed 0", "cifar100", (0,)),
        ("Fashion-MNIST, seed 0", "fmnist", (0,)),
    ):
        none, prior = cell(data, "rplg-nm", *seeds), cell(data, "rplg+", *seeds, information="none")
        row = [none, prior, cell(data, "rplg", *seeds), cell(data, "rplg+", *seeds)]
        assert f"| {name} | {' | '.join(row)} |" in text
    rplg, plus = cell("fmnist", "rplg", 0, 1, 2), cell("fmnist", "rplg+", 0, 1, 2)
    assert cell("fmnist", "rplg-nm", 0, 1, 2) == plus
    assert f"over three seeds it has {rplg}, RPLG-NM and RPLG+ {plus}" in text
    assert f"nothing else changed, has {cell('cifar100', 'rplg-prior', 0)} (seed 0)" in text
    grown = [
        f"from {cell('cifar10', method, 0)} to {cell('cifar10', method, 0, epochs=250)}"
        for method in ("rplg+", "proden", "rplg")
    ]
    assert f"RPLG+ goes {grown[0]} and PRODEN {grown[1]}, but published RPLG {grown[2]}:" in text


def test_figures_are_found_where_they_count():
    assert figures("it has 93.5 % and 0.71, rank 3.2,\n12 % of") == ["93.5 %", "0.71", "3.2", "12 %"]
    assert figures("`lr=0.1` {record}`results/a.json:b | .1f` %\n```bash\n0.5\n```\n") == []
