import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.methods.base import Batch, CandidateRows, StepInfo
from oneof.methods.pop import Pop, purify
from tests.methods.by_hand import DTYPES, TOLERANCE, RowByRow, assert_linear_fit_equals, softmax_within
from tests.methods.harness import MethodTester
from tests.methods.steps import SmallTask
from tests.methods.test_baselines import problems


class TestPop(MethodTester):
    method = Pop(warm_up=1, window=2, theta=0.05)


class PopRows(RowByRow):
    """As the paper's code keeps it: a record of the last W tables, theta, and the labels still alive."""

    def __init__(self, method, n, c, mask=None):
        self.method, self.theta = method, method.theta
        self.record = np.zeros((method.window, n, c))
        self.alive = None if mask is None else [list(m) for m in mask]
        self.removals = []

    def update(self, i, before, after, mask):
        if self.alive is None:
            self.alive = [None] * self.record.shape[1]
        if self.alive[i] is None:
            self.alive[i] = list(mask)
        return softmax_within(before, self.alive[i])

    def end_epoch(self, table, epoch):
        table = [list(row) for row in table]
        window, n, c = self.record.shape
        self.record[epoch % window] = table
        if epoch < self.method.warm_up or epoch % window:
            return table
        removed = 0
        for i in range(n):
            mean = [sum(self.record[s, i, k] for s in range(window)) / window for k in range(c)]
            mean = [v / sum(mean) for v in mean]
            for k in range(c):
                if self.alive[i][k] and mean[k] / max(mean) < self.theta:
                    self.alive[i][k] = False
                    removed += 1
            mass = sum(v for v, a in zip(mean, self.alive[i]) if a)
            table[i] = [v / mass if a else 0.0 for v, a in zip(mean, self.alive[i])]
        if self.theta < 0.4 and removed < 1e-4 * n * c:
            self.theta *= 1 + self.method.growth
        self.removals.append(removed)
        return table


@pytest.mark.parametrize(("warm_up", "window"), [(2, 2), (4, 3), (1, 1)])
def test_training_equals_the_hand_computation(warm_up, window):
    method = Pop(warm_up=warm_up, window=window, theta=0.2, growth=0.5)
    twin = PopRows(method, 120, 4)
    trained = assert_linear_fit_equals(method, twin, epochs=9)
    assert (trained.state.rows["alive"].numpy() == twin.alive).all()
    assert float(trained.state.theta) == pytest.approx(twin.theta)
    assert sum(twin.removals) > 0


def start(method, mask, dtype=torch.float64):
    task = SmallTask()
    task.net, task.candidates, task.dtype = (
        torch.nn.Identity(),
        CandidateRows.of_mask(torch.tensor(mask)),
        dtype,
    )
    return method.setup(task)


def visit(method, state, z, mask, epoch):
    """One epoch in which all rows have the logits z."""
    dtype = state.rows["target"].dtype
    batch = Batch(torch.arange(len(z)), (torch.tensor(z, dtype=dtype),), torch.tensor(mask))
    info = StepInfo(epoch, 0, 100, 1, 0.0, torch.Generator())
    loss = method.loss(state, batch, info)
    method.end_epoch(state, None, info)
    return loss


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES), st.sampled_from([0.0, 1e-3, 0.3, 0.9]))
def test_targets_and_removals_match_the_slow_twin(problem, dtype, theta):
    z, mask = problem
    method = Pop(warm_up=2, window=2, theta=theta, growth=0.1)
    state, twin = start(method, mask, dtype), PopRows(method, *z.shape, mask)
    rng = np.random.default_rng(0)
    state.rows["target"].copy_(torch.tensor([twin.start(m) for m in mask]))
    for epoch in range(7):
        logits = torch.tensor(z * rng.uniform(0.5, 1.5, z.shape), dtype=dtype).double().numpy()
        loss = visit(method, state, logits, mask, epoch)
        assert torch.isfinite(loss).all()
        table = twin.end_epoch([twin.update(i, logits[i], None, mask[i]) for i in range(len(z))], epoch)
        assert np.allclose(state.rows["target"], table, **TOLERANCE[dtype])
        assert (state.rows["alive"].numpy() == np.array(twin.alive)).all()
        assert (state.rows["target"].numpy()[~state.rows["alive"].numpy()] == 0).all()
    assert float(state.theta) == pytest.approx(twin.theta, rel=1e-5)


def test_a_removed_label_never_returns():
    method = Pop(warm_up=0, window=2, theta=0.1)
    mask = np.ones((1, 3), dtype=bool)
    state = start(method, mask)
    doubt = np.array([[5.0, 4.5, -5.0]])
    visit(method, state, doubt, mask, epoch=0)
    assert state.rows["alive"].tolist() == [[True, True, False]]
    believed = np.array([[0.0, 0.0, 9.0]])  # now the model is sure of the label that was removed
    for epoch in range(1, 8):
        visit(method, state, believed, mask, epoch)
        assert state.rows["target"][0, 2] == 0
        assert not state.rows["alive"][0, 2]


def test_removals_wait_for_the_warm_up_and_come_every_window():
    method = Pop(warm_up=5, window=3, theta=0.1)
    mask = np.ones((1, 2), dtype=bool)
    state = start(method, mask)
    alive = []
    for epoch in range(8):
        visit(method, state, np.array([[5.0, -5.0]]), mask, epoch)
        alive.append(int(state.rows["alive"].sum()))
    assert alive == [2, 2, 2, 2, 2, 2, 1, 1]  # epoch 6: the first multiple of 3 that is not below 5


def test_a_removal_sets_the_target_to_the_mean_of_the_window():
    method = Pop(warm_up=2, window=2, theta=1e-6)
    mask = np.ones((1, 2), dtype=bool)
    state = start(method, mask)
    for epoch, p in enumerate([0.9, 0.6, 0.8]):
        visit(method, state, np.log([[p, 1 - p]]), mask, epoch)
    assert state.rows["target"][0].tolist() == pytest.approx([0.7, 0.3])  # epochs 1 and 2


def test_theta_grows_only_when_removals_have_stalled_and_below_its_limit():
    method = Pop(warm_up=0, window=1, theta=0.3, growth=0.2)
    mask = np.ones((1, 2), dtype=bool)
    state = start(method, mask)
    thetas = []
    # 0.4 / 0.6 stays, so theta grows; 0.2 / 0.8 goes; then nothing is left to remove, up to the limit of 0.4
    for epoch, p in enumerate([0.6, 0.8, 0.8, 0.8]):
        visit(method, state, np.log([[p, 1 - p]]), mask, epoch)
        thetas.append(float(state.theta))
    assert thetas == pytest.approx([0.36, 0.36, 0.432, 0.432], rel=1e-12)  # in the precision of the net


def test_before_the_first_epoch_nothing_is_recorded():
    method = Pop(warm_up=0, window=1, theta=0.9)
    mask = np.array([[True, True, False]])
    state = start(method, mask)
    before = {name: value.clone() for name, value in state.state_dict().items()}
    method.end_epoch(state, None, StepInfo(-1, 0, 10, 1, 0.0, torch.Generator()))
    assert all(torch.equal(before[name], value) for name, value in state.state_dict().items())


def test_the_best_label_always_stays():
    recent = torch.tensor([[1e-45, 0.0], [0.0, 3.0], [2.0, 2.0]])
    alive = torch.tensor([[True, True], [False, True], [True, True]])
    assert purify(recent, alive, torch.tensor(1.0)).tolist() == [[True, False], [False, True], [True, True]]


def test_views_are_averaged_and_the_first_gives_the_target():
    method = Pop()
    mask = np.array([[True, True, False]])
    state = start(method, mask)
    views = tuple(torch.tensor([z], dtype=torch.float64) for z in ([2.0, 0, 0], [0, 1.0, 0], [0, 0, 3.0]))
    loss = method.loss(state, Batch(torch.tensor([0]), views, torch.tensor(mask), Pop.views), None)
    expected = np.mean([-0.5 * (v.log_softmax(-1)[0, 0] + v.log_softmax(-1)[0, 1]) for v in views])
    assert float(loss) == pytest.approx(expected)
    assert state.rows["target"][0].tolist() == pytest.approx(softmax_within([2.0, 0, 0], mask[0]))


def test_state_per_row_does_not_depend_on_the_window():
    mask = np.ones((6, 4), dtype=bool)
    state = start(Pop(window=7), mask)
    assert {name: tuple(state.rows[name].shape) for name in state.rows.row_dims} == dict.fromkeys(
        ("target", "alive", "recent"), (6, 4)
    )
