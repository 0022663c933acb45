import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from oneof.methods.sdct import (
    Sdct,
    chosen_pairs,
    class_means,
    joining,
    masked_mean,
    next_threshold,
    normalised_entropy,
    select,
)
from oneof.methods.targets import candidate_softmax
from tests.methods.by_hand import DTYPES, softmax_within
from tests.methods.harness import MethodTester, fit
from tests.methods.steps import B, C, D, N, SmallTask, move, step_at, values
from tests.methods.test_baselines import log_softmax_by_hand, problems
from tests.methods.test_plcr import negative_by_hand


class TestSdct(MethodTester):
    method = Sdct()


def entropy_by_hand(p, mask):
    bits = -sum(v * np.log2(v) for v in p if v > 0)
    return bits / (np.log2(sum(mask)) if sum(mask) > 1 else 1)


def mean_or_zero(items):
    items = list(items)
    return sum(items) / len(items) if items else 0.0


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_normalised_entropy_matches_its_slow_twin(problem, dtype):
    z, mask = problem
    p = candidate_softmax(torch.tensor(z, dtype=dtype), torch.tensor(mask))
    got = normalised_entropy(p, torch.tensor(mask))
    for i in range(len(z)):
        assert np.isclose(got[i], entropy_by_hand(values(p[i]).astype(float), mask[i]), atol=1e-5)
    assert (got >= 0).all()
    assert (got <= 1 + 1e-6).all()
    assert (values(got)[mask.sum(axis=1) == 1] == 0).all()


@settings(max_examples=50)
@given(st.integers(1, 20), st.sampled_from([0.0, 0.07, 0.5, 0.6, 1.0]), st.integers(0, 999))
def test_selection_and_class_thresholds_match_their_slow_twins(n, share, seed):
    rng = np.random.default_rng(seed)
    entropy = rng.integers(0, 4, size=n) / 4  # with ties
    label = rng.integers(3, size=n)
    chosen = select(torch.tensor(entropy), share)
    count = -(-round(share * 100) * n // 100)
    order = sorted(range(n), key=lambda i: (entropy[i], i))
    assert chosen.tolist() == [i in order[:count] for i in range(n)]
    got = class_means(torch.tensor(entropy), torch.tensor(label), chosen, 4)
    for c in range(4):
        # over the selected rows of the class, not over all selected rows
        expected = mean_or_zero(entropy[i] for i in order[:count] if label[i] == c)
        assert np.isclose(got[c], expected)


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.integers(0, 999))
def test_joining_and_threshold_match_their_slow_twins(problem, dtype, seed):
    z, mask = problem
    rng = np.random.default_rng(seed)
    n, c = z.shape
    p = candidate_softmax(torch.tensor(z, dtype=dtype), torch.tensor(mask))
    entropy = normalised_entropy(p, torch.tensor(mask))
    chosen, agree = rng.random(n) < 0.4, rng.random(n) < 0.5
    by_class, u = torch.tensor(rng.random(c), dtype=dtype), torch.tensor(rng.random(), dtype=dtype)
    sure, late = joining(entropy, p, torch.tensor(chosen), torch.tensor(agree), by_class, u)
    left = []
    for i in range(n):
        threshold = by_class[int(p[i].argmax())]
        assert sure[i] == (not chosen[i] and bool(entropy[i] < threshold))
        rest = not chosen[i] and not sure[i]
        assert late[i] == (rest and bool(agree[i]) and bool(entropy[i] < u))
        if rest:
            left.append(float(entropy[i]))
    moved = next_threshold(u, entropy, ~(torch.tensor(chosen) | sure), 0.9)
    assert np.isclose(moved, 0.9 * float(u) + 0.1 * np.mean(left) if left else float(u), atol=1e-6)


@settings(max_examples=50)
@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(0, 99))
def test_pairs_come_from_the_chosen_rows(chosen, seed):
    first, second = chosen_pairs(torch.tensor(chosen), torch.Generator().manual_seed(seed))
    assert len(first) == len(second) == len(chosen)
    if any(chosen):
        rows = [i for i, c in enumerate(chosen) if c]
        assert first.tolist() == [rows[k % len(rows)] for k in range(len(chosen))]
        assert set(second.tolist()) <= set(rows)
    value = torch.arange(len(chosen), dtype=torch.float64)
    expected = mean_or_zero(i for i, c in enumerate(chosen) if c)
    assert np.isclose(masked_mean(value, torch.tensor(chosen)), expected)


class SdctByHand:
    """Both networks' tables and thresholds as lists; the mixed rows are drawn as the method draws them."""

    def __init__(self, method, task):
        self.method, self.masks, self.x = method, task.candidates.dense().tolist(), task.x
        self.target = [[[k / sum(mask) for k in mask] for mask in self.masks] for _ in range(2)]
        self.selected = [[False] * N, [False] * N]
        self.by_class = [[0.0] * C, [0.0] * C]
        self.u = [0.0, 0.0]

    def select(self, nets):
        for m, net in enumerate(nets):
            p = [softmax_within(z, mask) for z, mask in zip(values(net(self.x)), self.masks)]
            entropy = [entropy_by_hand(row, mask) for row, mask in zip(p, self.masks)]
            count = int(np.ceil(self.method.selected * N))
            chosen = sorted(range(N), key=lambda i: (entropy[i], i))[:count]
            self.selected[m] = [i in chosen for i in range(N)]
            for c in range(C):
                self.by_class[m][c] = mean_or_zero(entropy[i] for i in chosen if np.argmax(p[i]) == c)

    def loss(self, nets, batch, epoch, epochs, generator):
        method, index = self.method, batch.index.tolist()
        masks = [self.masks[i] for i in index]
        z = [values(net(batch.view("weak"))) for net in nets]
        p = [[softmax_within(row, mask) for row, mask in zip(rows, masks)] for rows in z]
        total = 0.0
        for m, net in enumerate(nets):
            target = [self.target[m][i] for i in index]
            chosen = [self.selected[m][i] for i in index]
            for b, i in enumerate(index):
                self.target[m][i] = p[m][b]
            ce = lambda rows: [-np.dot(t, log_softmax_by_hand(v)) for t, v in zip(target, rows)]  # noqa: E731, B023
            if epoch < method.warm_up * epochs:
                total += np.mean(ce(z[m]))
                continue
            if epoch >= method.expand * epochs:
                entropy = [entropy_by_hand(row, mask) for row, mask in zip(p[m], masks)]
                left, joined = [], list(chosen)
                for b in range(B):
                    if chosen[b]:
                        continue
                    if entropy[b] < self.by_class[m][int(np.argmax(p[m][b]))]:
                        joined[b], target[b] = True, p[m][b]
                        continue
                    left.append(entropy[b])
                    if entropy[b] < self.u[m] and np.argmax(p[0][b]) == np.argmax(p[1][b]):
                        powers = [v ** (1 / method.sharpness) for v in p[m][b]]
                        joined[b], target[b] = True, [v / sum(powers) for v in powers]
                if left:
                    self.u[m] = method.memory * self.u[m] + (1 - method.memory) * np.mean(left)
                chosen = joined
            further = self.mixed(net, batch.view("weak"), target, chosen, generator)
            if len(batch.views) > 1:
                strong = ce(values(net(batch.view("strong"))))
                further += mean_or_zero(v for v, c in zip(strong, chosen) if c)
            if epoch < method.expand * epochs:
                losses = [negative_by_hand(row, mask) for row, mask in zip(z[m], masks)]
                further += mean_or_zero(v for v, c in zip(losses, chosen) if not c)
            total += mean_or_zero(v for v, c in zip(ce(z[m]), chosen) if c)
            total += min(1, epoch / (method.ramp_up * epochs)) * further
        return total

    def mixed(self, net, x, target, chosen, generator):
        first, second = chosen_pairs(torch.tensor(chosen), generator)
        share = float(torch.rand(7, generator=generator, dtype=torch.float64).sort().values[3])
        share = max(share, 1 - share)
        if not any(chosen):
            return 0.0
        losses = []
        for a, b in zip(first.tolist(), second.tolist()):
            logs = log_softmax_by_hand(values(net(share * x[a : a + 1] + (1 - share) * x[b : b + 1]))[0])
            losses.append(
                -share * logs[int(np.argmax(target[a]))] - (1 - share) * logs[int(np.argmax(target[b]))]
            )
        return np.mean(losses)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("selected", [0.0, 0.3, 1.0])
def test_training_matches_the_slow_twin_through_all_stages(noise, selected):
    """Warm-up, selection and three epochs of expansion: losses, tables, thresholds, and u, which lasts."""
    method = Sdct(warm_up=0.25, ramp_up=0.5, expand=0.5, selected=selected, memory=0.5)
    task = SmallTask(seed=3)
    state = method.setup(task)
    slow = SdctByHand(method, task)
    rng = np.random.default_rng(0)
    nets = method.predictors(state)
    joined = 0
    for epoch in range(-1, 8):
        for _ in range(0 if epoch < 0 else 3):
            batch = task.batch(method, rng.permutation(N)[:B], noise)
            step = step_at(epoch=epoch, epochs=8, seed=epoch)
            expected = slow.loss(nets, batch, epoch, 8, step.generator.clone_state())
            loss = method.loss(state, batch, step)
            assert np.isclose(loss.item(), expected, rtol=1e-9, atol=1e-9)
            assert np.allclose(state.late, slow.u, atol=1e-12)
            for m in (0, 1):
                assert np.allclose(state.rows[f"target_{m}"], slow.target[m], atol=1e-9)
            joined += float(state.late.min()) > 0
            move(state, loss)
        method.end_epoch(state, task, step_at(epoch=epoch, epochs=8))
        if 2 <= epoch + 1 < 8:
            slow.select(nets)
        for m in (0, 1):
            assert state.rows[f"selected_{m}"].tolist() == slow.selected[m]
            assert np.allclose(state.class_threshold[m], slow.by_class[m], atol=1e-12)
    assert joined == (0 if selected == 1.0 else 12)  # u is positive from the first expansion to the end


def test_batch_normalisation_sees_weak_then_strong_then_mixed_rows():
    """Later passes weigh more in the running statistics, by which rows are selected and labels predicted."""
    method = Sdct(warm_up=0.0, expand=0.9)
    task = SmallTask(features=nn.BatchNorm1d(D).double())
    state = method.setup(task)
    method.end_epoch(state, task, step_at(epoch=4))
    for net in method.predictors(state):
        net.features.reset_running_stats()
    batch = task.batch(method, range(B), noise=0.3)
    method.loss(state, batch, step_at(epoch=5))
    generator = step_at().generator
    for m, net in enumerate(method.predictors(state)):
        first, second = chosen_pairs(state.rows[f"selected_{m}"][:B], generator)
        share = float(torch.rand(7, generator=generator, dtype=torch.float64).sort().values[3])
        share = max(share, 1 - share)
        weak, strong = map(values, batch.views)
        mean = np.zeros(D)
        for x in (weak, strong, share * weak[first] + (1 - share) * weak[second]):
            mean = 0.9 * mean + 0.1 * x.mean(axis=0)
        assert np.allclose(net.features.running_mean, mean, rtol=0, atol=1e-12)


def test_rows_join_by_agreement_once_u_has_grown():
    method = Sdct(warm_up=0.0, expand=0.0, selected=0.0)
    task = SmallTask()
    state = method.setup(task)
    state.second.load_state_dict(state.net.state_dict())  # both agree on every row
    batch = task.batch(method, range(B))
    assert method.loss(state, batch, step_at(epoch=5)).item() == 0  # u = 0 admits none
    state.late.fill_(1.1)
    assert method.loss(state, batch, step_at(epoch=5)).item() > 0


def test_the_mixing_share_has_the_distribution_beta_4_4():
    draws = torch.rand(20000, 7, generator=torch.Generator().manual_seed(0)).median(dim=1).values
    reference = np.random.default_rng(0).beta(4, 4, size=20000)
    levels = np.linspace(0.05, 0.95, 10)
    assert np.allclose(np.quantile(draws, levels), np.quantile(reference, levels), atol=0.01)


def test_gradients_are_finite_for_extreme_logits_and_empty_selections():
    task = SmallTask(size=1e4)
    for selected in (0.0, 0.5, 1.0):
        for epoch in (0, 3, 8):
            method = Sdct(selected=selected)
            state = method.setup(task)
            method.end_epoch(state, task, step_at(epoch=epoch - 1))
            loss = method.loss(state, task.batch(method, range(B)), step_at(epoch=epoch))
            loss.backward()
            assert torch.isfinite(loss)
            assert all(p.grad is None or torch.isfinite(p.grad).all() for p in state.parameters())


def test_both_networks_predict_and_start_apart():
    trained = fit(Sdct(), recipe={"epochs": 3})
    state, method = trained.state, trained.method
    x = torch.randn(4, 5)
    assert torch.allclose(method.logits(state, x), (state.net(x) + state.second(x)) / 2)
    assert not torch.equal(state.net.head.weight, state.second.head.weight)
    both = (state.rows["target_0"] + state.rows["target_1"]) / 2
    assert np.array_equal(trained.pseudo_labels, both.numpy())
