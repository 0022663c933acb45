"""One harness for all methods: subclass `MethodTester` and name the method."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from oneof.candidates import Candidates, NoInformationWarning
from oneof.methods.base import Method
from oneof.nets import Net, build_net
from oneof.training import CleanRows, Recipe, Run, Trained, train

N, D, C = 120, 5, 4


def blobs(n: int = N, seed: int = 0, spread: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Four classes around four corners: easy, but not trivial."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % C
    centres = np.eye(C, D) * 3
    return (centres[y] + spread * rng.standard_normal((n, D))).astype(np.float32), y


def random_candidates(y: np.ndarray, rate: float = 0.3, seed: int = 1, special: bool = True) -> Candidates:
    """Random flips; with `special` the first rows are singletons and full sets."""
    mask = np.random.default_rng(seed).random((len(y), C)) < rate
    mask[np.arange(len(y)), y] = True
    if special:
        mask[:6] = False
        mask[np.arange(6), y[:6]] = True
        mask[6:9] = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoInformationWarning)
        return Candidates.from_mask(mask, truth=y)


class NoisyViews:
    """Stand-in for augmentation: every role but `plain` adds noise, so that views really differ."""

    def train(self, x, roles, generator):
        noise = [
            torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
            * 0.1
            * (role != "plain")
            for role in roles
        ]
        return tuple(x + n for n in noise)

    def plain(self, x):
        return x


def tiny_net(kind: str = "mlp") -> Net:
    options = {"hidden": (16, 16), "batch_norm": True} if kind == "mlp" else {}
    return build_net(kind, D, C, **options)


def fit(method: Method, *, kind: str = "mlp", dtype: torch.dtype = torch.float32, **more) -> Trained:
    """A short training on the blobs; keyword arguments reach `train`, `recipe` fields as `recipe=dict`."""
    x, y = blobs()
    recipe = Recipe(**{"epochs": 4, "batch_size": 16, "device": "cpu", **more.pop("recipe", {})})
    x_clean, y_clean = blobs(40, seed=5)
    x_test, y_test = blobs(80, seed=9)
    arguments = {
        "clean": CleanRows(x_clean, np.eye(C, dtype=bool)[y_clean]),
        "test": (x_test, y_test),
        **more,
    }
    candidates = arguments.pop("candidates", None) or random_candidates(y)
    x = arguments.pop("x", x)
    return train(method, lambda: tiny_net(kind).to(dtype), x, candidates, recipe=recipe, **arguments)


def assert_same_fit(a: Trained, b: Trained) -> None:
    """Bit-identical metrics, weights and row tables."""
    assert a.history == b.history
    for (name, left), (_, right) in zip(
        a.state.state_dict().items(), b.state.state_dict().items(), strict=True
    ):
        assert torch.equal(left, right), name


class Killed(Exception):
    pass


class KillAfter:
    """A progress that dies after some epochs, without a chance to tidy up."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def start(self, title, epochs, done):
        self.count = 0

    def epoch(self, row):
        self.count += 1
        if self.count == self.epochs:
            raise Killed

    def finish(self):
        pass


class MethodTester:
    """What every method must do. `learns` says what test accuracy the easy problem must reach."""

    method: Method
    learns: float = 0.9
    epochs: int = 15

    @pytest.mark.parametrize("kind", ["mlp", "linear"])
    def test_learns_an_easy_problem(self, kind):
        trained = fit(
            self.method,
            kind=kind,
            candidates=random_candidates(blobs()[1], rate=0.25),
            recipe={"epochs": self.epochs, "lr": 3e-2 if kind == "linear" else 1e-2},
        )
        assert trained.history[-1]["test"] >= self.learns

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_pseudo_labels_are_distributions_on_the_candidates(self, dtype):
        candidates = random_candidates(blobs()[1])
        trained = fit(self.method, candidates=candidates, dtype=dtype)
        q = trained.pseudo_labels
        assert q.shape == candidates.mask.shape
        assert (q >= 0).all()
        assert np.allclose(q.sum(axis=1), 1, atol=1e-5)
        assert (q[~candidates.mask] == 0).all()
        assert (q[candidates.singletons].max(axis=1) == 1).all()

    def test_works_with_different_views(self):
        trained = fit(self.method, views=NoisyViews(), recipe={"epochs": self.epochs})
        assert trained.history[-1]["test"] >= self.learns - 0.1

    def test_survives_extreme_inputs(self):
        x, _ = blobs()
        x = x * np.where(np.arange(len(x)) % 7 == 0, 1e4, 1.0)[:, None].astype(np.float32)
        trained = fit(self.method, x=x, recipe={"lr": 1e-3})
        assert np.isfinite(trained.history[-1]["loss"])
        assert np.isfinite(trained.pseudo_labels).all()

    def test_same_seed_same_fit_and_no_trace_in_the_global_state(self):
        before = torch.get_rng_state()
        first = fit(self.method)
        assert torch.equal(before, torch.get_rng_state())
        torch.rand(3)
        assert_same_fit(first, fit(self.method))

    @pytest.mark.parametrize("views", [None, NoisyViews()])
    def test_resumes_bit_identically(self, tmp_path, views):
        recipe = {"epochs": 7, "checkpoint_every": 2}
        whole = fit(self.method, recipe=recipe, views=views)
        with pytest.raises(Killed):
            fit(self.method, recipe=recipe, views=views, run=Run(tmp_path), progress=KillAfter(5))
        resumed = fit(self.method, recipe=recipe, views=views, run=Run(tmp_path))
        assert_same_fit(whole, resumed)

    def test_the_clean_term_is_available(self):
        trained = fit(self.method, recipe={"clean_weight": 1.0, "epochs": self.epochs})
        assert trained.history[-1]["test"] >= self.learns
