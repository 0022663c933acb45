"""What the meta-learner of RPLG+ minimises, and the candidate sets it borrows, against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.candidates import Candidates
from oneof.methods.base import CandidateRows
from oneof.methods.rplg import RplgPlus
from oneof.methods.rplg.plus import Holders, slope
from oneof.training import CleanRows
from tests.methods.harness import blobs, fit, random_candidates

# ---- P2 ---------------------------------------------------------------------------------------


@st.composite
def borrowed_sets(draw):
    """Scores, true labels, and sets with the label in it; some are the label alone."""
    n, c = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    truth = rng.integers(c, size=n)
    sets = (rng.random((n, c)) < draw(st.sampled_from([0.0, 0.4, 1.0]))) | np.eye(c, dtype=bool)[truth]
    return rng.standard_normal((n, c)) * draw(st.sampled_from([0.1, 1.0, 10.0])), truth, sets


def loss_by_hand(g, truth, sets, shrink):
    """(P2) and what holds g at 0, one row and one label at a time; torch differentiates it."""
    losses = []
    for scores, y, s in zip(g, truth, sets):
        inside = [k for k in range(len(scores)) if s[k]]
        loss = shrink * sum(scores[k] ** 2 for k in inside) / len(inside)
        if len(inside) > 1:
            share = sum(scores[k].exp() for k in inside if k != y) / sum(scores[k].exp() for k in inside)
            loss = loss - (share / (len(inside) - 1)).log()
        losses.append(loss)
    return sum(losses) / len(losses)


@settings(max_examples=80)
@given(borrowed_sets(), st.sampled_from([0.0, 0.7]))
def test_g_goes_down_the_loss_of_a_loop(problem, shrink):
    scores, truth, sets = problem
    g = torch.tensor(scores, requires_grad=True)
    (expected,) = torch.autograd.grad(loss_by_hand(g, truth, sets, shrink), g, allow_unused=True)
    found = slope(g.detach(), torch.tensor(truth), torch.tensor(sets), shrink)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert (found[torch.tensor(~sets)] == 0).all()


@pytest.mark.parametrize("size", [1e2, 1e4, 1e30])
def test_extreme_scores_give_finite_slopes(size):
    sets = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]]).bool()
    truth = torch.tensor([0, 0, 1, 2, 2, 0])
    for sign in (1, -1):
        found = slope(sign * size * torch.eye(3)[truth], truth, sets, 0.0)
        assert found.abs().max() <= 1 / len(sets)
        assert (found[~sets] == 0).all()


def test_many_labels_have_the_slope_of_few():
    """Above so many labels softmax is computed in another way."""
    few = slope(torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([1]), torch.tensor([[True, True, False]]), 0.3)
    g, sets = torch.zeros(1, 40), torch.zeros(1, 40, dtype=torch.bool)
    g[0, [3, 20, 31]], sets[0, [3, 20]] = torch.tensor([1.0, -2.0, 0.5]), True
    many = slope(g, torch.tensor([20]), sets, 0.3)
    torch.testing.assert_close(many[:, [3, 20, 31]], few)
    assert many.count_nonzero() == 2


# ---- borrowed sets ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.3, 0.8]))
def test_borrowed_sets_are_those_of_a_loop(seed, rate):
    rng = np.random.default_rng(seed)
    c = 4
    mask = (rng.random((6, c)) < rate) | np.eye(c, dtype=bool)[rng.integers(c, size=6)]
    holders = Holders(CandidateRows.of_mask(torch.tensor(mask)))
    truth, draws = rng.integers(c, size=20), rng.random(20)
    draws[:2] = 0.0, np.nextafter(1.0, 0.0)
    found = holders.sets(torch.tensor(truth), torch.tensor(draws)).numpy()
    assert found.dtype == bool
    for y, draw, got in zip(truth, draws, found):
        rows = [row for row in mask if row[y] and row.sum() > 1]  # a singleton lends nothing
        expected = rows[int(draw * len(rows))] if rows else np.eye(c, dtype=bool)[y]
        np.testing.assert_array_equal(got, expected)


def test_every_holder_of_a_label_is_as_likely():
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]]).bool()
    draws = torch.rand(30_000, generator=torch.Generator().manual_seed(0))
    sets = Holders(CandidateRows.of_mask(mask)).sets(torch.zeros(30_000, dtype=torch.long), draws)
    for row, share in ((0, 1 / 3), (1, 1 / 3), (2, 0), (3, 0), (4, 1 / 3)):
        assert float((sets == mask[row]).all(dim=1).float().mean()) == pytest.approx(share, abs=0.015)


def test_only_singletons_teach_g_nothing():
    mask = np.eye(4, dtype=bool)[blobs()[1]]
    trained = fit(RplgPlus(), candidates=Candidates.from_mask(mask))
    assert all(not parameter.any() for parameter in trained.state.meta.parameters())


def test_a_label_in_no_set_is_left_out():
    """Clean rows of a label that no training row has among several: g does not move by them."""
    y = blobs()[1]
    mask = np.eye(4, dtype=bool)[y]
    mask[y == 0, 1] = mask[y == 1, 0] = True  # 2 and 3 are singletons
    x_clean, y_clean = blobs(40, seed=5)
    alone = y_clean >= 2
    clean = CleanRows(x_clean[alone], np.eye(4, dtype=bool)[y_clean[alone]])
    trained = fit(RplgPlus(), candidates=Candidates.from_mask(mask), clean=clean)
    assert all(not parameter.any() for parameter in trained.state.meta.parameters())
    trained = fit(RplgPlus(), candidates=Candidates.from_mask(mask))
    assert any(parameter.any() for parameter in trained.state.meta.parameters())


def test_clean_rows_that_are_sets_teach_g_nothing():
    """Held-out candidate sets name no label, least of all their first."""
    x_clean, y_clean = blobs(40, seed=5)
    mask = random_candidates(y_clean, rate=0.8, special=False).mask.copy()
    mask[mask.sum(axis=1) == 1] = True
    trained = fit(RplgPlus(), clean=CleanRows(x_clean, mask, "held-out sets"))
    assert all(not parameter.any() for parameter in trained.state.meta.parameters())
