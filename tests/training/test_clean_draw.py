"""The clean rows of a step, and the random numbers that come with them."""

from itertools import islice
from unittest import mock

import numpy as np
import pytest
import torch

from oneof.methods import parallel
from oneof.training.clean import CleanRows, CleanSource
from oneof.training.distributed import Shards
from oneof.views import RowItself

CPU = torch.device("cpu")


def order(n_rows, count=1, seed=0):
    rows = CleanRows(np.zeros((n_rows, 1), np.float32), np.ones((n_rows, 1), bool)) if n_rows else None
    return CleanSource(rows, Shards(100, count), RowItself(), CPU, torch.float32, seed)


def drawn(n_rows, size, count=1, seed=0, steps=40):
    return list(islice(order(n_rows, count, seed).draws(size), steps))


def as_process(rank, count):
    return mock.patch.multiple(parallel, rank=lambda: rank, world_size=lambda: count)


def test_all_rows_are_taken_where_they_are_few():
    for size in (5, 6, 100):
        assert all(rows.tolist() == list(range(5)) for rows in drawn(5, size))


@pytest.mark.parametrize(("n_rows", "size"), [(0, 8), (8, 0)])
def test_none_are_taken_where_there_are_none_or_none_are_wanted(n_rows, size):
    assert all(not len(rows) for rows in drawn(n_rows, size))
    assert not len(order(n_rows).lots(size, 3))


def test_a_part_is_drawn_anew_in_every_step_and_by_the_seed():
    one, again, other = (drawn(30, 8, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one, again))
    assert not all(torch.equal(a, b) for a, b in zip(one, other))
    assert not torch.equal(one[0], one[1])
    assert all(len(rows) == 8 for rows in one)
    assert torch.cat(one).unique().tolist() == list(range(30))


def test_a_draw_prefers_no_row():
    times = torch.bincount(torch.cat(drawn(20, 10, steps=4000)), minlength=20).double()
    chi_square = float(((times - 2000) ** 2 / 2000).sum())
    assert chi_square < 43.8  # 19 degrees of freedom: p > 0.001


def test_a_remainder_that_cannot_be_divided_is_left_out_at_random():
    steps = drawn(11, 11, count=3)
    assert all(len(rows) == len(rows.unique()) == 9 for rows in steps)
    assert torch.cat(steps).unique().tolist() == list(range(11))


def test_fewer_rows_than_shards_are_an_error():
    with pytest.raises(ValueError, match="2 clean rows in a step cannot be divided among 4 shards"):
        drawn(2, 8, count=4)
    with pytest.raises(ValueError, match="2 clean rows in a step cannot be divided among 4 shards"):
        order(9, 4).lots(2, 0)


@pytest.mark.parametrize(("n_rows", "size"), [(30, 8), (7, 20), (8, 8), (30, 9)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_processes_share_what_one_draws(n_rows, size, count):
    whole = order(n_rows, count)
    rows, lots = list(islice(whole.draws(size), 5)), [whole.lots(size, i) for i in range(5)]
    parts = []
    for rank in range(count):
        with as_process(rank, count):
            own = order(n_rows, count)
            parts.append((list(islice(own.draws(size), 5)), [own.lots(size, i) for i in range(5)]))
    for i in range(5):
        assert torch.equal(torch.cat([part[0][i] for part in parts]), rows[i])
        assert torch.equal(torch.cat([part[1][i] for part in parts]), lots[i])
        assert len(rows[i]) == len(lots[i])


def test_lots_are_uniform_and_follow_from_seed_and_step_alone():
    made = order(64)
    first = made.lots(64, 5)
    next(made.draws(8))  # whatever was drawn in between
    assert torch.equal(made.lots(64, 5), first)
    assert torch.equal(order(64).lots(64, 5), first)
    assert not torch.equal(order(64).lots(64, 6), first)
    assert not torch.equal(order(64, seed=1).lots(64, 5), first)
    many = torch.cat([made.lots(64, i) for i in range(200)])
    assert ((many >= 0) & (many < 1)).all()
    assert torch.histc(many, 10, 0, 1).sub(1280).abs().max() < 150


def test_lots_do_not_move_the_draws():
    plain, with_lots = order(30), order(30)
    a, b = plain.draws(8), with_lots.draws(8)
    for i in range(4):
        with_lots.lots(8, i)
        assert torch.equal(next(a), next(b))
