"""Fits in threads give what they give one after the other, and leave no trace in the caller's generators."""

import random
import threading

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed
from torch import nn

from oneof import PartialLabelClassifier
from oneof.methods import list_methods, make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train
from oneof.training.loop import fastest_convolutions
from oneof.training.ongoing import Given, OngoingTraining
from oneof.training.randomness import LENDING, DefaultGenerators, may_draw
from tests.methods.harness import C, D, assert_same_fit, blobs, random_candidates, tiny_net

AT_ONCE = 4


def generators():
    """The states of all generators that a caller may use."""
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002


def net(kind):
    options = {"hidden": (16,), "batch_norm": kind != "dropout", "dropout": 0.3 if kind == "dropout" else 0.0}
    return build_net("mlp", D, C, **options)


def fit(method, kind, seed):
    x, y = blobs()
    recipe = Recipe(epochs=3, batch_size=16, seed=seed, device="cpu")
    return train(make_method(method), lambda: net(kind), x, random_candidates(y), recipe=recipe)


CASES = [(m, k, s) for s in range(4) for m in ("proden", "valen") for k in ("plain", "dropout")]


def test_threads_give_what_a_loop_gives():
    """With and without dropout beside one another, and a method that draws in its loss."""
    alone = [fit(*case) for case in CASES]
    before = generators()
    for _ in range(2):
        together = Parallel(AT_ONCE, backend="threading")(delayed(fit)(*case) for case in CASES)
        for a, b in zip(alone, together):
            assert_same_fit(a, b)
    assert generators() == before


def test_the_estimator_in_threads():
    x, y = blobs()
    sets = random_candidates(y)

    def probabilities(seed):
        return (
            PartialLabelClassifier("proden", epochs=3, random_state=seed, device="cpu")
            .fit(x, sets)
            .predict_proba(x)
        )

    alone = [probabilities(seed) for seed in range(8)]
    before = generators()
    together = Parallel(AT_ONCE, backend="threading")(delayed(probabilities)(seed) for seed in range(8))
    assert generators() == before
    np.testing.assert_array_equal(alone, together)


def test_a_training_has_the_generators_for_its_initial_weights_only():
    """Otherwise fits would wait for one another from beginning to end."""
    free = []

    class Views:
        """In the midst of a step: whether another thread could draw."""

        def train(self, x, roles, generator):
            def ask():
                free.append(LENDING.acquire(blocking=False))
                if free[-1]:
                    LENDING.release()

            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            return (x,)

        def plain(self, x):
            return x

    Views.__module__ = "oneof.views.test"  # of ours: it is known what it does
    x, y = blobs()
    for dropout in (False, True):
        free.clear()
        recipe = Recipe(epochs=1, device="cpu")
        kind = "dropout" if dropout else "plain"
        train(
            make_method("proden"),
            lambda kind=kind: net(kind),
            x,
            random_candidates(y),
            recipe=recipe,
            views=Views(),
        )
        assert set(free) == {not dropout}


@pytest.mark.parametrize("name", [info.name for info in list_methods()])
def test_methods_say_whether_they_draw_from_the_default_generators(name):
    x, y = blobs()
    recipe = Recipe(epochs=3, batch_size=16, device="cpu")
    given = Given(x, random_candidates(y), CleanRows(x[:20], np.eye(C, dtype=bool)[y[:20]]))
    training = OngoingTraining(make_method(name), tiny_net, given, recipe, torch.device("cpu"))
    with torch.random.fork_rng(devices=[]):
        training.before_first_epoch()
        before = torch.get_rng_state()
        for _ in range(3):
            for _ in training.steps():
                pass
            training.close_epoch()
        drawn = not torch.equal(before, torch.get_rng_state())
    assert drawn == training.method.uses_default_generator


class Own(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("part", "draws"),
    [
        (nn.Linear(2, 2), False),
        (nn.Sequential(nn.BatchNorm1d(2), nn.ReLU()), False),
        (nn.Dropout(0.0), False),
        (nn.Dropout(0.1), True),
        (nn.AlphaDropout(0.1), True),
        (nn.LSTM(2, 2, dropout=0.5, num_layers=2), True),
        (nn.TransformerEncoderLayer(4, 2), True),
        (nn.RReLU(), True),
        (Own(), True),  # nobody knows
    ],
)
def test_what_may_draw(part, draws):
    assert may_draw(make_method("proden"), nn.ModuleList([part])) == draws


def test_the_choice_of_convolutions_comes_back_in_whatever_order_trainings_end():
    device, before = torch.device("cuda"), torch.backends.cudnn.benchmark
    one, other = fastest_convolutions(device), fastest_convolutions(device)
    one.__enter__()
    other.__enter__()
    assert torch.backends.cudnn.benchmark
    one.__exit__(None, None, None)
    assert torch.backends.cudnn.benchmark
    other.__exit__(None, None, None)
    assert torch.backends.cudnn.benchmark == before


def test_a_stream_goes_on_where_it_stood():
    stream, other = DefaultGenerators(5, torch.device("cpu")), DefaultGenerators(6, torch.device("cpu"))
    before, drawn = torch.get_rng_state(), []
    for _ in range(2):
        with stream.lent():
            drawn.append(torch.rand(3))
            with other.lent():
                torch.rand(1)
            with stream.lent():
                drawn.append(torch.rand(3))
    assert torch.equal(before, torch.get_rng_state())
    expected = torch.rand(12, generator=torch.Generator().manual_seed(5))
    assert torch.equal(torch.cat(drawn), expected)
