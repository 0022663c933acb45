import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.able import Able, ambiguity_weights
from oneof.methods.parts.contrast import both_heads
from tests.methods.by_hand import DTYPES, softmax_within
from tests.methods.harness import MethodTester
from tests.methods.steps import B, N, SmallTask, argmax_within, contrast_by_hand, move, step_at, values
from tests.methods.test_baselines import log_softmax_by_hand


class TestAble(MethodTester):
    method = Able()


def weights_by_hand(target, masks, labels):
    """W_ik: for every candidate c of i, its confidence shared among the rows k with the label c."""
    n = len(labels)
    weights = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for c in range(len(masks[i])):
            group = [k for k in range(n) if labels[k] == c]
            if masks[i][c] and group:
                for k in group:
                    weights[i][k] += target[i][c] / len(group)
    return weights


@settings(max_examples=50)
@given(st.integers(1, 7), st.integers(1, 5), st.sampled_from(DTYPES), st.integers(0, 999))
def test_weights_match_their_slow_twin(n, c, dtype, seed):
    rng = np.random.default_rng(seed)
    masks = rng.random((n, c)) < rng.choice([0.0, 0.5, 1.0])
    labels = rng.integers(c, size=n)
    masks[np.arange(n), labels] = True
    target = rng.random((n, c)) * masks
    target /= target.sum(axis=1, keepdims=True)
    got = ambiguity_weights(torch.tensor(target, dtype=dtype), torch.tensor(labels))
    assert np.allclose(got, weights_by_hand(target, masks, labels), atol=1e-6)
    # what of its confidence the batch covers, once
    covered = [sum(target[i, k] for k in set(labels)) for i in range(n)]
    assert np.allclose(got.sum(dim=1), covered, atol=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_steps_match_the_slow_twin_with_rows_looked_up_by_number(noise, size):
    method = Able(size=6, weight=2.0, temperature=0.2)
    task = SmallTask(size=size)
    state = method.setup(task)
    masks = task.candidates.dense().tolist()
    table = [[k / sum(mask) for k in mask] for mask in masks]
    rng = np.random.default_rng(2)
    for number in range(6):
        index = rng.permutation(N)[:B]
        batch = task.batch(method, index, noise)
        with torch.no_grad():
            outputs = [both_heads(state.net, state.projection, view) for view in batch.views]
        z = values(outputs[0][0])
        pool = np.concatenate([values(outputs[0][1]), values(outputs[-1][1])])
        loss = method.loss(state, batch, step_at(step=number))

        chosen_masks, chosen = [masks[i] for i in index], [table[i] for i in index]
        labels = [argmax_within(row, mask) for row, mask in zip(z, chosen_masks)]
        weights = weights_by_hand(chosen, chosen_masks, labels)
        for b in range(B):
            supervised = -sum(t * v for t, v in zip(chosen[b], log_softmax_by_hand(z[b])))
            anchors = []
            for a in (b, B + b):
                tiled = [weights[b][k % B] for k in range(2 * B)]
                others = [k != a for k in range(2 * B)]
                anchors.append(contrast_by_hand(pool[a], pool, tiled, others, 0.2))
            expected = supervised + 2.0 * 0.2 / 0.07 * sum(anchors) / 2
            assert np.isclose(loss[b].item(), expected, rtol=1e-9, atol=1e-9)
        for b, i in enumerate(index):
            table[i] = softmax_within(z[b], masks[i])
        assert np.allclose(state.rows["target"], table, atol=1e-12)
        move(state, loss, lr=0.1 / size)


def test_the_place_in_the_batch_does_not_matter():
    """The same rows in another order: the same loss for each, though other rows' weights differ."""
    method = Able(size=4)
    task = SmallTask()
    losses = []
    for index in ([7, 3, 9, 1], [1, 9, 3, 7]):
        torch.manual_seed(0)
        state = method.setup(task)
        rows = torch.rand(N, 4, dtype=torch.float64) * task.candidates.dense()
        state.rows["target"].copy_(rows / rows.sum(dim=1, keepdim=True))
        loss = method.loss(state, task.batch(method, index), step_at())
        losses.append(dict(zip(index, loss.tolist())))
    for i, value in losses[0].items():
        assert value == pytest.approx(losses[1][i], rel=1e-12)


def test_gradients_are_finite_for_extreme_logits():
    task = SmallTask(size=1e4)
    method = Able(size=4)
    state = method.setup(task)
    for number in range(2):
        state.zero_grad()
        method.loss(state, task.batch(method, range(B)), step_at(step=number)).mean().backward()
        assert all(torch.isfinite(p.grad).all() for p in state.parameters())
