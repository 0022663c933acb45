import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.parts.contrast import both_heads
from oneof.methods.pico import LONGEST_MEMORY, Pico, moved_target, same_label
from tests.methods.by_hand import DTYPES
from tests.methods.harness import MethodTester, fit
from tests.methods.steps import (
    B,
    C,
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
from tests.methods.test_baselines import log_softmax_by_hand


class TestPico(MethodTester):
    method = Pico()


class PicoByHand:
    """Targets, prototypes and queue as lists, one row after the other."""

    def __init__(self, method, task):
        self.method, self.queue = method, []
        self.room = min(method.queue, N)
        self.masks = task.candidates.dense().tolist()
        self.target = [[k / sum(mask) for k in mask] for mask in self.masks]
        self.prototypes = [[0.0] * method.size for _ in range(C)]

    def loss(self, index, z, q, keys, started, memory):
        method = self.method
        labels = [argmax_within(row, self.masks[i]) for row, i in zip(z, index)]
        if started:
            for row, i in zip(q, index):
                vote = argmax_within([dot(row, m) for m in self.prototypes], self.masks[i])
                self.target[i] = [
                    memory * t + (1 - memory) * (k == vote) for k, t in enumerate(self.target[i])
                ]
        losses = []
        for b, i in enumerate(index):
            supervised = -sum(t * v for t, v in zip(self.target[i], log_softmax_by_hand(z[b])))
            pool = [*q, *keys, *[key for key, _ in self.queue]]
            pool_labels = labels + labels + [label for _, label in self.queue]
            if started:
                allowed = [a != b for a in range(len(pool))]
                positives = [ok and label == labels[b] for ok, label in zip(allowed, pool_labels)]
            else:
                positives = [a == len(q) + b for a in range(len(pool))]
                allowed = [a == len(q) + b or a >= 2 * len(q) for a in range(len(pool))]
            weight = [p / sum(positives) for p in positives]
            contrastive = contrast_by_hand(q[b], pool, weight, allowed, method.temperature)
            losses.append(supervised + method.weight * contrastive)
        for row, label in zip(q, labels):
            g = method.prototype_momentum
            self.prototypes[label] = [g * m + (1 - g) * v for m, v in zip(self.prototypes[label], row)]
        self.prototypes = [unit(m) for m in self.prototypes]
        self.queue = (self.queue + list(zip(keys, labels)))[-self.room :]
        return losses


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_steps_match_the_slow_twin(noise, size):
    method = Pico(start=3, queue=7, size=6, prototype_momentum=0.7)
    task = SmallTask(size=size)
    state = method.setup(task)
    slow = PicoByHand(method, task)
    rng = np.random.default_rng(1)
    key_weights = values(state.key_projection.layers[0].weight)
    for number in range(7):
        index = rng.permutation(N)[:B]
        batch = task.batch(method, index, noise)
        step = step_at(epoch=number // 2, step=number, epochs=4, steps_per_epoch=4)
        with torch.no_grad():
            z, q = both_heads(state.net, state.projection, batch.view("weak"))
            keys = both_heads(state.key_net, state.key_projection, batch.view("strong"))[1]
        loss = method.loss(state, batch, step)
        memory = 0.95 - 0.15 * max(number // 2 - 1, 0) / 4
        expected = slow.loss(index, values(z), values(q), values(keys), number >= 3, memory)
        assert np.allclose(loss.detach(), expected, rtol=1e-9, atol=1e-9)
        assert np.allclose(state.rows["target"], slow.target, atol=1e-12)
        assert np.allclose(state.prototypes.vectors, slow.prototypes, atol=1e-12)
        move(state, loss, lr=0.1 / size)
        method.after_step(state, batch, step)
        # four steps per epoch: the memory of 1000 steps is cut to that of five epochs
        m = 1 - 1 / (LONGEST_MEMORY * 4)
        key_weights = m * key_weights + (1 - m) * values(state.projection.layers[0].weight)
        assert np.allclose(state.key_projection.layers[0].weight, key_weights, atol=1e-12)
    assert sorted(values(state.queue["label"])) == sorted(label for _, label in slow.queue)


@settings(max_examples=50)
@given(st.integers(0, 999), st.sampled_from(DTYPES), st.sampled_from([0.0, 0.3, 0.95, 1.0]))
def test_moved_target_matches_its_slow_twin(seed, dtype, memory):
    rng = np.random.default_rng(seed)
    target = torch.tensor(rng.dirichlet(np.ones(4), size=3), dtype=dtype)
    target[0] = torch.tensor([0, 1, 0, 0])
    label = rng.integers(4, size=3)
    label[0] = 1
    got = moved_target(target, torch.tensor(label), memory)
    assert got.dtype == dtype
    assert got[0].tolist() == [0, 1, 0, 0]  # exactly: what is certain stays certain
    for i in range(3):
        for k in range(4):
            assert np.isclose(got[i, k], memory * target[i, k] + (1 - memory) * (k == label[i]), atol=1e-6)


def test_positives_share_the_label_and_are_allowed():
    label, pool_label = torch.tensor([0, 1]), torch.tensor([0, 1, 0, 1, 0, 0])
    allowed = torch.tensor([[0, 1, 1, 1, 1, 0], [1, 0, 1, 1, 1, 0]]).bool()
    got = same_label(label, pool_label, allowed, like=torch.zeros((), dtype=torch.float64))
    assert got.tolist() == [[0, 0, 0.5, 0, 0.5, 0], [0, 0, 0, 1, 0, 0]]


def test_memory_of_the_targets_falls_one_epoch_late():
    got = [Pico().memory(step_at(epoch=e, epochs=10)) for e in (0, 1, 2, 9)]
    assert got == pytest.approx([0.95, 0.95, 0.935, 0.83])


def test_queue_is_no_longer_than_the_data_and_keys_are_not_trained():
    trained = fit(Pico(), recipe={"epochs": 2})
    assert trained.state.queue.size == 120
    assert not any(p.requires_grad for p in trained.state.key_net.parameters())


def test_gradients_are_finite_for_extreme_logits():
    task = SmallTask(size=1e4)
    method = Pico(start=0, size=4)
    state = method.setup(task)
    for number in range(2):
        state.zero_grad()
        method.loss(state, task.batch(method, range(B)), step_at(step=number)).mean().backward()
        assert all(torch.isfinite(p.grad).all() for p in state.parameters() if p.requires_grad)
