"""RPLG's nine options, and what is said of those that earlier versions had."""

import re

import pytest

from oneof.methods import make_method
from oneof.methods.rplg import Rplg, RplgNm

OF_TODAY = {
    "alpha", "branch_lr", "branch_momentum", "branch_decay",
    "meta_gradient", "meta_lr", "meta_decay", "meta_hidden", "clean_batch",
}  # fmt: skip
FROZEN = {
    "weights": "learned", "meta_input": "features", "meta_every": 1, "clean_mode": "eval",
    "branch_rows": "all", "mu": "table", "u": "current", "prior": "none", "rollback": True,
    "recompute_u": False, "difference_step": 0.01, "branches": "auto", "branch_rank": 16,
    "meta_scale": "unit", "meta_schedule": "follow", "clean_draw": "random", "branch_schedule": "constant",
}  # fmt: skip
OTHER = {
    "weights": "uniform", "meta_input": "input", "meta_every": 2, "clean_mode": "train",
    "branch_rows": "likely", "mu": "current", "u": "table", "prior": "mu", "rollback": False,
    "recompute_u": True, "difference_step": 0.02, "branches": "full", "branch_rank": 8,
    "meta_scale": "rate", "meta_schedule": "constant", "clean_draw": "balanced", "branch_schedule": "follow",
}  # fmt: skip


def test_rplg_has_nine_options():
    assert set(make_method("rplg").params()) == OF_TODAY
    assert set(make_method("rplg-nm").params()) == {n for n in OF_TODAY if n == "alpha" or "branch" in n}


def test_dropped_options_at_the_value_that_stayed_are_ignored():
    assert FROZEN.keys() == OTHER.keys() == Rplg.dropped.keys()
    assert make_method("rplg", {**FROZEN, "alpha": 0.3}) == Rplg(alpha=0.3)
    of_no_effect = {"meta_lr": 0.5, "meta_every": 7, "rollback": False, "clean_draw": "balanced"}
    assert make_method("rplg-nm", {**of_no_effect, "weights": "uniform", "alpha": 0.3}) == RplgNm(alpha=0.3)


@pytest.mark.parametrize("name", OTHER)
def test_dropped_options_at_another_value_are_refused_by_name(name):
    with pytest.raises(
        ValueError, match=f"rplg no longer has the hyper-parameter '{name}', which is {OTHER[name]!r}"
    ):
        make_method("rplg", {name: OTHER[name]})


def test_what_was_never_an_option_is_refused_with_those_there_are():
    for method in ("rplg", "rplg+"):
        with pytest.raises(
            ValueError, match=f"{re.escape(method)} has no hyper-parameter 'colour'; it has alpha, "
        ):
            make_method(method, {"colour": 1})
    with pytest.raises(ValueError, match="rplg-nm no longer has the hyper-parameter 'weights'"):
        make_method("rplg-nm", {"weights": "learned"})
