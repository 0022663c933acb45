"""RPLG's branches for many labels: against loops, against autograd, and through whole trainings."""

import numpy as np
import pytest
import torch
from oneof.methods.rplg.many_classes import CandidateBranches, CandidateOpinions, listed, takes_full_form

from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.methods.rplg.rplg import mix, through_mix
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train

C, D, R, K, B = 7, 5, 3, 4, 6


def example(seed=0):
    torch.manual_seed(seed)
    mask = torch.zeros(B, C, dtype=torch.bool)
    for row, size in enumerate((1, 2, 3, 4, 2, 1)):
        mask[row, torch.randperm(C)[:size]] = True
    branches = CandidateBranches(C, D, R, K).double()
    for parameter in branches.parameters():
        parameter.copy_(torch.randn_like(parameter))
    return branches, torch.randn(B, D, dtype=torch.double), mask


def slow_logits(branches, z, j):
    return branches.weight @ z + branches.bias + branches.correction[j] @ (branches.code @ z)


def slow_opinions(branches, z, mask, visited):
    """U as (B, c, c), rows of labels outside the set zero."""
    u = torch.zeros(len(z), C, C, dtype=z.dtype)
    for i in range(len(z)):
        labels = mask[i].nonzero().flatten().tolist()
        for j in labels:
            others = [k for k in labels if k != j]
            if not others:
                u[i, j, j] = 1
            elif visited[i]:
                u[i, j, others] = slow_logits(branches, z[i], j)[others].softmax(0)
            else:
                u[i, j, others] = 1 / len(others)
    return u


@pytest.mark.parametrize("visited", [torch.ones(B, dtype=torch.bool), torch.arange(B) % 2 == 0])
def test_opinions_are_those_of_a_loop(visited):
    branches, z, mask = example()
    expected = slow_opinions(branches, z, mask, visited)
    found = branches.step(z, mask, visited, None, (0.0, 0.0, 0.0))
    w = torch.rand(B, C, dtype=torch.double) * mask
    torch.testing.assert_close(mix(w, found), mix(w, expected))
    slope = torch.randn(B, C, dtype=torch.double)
    torch.testing.assert_close(through_mix(slope, found), through_mix(slope, expected) * mask)


@pytest.mark.parametrize("likely", [False, True])
def test_the_step_follows_the_gradient_of_the_loss(likely):
    branches, z, mask = example(1)
    visited = torch.ones(B, dtype=torch.bool)
    row_weight = torch.rand(B, C, dtype=torch.double) if likely else None
    target = slow_opinions(branches, z, mask, visited)
    names = ("weight", "bias", "code", "correction")
    before = {name: getattr(branches, name).detach().clone().requires_grad_() for name in names}
    loss = torch.zeros((), dtype=torch.double)
    for i in range(B):
        labels = mask[i].nonzero().flatten().tolist()
        for j in labels if len(labels) > 1 else ():
            logits = before["weight"] @ z[i] + before["bias"]
            logits = logits + before["correction"][j] @ (before["code"] @ z[i])
            known = [k for k in range(C) if k != j]
            log_p = logits[known].log_softmax(0)
            weight = 1.0 if row_weight is None else row_weight[i, j]
            loss = loss - weight * (target[i, j, known] * log_p).sum() / B
    slopes = torch.autograd.grad(loss, list(before.values()))
    branches.step(z, mask, None, row_weight, (0.1, 0.9, 0.01))
    for (name, old), slope in zip(before.items(), slopes):
        expected = old - 0.1 * (slope + 0.01 * old)
        torch.testing.assert_close(getattr(branches, name).data, expected.detach(), msg=name)


def test_candidates_are_listed_in_order():
    mask = torch.tensor([[False, True, False, True], [True, False, False, False]])
    labels, there = listed(mask, 2)
    assert labels[0].tolist() == [1, 3]
    assert there.tolist() == [[True, True], [True, False]]
    assert labels[1, 0] == 0


def test_small_problems_take_the_full_form():
    assert takes_full_form(200, 512)
    assert not takes_full_form(1000, 2048)


def test_opinions_add_up_to_distributions_over_the_set():
    branches, z, mask = example(2)
    found = branches.step(z, mask, None, None, (0.1, 0.9, 0.0))
    assert isinstance(found, CandidateOpinions)
    v = found.mix(mask / mask.sum(dim=1, keepdim=True).double())
    torch.testing.assert_close(v.sum(dim=1), torch.ones(B, dtype=torch.double))
    assert (v[~mask] == 0).all()


def planted(n=240, c=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=n)
    x = (np.eye(c)[y] * 3 + rng.normal(size=(n, c))).astype(np.float32)
    mask = np.eye(c, dtype=bool)[y]
    mask[np.arange(n), (y + 1) % c] |= rng.random(n) < 0.7
    mask[np.arange(n), rng.integers(c, size=n)] = True
    return x, y, mask


@pytest.mark.parametrize("form", ["head", "difference", "exact"])
def test_a_training_with_candidate_branches_learns(form):
    x, y, mask = planted()
    clean = CleanRows(x[:40], np.eye(6, dtype=bool)[y[:40]])
    accuracy = {}
    for branches in ("full", "candidates"):
        method = make_method(
            "rplg", {"branches": branches, "branch_rank": 4, "meta_gradient": form, "meta_lr": 1e-2}
        )
        recipe = Recipe(epochs=15, batch_size=40, lr=0.02, device="cpu")
        trained = train(
            method, lambda: build_net("linear", 6, 6), x[40:], Candidates.from_mask(mask[40:], truth=y[40:]),
            recipe=recipe, clean=clean,
        )  # fmt: skip
        accuracy[branches] = (trained.pseudo_labels.argmax(axis=1) == y[40:]).mean()
    assert accuracy["candidates"] > 0.8
    assert accuracy["candidates"] > accuracy["full"] - 0.05


def test_a_table_of_opinions_needs_the_full_form():
    x, _, mask = planted(60)
    method = make_method("rplg-nm", {"branches": "candidates", "u": "table"})
    with pytest.raises(ValueError, match="branches='full'"):
        train(
            method, lambda: build_net("linear", 6, 6), x, Candidates.from_mask(mask), recipe=Recipe(epochs=1)
        )


def test_new_hyper_parameters_do_not_rename_old_trainings():
    assert "branches" not in make_method("rplg").params()
    assert make_method("rplg", {"branches": "full"}).params()["branches"] == "full"
