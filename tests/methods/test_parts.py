import collections
import copy

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from oneof.methods.parts.contrast import (
    Pool,
    Projection,
    Prototypes,
    Queue,
    both_heads,
    contrast,
    feature_size,
)
from oneof.methods.parts.neighbours import adjacency, nearest
from oneof.methods.parts.schedules import at_most_a_quarter, fade_in, warm_up_steps
from oneof.methods.parts.second_net import follow, follower, independent_copy, within_epochs
from oneof.methods.targets import best_candidate
from oneof.nets import build_net
from tests.methods.by_hand import DTYPES, TOLERANCE
from tests.methods.steps import SmallTask, argmax_within, contrast_by_hand, step_at, unit
from tests.methods.test_baselines import problems


def random(*shape, seed=0, dtype=torch.float64):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


# ---- queue --------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(1, 9), st.lists(st.integers(0, 20), max_size=6))
def test_queue_holds_the_last_entries_and_overwrites_the_oldest(size, counts):
    queue = Queue(size, vector=torch.zeros(2), label=torch.zeros((), dtype=torch.long))
    last, position, slots = collections.deque(maxlen=size), 0, [None] * size
    number = 0
    for count in counts:
        labels = torch.arange(number, number + count)
        queue.push(vector=torch.stack([labels, -labels], dim=1).float(), label=labels)
        for label in labels.tolist():
            last.append(label)
            slots[position % size] = label
            position += 1
        number += count
    assert queue.filled.tolist() == [s is not None for s in slots]
    assert sorted(queue["label"][queue.filled].tolist()) == sorted(last)
    for i, label in enumerate(slots):
        expected = [0, 0] if label is None else [label, -label]
        assert queue["vector"][i].tolist() == expected
    assert int(queue.position) == position % size


def test_queue_keeps_no_graph_and_is_saved_with_the_state():
    queue = Queue(4, vector=torch.zeros(2))
    queue.push(vector=torch.ones(3, 2, requires_grad=True) * 2)
    assert not queue["vector"].requires_grad
    other = Queue(4, vector=torch.zeros(2))
    other.load_state_dict(queue.state_dict())
    other.push(vector=torch.full((2, 2), 3.0))
    assert other["vector"][:, 0].tolist() == [3, 2, 2, 3]


# ---- momentum -----------------------------------------------------------------------------------


def test_the_follower_is_the_moving_average_of_all_steps():
    module = build_net("mlp", 3, 2, hidden=(4,)).double()
    average = follower(module)
    assert not any(p.requires_grad for p in average.parameters())
    assert all(p.requires_grad for p in module.parameters())
    by_hand = [p.detach().numpy().copy() for p in module.parameters()]
    for seed in range(5):
        with torch.no_grad():
            for p in module.parameters():
                p += random(*p.shape, seed=seed)
        follow(average, module, 0.9)
        by_hand = [0.9 * old + 0.1 * p.detach().numpy() for old, p in zip(by_hand, module.parameters())]
        for got, expected in zip(average.parameters(), by_hand):
            assert np.allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_the_follower_has_statistics_of_its_own():
    module = build_net("mlp", 3, 2, hidden=(4,))
    average = follower(module)
    before = copy.deepcopy(dict(module.named_buffers()))
    average(torch.randn(8, 3) + 5)
    for name, value in module.named_buffers():
        assert torch.equal(value, before[name])
    assert average.features[1].running_mean.abs().max() > 0
    theirs = copy.deepcopy(dict(average.named_buffers()))
    follow(average, module, 0.5)
    for name, value in average.named_buffers():
        assert torch.equal(value, theirs[name])


def test_memory_is_limited_to_epochs():
    assert within_epochs(0.99, 0.5, step_at(steps_per_epoch=1000)) == 0.99
    assert within_epochs(0.99, 0.5, step_at(steps_per_epoch=20)) == pytest.approx(0.9)
    assert within_epochs(0.99, 0.5, step_at(steps_per_epoch=1)) == 0


# ---- second net ---------------------------------------------------------------------------------


def test_independent_copy_starts_elsewhere_and_leaves_the_original_alone():
    net = build_net("mlp", 3, 2, hidden=(4,))
    net(torch.randn(8, 3))
    before = copy.deepcopy(net.state_dict())
    other = independent_copy(net)
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])
        assert other.state_dict()[name].shape == value.shape
    assert not torch.equal(other.head.weight, net.head.weight)
    assert not torch.equal(other.features[0].weight, net.features[0].weight)
    assert other.features[1].running_mean.abs().max() == 0


def test_frozen_features_stay_in_an_independent_copy():
    """Nothing would ever train them again."""
    net = build_net("mlp", 3, 2, hidden=(4,))
    net(torch.randn(8, 3))
    net.features.requires_grad_(False)
    other = independent_copy(net)
    for name, value in net.features.state_dict().items():
        assert torch.equal(value, other.features.state_dict()[name])
    assert not torch.equal(other.head.weight, net.head.weight)


# ---- projection ---------------------------------------------------------------------------------


def test_projection_gives_unit_vectors_from_the_features():
    task = SmallTask(features=nn.Sequential(nn.Linear(3, 6, dtype=torch.float64), nn.BatchNorm1d(6).double()))
    task.net.head = nn.Linear(6, 4, dtype=torch.float64)
    mean = task.net.features[1].running_mean.clone()
    assert feature_size(task) == 6
    assert torch.equal(task.net.features[1].running_mean, mean)
    assert task.net.features[1].training
    projection = Projection(task, 5)
    logits, embedding = both_heads(task.net.eval(), projection, task.x)
    assert torch.equal(logits, task.net(task.x))
    h = task.net.features(task.x).detach().numpy()
    first, last = projection.layers[0], projection.layers[2]
    for i in range(len(h)):
        hidden = [
            max(0.0, sum(w * v for w, v in zip(row, h[i])) + b)
            for row, b in zip(first.weight.tolist(), first.bias.tolist())
        ]
        out = [
            sum(w * v for w, v in zip(row, hidden)) + b
            for row, b in zip(last.weight.tolist(), last.bias.tolist())
        ]
        assert np.allclose(embedding[i].detach(), unit(out), atol=1e-12)


# ---- prototypes ---------------------------------------------------------------------------------


@settings(max_examples=50)
@example([0, 1, 1, 1, 0, 0, 0, 1], 0.99, torch.float64, 0)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.5, 0.99]),
    st.sampled_from(DTYPES),
    st.integers(0, 99),
)
def test_prototypes_equal_the_sequence_of_updates(labels, momentum, dtype, seed):
    prototypes = Prototypes(5, 3, like=torch.zeros((), dtype=dtype))
    by_hand = np.zeros((5, 3))
    for batch in range(3):
        q = torch.nn.functional.normalize(random(len(labels), 3, seed=seed + batch, dtype=dtype), dim=1)
        prototypes.update(q, torch.tensor(labels), momentum)
        for v, label in zip(q.double().numpy(), labels):
            by_hand[label] = momentum * by_hand[label] + (1 - momentum) * v
        by_hand = np.array([unit(v) for v in by_hand])
        assert np.allclose(prototypes.vectors, by_hand, **TOLERANCE[dtype])
    assert prototypes.vectors[4].tolist() == [0, 0, 0]
    assert np.allclose(prototypes.scores(q), q.double().numpy() @ by_hand.T, **TOLERANCE[dtype])


def test_prototypes_keep_no_graph():
    prototypes = Prototypes(2, 3, like=torch.zeros((), dtype=torch.float64))
    prototypes.update(random(4, 3).requires_grad_(), torch.tensor([0, 1, 1, 0]), 0.9)
    assert not prototypes.vectors.requires_grad


# ---- contrastive losses -------------------------------------------------------------------------


@settings(max_examples=50)
@given(
    st.integers(1, 4),
    st.integers(1, 7),
    st.sampled_from([0.07, 1.0]),
    st.sampled_from([1.0, 1e4]),
    st.sampled_from(DTYPES),
    st.integers(0, 999),
)
def test_contrast_matches_its_slow_twin(n, size, temperature, scale, dtype, seed):
    rng = np.random.default_rng(seed)
    anchors, pool = random(n, 3, seed=seed, dtype=dtype), random(size, 3, seed=seed + 1, dtype=dtype) * scale
    allowed = rng.random((n, size)) < 0.6
    allowed[np.arange(n), rng.integers(size, size=n)] = True
    weight = rng.random((n, size)) * (rng.random((n, size)) < 0.5)
    got = contrast(anchors, pool, torch.tensor(weight, dtype=dtype), torch.tensor(allowed), temperature)
    for i in range(n):
        expected = contrast_by_hand(
            anchors[i].double().numpy(), pool.double().numpy(), weight[i], allowed[i], temperature
        )
        assert np.allclose(
            got[i], expected, rtol=TOLERANCE[dtype]["rtol"], atol=TOLERANCE[dtype]["atol"] * scale
        )
    assert torch.isfinite(got).all()


def test_gradient_of_contrast():
    allowed = torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1], [0, 0, 0, 1]]).bool()
    weight = random(3, 4, seed=3).abs()
    anchors, pool = random(3, 2, seed=1).requires_grad_(), random(4, 2, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: contrast(a, b, weight, allowed, 0.5), (anchors, pool))


@pytest.mark.parametrize("full", [0, 3, 6])
def test_pool_and_the_instance_loss(full):
    embeddings, keys, queued = (torch.nn.functional.normalize(random(n, 3, seed=n), dim=1) for n in (4, 4, 6))
    keys = keys.flip(0)
    filled = torch.arange(6) < full
    pool = Pool.of(embeddings, keys, queued, filled)
    assert torch.equal(pool.vectors, torch.cat([embeddings, keys, queued]))
    facts = pool.facts(torch.arange(4), torch.arange(10, 16))
    assert facts.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 10, 11, 12, 13, 14, 15]
    for i in range(4):
        for b in range(14):
            slot_is_filled = b < 8 or b - 8 < full
            assert pool.others[i, b] == (b != i and slot_is_filled)
            assert pool.own_key[i, b] == (b == 4 + i)
            assert pool.own_key_and_queue[i, b] == (b == 4 + i or (b >= 8 and slot_is_filled))
    loss = pool.instance_loss(embeddings, 0.2)
    for i in range(4):
        # the definition: own key against the queue
        scores = [float(embeddings[i] @ v) / 0.2 for v in [keys[i], *queued[:full]]]
        assert np.isclose(loss[i], -scores[0] + np.log(np.sum(np.exp(scores))))


def test_the_queue_may_change_before_the_backward_pass():
    queue = Queue(3, vector=torch.zeros(2, dtype=torch.float64))
    queue.push(vector=random(3, 2))
    z = random(2, 2, seed=5).requires_grad_()
    expected, *_ = torch.autograd.grad(
        Pool.of(z, random(2, 2), queue["vector"], queue.filled).instance_loss(z, 0.1).sum(), z
    )
    loss = Pool.of(z, random(2, 2), queue["vector"], queue.filled).instance_loss(z, 0.1).sum()
    queue.push(vector=random(3, 2, seed=9))
    loss.backward()
    assert torch.equal(z.grad, expected)


# ---- neighbours ---------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.integers(2, 15), st.integers(1, 4), st.integers(1, 60), st.sampled_from(DTYPES), st.integers(0, 99))
def test_neighbours_equal_brute_force_whatever_the_block(n, k, entries, dtype, seed):
    x = random(n, 3, seed=seed, dtype=dtype) + 10
    k = min(k, n - 1)
    ids = nearest(x, k, entries_at_once=entries)
    assert ids.shape == (n, k)
    for i in range(n):
        distances = {j: float(((x[i] - x[j]).double() ** 2).sum()) for j in range(n) if j != i}
        order = sorted(distances, key=distances.get)[:k]
        assert i not in ids[i].tolist()
        got = [distances[j] for j in ids[i].tolist()]
        assert np.allclose(got, [distances[j] for j in order], rtol=1e-3, atol=1e-5)
        if dtype == torch.float64:
            assert ids[i].tolist() == order


def test_neighbours_of_equal_rows_and_of_images():
    ids = nearest(torch.zeros(5, 2), 2)
    assert all(i not in row for i, row in enumerate(ids.tolist()))
    images = random(6, 2, 2, 2)
    assert torch.equal(nearest(images, 3), nearest(images.flatten(1), 3))


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 4))
def test_adjacency_is_the_block_of_the_whole_graph(seed, k):
    rng = np.random.default_rng(seed)
    n = 9
    ids = np.array([rng.choice([j for j in range(n) if j != i], size=k, replace=False) for i in range(n)])
    whole = np.eye(n)
    for i in range(n):
        for j in ids[i]:
            whole[i, j] = 1
    whole /= whole.sum(axis=1, keepdims=True)
    index = rng.permutation(n)[:5]
    got = adjacency(torch.tensor(index), torch.tensor(ids[index]))
    assert np.allclose(got, whole[np.ix_(index, index)])


# ---- schedules and targets ----------------------------------------------------------------------


def test_schedules():
    assert [at_most_a_quarter(10, whole) for whole in (3, 20, 40, 500)] == [0, 5, 10, 10]
    assert warm_up_steps(178, step_at(epochs=10, steps_per_epoch=4)) == 10
    assert warm_up_steps(178, step_at(epochs=100, steps_per_epoch=200)) == 178
    assert [fade_in(step_at(epoch=e, epochs=10), 0.4) for e in (0, 1, 2, 4, 9)] == [0, 0.25, 0.5, 1, 1]
    assert [fade_in(step_at(epoch=e), 0.0) for e in (0, 1)] == [1, 1]


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_best_candidate_matches_its_slow_twin(problem, dtype):
    z, mask = problem
    z = torch.tensor(z, dtype=dtype)
    got = best_candidate(z, torch.tensor(mask))
    for i in range(len(z)):
        assert int(got[i]) == argmax_within(z[i].tolist(), mask[i])
