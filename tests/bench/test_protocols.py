import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from oneof.datasets import names
from oneof.lab import LabError
from oneof.lab.bench import BenchOptions
from oneof.lab.overrides import override
from oneof.lab.paper import TABLES, published
from oneof.lab.plan import Plan
from oneof.lab.plots import PLOTS
from oneof.lab.protocol import Protocol
from oneof.lab.protocols import ALL_METHODS, NETS, PROTOCOLS, protocol
from oneof.lab.records import Records
from oneof.methods import make_method
from oneof.training import Recipe
from oneof.training.run import code_of
from tests.bench.toy import toy_protocol, write_mat


@pytest.mark.parametrize("declared", PROTOCOLS.values(), ids=list(PROTOCOLS))
def test_a_declared_protocol_is_consistent(declared):
    labels = [e.label for e in declared.entries]
    assert len(set(labels)) == len(labels)
    assert declared.reference in labels
    assert declared.entry(declared.reference).reported
    for entry in declared.entries:
        make_method(entry.method, dict(entry.params))
        assert entry.tuned_as is None or labels.index(entry.tuned_as) < labels.index(entry.label)
    assert set(declared.data) <= set(names())
    assert set(declared.nets) <= set(NETS)
    assert declared.on_images == (declared.nets == ("by data",))
    assert set(declared.figures) <= set(PLOTS)
    for recipe in (declared.recipe, {**declared.recipe, **declared.report_recipe}):
        Recipe(**recipe)
    if declared.search is not None and not declared.on_images:  # images have official test rows
        assert not set(declared.search.seeds) & set(declared.seeds)
    assert Protocol.from_dict(json.loads(json.dumps(declared.to_dict()))) == declared
    assert all(isinstance(line, str) for line in declared.rules())


@pytest.mark.parametrize(
    ("name", "selects"), [("quick", True), ("consistency", True), ("plus-paper", False), ("images", False)]
)
def test_a_report_says_that_clean_rows_select_only_where_they_do(name, selects):
    (rule,) = (line for line in PROTOCOLS[name].rules() if line.startswith("Clean rows"))
    assert ("all methods select by them" in rule) is selects
    assert ("nothing is selected by them" in rule) is not selects


def test_what_the_issue_of_the_tables_asks_for():
    assert len(PROTOCOLS["table1"].entries) == 15
    assert set(TABLES["table1"]) == {*ALL_METHODS, "rplg-nm"}
    assert {e.label for e in PROTOCOLS["table2"].entries} == set(TABLES["table2"])
    for name in ("table2", "equal-information"):
        declared = PROTOCOLS[name]
        assert declared.search.configurations == 8
        assert len(declared.search.seeds) == 2
        assert len(declared.seeds) >= 10
        assert (declared.recipe["optimiser"], declared.recipe["momentum"]) == ("sgd", 0.9)
        assert declared.recipe["batch_size"] == 256
    assert PROTOCOLS["table2"].recipe["epochs"] == 250
    assert PROTOCOLS["table2"].recipe["patience"] == 50


def test_the_page_of_the_lab_lists_every_protocol():
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    listed = {name: row[-2].strip() for row in rows for name in re.findall("`(.*?)`", row[1])}
    assert listed == {name: str(len(declared.seeds)) for name, declared in PROTOCOLS.items()}


def test_rows_in_the_loss_never_select():
    declared = PROTOCOLS["equal-information"]
    assert declared.information == "loss"
    assert declared.recipe["clean_weight"] == 1.0
    assert declared.recipe["patience"] is None
    assert declared.recipe["select"] == "last"


def test_published_numbers():
    assert published("table2", "rplg", "lost") == (81.07, 0.74)
    assert published("table3", "rplg-nm", "yahoo-news") == (66.82, 0.13)
    assert published("table1", "lws", "cifar10") == (37.49, 2.82)
    assert published("rollback", "U recomputed", "cifar100") == (62.87, None)
    assert published("table2", "rplg", "digits") is None
    assert published(None, "rplg", "lost") is None
    for label, row in TABLES["table3"].items():
        for data, number in row.items():
            other = published("table1", label, data) or published("table2", label, data)
            assert other in (number, None)


def test_unknown_protocols_are_named():
    with pytest.raises(LabError, match=r"no protocol 'tabel2'.*table2"):
        protocol("tabel2")


def test_overrides():
    declared = PROTOCOLS["table2"]
    given = BenchOptions(
        methods=["rplg", "average"],
        nets=["mlp"],
        data=["lost"],
        splits=3,
        epochs=7,
        configurations=2,
        select_by="covering",
        set=["rplg.alpha=0.3", "recipe.batch_size=64", "search.seed=5", "lr=0.2", "scaling=standard"],
    )
    made = override(declared, given)
    assert [e.label for e in made.entries] == ["rplg", "average"]
    assert made.entries[0].params["alpha"] == 0.3
    assert made.seeds == (0, 1, 2)
    assert (made.recipe["epochs"], made.recipe["batch_size"]) == (7, 64)
    assert (made.search.configurations, made.search.seed) == (2, 5)
    assert (made.lr, made.scaling, made.criterion) == (0.2, "standard", "covering")
    assert override(declared, BenchOptions(configurations=1)).search is None
    assert override(declared, BenchOptions()) == declared


@pytest.mark.parametrize("name", ["table2", "equal-information", "plus-none"])
def test_where_candidate_sets_choose_the_rules_promise_no_clean_rows(name):
    rules = override(PROTOCOLS[name], BenchOptions(select_by="covering")).rules()
    (rule,) = (line for line in rules if line.startswith("Clean rows"))
    assert rule == "Clean rows: none, neither to learn from nor to choose by."


def test_a_row_that_fixes_an_option_keeps_it_unless_it_is_named():
    declared = PROTOCOLS["sensitivity"]
    made = override(declared, BenchOptions(set=["rplg.alpha=0.3", "rplg.meta_lr=0.01"]))
    assert made.entry("rplg").params == {"alpha": 0.3, "meta_lr": 0.01}
    assert made.entry("alpha 0.9").params == {"alpha": 0.9, "meta_lr": 0.01}
    assert override(declared, BenchOptions(set=["alpha 0.9.alpha=0.95"])).entry("alpha 0.9").params == {
        "alpha": 0.95
    }
    alone = PROTOCOLS["images-alpha"]
    for methods in (None, ["alpha 0.9"]):
        with pytest.raises(
            ValueError, match=r"rows with rplg differ in alpha and keep theirs: .*alpha 0\.9\.\n"
        ):
            override(alone, BenchOptions(methods=methods, set=["rplg.alpha=0.3"]))
    made = override(PROTOCOLS["images-clean-rows"], BenchOptions(set=["rplg.alpha=0.5"]))
    assert {row.params["alpha"] for row in made.entries} == {0.5}, (
        "what is the same in all rows can be changed"
    )


def test_a_net_that_is_named_twice_is_one():
    assert override(PROTOCOLS["table2"], BenchOptions(nets=["mlp", "mlp"])).nets == ("mlp",)


def test_splits_are_counted_from_the_first_of_the_protocol():
    declared = PROTOCOLS["plus-paper"]
    assert declared.seeds == tuple(range(3000, 3020))
    assert override(declared, BenchOptions(splits=3)).seeds == (3000, 3001, 3002)


def test_three_protocols_differ_in_what_methods_see():
    none, paper, equal = (PROTOCOLS[f"plus-{name}"] for name in ("none", "paper", "equal"))
    assert [p.information for p in (none, paper, equal)] == ["none", "select", "loss"]
    assert [p.recipe.get("clean_weight", 0.0) for p in (none, paper, equal)] == [0.0, 0.0, 1.0]
    assert {e.label for e in paper.entries} - {e.label for e in none.entries} == {"clean-only"}
    for declared in (none, paper, equal, PROTOCOLS["images"], PROTOCOLS["images-no-clean"]):
        assert declared.recipe["select"] == "last"
        assert declared.recipe["patience"] is None


def test_overrides_of_a_grid():
    declared = PROTOCOLS["images-tuned"]
    given = BenchOptions(data=["Fashion-MNIST", "CIFAR10"], set=["rplg.alpha=0.9", "search.seeds=[4]"])
    made = override(declared, given)
    assert made.data == ("fmnist", "cifar10")  # the registry's spelling
    assert made.on_images
    assert made.search.grids["rplg"] == {"meta_lr": [1e-3, 1e-4]}
    assert made.search.grids["rplg-nm"] == declared.search.grids["rplg-nm"]
    assert made.search.seeds == (4,)
    (rule,) = (line for line in made.rules() if line.startswith("Hyper-parameters"))
    assert "seed 4;" in rule
    assert "rplg: alpha 0.9" in rule
    assert "alpha 0.3" not in rule  # it is RPLG-NM's grid that decides
    assert override(declared, BenchOptions(configurations=1)).search is None
    for changes, message in (
        ({"configurations": 3}, "declared grid"),
        ({"set": ["search.lr=[0.1, 1]"]}, "no 'lr' that can be set"),
        ({"set": ["search.seeds=5"]}, "write a list"),
        ({"data": ["cifar11"]}, "did you mean 'cifar10'"),
    ):
        with pytest.raises(ValueError, match=message):
            override(declared, BenchOptions(**changes))


def test_images_and_tables_in_one_protocol():
    made = override(PROTOCOLS["quick"], BenchOptions(data=["digits", "fmnist"]))
    assert not made.on_images
    assert not made.on_tables
    assert [line.split(":")[0] for line in made.rules()][:2] == ["Images", "Splits"]


def test_a_varied_row_keeps_the_row_it_varies():
    made = override(PROTOCOLS["sensitivity"], BenchOptions(methods=["alpha 0.3"]))
    assert [(e.label, e.reported) for e in made.entries] == [("rplg", False), ("alpha 0.3", True)]


def test_a_varied_row_that_is_named_first_still_follows_the_row_it_varies(tmp_path):
    path, records = write_mat(tmp_path), Records(tmp_path)
    given = BenchOptions(methods=["no rollback", "rplg"], data=[path], nets=["linear"])
    made = override(PROTOCOLS["rollback"], given)
    cells = {cell.entry.label: cell for cell in Plan(made, records).cells}
    assert cells["no rollback"].parent is cells["rplg"]
    assert not cells["no rollback"].search
    assert [e.label for e in made.entries] == ["no rollback", "rplg"]  # the order of the table


def test_what_is_set_of_a_recipe_holds_for_the_reported_trainings_too(tmp_path):
    given = BenchOptions(data=[write_mat(tmp_path)], configurations=1, set=["recipe.patience=5"])
    job = next(Plan(override(PROTOCOLS["consistency"], given), Records(tmp_path)).ready())
    assert (job.config["recipe"]["patience"], job.config["recipe"]["select"]) == (5, "last")


def test_the_batch_size_may_be_left_to_the_recipe(tmp_path):
    path = write_mat(tmp_path)
    made = override(PROTOCOLS["table2"], BenchOptions(data=[path], set=["recipe.batch_size=null"]))
    assert next(Plan(made, Records(tmp_path)).ready()).config["recipe"]["batch_size"] is None


@pytest.mark.parametrize(
    ("settings", "length"),
    [
        ([], "at most 250 epochs, stop after 50 without improvement; the epoch with the best"),
        (["select=last"], "at most 250 epochs, stop after 50 without improvement; the last epoch counts"),
        (["select=null"], "at most 250 epochs, stop after 50 without improvement; the epoch with the best"),
        (["select=last", "patience=null"], "250 epochs, no early stop; the last epoch counts"),
    ],
)
def test_the_rules_say_when_a_training_ends(settings, length):
    made = override(PROTOCOLS["table2"], BenchOptions(set=[f"recipe.{setting}" for setting in settings]))
    assert f"Length: {length}" in "\n".join(made.rules())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nets": ["resnet"]}, "no net 'resnet'"),
        ({"methods": ["prodne"]}, "no method 'prodne'"),
        ({"splits": 0}, "--splits 0"),
        ({"workers": -1}, "--workers -1: give a number of at least 1"),
        ({"set": ["rplg.alhpa=1"]}, "no hyper-parameter 'alhpa'"),
        ({"set": ["recipe.epoch=1"]}, "no 'epoch'"),
        ({"set": ["recipe.seed=1"]}, "no 'seed' that can be set; it has (?!.*seed)"),
        ({"set": ["alpha"]}, "name=value"),
        ({"set": ["pico.alpha=1"]}, "no method 'pico'"),
        ({"set": ["colour=1"]}, "no 'colour'"),
        ({"set": ["lr=fast"]}, "--set lr=fast: lr is 'fast'; give a number"),
        ({"set": ["scaling=foo"]}, "no such scaling; there are none, global"),
        ({"set": ["scaling=pixels"]}, "no such scaling"),
        ({"set": ["search.lr=[0, 0.1]"]}, r"--set search.lr=\[0, 0.1\]: lr is .* give a smallest and"),
        ({"set": ["search.lr=[0.5, 0.1]"]}, "give a smallest and"),
        ({"set": ["search.weight_decay=[0.5]"]}, "weight_decay is .* give a smallest and"),
        ({"set": ['search.lr=["a", 1]']}, "lr is 'a'"),
        ({"set": ['search.scaling=["foo"]']}, "scaling is .*foo.*; give some of none, global"),
        ({"set": ["search.scaling=[]"]}, "give some of none"),
        ({"set": ["search.seeds=[]"]}, "a seed is None; give a whole number"),
        ({"set": ["search.seeds=[0.5]"]}, "a seed is 0.5"),
        ({"set": ["search.seeds=[9, 10]"]}, "split 9 would be searched on and reported"),
        ({"splits": 1001}, "split 1000 would be searched on and reported"),
        ({"set": ["search.configurations=many"]}, "configurations is 'many'; give a whole number"),
        ({"set": ["recipe.schedule=cosin"]}, "--set recipe.schedule=cosin: schedule is 'cosin'; it must be"),
        ({"set": ["recipe.batch_size=0"]}, "--set recipe.batch_size=0: batch_size is 0"),
        ({"set": ["recipe.clean_weight=1"]}, "table2 has no clean rows in any loss; equal-information has"),
        ({"set": ["rplg.meta_gradient=haed"]}, "meta_gradient is 'haed'; it must be one of 'exact'"),
        ({"set": ["rplg.alpha=NaN"]}, "alpha is nan; give a number"),
        ({"set": ["rplg.alpha=5"]}, "alpha is 5; give a share from 0 to 1"),
        ({"set": ["pop.window=2.5"]}, "window is 2.5; give a whole number"),
        ({"truth": "bird"}, "--truth is for a table of your own: name its file, --data FILE.csv"),
    ],
)
def test_a_wrong_override_says_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        override(PROTOCOLS["table2"], BenchOptions(**changes))


def test_missing_data_are_left_out_and_the_rest_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEOF_DATA", str(tmp_path))
    data = write_mat(tmp_path)
    plan = Plan(toy_protocol(data, data=("lost", data)), Records(tmp_path))
    assert list(plan.data) == [data]
    assert "oneof data fetch lost" in plan.left_out["lost"]
    assert str(tmp_path) not in plan.left_out["lost"]
    with pytest.raises(ValueError, match="lost"):
        Plan(toy_protocol(data, data=("lost", data)), Records(tmp_path), strict=True)


def test_the_same_training_in_two_protocols_is_the_same_job(tmp_path):
    data = write_mat(tmp_path)
    first = Plan(toy_protocol(data), Records(tmp_path))
    second = Plan(toy_protocol(data, name="other", title="other"), Records(tmp_path))
    assert {job.hash for job in first.ready()} == {job.hash for job in second.ready()}


def test_splits_are_paired_and_the_search_splits_are_not_reported(tmp_path):
    data = write_mat(tmp_path)
    plan = Plan(toy_protocol(data, search=None), Records(tmp_path))
    seeds = {}
    for job in plan.ready():
        seeds.setdefault(job.config["method"]["name"], []).append(job.config["split"]["seed"])
    assert seeds == {"rplg-nm": [0, 1, 2], "proden": [0, 1, 2]}


OWN = """
from dataclasses import dataclass

from oneof.methods.proden import Proden


@dataclass(frozen=True)
class Mine(Proden):
    note: str = "{}"
"""


def test_a_method_of_ones_own_is_known_by_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    codes = []
    for text in ("first", "second thoughts"):
        (tmp_path / "mine_by_code.py").write_text(OWN.format(text))
        monkeypatch.delitem(sys.modules, "mine_by_code", raising=False)
        codes.append(code_of(importlib.import_module("mine_by_code").Mine())["code"])
    assert codes[0] != codes[1]
    assert code_of(make_method("proden")) == {}  # our own code has a version
