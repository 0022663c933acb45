import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods import make_method
from oneof.methods.dirk import Dirk, DirkRef, confidence_weights, rectify
from oneof.methods.parts.contrast import both_heads
from tests.methods.by_hand import DTYPES, MASKS, sample_logits
from tests.methods.harness import MethodTester, fit
from tests.methods.steps import (
    B,
    N,
    SmallTask,
    argmax_within,
    contrast_by_hand,
    dot,
    move,
    step_at,
    unit,
    values,
)
from tests.methods.test_baselines import log_softmax_by_hand, problems, softmax_by_hand


class TestDirk(MethodTester):
    method = Dirk()


class TestDirkRef(MethodTester):
    method = DirkRef()


def rectify_by_hand(z, mask):
    """λ and both shares from their definitions; only ratios of probabilities, so that nothing overflows."""
    inside = [k for k in range(len(z)) if mask[k]]
    outside = [k for k in range(len(z)) if not mask[k]]
    r = [0.0] * len(z)
    share = dict(zip(inside, softmax_by_hand([z[k] for k in inside])))
    if len(inside) == 1 or not outside:
        for k in inside:
            r[k] = share[k]
        return r
    other = dict(zip(outside, softmax_by_hand([z[k] for k in outside])))
    least = min(np.exp(log_softmax_by_hand(z)[k]) for k in inside)  # a · m_c
    lam = max(other.values()) / (max(other.values()) + least)
    for k in range(len(z)):
        r[k] = lam * share[k] if mask[k] else (1 - lam) * other[k]
    return r


def published_rule(z, mask):
    """The formulas as published, in probability space."""
    p = softmax_by_hand(z)
    a = sum(v for v, k in zip(p, mask) if k)
    pc = [v / a if k else 0.0 for v, k in zip(p, mask)]
    rest = sum(v for v, k in zip(p, mask) if not k)
    pn = [0.0 if k else v / rest for v, k in zip(p, mask)]
    m_n, m_c, big = max(pn), min(v for v, k in zip(pc, mask) if k), 1 / a
    lam = big * m_n / (big * m_n + m_c)
    return [lam * c + (1 - lam) * n for c, n in zip(pc, pn)]


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_rectification_matches_its_slow_twin(problem, dtype):
    z, mask = problem
    logits = torch.tensor(z, dtype=dtype)
    r = rectify(logits, torch.tensor(mask))
    z = logits.double().numpy()
    atol = 1e-10 if dtype == torch.float64 else 1e-5
    for i in range(len(z)):
        assert np.allclose(r[i], rectify_by_hand(z[i], mask[i]), atol=atol)
        if 1 < mask[i].sum() < len(mask[i]) and np.abs(z).max() < 50:
            assert np.allclose(r[i], published_rule(z[i], mask[i]), atol=atol)
        inside, outside = values(r[i])[mask[i]], values(r[i])[~mask[i]]
        if len(outside):
            assert inside.min() >= outside.max() - atol
    assert np.allclose(r.sum(dim=1), 1, atol=1e-5)


def test_rectification_of_certain_rows():
    r = rectify(sample_logits(3.0).detach(), MASKS)
    assert r[0].tolist() == [1, 0, 0, 0]
    assert torch.allclose(r[1], sample_logits(3.0).detach()[1].softmax(dim=0))
    # the least candidate exceeds the best other label by 1/a
    p = sample_logits(3.0).detach()[2].softmax(dim=0)
    assert float(r[2, 1:3].min() / r[2, [0, 3]].max()) == pytest.approx(1 / float(p[1] + p[2]))


def dirk_by_hand(student, teacher, masks):
    reliable = [rectify_by_hand(z, mask) for z, mask in zip(teacher, masks)]
    losses = [-dot(r, log_softmax_by_hand(z)) for r, z in zip(reliable, student)]
    return reliable, losses


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_dirk_steps_match_the_slow_twin(size):
    method = Dirk()
    task = SmallTask(size=size)
    state = method.setup(task)
    teacher = values(state.teacher.head.weight)
    for number in range(5):
        batch = task.batch(method, (np.arange(B) + 2 * number) % N)
        z, t = values(state.net(batch.views[0])), values(state.teacher(batch.views[0]))
        loss = method.loss(state, batch, step_at(step=number))
        expected = dirk_by_hand(z, t, batch.candidates.tolist())[1]
        assert np.allclose(loss.detach(), expected, rtol=1e-9, atol=1e-9)
        move(state, loss)
        method.after_step(state, batch, step_at(step=number, steps_per_epoch=20))
        teacher = 0.9 * teacher + 0.1 * values(state.net.head.weight)  # half of 20 steps
        assert np.allclose(state.teacher.head.weight, teacher, rtol=1e-12, atol=1e-12)


def weights_by_hand(r, pool, positive, temperature):
    scores = [dot(unit(r), unit(other)) / temperature for other in pool]
    chosen = [b for b in range(len(pool)) if positive[b]]
    share = dict(zip(chosen, softmax_by_hand([scores[b] for b in chosen])))
    return [share.get(b, 0.0) for b in range(len(pool))]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_dirk_ref_steps_match_the_slow_twin(noise, size):
    method = DirkRef(start=2, queue=7, size=6, weight=0.5, temperature=0.1)
    task = SmallTask(size=size)
    state = method.setup(task)
    queue = []
    for number in range(6):
        batch = task.batch(method, (3 * np.arange(B) + number) % N, noise)
        masks = batch.candidates.tolist()
        with torch.no_grad():
            z = values(state.net(batch.view("strong")))
            t = values(state.teacher(batch.view("strong")))
            q = values(both_heads(state.net, state.projection, batch.view("strong2"))[1])
            keys = values(both_heads(state.teacher, state.teacher_projection, batch.view("weak"))[1])
        step = step_at(epoch=number // 2, step=number)
        loss = method.loss(state, batch, step)

        reliable, supervised = dirk_by_hand(z, t, masks)
        labels = [argmax_within(r, mask) for r, mask in zip(reliable, masks)]
        pool = [*q, *keys, *[entry[0] for entry in queue]]
        pool_r = reliable + reliable + [entry[1] for entry in queue]
        pool_sets = masks + masks + [entry[2] for entry in queue]
        pool_labels = labels + labels + [entry[3] for entry in queue]
        for b in range(B):
            if number >= 2:
                allowed = [a != b for a in range(len(pool))]
                positive = [
                    # the published mask: a common candidate and the same label
                    allowed[a] and dot(masks[b], pool_sets[a]) > 0 and pool_labels[a] == labels[b]
                    for a in range(len(pool))
                ]
                omega = weights_by_hand(reliable[b], pool_r, positive, 0.4)
                contrastive = 0.1 / 0.07 * contrast_by_hand(q[b], pool, omega, allowed, 0.1)
            else:
                own = [a == B + b for a in range(len(pool))]
                allowed = [a == B + b or a >= 2 * B for a in range(len(pool))]
                contrastive = contrast_by_hand(q[b], pool, own, allowed, 0.1)
            assert np.isclose(loss[b].item(), supervised[b] + 0.5 * contrastive, rtol=1e-9, atol=1e-9)
        queue = (queue + list(zip(keys, reliable, masks, labels)))[-7:]
        move(state, loss, lr=0.1 / size)
        method.after_step(state, batch, step)
    assert sorted(values(state.queue["label"])) == sorted(entry[3] for entry in queue)


@settings(max_examples=50)
@given(st.integers(0, 999), st.sampled_from(DTYPES))
def test_confidence_weights_match_their_slow_twin(seed, dtype):
    rng = np.random.default_rng(seed)
    r, pool = rng.dirichlet(np.full(4, 0.3), size=3), rng.dirichlet(np.full(4, 0.3), size=6)
    positive = rng.random((3, 6)) < 0.5
    positive[:, 2] = True
    got = confidence_weights(
        torch.tensor(r, dtype=dtype), torch.tensor(pool, dtype=dtype), torch.tensor(positive), 0.4
    )
    for i in range(3):
        assert np.allclose(got[i], weights_by_hand(r[i], pool, positive[i], 0.4), atol=1e-5)


def test_dirk_is_dirk_ref_with_weight_0_and_has_no_extra_parts():
    x = {"recipe": {"epochs": 3}, "kind": "linear"}
    plain, ref = fit(Dirk(), **x), fit(DirkRef(weight=0.0), **x)
    assert [row["test"] for row in plain.history] == [row["test"] for row in ref.history]
    assert torch.equal(plain.state.net.head.weight, ref.state.net.head.weight)
    assert not hasattr(plain.state, "projection")
    assert make_method("dirk-ref").weight == 1.0


def test_gradients_are_finite_for_extreme_logits():
    task = SmallTask(size=1e4)
    for method in (Dirk(), DirkRef(start=0, size=4)):
        state = method.setup(task)
        method.loss(state, task.batch(method, range(B)), step_at(step=20)).mean().backward()
        assert all(torch.isfinite(p.grad).all() for p in state.parameters() if p.requires_grad)
        assert all(p.grad is None for p in state.teacher.parameters())
