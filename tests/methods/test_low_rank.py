"""RPLG's branches for many labels: against loops, against autograd, and through whole trainings."""

import numpy as np
import pytest
import torch
from torch import nn

from oneof.candidates import Candidates
from oneof.methods.rplg import Rplg, RplgNewU, RplgPlus
from oneof.methods.rplg import branches as forms
from oneof.methods.rplg.branches import Rates, WholeBranches
from oneof.methods.rplg.low_rank import CandidateOpinions, LowRankBranches
from oneof.methods.targets import candidate_softmax
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train

C, D, R, K, B = 7, 5, 3, 4, 6
NAMES = ("weight", "bias", "code", "of_branch", "of_label")


def example(seed=0, cap=K):
    torch.manual_seed(seed)
    mask = torch.zeros(B, C, dtype=torch.bool)
    for row, size in enumerate((1, 2, 3, 4, 2, 1)):
        mask[row, torch.randperm(C)[:size]] = True
    branches = LowRankBranches(C, D, R, K, cap).double()
    for parameter in branches.parameters():
        parameter.copy_(torch.randn_like(parameter))
    return branches, torch.randn(B, D, dtype=torch.double), mask


def slow_logits(of, z, mask, j, cap=K):
    """Branch j's logits in a row with a candidate set; None: the branch of all that are beyond the cap."""
    common = of["weight"] @ z + of["bias"]
    most = sorted(mask.nonzero().flatten().tolist(), key=lambda k: -common[k].item())[:cap]
    logits = list(common)
    for k in most if j in most else ():
        logits[k] = logits[k] + of["of_label"][k] @ (of["of_branch"][j] * (of["code"] @ z))
    return torch.stack(logits), most


def slow_opinions(branches, z, mask, visited, cap=K):
    """U as (B, c, c), rows of labels outside the set zero."""
    u = torch.zeros(len(z), C, C, dtype=z.dtype)
    for i in range(len(z)):
        labels = mask[i].nonzero().flatten().tolist()
        for j in labels:
            logits, most = slow_logits(vars_of(branches), z[i], mask[i], j, cap)
            others = [k for k in labels if k != j or j not in most]
            if labels == [j]:
                u[i, j, j] = 1
            elif visited[i]:
                u[i, j, others] = logits[others].softmax(0)
            else:
                u[i, j, others] = 1 / len(others)
    return u


def vars_of(branches):
    return {name: getattr(branches, name).detach() for name in NAMES}


@pytest.mark.parametrize("cap", [K, 2], ids=["all", "the two most probable"])
@pytest.mark.parametrize("visited", [torch.ones(B, dtype=torch.bool), torch.arange(B) % 2 == 0])
def test_opinions_are_those_of_a_loop(visited, cap):
    branches, z, mask = example(cap=cap)
    expected = slow_opinions(branches, z, mask, visited, cap)
    found = branches.opinions(z, mask, visited)
    w = torch.rand(B, C, dtype=torch.double) * mask
    torch.testing.assert_close(found.mix(w), torch.einsum("bj,bjk->bk", w, expected))
    slope = torch.randn(B, C, dtype=torch.double)
    torch.testing.assert_close(found.slopes(slope), torch.einsum("bjk,bk->bj", expected, slope) * mask)


@pytest.mark.parametrize("cap", [K, 2], ids=["all", "the two most probable"])
@pytest.mark.parametrize("also", [False, True])
def test_the_step_follows_the_gradient_of_the_loss(also, cap):
    """With `also` a branch's target is halfway to that distribution, without the branch's own label.

    What lies beyond the cap then keeps the common layer's shares within.
    """
    branches, z, mask = example(1, cap)
    q = candidate_softmax(torch.randn(B, C, dtype=torch.double), mask)
    target = slow_opinions(branches, z, mask, torch.ones(B, dtype=torch.bool), cap)
    before = {name: value.clone().requires_grad_() for name, value in vars_of(branches).items()}
    loss = torch.zeros((), dtype=torch.double)
    for i in range(B):
        labels = mask[i].nonzero().flatten().tolist()
        for j in labels if len(labels) > 1 else ():
            logits, most = slow_logits(before, z[i], mask[i], j, cap)
            if j not in most:
                continue
            if also:
                inner, beyond = [k for k in most if k != j], [k for k in labels if k not in most]
                rest = torch.cat([q[i, inner], q[i, beyond].sum()[None]]) + 1e-6
                rest = rest / (rest.sum() if beyond else rest[:-1].sum())
                target[i, j, inner] = 0.5 * target[i, j, inner] + 0.5 * rest[:-1]
                if beyond:
                    target[i, j, beyond] *= 0.5 + 0.5 * rest[-1] / target[i, j, beyond].sum()
            known = [k for k in range(C) if k != j]
            loss = loss - (target[i, j, known] * logits[known].log_softmax(0)).sum() / B
    slopes = torch.autograd.grad(loss, list(before.values()))
    branches.learn(z, branches.opinions(z, mask), Rates(0.1, 0.9, 0.01), q if also else None)
    for (name, old), slope in zip(before.items(), slopes):
        expected = old - 0.1 * (slope + 0.01 * old)
        torch.testing.assert_close(getattr(branches, name).data, expected.detach(), msg=name)


@pytest.mark.parametrize("also", [False, True])
def test_with_full_sets_and_no_correction_all_branches_of_both_forms_think_alike(also):
    """Where every label is a candidate and the rank is 0, what is left is a common layer."""
    torch.manual_seed(3)
    low, whole = LowRankBranches(C, D, 0, C, C).double(), WholeBranches(C, D).double()
    z, mask = torch.randn(B, D, dtype=torch.double), torch.ones(B, C, dtype=torch.bool)
    w = torch.randn(B, C, dtype=torch.double).softmax(1)
    low.weight.copy_(torch.randn(C, D))
    whole.weight.copy_(low.weight.unsqueeze(0).expand(C, -1, -1))
    torch.testing.assert_close(low.opinions(z, mask).mix(w), whole.opinions(z, mask).mix(w))
    q = torch.randn(B, C, dtype=torch.double).softmax(1) if also else None
    start = whole.weight.clone(), low.weight.clone()
    for form in (low, whole):
        form.learn(z, form.opinions(z, mask), Rates(0.1, 0.0, 0.0), q)
    torch.testing.assert_close(low.weight - start[1], (whole.weight - start[0]).sum(dim=0))


@pytest.mark.parametrize("cap", [K, 2])
@pytest.mark.parametrize("hidden", [0, 4])
def test_the_meta_learner_is_asked_about_candidates(hidden, cap):
    branches, z, mask = example(4, cap)
    last = nn.Linear(hidden or D, C)
    g = (nn.Sequential(nn.Linear(D, hidden), nn.ReLU(), last) if hidden else last).double()
    with torch.no_grad():
        torch.testing.assert_close(branches.opinions(z, mask).weigh(g, z)[mask], g(z)[mask])


def test_opinions_add_up_to_distributions_over_the_set():
    branches, z, mask = example(2)
    found = branches.opinions(z, mask)
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


@pytest.mark.parametrize(
    ("method", "most"),
    [
        *((Rplg(meta_gradient=form, meta_lr=1e-2), 32) for form in ("head", "difference", "exact")),
        (RplgNewU(meta_lr=1e-2), 32),
        (RplgPlus(), 32),
        (RplgPlus(), 2),
    ],
    ids=["head", "difference", "exact", "new U", "rplg+", "rplg+, few branches"],
)
def test_a_training_with_low_rank_branches_learns(method, most, monkeypatch):
    x, y, mask = planted()
    clean = CleanRows(x[:40], np.eye(6, dtype=bool)[y[:40]])
    monkeypatch.setattr(forms, "RANK", 4)
    monkeypatch.setattr(forms, "MOST", most)
    accuracy = {}
    for form, limit in ((WholeBranches, 200), (LowRankBranches, 0)):
        monkeypatch.setattr(forms, "WHOLE_CLASSES", limit)
        monkeypatch.setattr(forms, "WHOLE_COST", limit)
        recipe = Recipe(epochs=15, batch_size=40, lr=0.02, device="cpu")
        trained = train(
            method, lambda: build_net("linear", 6, 6), x[40:], Candidates.from_mask(mask[40:], truth=y[40:]),
            recipe=recipe, clean=clean,
        )  # fmt: skip
        assert isinstance(trained.state.branches, form)
        accuracy[form] = (trained.pseudo_labels.argmax(axis=1) == y[40:]).mean()
    assert accuracy[LowRankBranches] > 0.8
    assert accuracy[LowRankBranches] > accuracy[WholeBranches] - 0.05
