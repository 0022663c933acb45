"""RPLG+: whole steps and trainings against the slow twin, its parts against loops, and a planted problem."""

import copy

import numpy as np
import pytest
import torch

from oneof.candidates import Candidates
from oneof.methods.base import Batch, CleanBatch, StepInfo, Task
from oneof.methods.rplg import RplgNmPrior, RplgPlus
from oneof.nets import Net, build_net
from oneof.training import CleanRows, Recipe, train
from tests.methods.harness import MethodTester, NoisyViews, fit
from tests.methods.rplg_plus_by_hand import RplgPlusByHand
from tests.methods.test_rplg import planted
from tests.methods.test_rplg_step import (
    CLOSE,
    OPTIONS,
    SETS,
    C,
    D,
    N,
    assert_same_state,
    assert_singletons_are_labelled,
    features_of,
    random_net,
)


class TestRplgPlus(MethodTester):
    method = RplgPlus()


class TestRplgPlusHidden(MethodTester):
    method = RplgPlus(meta_hidden=8, clean_batch=8, alpha=0.3)


class WithoutClean(RplgPlus):
    """As if no clean rows were given."""

    def clean_rows(self, batch_size):
        return 0

    def setup(self, task):
        task.clean_counts = None
        return super().setup(task)


class TestRplgPlusWithoutCleanRows(MethodTester):
    method = WithoutClean()


# ---- steps ------------------------------------------------------------------------------------


def by_hand(state, base_lr, clean_labels=None):
    """The twin of a state that has not made a step."""
    counts = None if clean_labels is None else np.bincount(clean_labels, minlength=C)
    sets = np.asarray(state.rows["mu"]) > 0  # uniform at first
    head, meta = state.net.head, getattr(state, "meta", None)
    gamma = None if meta is None else [a.detach().numpy() for a in meta.parameters()]
    return RplgPlusByHand(
        sets, head.weight.detach().numpy(), head.bias.detach().numpy(), gamma, base_lr, counts, **OPTIONS
    )


def assert_same(state, twin):
    if not hasattr(state, "meta"):
        state = copy.copy(state)
        state.__dict__["meta"] = torch.nn.Module()  # no arrays, as the twin has none
    assert_same_state(state, twin)


class Steps:
    """The library and its twin side by side, one step after the other on the same rows."""

    def __init__(self, kind="linear", seed=0, lr=0.8, has_clean=True, **options):
        rng = self.rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.base_lr, self.number = lr, 0
        self.x = rng.standard_normal((N, D)) + SETS @ rng.standard_normal((C, D))
        self.clean_x, self.labels = rng.standard_normal((7, D)), rng.integers(C, size=7)
        self.method = RplgPlus(**OPTIONS, **options)
        net = random_net(kind, rng)
        counts = torch.tensor(np.bincount(self.labels, minlength=C)) if has_clean else None
        task = Task(net, torch.tensor(SETS), torch.tensor(self.x[:2]), torch.device("cpu"), torch.float64,
                    epochs=5, batch_size=N, steps_per_epoch=1, lr=lr, clean_counts=counts)  # fmt: skip
        self.state = self.method.setup(task)
        self.state.train()
        if has_clean:
            with torch.no_grad():  # as if it had learned already
                for parameter in self.state.meta.parameters():
                    parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape)))
        self.twin = by_hand(self.state, lr, self.labels if has_clean else None)
        self.optimiser = torch.optim.SGD(net.parameters(), lr=lr)

    def step(self, rows=range(N), noise=(0.0,), clean=range(7), lr=None):
        lr = self.base_lr if lr is None else lr
        index, state = np.array(rows), self.state
        views = [self.x[index] + size * self.rng.standard_normal((len(index), D)) for size in noise]
        # the twin first, with features of a net that is thrown away: they move running statistics
        net = copy.deepcopy(state.net)
        features = [features_of(net, views[0])]
        z_clean = labels = draws = given = None
        if clean is not None:
            x_clean, labels, draws = self.clean_x[clean], self.labels[clean], self.rng.random(len(clean))
            z_clean = features_of(net.eval(), x_clean)
            mask = torch.tensor(np.eye(C, dtype=bool)[labels])
            given = CleanBatch(torch.tensor(x_clean), mask, torch.tensor(draws))
        net.train()
        features += [features_of(net, view) for view in views[1:]]
        head = state.net.head
        self.twin.weight = head.weight.detach().numpy().copy()
        self.twin.bias = head.bias.detach().numpy().copy()
        expected = self.twin.step(index, features, z_clean, labels, draws, lr)

        batch = Batch(
            torch.tensor(index), tuple(map(torch.tensor, views)), torch.tensor(SETS[index]), clean=given
        )
        self.optimiser.param_groups[0]["lr"] = lr
        self.optimiser.zero_grad()
        info = StepInfo(self.number, self.number, 5, 1, lr, torch.Generator())
        loss = self.method.loss(state, batch, info).mean()
        loss.backward()
        self.optimiser.step()
        self.number += 1
        found = (loss.item(), head.weight.grad.numpy(), head.bias.grad.numpy())
        for a, b in zip(found, expected):
            np.testing.assert_allclose(a, b, **CLOSE)
        for name, value in net.named_buffers():  # running statistics: those of the training passes alone
            torch.testing.assert_close(dict(state.net.named_buffers())[name], value, msg=name)
        assert_same(state, self.twin)


@pytest.mark.parametrize("hidden", [0, 5])
def test_the_twins_gradient_is_the_slope_of_its_loss(hidden):
    twin = Steps(meta_hidden=hidden).twin
    rng = np.random.default_rng(4)
    clean, labels = rng.standard_normal((6, D)), rng.integers(C, size=6)
    sets = [twin.borrowed(y, d) for y, d in zip(labels, rng.random(6))]
    h = 1e-6
    for array, slope in zip(twin.gamma, twin.gradient_of_g(clean, labels, sets)):
        for place in np.ndindex(array.shape):
            middle = array[place]
            array[place] = middle + h
            above = twin.loss_of_g(clean, labels, sets)
            array[place] = middle - h
            below = twin.loss_of_g(clean, labels, sets)
            array[place] = middle
            np.testing.assert_allclose(slope[place], (above - below) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("noise", [(0.0,), (0.0, 0.3), (0.5, 0.0, 0.2)], ids=["one view", "two", "three"])
def test_steps_in_a_row_are_those_of_the_twin(kind, hidden, noise):
    steps = Steps(kind, meta_hidden=hidden)
    for _ in range(4):
        steps.step(noise=noise)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_without_clean_rows_g_is_zero(kind):
    steps = Steps(kind, has_clean=False)
    assert not hasattr(steps.state, "meta")
    for rows in ([0, 3, 5, 7], range(N), range(N)):
        steps.step(rows=rows, clean=None, noise=(0.0, 0.2))


def test_rows_that_come_for_the_first_time_and_others_in_one_step():
    steps = Steps()
    for rows in ([0, 3, 5, 7], [7, 1, 2, 8, 5], [9, 4, 6, 0], range(N)):
        steps.step(rows=rows)
        steps.state.notes["all_visited"] = bool(steps.state.rows["visited"].all())
    steps.step()


def test_g_slows_down_as_the_classifier_does():
    steps = Steps()
    for lr in (0.8, 0.4, 0.1, 0.0):
        steps.step(lr=lr)


def test_clean_rows_may_be_one_few_or_repeated():
    steps = Steps()
    for clean in ([2], [0, 1, 1, 5], range(7), [6, 6]):
        steps.step(clean=np.array(clean))


def test_a_singleton_is_a_labelled_row():
    assert_singletons_are_labelled(Steps())


@pytest.mark.filterwarnings("ignore:.*have all 4 classes as candidates")
@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("clean_batch", [64, 3])
@pytest.mark.parametrize("views", [None, NoisyViews()], ids=["rows themselves", "two views"])
def test_a_training_is_that_of_the_twin(monkeypatch, hidden, clean_batch, views):
    """Mini-batches, drawn clean rows and a falling learning rate: the loop's choices, the twin's numbers."""
    rng = np.random.default_rng(3)
    x, clean_x = rng.standard_normal((N, D)), rng.standard_normal((7, D))
    clean = CleanRows(clean_x, np.eye(C, dtype=bool)[rng.integers(C, size=7)])
    twins, losses, drawn = [], [], []
    of_the_library = RplgPlus.loss

    def both(self, state, batch, step):
        if not twins:
            twins.append(by_hand(state, 0.6, clean.labels))
        labels = batch.clean.mask.numpy().argmax(axis=1)
        views = [view.numpy() for view in batch.views]
        draws = batch.clean.draw.numpy()
        drawn.append(draws)
        losses.append(
            twins[0].step(batch.index.numpy(), views, batch.clean.x.numpy(), labels, draws, step.lr)[0]
        )
        return of_the_library(self, state, batch, step)

    monkeypatch.setattr(RplgPlus, "loss", both)
    trained = train(
        RplgPlus(**OPTIONS, meta_hidden=hidden, clean_batch=clean_batch),
        lambda: build_net("linear", D, C).double(),
        x,
        Candidates.from_mask(SETS),
        recipe=Recipe(
            epochs=3, batch_size=4, optimiser="sgd", momentum=0.0, lr=0.6, schedule="cosine", device="cpu"
        ),
        clean=clean,
        views=views,
    )
    assert_same(trained.state, twins[0])
    by_epoch = np.array(losses).reshape(3, 2).mean(axis=1)
    np.testing.assert_allclose([row["loss"] for row in trained.history], by_epoch, **CLOSE)
    assert {len(d) for d in drawn} == {min(clean_batch, 7)}
    assert len(np.unique(np.concatenate(drawn))) == sum(map(len, drawn))  # new numbers in every step


# ---- against other methods, and where g must learn --------------------------------------------


def test_without_clean_rows_it_is_rplg_nm_with_the_prior():
    plus, prior = (fit(m, clean=None, dtype=torch.float64) for m in (RplgPlus(), RplgNmPrior()))
    assert [row["loss"] for row in plus.history] == [row["loss"] for row in prior.history]
    np.testing.assert_array_equal(plus.pseudo_labels, prior.pseudo_labels)


def corrected(rows, x, y, mask):
    """The meta-learner of a training with some of the rows as clean rows."""
    trained = train(
        RplgPlus(),
        lambda: build_net("mlp", x.shape[1], mask.shape[1], hidden=(32,)),
        x,
        Candidates.from_mask(mask),
        recipe=Recipe(epochs=10, batch_size=64, optimiser="adam", lr=1e-2, device="cpu"),
        clean=CleanRows(x[rows], np.eye(mask.shape[1], dtype=bool)[y[rows]]),
    )
    return trained.state.meta.weight.detach()


def test_labels_that_no_clean_row_has_are_not_corrected():
    """Else g would conclude that they are never right."""
    x, y, mask = planted(600, 0)
    weight = corrected(np.flatnonzero(y < 2)[:8], x, y, mask)
    assert (weight[:2] != 0).any()
    assert (weight[2:] == 0).all()


def test_a_few_clean_rows_move_g_less_than_many():
    x, y, mask = planted(600, 0)
    few, many = (corrected(np.arange(n), x, y, mask).norm() for n in (6, 300))
    assert few < many / 2


def test_with_clean_rows_branches_also_learn_from_the_last_target():
    frozen = fit(RplgPlus(meta_lr=0.0), dtype=torch.float64)  # g stays 0
    without = fit(RplgPlus(), clean=None, dtype=torch.float64)
    assert frozen.history[0]["loss"] != without.history[0]["loss"] or (
        frozen.history[-1]["loss"] != without.history[-1]["loss"]
    )


def test_g_learns_which_branch_is_misled():
    x, y, mask = planted(600, 0)
    x_clean, y_clean, _ = planted(90, 1)
    x_test, y_test, _ = planted(600, 2)
    clean = CleanRows(x_clean, np.eye(3, dtype=bool)[y_clean])
    recipe = Recipe(epochs=30, batch_size=50, optimiser="sgd", lr=0.1, schedule="constant", device="cpu")
    accuracy = {}
    for name, rows in {"with": clean, "without": None}.items():
        trained = train(
            RplgPlus(alpha=0.3, meta_lr=1e-2), lambda: Net(torch.nn.Identity(), torch.nn.Linear(3, 3)), x,
            Candidates.from_mask(mask, truth=y), recipe=recipe, clean=rows, test=(x_test, y_test),
        )  # fmt: skip
        accuracy[name] = trained.history[-1]["test"]
        if rows is not None:
            weights = trained.state.rows["w"][torch.tensor(y == 0)].mean(0)
            assert weights[1] > 0.9  # the branch without the decoy is the one to trust
            g = trained.state.meta(torch.tensor(x_clean)).detach()
            assert (g.argmin(dim=1).numpy()[y_clean == 0] == 0).mean() > 0.9
    assert accuracy["with"] > 0.95
    assert accuracy["with"] > accuracy["without"] + 0.1
