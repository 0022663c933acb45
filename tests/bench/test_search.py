import pytest

from oneof.lab.search import Search, configurations, searched, value_in, winner
from oneof.methods import list_methods, make_method
from oneof.methods.base import hyper

DEFAULT = {"lr": 0.05, "weight_decay": 1e-3, "scaling": "global"}
METHODS = [info.name for info in list_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_every_configuration_is_in_range(method):
    search = Search(configurations=30)
    found = configurations(method, search, DEFAULT)
    assert len(found) == 30
    assert found[0] == {**DEFAULT, "params": {}}
    fields = searched(method)
    for one in found[1:]:
        assert search.lr[0] <= one["lr"] <= search.lr[1]
        assert search.weight_decay[0] <= one["weight_decay"] <= search.weight_decay[1]
        assert one["scaling"] in search.scaling
        assert set(one["params"]) == set(fields)
        make_method(method, one["params"])
        for name, value in one["params"].items():
            facts = fields[name].metadata
            if facts["choices"]:
                assert value in facts["choices"]
            else:
                assert facts["low"] * 0.999 <= value <= facts["high"] * 1.001
                assert isinstance(value, type(fields[name].default)) or fields[name].default is None


def test_the_search_is_seeded_and_the_seed_matters():
    one, again = (configurations("pop", Search(), DEFAULT) for _ in range(2))
    assert one == again
    assert one[1:] != configurations("pop", Search(seed=1), DEFAULT)[1:]


def test_all_methods_get_the_same_shared_values():
    rplg, proden = (configurations(m, Search(), DEFAULT) for m in ("rplg", "proden"))
    for a, b in zip(rplg, proden):
        assert {k: a[k] for k in DEFAULT} == {k: b[k] for k in DEFAULT}


def test_given_hyper_parameters_are_not_searched():
    found = configurations("rplg", Search(), DEFAULT, {"alpha": 0.3})
    assert {one["params"]["alpha"] for one in found} == {0.3}


def test_a_budget_of_more_configurations_keeps_the_first_ones():
    few, many = (configurations("rplg", Search(configurations=n), DEFAULT) for n in (4, 8))
    assert many[:4] == few


def test_a_grid_has_all_combinations_and_the_entry_itself_first():
    search = Search(grids={"rplg": {"alpha": [0.3, 0.5], "meta_lr": [1e-3, 1e-4]}})
    fixed = {"alpha": 0.3, "meta_hidden": 128}  # meta_lr 1e-3 is the default
    found = configurations("rplg", search, DEFAULT, fixed)
    assert found[0] == {**DEFAULT, "params": fixed}
    assert [(one["params"]["alpha"], one["params"]["meta_lr"]) for one in found[1:]] == [
        (0.3, 1e-4), (0.5, 1e-3), (0.5, 1e-4),
    ]  # fmt: skip
    assert all(one["params"]["meta_hidden"] == 128 for one in found)
    assert configurations("proden", search, DEFAULT) == [{**DEFAULT, "params": {}}]


def test_only_some_hyper_parameters_of_rplg_are_searched():
    assert set(searched("rplg")) == {"alpha", "meta_lr", "meta_decay", "branch_lr"}
    assert set(searched("rplg+")) == set(searched("rplg"))
    assert set(searched("rplg-nm")) == {"alpha", "branch_lr"}


def test_whole_numbers_stay_whole():
    import numpy as np

    window = searched("pop")["window"]
    values = {value_in(window, np.random.default_rng(i)) for i in range(50)}
    assert values == {3, 4, 5, 6, 7}


def test_a_range_has_two_ends():
    with pytest.raises(ValueError, match="'depth': a range needs both ends, low and high, not 1 and None"):
        hyper(3, low=1, text="depth")


def ok(score):
    return {"status": "ok", "result": {"selection": score, "covering": 1 - score}}


FAILED = {"status": "failed", "error": "NaN"}


def test_the_best_mean_wins_and_ties_go_to_the_first():
    assert winner([[ok(0.5), ok(0.7)], [ok(0.9), ok(0.3)], [ok(0.6), ok(0.6)]], "accuracy") == 0
    assert winner([[ok(0.5)], [ok(0.6)], [ok(0.6)]], "accuracy") == 1
    assert winner([[ok(0.5)], [ok(0.6)], [ok(0.6)]], "covering") == 0


def test_a_failed_configuration_cannot_win():
    assert winner([[ok(0.9), FAILED], [ok(0.1), ok(0.2)]], "accuracy") == 1
    assert winner([[FAILED], [FAILED]], "accuracy") is None
