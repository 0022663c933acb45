from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.datasets import DataError, Split, hold_out, split_80_10_10

labels_of_rows = st.lists(st.integers(-1, 6), min_size=3, max_size=120)


@given(labels_of_rows, st.integers(0, 10**6), st.booleans())
def test_parts_of_80_10_10_are_disjoint_and_complete(labels, seed, stratified):
    n = len(labels)
    split = split_80_10_10(n, seed, labels if stratified else None)
    together = np.concatenate([split.train, split.validation, split.test])
    assert sorted(together) == list(range(n))
    part = max(1, round(n / 10))
    assert len(split.validation) == len(split.test) == part
    assert split.train.dtype == np.int64


@given(labels_of_rows, st.integers(0, 10**6), st.floats(0.05, 0.45))
def test_a_stratified_hold_out_takes_its_share_of_every_class(labels, seed, share):
    labels = np.array(labels)
    split = hold_out(len(labels), share, seed, labels)
    size = min(len(labels) - 1, max(1, round(share * len(labels))))
    assert len(split.validation) == size
    if not split.provenance["stratified"]:
        return
    members, held = Counter(labels.tolist()), Counter(labels[split.validation].tolist())
    eligible = sum(m for m in members.values() if m > 1)
    for name, m in members.items():
        if m == 1:
            assert held[name] == 0  # the only row of a class stays in training
        else:
            assert abs(held[name] - m * size / eligible) < 1


def test_a_class_with_one_member_breaks_nothing():
    labels = [0] * 50 + [1] * 49 + [2]
    for seed in range(30):
        split = split_80_10_10(100, seed, labels)
        assert 99 in split.train
        assert split.provenance["stratified"]


def test_only_singletons_fall_back_to_a_random_split():
    split = split_80_10_10(20, 0, np.arange(20))
    assert not split.provenance["stratified"]
    assert len(split) == 20


def test_the_seed_decides_and_global_state_is_left_alone():
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one = split_80_10_10(200, 5)
    np.random.seed(2)  # noqa: NPY002
    assert split_80_10_10(200, 5) == one
    np.random.seed(1)  # noqa: NPY002
    split_80_10_10(200, 5)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert split_80_10_10(200, 6) != one
    assert split_80_10_10(200, 6).hash != one.hash


def test_every_row_is_held_out_equally_often():
    held = np.zeros(40)
    for seed in range(2000):
        held[hold_out(40, 0.1, seed, np.arange(40) % 4).validation] += 1
    # 40 binomial counts of 2000 x 0.1; the bound is Bonferroni at 0.001
    from scipy.stats import binom

    low, high = binom.ppf([0.001 / 80, 1 - 0.001 / 80], 2000, 0.1)
    assert low <= held.min()
    assert held.max() <= high


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: split_80_10_10(2, 0), "at least 3 rows"),
        (lambda: hold_out(10, 1.5, 0), "share = 1.5"),
        (lambda: hold_out(10, 0.1, None), "seed = None"),
        (lambda: hold_out(10, 0.1, 0, labels=[1, 2]), "labels have shape"),
        (lambda: Split([0, 1], [1]), "row 1 stands in a split more than once"),
        (lambda: Split([-1]), "row numbers from 0"),
    ],
)
def test_errors_repeat_the_input(call, words):
    with pytest.raises(DataError, match=words):
        call()


@settings(max_examples=20)
@given(st.integers(3, 300), st.integers(0, 1000))
def test_equal_splits_have_equal_hashes(n, seed):
    split = split_80_10_10(n, seed)
    same = Split(split.train[::-1], split.validation, split.test)
    assert same == split
    assert hash(same) == hash(split)
