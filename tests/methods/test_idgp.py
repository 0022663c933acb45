import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.idgp import Idgp, coin_loss, divergence, other_explanation
from oneof.methods.targets import candidate_softmax
from tests.methods.by_hand import DTYPES, MASKS, TOLERANCE, sample_logits, softmax_within
from tests.methods.harness import MethodTester, fit
from tests.methods.steps import B, N, SmallTask, dot, move, step_at, values
from tests.methods.test_baselines import log_softmax_by_hand, problems


class TestIdgp(MethodTester):
    method = Idgp()


def log_sigmoid(v):
    return -np.log1p(np.exp(-v)) if v > 0 else v - np.log1p(np.exp(v))


def sigmoid(v):
    return np.exp(log_sigmoid(v))


def explanation_by_hand(g, target, mask):
    """w from log((1 − h)/h), label by label."""
    t = int(np.argmax(target))
    odds = []
    for k in range(len(g)):
        # h = 1 − q for the believed label, q for the others
        log_h, log_rest = log_sigmoid(-g[k]), log_sigmoid(g[k])
        if k != t:
            log_h, log_rest = log_rest, log_h
        odds.append(log_rest - log_h)
    return softmax_within(odds, mask)


def published_explanation(g, target, mask):
    """w as published, with the product of all h over the candidates, in probability space."""
    t = int(np.argmax(target))
    h = [1 - sigmoid(v) if k == t else sigmoid(v) for k, v in enumerate(g)]
    product = np.prod([h[k] for k in range(len(g)) if mask[k]])
    w = [product * (1 - h[k]) / h[k] if mask[k] else 0.0 for k in range(len(g))]
    return [v / sum(w) for v in w]


def coins_by_hand(g, target):
    return -sum(t * log_sigmoid(v) + (1 - t) * log_sigmoid(-v) for t, v in zip(target, g))


def divergence_by_hand(target, logs):
    return sum(t * (np.log(t) - v) for t, v in zip(target, logs) if t > 0)


def tables(z, mask, seed=0):
    """Some D on the candidates and some B."""
    rng = np.random.default_rng(seed)
    present = rng.random(mask.shape) * mask
    present[0] = mask[0]
    return values(candidate_softmax(torch.tensor(z[:, ::-1].copy()), torch.tensor(mask))), present


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_losses_match_their_slow_twins(problem, dtype):
    z, mask = problem
    target, present = tables(z, mask)
    logits = torch.tensor(z, dtype=dtype)
    d, b = torch.tensor(target, dtype=dtype), torch.tensor(present, dtype=dtype)
    w = other_explanation(logits, d, torch.tensor(mask))
    coins = coin_loss(logits, b)
    f_divergence = divergence(d, logits.log_softmax(dim=1))
    g_divergence = divergence(b, torch.nn.functional.logsigmoid(logits))
    z, target, present = logits.double().numpy(), d.double().numpy(), b.double().numpy()
    for i in range(len(z)):
        if dtype == torch.float64 or np.abs(z).max() < 1e3:
            assert np.allclose(w[i], explanation_by_hand(z[i], target[i], mask[i]), **TOLERANCE[dtype])
        if np.abs(z).max() < 5:
            assert np.allclose(w[i], published_explanation(z[i], target[i], mask[i]), atol=1e-5)
        assert np.allclose(coins[i], coins_by_hand(z[i], present[i]), **TOLERANCE[dtype])
        logs = log_softmax_by_hand(z[i])
        assert np.allclose(f_divergence[i], divergence_by_hand(target[i], logs), **TOLERANCE[dtype])
        logs = [log_sigmoid(v) for v in z[i]]
        assert np.allclose(g_divergence[i], divergence_by_hand(present[i], logs), **TOLERANCE[dtype])
    assert (values(w)[~mask] == 0).all()
    assert np.allclose(w.sum(dim=1), 1, atol=1e-5)


def test_gradients_of_the_losses():
    target = candidate_softmax(sample_logits(seed=1).detach(), MASKS)
    present = sample_logits(seed=2).detach().sigmoid() * MASKS
    for function in (
        lambda z: coin_loss(z, present),
        lambda z: divergence(target, z.log_softmax(dim=1)),
        lambda z: divergence(present, torch.nn.functional.logsigmoid(z)),
    ):
        assert torch.autograd.gradcheck(function, sample_logits())


WEIGHTS = {"alpha": 2.0, "beta": 3.0, "theta": 0.5, "gamma": 0.7, "delta": 1.5, "eta": 0.3}


def loss_by_hand(method, f, g, target, present, mask, epoch, epochs):
    zf, zg = [v / method.f_temperature for v in f], [v / method.g_temperature for v in g]
    log_p = log_softmax_by_hand(zf)
    own_f, own_g = -dot(target, log_p), coins_by_hand(zg, present)
    if epoch < min(method.warm_up, epochs // 4):
        return own_f + own_g
    f_given_g = -dot(explanation_by_hand(zg, target, mask), log_p)
    belief = softmax_within(zf, mask)
    g_given_f = -sum(u * log_sigmoid(-v) for u, v in zip(belief, zg)) + coins_by_hand(zg, mask)
    fade = min(1, epoch / (0.2 * epochs))
    return (
        method.alpha * own_f
        + method.beta * f_given_g
        + fade * method.delta * divergence_by_hand(target, log_softmax_by_hand(f))
        + method.theta * own_g
        + method.gamma * g_given_f
        + fade * method.eta * divergence_by_hand(present, [log_sigmoid(v) for v in g])
    )


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_steps_match_the_slow_twin(noise, size):
    method = Idgp(warm_up=2, f_temperature=2.0, g_temperature=0.5, **WEIGHTS)
    task = SmallTask(size=size)
    state = method.setup(task)
    with torch.no_grad():
        state.coins.head.weight *= size
    masks = task.candidates.dense().tolist()
    target, present = [[k / sum(m) for k in m] for m in masks], [[float(k) for k in m] for m in masks]
    for number in range(6):
        index = (5 * np.arange(B) + number) % N
        batch = task.batch(method, index, noise)
        outputs = [(values(state.net(x)), values(state.coins(x))) for x in batch.views]
        loss = method.loss(state, batch, step_at(epoch=number, epochs=8))
        for b, i in enumerate(index):
            expected = [
                loss_by_hand(method, f[b], g[b], target[i], present[i], masks[i], number, 8)
                for f, g in outputs
            ]
            assert np.isclose(loss[b].item(), np.mean(expected), rtol=1e-9, atol=1e-9)
        for b, i in enumerate(index):
            f, g = outputs[0]
            target[i] = softmax_within(f[b] / 2.0, masks[i])
            present[i] = [sigmoid(v / 0.5) * k for v, k in zip(g[b], masks[i])]
        assert np.allclose(state.rows["target"], target, atol=1e-12)
        assert np.allclose(state.rows["present"], present, atol=1e-12)
        move(state, loss, lr=0.1 / size)


def test_each_network_learns_from_its_own_terms_only():
    task = SmallTask()
    gradients = []
    for kept in ({"theta": 0.0, "gamma": 0.0, "eta": 0.0}, {"alpha": 0.0, "beta": 0.0, "delta": 0.0}, {}):
        method = Idgp(warm_up=0, **{**WEIGHTS, **kept})
        torch.manual_seed(0)
        state = method.setup(task)
        loss = method.loss(state, task.batch(method, range(B)), step_at(epoch=5)).mean()
        parameters = [*state.net.parameters(), *state.coins.parameters()]
        gradients.append([g.numpy() for g in torch.autograd.grad(loss, parameters)])
    of_f, of_g, both = gradients
    for i in range(2):
        assert np.allclose(of_f[i], both[i], atol=1e-14)
        assert (of_g[i] == 0).all()
    for i in range(2, 4):
        assert np.allclose(of_g[i], both[i], atol=1e-14)
        assert (of_f[i] == 0).all()


def test_the_coins_have_a_learning_rate_and_weight_decay_of_their_own():
    groups = Idgp(g_lr=0.5, g_decay=1e-4).param_groups(Idgp().setup(SmallTask()))
    assert [g.get("lr") for g in groups] == [None, 0.05]
    assert [g.get("weight_decay") for g in groups] == [None, 1e-4]
    assert "weight_decay" not in Idgp().param_groups(Idgp().setup(SmallTask()))[1]
    still = fit(Idgp(g_lr=0.0), kind="linear", recipe={"epochs": 2})
    start = fit(Idgp(g_lr=0.0), kind="linear", recipe={"epochs": 2, "lr": 0.0})
    assert torch.equal(still.state.coins.head.weight, start.state.coins.head.weight)
    assert not torch.equal(still.state.net.head.weight, start.state.net.head.weight)


def test_the_networks_start_apart_and_only_the_first_predicts():
    method = Idgp()
    state = method.setup(SmallTask())
    assert not torch.equal(state.net.head.weight, state.coins.head.weight)
    assert method.predictors(state) == (state.net,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_finite_for_extreme_logits(dtype):
    target = candidate_softmax(sample_logits(1e4, seed=1).detach().to(dtype), MASKS)
    f, g = (sample_logits(1e4, seed=s).detach().to(dtype).requires_grad_() for s in (2, 3))
    loss = Idgp(warm_up=0).view_loss(f, g, target, MASKS.to(dtype), MASKS, step_at(epoch=5))
    loss.sum().backward()
    assert torch.isfinite(loss).all()
    assert torch.isfinite(f.grad).all()
    assert torch.isfinite(g.grad).all()
