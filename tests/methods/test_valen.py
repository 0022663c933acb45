import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln
from torch import nn
from torch.distributions import Dirichlet

from oneof.methods.targets import candidate_softmax
from oneof.methods.valen import (
    Valen,
    dirichlet_divergence,
    graph_reconstruction,
    set_reconstruction,
)
from oneof.nets import Net
from oneof.training import Recipe, Run, train
from tests.methods.by_hand import DTYPES, MASKS, TOLERANCE, sample_logits, softmax_within
from tests.methods.harness import (
    KillAfter,
    Killed,
    MethodTester,
    NoisyViews,
    assert_same_fit,
    blobs,
    fit,
    random_candidates,
)
from tests.methods.steps import B, N, SmallTask, dot, move, step_at, values
from tests.methods.test_baselines import log_softmax_by_hand, problems, softmax_by_hand
from tests.methods.test_idgp import log_sigmoid, sigmoid

# differences of large terms
KL_TOLERANCE = {**TOLERANCE, torch.float32: {"rtol": 1e-3, "atol": 1e-3}}


class TestValen(MethodTester):
    method = Valen()


def divergence_by_hand(z):
    alpha = [min(max(np.exp(min(v / 4, 100)), 0.01), 30) for v in z]
    total = sum(alpha)
    spread = sum((a - 1) * (digamma(a) - digamma(total)) for a in alpha)
    return gammaln(total) - sum(gammaln(a) for a in alpha) - gammaln(len(z)) + spread


def set_by_hand(d, mask):
    return -np.mean([log_sigmoid(v) if k else log_sigmoid(-v) for v, k in zip(d, mask)])


def graph_by_hand(samples, i, graph_row):
    similarity = softmax_by_hand([sigmoid(dot(samples[i], other)) for other in samples])
    return np.mean([(s - a) ** 2 for s, a in zip(similarity, graph_row)])


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_losses_match_their_slow_twins(problem, dtype):
    z, mask = problem
    logits, masks = torch.tensor(z, dtype=dtype), torch.tensor(mask)
    d = candidate_softmax(logits, masks)
    graph = torch.tensor(np.random.default_rng(0).random((len(z), len(z))), dtype=dtype)
    kl, sets, links = (
        dirichlet_divergence(logits),
        set_reconstruction(d, masks),
        graph_reconstruction(d, graph),
    )
    samples = values(d).astype(float)
    for i in range(len(z)):
        expected = divergence_by_hand(logits[i].double().numpy())
        assert np.isclose(kl[i], expected, **KL_TOLERANCE[dtype])
        assert np.isclose(sets[i], set_by_hand(samples[i], mask[i]), **TOLERANCE[dtype])
        assert np.isclose(links[i], graph_by_hand(samples, i, values(graph[i])), **TOLERANCE[dtype])
    assert (kl >= -1e-3).all()


def test_divergence_equals_that_of_the_distributions():
    z = sample_logits(4.0).detach()
    alpha = (z / 4).exp()
    expected = torch.distributions.kl_divergence(Dirichlet(alpha), Dirichlet(torch.ones_like(alpha)))
    assert torch.allclose(dirichlet_divergence(z), expected)


def test_gradients_of_the_losses():
    graph = sample_logits().detach() @ sample_logits().detach().T
    assert torch.autograd.gradcheck(dirichlet_divergence, sample_logits(4.0))
    assert torch.autograd.gradcheck(lambda d: set_reconstruction(d, MASKS), sample_logits())
    assert torch.autograd.gradcheck(lambda d: graph_reconstruction(d, graph), sample_logits())


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sample_and_its_gradient_are_finite_for_extreme_logits(dtype):
    torch.manual_seed(0)
    for scale in (1.0, 1e4):
        for _ in range(50):
            z = sample_logits(scale).detach().to(dtype).requires_grad_()
            d = Dirichlet(candidate_softmax(z, MASKS) + 0.01, validate_args=False).rsample()
            (graph_reconstruction(d, torch.eye(5, dtype=dtype)) + dirichlet_divergence(z)).sum().backward()
            assert torch.isfinite(d).all()
            assert torch.isfinite(z.grad).all()


def decoded(state, d):
    first, last = state.decoder[0], state.decoder[2]
    hidden = [max(0.0, dot(w, d) + b) for w, b in zip(values(first.weight), values(first.bias))]
    return [dot(w, hidden) + b for w, b in zip(values(last.weight), values(last.bias))]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_training_matches_the_slow_twin(noise, size):
    """Two epochs of warm-up, then encoder and classifier together."""
    method = Valen(warm_up=2, gamma=3.0, beta=0.5, correct=0.4, reconstruct=0.7, neighbours=2)
    task = SmallTask(size=size)
    state = method.setup(task)
    masks, x = task.candidates.dense().tolist(), values(task.x)
    belief = [[k / sum(mask) for k in mask] for mask in masks]
    target = [list(row) for row in belief]
    rng = np.random.default_rng(0)
    for epoch in range(5):
        for number in range(3):
            index = rng.permutation(N)[:B]
            batch = task.batch(method, index, noise)
            views = len(batch.views)
            z = [values(state.net(view)) for view in batch.views]
            a = [values(state.encoder(view)) for view in batch.views]
            torch.manual_seed(number)
            loss = method.loss(state, batch, step_at(epoch=epoch, epochs=8))
            torch.manual_seed(number)
            s = np.array([softmax_within(row, masks[i]) for row, i in zip(a[0], index)])
            d = values(Dirichlet(torch.tensor(s) + 0.01).sample())
            graph = graph_by_brute_force(x, 2)[np.ix_(index, index)]
            for b, i in enumerate(index):
                if epoch < 2:
                    expected = np.mean([-dot(belief[i], log_softmax_by_hand(view[b])) for view in z])
                else:
                    plain = (
                        0.7
                        * np.mean(
                            [(r - v) ** 2 for r, v in zip(decoded(state, d[b]), batch.views[0][b].tolist())]
                        )
                        + 0.01 * set_by_hand(d[b], masks[i])
                        + graph_by_hand(d, b, graph[b])
                        + 0.5 * divergence_by_hand(a[0][b])
                    )
                    own = sum(-dot(target[i], log_softmax_by_hand(view[b])) for view in z)
                    encoder = sum(-dot(belief[i], log_softmax_by_hand(view[b])) for view in a)
                    expected = (own + 3.0 * encoder + plain) / views
                assert np.isclose(loss[b].item(), expected, rtol=1e-7, atol=1e-7)
            for b, i in enumerate(index):
                fresh = softmax_within(z[0][b], masks[i])
                inside = [v if k else 0.0 for v, k in zip(d[b], masks[i])]
                if epoch < 2:
                    target[i] = fresh
                elif sum(inside) > 1e-300:
                    target[i] = [0.4 * v / sum(inside) + 0.6 * o for v, o in zip(inside, belief[i])]
                else:
                    target[i] = [0.4 * k / sum(masks[i]) + 0.6 * o for k, o in zip(masks[i], belief[i])]
                belief[i] = fresh
            assert np.allclose(state.rows["belief"], belief, atol=1e-9)
            assert np.allclose(state.rows["target"], target, atol=1e-9)
            move(state, loss, lr=0.01 / size)
        restart = method.end_epoch(state, task, step_at(epoch=epoch, epochs=8))
        assert (restart is not None) == (epoch == 1)
    assert np.array_equal(state.rows["neighbours"], neighbours_by_brute_force(x, 2))


def neighbours_by_brute_force(x, k):
    ids = []
    for i in range(len(x)):
        distance = {j: np.sum((x[i] - x[j]) ** 2) for j in range(len(x)) if j != i}
        ids.append(sorted(distance, key=distance.get)[:k])
    return np.array(ids)


def graph_by_brute_force(x, k):
    graph = np.eye(len(x))
    for i, ids in enumerate(neighbours_by_brute_force(x, k)):
        graph[i, ids] = 1
    return graph / graph.sum(axis=1, keepdims=True)


def test_the_optimiser_is_new_after_warm_up_and_moves_encoder_and_decoder():
    method = Valen(warm_up=2)
    state = method.setup(SmallTask())
    assert len(method.param_groups(state)[0]["params"]) == 2
    state.joined.fill_(True)
    assert len(method.param_groups(state)[0]["params"]) == 8
    warm, whole = (fit(Valen(warm_up=w), recipe={"epochs": 4}) for w in (1, 0))
    start = fit(Valen(warm_up=1), recipe={"epochs": 4, "lr": 0.0}).state
    for trained in (warm, whole):
        assert bool(trained.state.joined)
        assert not torch.equal(trained.state.encoder.head.weight, start.encoder.head.weight)
        assert not torch.equal(trained.state.decoder[0].weight, start.decoder[0].weight)


@pytest.mark.parametrize("epochs", [3, 5, 7])
def test_resumes_before_at_and_after_the_restart(tmp_path, epochs):
    options = {"recipe": {"epochs": 20, "checkpoint_every": 2}, "kind": "linear"}
    method = Valen(warm_up=4)
    with pytest.raises(Killed):
        fit(method, run=Run(tmp_path), progress=KillAfter(epochs), **options)
    assert_same_fit(fit(method, **options), fit(method, run=Run(tmp_path), **options))


def test_neighbours_of_a_table_are_those_of_its_rows():
    x, _ = blobs()
    trained = fit(Valen(neighbours=3), recipe={"epochs": 4})
    assert np.array_equal(trained.state.rows["neighbours"], neighbours_by_brute_force(x.astype(float), 3))


class ImageNet(Net):
    def __init__(self):
        super().__init__(
            nn.Sequential(nn.Flatten(), nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 4)
        )


def test_images_use_three_views_features_and_an_encoder_that_starts_from_the_warm_classifier():
    class Watching(Valen):
        def end_epoch(self, state, task, step):
            restart = super().end_epoch(state, task, step)
            if restart is not None:
                seen["ids"] = state.rows["neighbours"].clone()
                seen["features"] = task.each_row(state.net.features)
                seen["same"] = torch.equal(state.encoder.head.weight, state.net.head.weight)
            return restart

    seen = {}
    x, y = blobs()
    trained = train(
        Watching(warm_up=2),
        ImageNet,
        x.reshape(-1, 1, 1, 5),
        random_candidates(y),
        recipe=Recipe(epochs=15, batch_size=16, device="cpu"),
        views=NoisyViews(),
        test=(x.reshape(-1, 1, 1, 5), y),
    )
    assert seen["same"]
    assert np.array_equal(seen["ids"], neighbours_by_brute_force(seen["features"].double().numpy(), 3))
    assert trained.history[-1]["test"] > 0.8


def test_few_rows_have_fewer_neighbours():
    method = Valen(neighbours=40)
    assert method.setup(SmallTask()).rows["neighbours"].shape == (N, N - 1)
