import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.methods.base import hyper, register
from oneof.methods.baselines import Average, CleanOnly, Oracle
from oneof.methods.losses import cross_entropy, set_loss
from oneof.methods.proden import Proden
from oneof.methods.targets import candidate_softmax, grouped_softmax, restrict, uniform
from tests.methods.harness import MethodTester, blobs, fit, random_candidates


class TestProden(MethodTester):
    method = Proden()


class TestAverage(MethodTester):
    method = Average()
    learns = 0.8


class TestCleanOnly(MethodTester):
    method = CleanOnly()

    def test_refuses_to_learn_from_nothing(self):
        with pytest.raises(ValueError, match="clean-only learns from clean rows, and there are none"):
            fit(self.method, clean=None)

    def test_candidate_sets_play_no_part(self):
        one, other = (fit(self.method, candidates=random_candidates(blobs()[1], rate)) for rate in (0.1, 0.6))
        for a, b in zip(one.state.net.head.parameters(), other.state.net.head.parameters()):
            assert torch.equal(a, b)


class TestOracle(MethodTester):
    method = Oracle()

    def test_pseudo_labels_are_distributions_on_the_candidates(self):
        trained = fit(self.method)
        assert (trained.pseudo_labels.argmax(axis=1) == blobs()[1]).all()

    def test_refuses_unknown_truth(self):
        with pytest.raises(ValueError, match="true label of every training row"):
            fit(self.method, candidates=Candidates.from_mask(np.eye(4, dtype=bool)[np.arange(120) % 4]))


# ---- slow twins: one row, one label at a time -------------------------------------------------


def softmax_by_hand(z):
    top = max(z)
    e = [np.exp(v - top) for v in z]
    return [v / sum(e) for v in e]


def log_softmax_by_hand(z):
    top = max(z)
    log_sum = top + np.log(sum(np.exp(v - top) for v in z))
    return [v - log_sum for v in z]


@st.composite
def problems(draw):
    n, c = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    size = draw(st.sampled_from([1.0, 10.0, 1e4]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.random((n, c)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    mask[np.arange(n), rng.integers(c, size=n)] = True
    return rng.standard_normal((n, c)) * size, mask


@settings(max_examples=80)
@given(problems(), st.sampled_from([torch.float32, torch.float64]))
def test_losses_and_targets_match_their_slow_twins(problem, dtype):
    z, mask = problem
    logits = torch.tensor(z, dtype=dtype)
    z = logits.double().numpy()
    masks = torch.tensor(mask)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}

    flat = uniform(masks).numpy()
    soft = candidate_softmax(logits, masks).numpy()
    entropy = cross_entropy(logits, uniform(masks, like=logits)).numpy()
    sets = set_loss(logits, masks).numpy()
    kept = restrict(logits.softmax(-1), masks).numpy()
    for i in range(len(z)):
        inside = [k for k in range(z.shape[1]) if mask[i, k]]
        logs = log_softmax_by_hand(z[i])
        within = dict(zip(inside, softmax_by_hand([z[i, k] for k in inside])))
        for k in range(z.shape[1]):
            assert flat[i, k] == pytest.approx(1 / len(inside) if k in inside else 0)
            assert np.allclose(soft[i, k], within.get(k, 0), **tolerance)
        assert np.allclose(entropy[i], -sum(logs[k] for k in inside) / len(inside), **tolerance)
        top = max(logs[k] for k in inside)
        log_mass = top + np.log(sum(np.exp(logs[k] - top) for k in inside))
        assert np.allclose(sets[i], -log_mass, **tolerance)
        mass = sum(softmax_by_hand(z[i])[k] for k in inside)
        if mass > 1e-30:
            assert np.allclose(kept[i, inside[0]], softmax_by_hand(z[i])[inside[0]] / mass, atol=1e-4)
        assert np.isclose(kept[i].sum(), 1, atol=1e-4)
    assert np.isfinite(entropy).all()
    assert np.isfinite(sets).all()


@pytest.mark.parametrize("c", [3, 15, 16, 40])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e38])
def test_softmax_of_groups_is_that_of_a_loop_for_few_and_many_labels(c, size):
    rng = np.random.default_rng(c)
    allowed = rng.random((4, 3, c)) < 0.4
    allowed[0, 0], allowed[1, 1], allowed[..., 0, 1] = False, True, False  # nothing left, all left
    logits = torch.tensor(rng.uniform(-1, 1, size=(4, 3, c)) * size)
    found = grouped_softmax(logits, torch.tensor(allowed)).numpy()
    for z, group, p in zip(logits.numpy().reshape(-1, c), allowed.reshape(-1, c), found.reshape(-1, c)):
        inside = np.flatnonzero(group)
        assert not p[~group].any()
        if len(inside):
            np.testing.assert_allclose(p[inside], softmax_by_hand([z[k] for k in inside]), atol=1e-12)


def test_gradients_of_the_losses():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    mask = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 1]]).bool()
    assert torch.autograd.gradcheck(lambda z: cross_entropy(z, uniform(mask, like=z)), logits)
    assert torch.autograd.gradcheck(lambda z: set_loss(z, mask), logits)


def test_proden_step_by_step_against_a_linear_model_by_hand():
    """Whole batches, plain SGD: the table of one visit is the target of the next."""
    x, y = blobs()
    candidates = random_candidates(y)
    recipe = {"epochs": 4, "lr": 0.5, "optimiser": "sgd", "momentum": 0.0, "schedule": "constant"}
    start = fit(Proden(), kind="linear", dtype=torch.float64, recipe={**recipe, "lr": 0.0, "batch_size": 120})
    trained = fit(
        Proden(),
        kind="linear",
        dtype=torch.float64,
        candidates=candidates,
        recipe={**recipe, "batch_size": 120},
    )
    weight = start.state.net.head.weight.detach().numpy().copy()
    bias = start.state.net.head.bias.detach().numpy().copy()
    target = candidates.mask / candidates.mask.sum(axis=1, keepdims=True)
    x = x.astype(np.float64)
    for _ in range(4):
        z = x @ weight.T + bias
        p = np.array([softmax_by_hand(row) for row in z])
        gradient = (p - target) / len(x)
        kept = p * candidates.mask
        target = kept / kept.sum(axis=1, keepdims=True)
        weight -= 0.5 * gradient.T @ x
        bias -= 0.5 * gradient.sum(axis=0)
    assert np.allclose(trained.state.net.head.weight.detach(), weight, atol=1e-10)
    assert np.allclose(trained.pseudo_labels, target, atol=1e-10)


def test_a_subclass_needs_a_name_of_its_own():
    class Sharp(Proden):
        pass

    with pytest.raises(TypeError, match="Sharp has no name of its own; put @register"):
        make_method(Sharp())


def test_a_method_is_a_dataclass():
    with pytest.raises(TypeError, match=r"Plain: put @dataclass\(frozen=True\) below @register\('plain'"):

        @register("plain", year=2026, venue="here", forwards=1, backwards=1)
        class Plain(Proden):
            pass


def test_a_logarithmic_range_begins_above_zero():
    with pytest.raises(ValueError, match="'rate': a range on a logarithmic scale needs low above 0"):
        hyper(0.0, low=0.0, high=1.0, log=True, text="rate")


def test_unknown_method_and_hyper_parameter_are_named():
    with pytest.raises(ValueError, match=r"no method 'prodem'; there are .*proden"):
        make_method("prodem")
    with pytest.raises(ValueError, match="proden has no hyper-parameter 'alpha'"):
        make_method("proden", {"alpha": 1})
