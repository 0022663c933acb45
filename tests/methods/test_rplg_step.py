"""RPLG, whole steps: every number of a step, and of a training, is that of the slow twin."""

import copy

import numpy as np
import pytest
import torch

from oneof.candidates import Candidates
from oneof.methods.base import Batch, CleanBatch, StepInfo, Task
from oneof.methods.rplg import Rplg
from oneof.nets import Net, build_net
from oneof.training import CleanRows, Recipe, train
from tests.methods.harness import NoisyViews
from tests.methods.rplg_by_hand import RplgByHand, meta_scores, softmax_over

N, D, C = 10, 3, 4
CLOSE = {"rtol": 1e-9, "atol": 1e-9}

# rates so large that every part of the step shows in the numbers
OPTIONS = {
    "alpha": 0.4,
    "meta_lr": 0.05,
    "meta_decay": 0.01,
    "branch_lr": 0.5,
    "branch_momentum": 0.8,
    "branch_decay": 0.02,
}
# singletons of three labels, full sets, pairs, triples
SETS = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1],
                 [1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0], [0, 1, 1, 1]]) > 0  # fmt: skip


def by_hand(state, base_lr, options=None, twin=RplgByHand):
    """The twin of a state that has not made a step."""
    sets = np.asarray(state.rows["mu"]) > 0  # uniform at first
    head = state.net.head
    arrays = [a.detach().numpy() for a in (head.weight, head.bias, *state.meta.parameters())]
    return twin(sets, arrays[0], arrays[1], arrays[2:], base_lr, **(options or OPTIONS))


def random_net(kind, rng):
    """A linear net, or one with a hidden layer and batch normalisation, with weights that are not small."""
    features = torch.nn.Identity()
    if kind == "mlp":
        features = torch.nn.Sequential(torch.nn.Linear(D, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh())
    net = Net(features, torch.nn.Linear(6 if kind == "mlp" else D, C)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape)))
    return net


class Steps:
    """The library and its twin side by side, one step after the other on the same rows."""

    def __init__(self, kind="linear", seed=0, twin=RplgByHand, lr=0.8, method=Rplg, **options):
        rng = self.rng = np.random.default_rng(seed)
        self.base_lr = lr
        torch.manual_seed(seed)  # for the hidden layer of the meta-learner
        self.x = rng.standard_normal((N, D)) + SETS @ rng.standard_normal((C, D))
        self.clean_x = rng.standard_normal((7, D))
        self.clean_sets = np.eye(C, dtype=bool)[rng.integers(C, size=7)]
        self.method = method(**OPTIONS, **options)
        net = random_net(kind, rng)
        task = Task(net, torch.tensor(SETS), torch.tensor(self.x[:2]), torch.device("cpu"), torch.float64,
                    epochs=5, batch_size=N, steps_per_epoch=1, lr=lr, clean_counts=torch.ones(C))  # fmt: skip
        self.state = self.method.setup(task)
        self.state.train()
        with torch.no_grad():  # as if the meta-learner had learned already: at zero all weights are equal
            for parameter in self.state.meta.parameters():
                parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape)))
        self.twin = by_hand(self.state, lr, twin=twin)
        self.optimiser = torch.optim.SGD(net.parameters(), lr=lr)
        self.number = 0

    def step(self, rows=range(N), noise=(0.0,), clean=range(7), lr=None):
        """A step of both; each view has its own amount of noise. Returns the losses and gradients of both."""
        lr = self.base_lr if lr is None else lr
        index = np.array(rows)
        views = [self.x[index] + size * self.rng.standard_normal((len(index), D)) for size in noise]
        x_clean, sets_clean = (None, None) if clean is None else (self.clean_x[clean], self.clean_sets[clean])
        # the twin first, with features of a net that is thrown away: they move running statistics
        net = copy.deepcopy(self.state.net)
        features = [features_of(net, views[0])]
        z_clean = None if clean is None else features_of(net.eval(), x_clean)
        net.train()
        features += [features_of(net, view) for view in views[1:]]
        head = self.state.net.head
        self.twin.weight, self.twin.bias = (
            head.weight.detach().numpy().copy(),
            head.bias.detach().numpy().copy(),
        )
        expected = self.twin.step(index, features, z_clean, sets_clean, lr)

        given = None if clean is None else CleanBatch(torch.tensor(x_clean), torch.tensor(sets_clean))
        batch = Batch(
            torch.tensor(index), tuple(map(torch.tensor, views)), torch.tensor(SETS[index]), clean=given
        )
        info = StepInfo(self.number, self.number, 5, 1, lr, torch.Generator())
        self.optimiser.param_groups[0]["lr"] = lr
        self.optimiser.zero_grad()
        loss = self.method.loss(self.state, batch, info).mean()
        loss.backward()
        self.optimiser.step()
        self.number += 1
        return (loss.item(), head.weight.grad.numpy(), head.bias.grad.numpy()), expected

    def assert_same(self):
        assert_same_state(self.state, self.twin)


def features_of(net, x):
    with torch.no_grad():
        return net.features(torch.tensor(x)).numpy()


def assert_same_state(state, twin):
    """Tables, branches and their velocity, meta-learner and its moments, head."""
    for name in ("mu", "v", "q", "w", "visited"):
        np.testing.assert_allclose(state.rows[name], getattr(twin, name), **CLOSE, err_msg=name)
    for theirs, ours in (
        (state.branches.weight, twin.omega),
        (state.branches.bias, twin.omega_bias),
        (state.branches.weight_velocity, twin.speed),
        (state.branches.bias_velocity, twin.speed_bias),
    ):
        np.testing.assert_allclose(theirs, ours, **CLOSE)
    for theirs, ours in zip(state.meta.parameters(), twin.gamma, strict=True):
        np.testing.assert_allclose(theirs.detach(), ours, **CLOSE)
    np.testing.assert_allclose(state.net.head.weight.detach(), twin.weight, **CLOSE)
    np.testing.assert_allclose(state.net.head.bias.detach(), twin.bias, **CLOSE)


def assert_same_step(steps, **how):
    theirs, ours = steps.step(**how)
    for a, b in zip(theirs, ours):
        np.testing.assert_allclose(a, b, **CLOSE)
    steps.assert_same()


# ---- the twin itself --------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [0, 5])
def test_the_twins_meta_gradient_is_the_slope_of_its_look_ahead_loss(hidden):
    """Against a difference quotient: the clean loss after the virtual step, as the meta-learner moves."""
    steps = Steps(meta_hidden=hidden)
    steps.step()
    twin, z, lr = steps.twin, steps.x, 0.8
    u = [twin.opinions(i, z_i) for i, z_i in enumerate(z)]
    clean = (steps.clean_x, steps.clean_sets)

    def weights():
        return [softmax_over(meta_scores(twin.gamma, z_i), s) for z_i, s in zip(z, twin.sets)]

    def loss():
        return twin.look_ahead_loss(z, [w_i @ u_i for w_i, u_i in zip(weights(), u)], *clean, lr)

    v = [w_i @ u_i for w_i, u_i in zip(weights(), u)]
    slopes = twin.meta_gradient(z, weights(), u, twin.look_ahead_slope(z, v, *clean, lr))
    h = 1e-6
    for array, slope in zip(twin.gamma, slopes):
        for place in np.ndindex(array.shape):
            middle = array[place]
            array[place] = middle + h
            above = loss()
            array[place] = middle - h
            below = loss()
            array[place] = middle
            # the twin leaves out the learning rate as a factor
            np.testing.assert_allclose(lr * slope[place], (above - below) / (2 * h), atol=1e-8)


# ---- steps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize("noise", [(0.0,), (0.0, 0.3)], ids=["one view", "two views"])
def test_steps_in_a_row_are_those_of_the_twin(kind, hidden, noise):
    steps = Steps(kind, meta_hidden=hidden)
    for _ in range(4):
        assert_same_step(steps, noise=noise)


def test_the_target_is_made_of_the_first_view():
    steps = Steps()
    for _ in range(3):
        assert_same_step(steps, noise=(0.5, 0.0, 0.2))


def test_rows_that_come_for_the_first_time_and_others_in_one_step():
    steps = Steps()
    for rows in ([0, 3, 5, 7], [7, 1, 2, 8, 5], [9, 4, 6, 0], range(N)):
        assert_same_step(steps, rows=rows)
        steps.state.notes["all_visited"] = bool(steps.state.rows["visited"].all())
    assert_same_step(steps)


def test_the_meta_learner_slows_down_as_the_classifier_does_step_by_step():
    steps = Steps()
    for lr in (0.8, 0.4, 0.1, 0.0):
        assert_same_step(steps, lr=lr)


def test_clean_rows_may_be_one_few_or_repeated():
    steps = Steps()
    for clean in ([2], [0, 1, 1, 5], range(7), [6, 6]):
        assert_same_step(steps, clean=np.array(clean))


def test_clean_rows_may_have_sets_in_place_of_labels():
    steps = Steps()
    steps.clean_sets[:4, 1] = True
    steps.clean_sets[0] = True
    for _ in range(3):
        assert_same_step(steps)


def test_a_step_without_clean_rows_leaves_the_meta_learner_alone():
    steps = Steps()
    before = [a.copy() for a in steps.twin.gamma]
    for _ in range(2):
        assert_same_step(steps, clean=None)
    for a, b in zip(before, steps.state.meta.parameters()):
        np.testing.assert_array_equal(a, b.detach())
    assert_same_step(steps)


@pytest.mark.parametrize("form", ["exact", "difference", "head"])
def test_for_a_linear_classifier_every_meta_gradient_is_that_of_the_twin(form):
    steps = Steps(meta_gradient=form)
    for _ in range(4):
        steps.step()
    loose = 1e-4 if form == "difference" else 1e-9
    for theirs, ours in zip(steps.state.meta.parameters(), steps.twin.gamma):
        np.testing.assert_allclose(theirs.detach(), ours, rtol=0, atol=loose)


# ---- what a wrong reading of the paper would give ---------------------------------------------


class AgainstQ(RplgByHand):
    def look_ahead_target(self, index, v):
        return [self.alpha * self.mu[i] + (1 - self.alpha) * v_i for i, v_i in zip(index, v)]


class SingletonsTeach(RplgByHand):
    def skips(self, i, j):
        return False


def test_the_look_ahead_is_against_v_not_q():
    right, wrong = Steps(), Steps(twin=AgainstQ)
    for _ in range(4):
        right.step()
        wrong.step()
    right.assert_same()
    for a, b in zip(wrong.state.meta.parameters(), wrong.twin.gamma):
        assert np.abs(a.detach().numpy() - b).max() > 1e-3


def test_a_singleton_does_not_teach_its_own_branch():
    right, wrong = Steps(), Steps(twin=SingletonsTeach)
    for _ in range(2):
        right.step()
        wrong.step()
    right.assert_same()
    far = np.abs(wrong.state.branches.weight.numpy() - wrong.twin.omega).max(axis=(1, 2))
    assert (far[[0, 1, 3]] > 1e-2).all()
    assert far[2] < 1e-9  # no row has label 2 alone


def test_a_batch_of_one_label_leaves_its_branch_where_it_was():
    steps = Steps()
    steps.step(rows=[0, 0, 0])  # all {0}
    assert not steps.state.branches.weight[0].any()
    assert not steps.state.branches.bias[0].any()
    others = steps.state.branches.bias[1:].numpy()
    assert (others[:, 0] > 0.01).all()  # they all learn that it is label 0


def assert_singletons_are_labelled(steps):
    for _ in range(3):
        steps.step()
        for name in ("mu", "v", "q", "w"):
            np.testing.assert_allclose(steps.state.rows[name][:3], SETS[:3], atol=1e-12)


def test_a_singleton_is_a_labelled_row():
    assert_singletons_are_labelled(Steps())


# ---- a whole training -------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*have all 4 classes as candidates")
@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("clean_batch", [None, 3])
@pytest.mark.parametrize("views", [None, NoisyViews()], ids=["rows themselves", "two views"])
def test_a_training_is_that_of_the_twin(monkeypatch, hidden, clean_batch, views):
    """Mini-batches, drawn clean rows and a falling learning rate: the loop's choices, the twin's numbers."""
    rng = np.random.default_rng(3)
    x, clean_x = rng.standard_normal((N, D)), rng.standard_normal((7, D))
    clean = CleanRows(clean_x, np.eye(C, dtype=bool)[rng.integers(C, size=7)])
    truth = SETS.argmax(axis=1)
    twins, losses, drawn, targets = [], [], [], []
    of_the_library = Rplg.loss

    def both(self, state, batch, step):
        if not twins:
            twins.append(by_hand(state, 0.6))
        index, features = batch.index.numpy(), [view.numpy() for view in batch.views]
        losses.append(
            twins[0].step(index, features, batch.clean.x.numpy(), batch.clean.mask.numpy(), step.lr)[0]
        )
        drawn.append(len(batch.clean.x))
        targets.append(twins[0].q.copy())
        return of_the_library(self, state, batch, step)

    monkeypatch.setattr(Rplg, "loss", both)
    recipe = Recipe(
        epochs=3, batch_size=4, optimiser="sgd", momentum=0.0, lr=0.6, schedule="cosine", device="cpu"
    )
    trained = train(
        Rplg(**OPTIONS, meta_hidden=hidden, clean_batch=clean_batch),
        lambda: build_net("linear", D, C).double(),
        x,
        Candidates.from_mask(SETS, truth=truth),
        recipe=recipe,
        clean=clean,
        views=views,
    )
    assert_same_state(trained.state, twins[0])
    by_epoch = np.array(losses).reshape(3, 2).mean(axis=1)
    np.testing.assert_allclose([row["loss"] for row in trained.history], by_epoch, **CLOSE)
    assert set(drawn) == {clean_batch or 4}
    np.testing.assert_allclose(trained.pseudo_labels, twins[0].q, **CLOSE)

    # what the log says of the last epoch
    row, w, several = trained.history[-1], twins[0].w, SETS.sum(axis=1) > 1
    entropies = [-sum(p * np.log(p) for p in w_i if p > 0) for w_i in w[several]]
    assert row["w_entropy"] == pytest.approx(np.mean(entropies))
    assert row["w_on_truth"] == pytest.approx(np.mean([w_i[y] for w_i, y in zip(w[several], truth[several])]))
    assert row["q_change"] == pytest.approx(np.abs(targets[5] - targets[3]).sum(axis=1).mean())
