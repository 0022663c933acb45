"""RPLG: the test list of the specification, section by section."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.candidates import Candidates
from oneof.methods.base import Batch, CleanBatch, StepInfo, Task
from oneof.methods.proden import Proden
from oneof.methods.rplg import Rplg, RplgNm
from oneof.methods.rplg.branches import Rates, WholeBranches, branch_numbers, make_branches
from oneof.methods.rplg.low_rank import LowRankBranches
from oneof.methods.targets import candidate_softmax, uniform
from oneof.nets import Net, build_net
from oneof.training import CleanRows, Recipe, train
from tests.methods.harness import C, D, MethodTester, blobs, fit, random_candidates, tiny_net


class TestRplg(MethodTester):
    method = Rplg()


class TestRplgExact(MethodTester):
    method = Rplg(meta_gradient="exact", meta_hidden=8)


class TestRplgDifference(MethodTester):
    method = Rplg(meta_gradient="difference", clean_batch=8)


class TestRplgUnrolled(MethodTester):
    method = Rplg(meta_gradient="unrolled")


class TestRplgNm(MethodTester):
    method = RplgNm()


# ---- mu, U, v, q ------------------------------------------------------------------------------


def opinions_by_hand(z, weight, bias, candidates):
    """Slow twin of (10): one row, one branch, one label at a time."""
    n, c = candidates.shape
    u = np.zeros((n, c, c))
    for i in range(n):
        for j in range(c):
            left = [k for k in range(c) if candidates[i, k] and k != j]
            if not left:
                u[i, j, j] = 1.0
                continue
            scores = [float(weight[j, k] @ z[i] + bias[j, k]) for k in left]
            top = max(scores)
            total = sum(np.exp(s - top) for s in scores)
            for k, s in zip(left, scores):
                u[i, j, k] = np.exp(s - top) / total
    return u


@st.composite
def branch_problems(draw):
    n, c, d = draw(st.integers(1, 5)), draw(st.integers(2, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([1.0, 1e4]))
    mask = rng.random((n, c)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    mask[np.arange(n), rng.integers(c, size=n)] = True
    return (
        rng.standard_normal((n, d)),
        size * rng.standard_normal((c, c, d)),
        rng.standard_normal((c, c)),
        mask,
    )


def made_branches(weight, bias, dtype=torch.float64):
    branches = WholeBranches(len(weight), weight.shape[2]).to(dtype)
    branches.weight.data = torch.tensor(weight, dtype=dtype)
    branches.bias.data = torch.tensor(bias, dtype=dtype)
    return branches


@settings(max_examples=60)
@given(branch_problems())
def test_opinions_match_the_slow_twin(problem):
    z, weight, bias, mask = problem
    branches = made_branches(weight, bias)
    candidates = torch.tensor(mask)
    u = branches.opinions(torch.tensor(z), candidates)
    assert np.allclose(u.u.numpy(), opinions_by_hand(z, weight, bias, mask), atol=1e-8)
    first = branches.opinions(torch.tensor(z), candidates, torch.zeros(len(z), dtype=torch.bool))
    flat = opinions_by_hand(z, 0 * weight, 0 * bias, mask)
    assert np.allclose(first.u.numpy(), flat, atol=1e-12)
    w = candidate_softmax(torch.randn(mask.shape, dtype=torch.float64), candidates)
    slope = torch.randn(mask.shape, dtype=torch.float64)
    chained = torch.einsum("bjk,bk->bj", u.u, slope)
    assert torch.allclose(u.slopes(slope), chained, atol=1e-9)
    for target in (u.mix(w), first.mix(w), 0.3 * uniform(candidates) + 0.7 * u.mix(w)):
        assert (target >= 0).all()
        assert torch.allclose(target.sum(1), torch.ones(len(z), dtype=torch.float64))
        assert (target[~candidates] == 0).all()
        alone = candidates.sum(1) == 1
        assert torch.allclose(target[alone], candidates[alone].double(), atol=1e-12)


def test_a_branch_has_no_output_for_its_own_label():
    rng = np.random.default_rng(0)
    branches = made_branches(rng.standard_normal((4, 4, 3)), rng.standard_normal((4, 4)))
    z = torch.tensor(rng.standard_normal((6, 3)))
    before = branches.weight.clone(), branches.bias.clone()
    assert (branches.probabilities(branches.logits(z)).diagonal(dim1=1, dim2=2) == 0).all()
    u = branches.opinions(z, torch.ones(6, 4, dtype=torch.bool))
    assert (u.u.diagonal(dim1=1, dim2=2) == 0).all()
    branches.learn(z, u, Rates(0.5, 0.9, 0.0), also=torch.full((6, 4), 0.25, dtype=torch.float64))
    assert torch.equal(branches.weight.diagonal(), before[0].diagonal())
    assert torch.equal(branches.bias.diagonal(), before[1].diagonal())
    assert not torch.equal(branches.weight, before[0])


@pytest.mark.parametrize("also", [False, True])
def test_the_branches_step_is_that_of_sgd_on_their_cross_entropy(also):
    """Closed form against autograd, momentum and weight decay against torch's SGD, for three steps."""
    rng = np.random.default_rng(1)
    weight, bias = rng.standard_normal((4, 4, 3)), rng.standard_normal((4, 4))
    mask = torch.tensor(rng.random((7, 4)) < 0.5)
    mask[:, 0] = True
    mask[0] = torch.tensor([True, False, False, False])
    branches = made_branches(weight, bias)
    w, b = torch.tensor(weight, requires_grad=True), torch.tensor(bias, requires_grad=True)
    optimiser = torch.optim.SGD([w, b], lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(3):
        z = torch.tensor(rng.standard_normal((7, 3)))
        q = candidate_softmax(torch.tensor(rng.standard_normal((7, 4))), mask)
        u = branches.opinions(z, mask)
        loss = torch.zeros((), dtype=torch.float64)
        for i in range(7):
            for j in range(4):
                left = [k for k in range(4) if mask[i, k] and k != j]
                if not left:
                    continue  # a singleton is skipped by its own branch
                target = torch.zeros(4, dtype=torch.float64)
                target[left] = (w[j, left] @ z[i] + b[j, left]).detach().softmax(-1)
                if also:
                    target[left] = 0.5 * target[left] + 0.5 * (q[i, left] + 1e-6) / (q[i, left] + 1e-6).sum()
                known = [k for k in range(4) if k != j]
                log_p = (w[j, known] @ z[i] + b[j, known]).log_softmax(-1)
                loss = loss - (target[known] * log_p).sum() / 7
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        branches.learn(z, u, Rates(0.1, 0.9, 0.01), q if also else None)
        assert torch.allclose(branches.weight, w, atol=1e-12)
        assert torch.allclose(branches.bias, b, atol=1e-12)


def test_branches_are_whole_while_that_is_cheap():
    assert isinstance(make_branches(200, 4096, 4096, 7), WholeBranches)
    assert isinstance(make_branches(201, 64, 256, 7), WholeBranches)
    assert isinstance(make_branches(300, 64, 256, 7), WholeBranches)
    made = make_branches(400, 8, 250, 7)
    assert isinstance(made, LowRankBranches)
    assert made.places == 7


def test_numbers_that_branches_take():
    weight, velocity, gradient = 3 * [4 * 4 * (5 + 1)]
    logits, opinions, errors = 3 * [7 * 4 * 4]
    assert branch_numbers(4, 5, 7) == weight + velocity + gradient + logits + opinions + errors
    assert branch_numbers(40_000, 5, 7) < 2.1 * branch_numbers(20_000, 5, 7)  # low rank: not with the square


def test_with_two_candidates_v_is_the_swapped_weight():
    rng = np.random.default_rng(2)
    branches = made_branches(rng.standard_normal((4, 4, 3)), rng.standard_normal((4, 4)))
    mask = torch.tensor([[True, False, True, False]])
    z = torch.tensor(rng.standard_normal((1, 3)))
    u = branches.opinions(z, mask)
    w = torch.tensor([[0.3, 0.0, 0.7, 0.0]], dtype=torch.float64)
    assert torch.allclose(u.mix(w), torch.tensor([[0.7, 0.0, 0.3, 0.0]], dtype=torch.float64))


# ---- one step ---------------------------------------------------------------------------------


def one_step(method, net=None, seed=0, n=12, lr=0.1):
    """A state, a batch and a step, in float64, ready for `method.loss`."""
    x, y = blobs(n, seed)
    candidates = torch.tensor(random_candidates(y, special=n > 9).mask.copy())
    torch.manual_seed(seed)
    net = net or build_net("mlp", D, C, hidden=(8, 8), activation="tanh")
    net = net.double().train()
    x = torch.tensor(x).double()
    task = Task(
        net=net,
        candidates=candidates,
        example=x[:2],
        device=torch.device("cpu"),
        dtype=torch.float64,
        epochs=3,
        batch_size=n,
        steps_per_epoch=1,
        lr=lr,
        clean_counts=torch.ones(C),
    )
    net.eval()
    state = method.setup(task)
    net.train()
    x_clean, y_clean = blobs(20, seed=7)
    clean = CleanBatch(
        torch.tensor(x_clean).double(), torch.nn.functional.one_hot(torch.tensor(y_clean), C).bool()
    )
    batch = Batch(torch.arange(n), (x,), candidates, clean=clean)
    return state, batch, StepInfo(0, 0, 3, 1, lr, torch.Generator())


@pytest.mark.parametrize("form", ["exact", "difference", "head", "unrolled"])
def test_the_look_ahead_leaves_no_trace(form):
    """Parameters and buffers after `loss` are those of one plain forward pass, bit for bit."""
    method = Rplg(meta_gradient=form)
    state, batch, step = one_step(method)
    twin = copy.deepcopy(state.net)
    twin(batch.views[0])  # the one shared forward pass moves running statistics, nothing else may
    optimiser = torch.optim.SGD(state.net.parameters(), lr=0.1, momentum=0.9)
    state.net(batch.views[0]).sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    twin = copy.deepcopy(state.net)
    moments = copy.deepcopy(optimiser.state_dict())
    method.loss(state, batch, step)
    twin(batch.views[0])
    for (name, a), b in zip(state.net.state_dict().items(), twin.state_dict().values()):
        assert torch.equal(a, b), name
    assert all(p.grad is None for p in state.net.parameters())
    for key, value in optimiser.state_dict()["state"].items():
        assert torch.equal(value["momentum_buffer"], moments["state"][key]["momentum_buffer"])


def test_u_is_kept_within_the_step_and_w_moves(monkeypatch):
    method = Rplg(meta_lr=0.1)
    state, batch, step = one_step(method)
    seen = []
    original = WholeBranches.opinions
    monkeypatch.setattr(WholeBranches, "opinions", lambda *given: seen.append(original(*given)) or seen[-1])
    method.loss(state, batch, step)
    (u,) = seen
    w, v = state.rows["w"], state.rows["v"]
    assert torch.allclose(v, u.mix(w), atol=1e-12)
    assert (w - uniform(batch.candidates, like=w)).abs().max() > 1e-3  # g was zero before


def test_first_visit_is_uniform_then_the_branches_speak():
    method = RplgNm(alpha=0.0)
    state, batch, step = one_step(method)
    method.loss(state, batch, step)
    # uniform branches, uniform weights: v is uniform too
    assert torch.allclose(state.rows["v"], uniform(batch.candidates).double(), atol=1e-7)
    for _ in range(20):
        method.loss(state, batch, step)
    assert not torch.allclose(state.rows["v"], uniform(batch.candidates).double(), atol=1e-3)


# ---- against other methods --------------------------------------------------------------------

LONG = {"epochs": 6, "optimiser": "sgd", "lr": 0.1, "schedule": "constant"}


def test_alpha_one_is_proden_step_by_step():
    rplg, proden = (fit(m, recipe=LONG, dtype=torch.float64) for m in (Rplg(alpha=1.0), Proden()))
    for a, b in zip(rplg.history, proden.history):
        assert a["loss"] == b["loss"]
        assert a["test"] == b["test"]
    for a, b in zip(rplg.state.net.parameters(), proden.state.net.parameters()):
        assert torch.equal(a, b)
    assert np.array_equal(rplg.state.rows["mu"], proden.state.rows["target"])


def test_constant_weights_are_rplg_nm():
    frozen = fit(Rplg(meta_lr=0.0, meta_decay=0.0), recipe=LONG, dtype=torch.float64)
    uniform_weights = fit(RplgNm(), recipe=LONG, dtype=torch.float64)
    assert [r["loss"] for r in frozen.history] == [r["loss"] for r in uniform_weights.history]
    for a, b in zip(frozen.state.net.parameters(), uniform_weights.state.net.parameters()):
        assert torch.equal(a, b)


# ---- a planted problem ------------------------------------------------------------------------


def planted(n, seed):
    """Class 0 rows always carry label 1 as a decoy, class 1 rows never carry label 0.

    From the candidate sets alone label 1 explains all of them, so that self-training settles on it;
    only the clean rows can tell, through the weight of the branch that works without label 1.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = 0.4 * rng.standard_normal((n, 3)) + 1.5 * np.eye(3)[y]
    mask = np.eye(3, dtype=bool)[y]
    mask[y == 0, 1] = True
    mask[y == 2, rng.integers(2)] |= True
    return x.astype(np.float32), y, mask


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_meta_learner_slows_down_with_the_classifier(schedule):
    trained = fit(Rplg(), recipe={"epochs": 5, "schedule": schedule, "lr": 0.03})
    rate = trained.state.optimisers["meta"].param_groups[0]["lr"]
    assert rate == pytest.approx(1e-3 * trained.history[-1]["lr"] / 0.03)
    assert (rate < 1e-4) == (schedule == "cosine")


def test_a_learning_rate_of_zero_changes_nothing():
    made = fit(Rplg(), recipe={"epochs": 2, "lr": 0.0, "schedule": "constant"})
    assert made.state.optimisers["meta"].param_groups[0]["lr"] == 0


class OwnDropout(torch.nn.Module):
    """Drops out by a function, as networks of one's own do."""

    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.1, self.training)


def test_a_look_ahead_that_repeats_draws_is_not_recorded():
    net = build_net("mlp", D, C, hidden=(8,))
    dropped, own = (
        Net(torch.nn.Sequential(net.features, part), net.head)
        for part in (torch.nn.Dropout(0.1), OwnDropout())
    )
    mask = torch.ones(4, C, dtype=torch.bool)
    again = Rplg(meta_gradient="difference")
    for method, made, expected in (
        (again, net, True),
        (again, dropped, False),
        (again, own, False),
        (Rplg(), dropped, True),  # passes no row twice
        (RplgNm(), dropped, True),
    ):
        values = dict.fromkeys(("epochs", "batch_size", "steps_per_epoch"), 4)
        task = Task(
            made,
            mask,
            torch.zeros(2, D),
            torch.device("cpu"),
            torch.float32,
            **values,
            lr=0.1,
            clean_counts=torch.ones(C),
        )
        assert method.captures(method.setup(task)) == expected


def test_learned_weights_help_where_uniform_ones_cannot():
    x, y, mask = planted(600, 0)
    x_clean, y_clean, _ = planted(90, 1)
    x_test, y_test, _ = planted(600, 2)
    clean = CleanRows(x_clean, np.eye(3, dtype=bool)[y_clean])
    recipe = Recipe(epochs=30, batch_size=50, optimiser="sgd", lr=0.1, schedule="constant", device="cpu")
    accuracy, outer = {}, {}
    for name, method in {"learned": Rplg(alpha=0.3, meta_lr=1e-2), "uniform": RplgNm(alpha=0.3)}.items():
        candidates = Candidates.from_mask(mask, truth=y)
        trained = train(
            method, lambda: Net(torch.nn.Identity(), torch.nn.Linear(3, 3)), x, candidates,
            recipe=recipe, clean=clean, test=(x_test, y_test),
        )  # fmt: skip
        accuracy[name] = trained.history[-1]["test"]
        with torch.no_grad():
            logits = trained.state.net(torch.tensor(x_clean))
        outer[name] = float(torch.nn.functional.cross_entropy(logits, torch.tensor(y_clean)))
        weights = trained.state.rows["w"][torch.tensor(y == 0)].mean(0)
        if name == "learned":
            assert weights[1] > 0.9  # the branch without the decoy is the one to trust
            assert trained.history[-1]["w_on_truth"] < trained.history[0]["w_on_truth"] / 2
    assert accuracy["learned"] > 0.95
    assert accuracy["learned"] > accuracy["uniform"] + 0.1
    assert outer["learned"] < outer["uniform"] / 2


def test_the_log_tells_the_story_of_the_pseudo_labels():
    row = fit(Rplg(), recipe={"epochs": 3}).history[-1]
    names = {"mu_accuracy", "v_accuracy", "q_accuracy", "q_change", "w_entropy", "w_on_truth", "selection"}
    assert names <= row.keys()
    assert 0 <= row["w_entropy"] <= np.log(C)
    unknown = Candidates.from_mask(random_candidates(blobs()[1], rate=0.1, special=False).mask)
    row = fit(Rplg(), candidates=unknown).history[-1]
    assert "q_change" in row
    assert "q_accuracy" not in row


def test_without_clean_rows_the_weights_stay_uniform_and_it_is_said():
    with pytest.warns(UserWarning, match="no clean rows"):
        trained = fit(Rplg(), clean=None)
    assert np.allclose(trained.history[-1]["w_entropy"], fit(RplgNm()).history[-1]["w_entropy"])


def test_head_form_needs_a_linear_head():
    with pytest.raises(TypeError, match=r"needs a net whose head is an nn\.Linear"):
        one_step(Rplg(), net=Net(torch.nn.Identity(), torch.nn.Sequential(torch.nn.Linear(D, C))))
    assert tiny_net("linear").head.out_features == C
