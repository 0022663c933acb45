import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from oneof.methods.base import Batch, State
from oneof.methods.cavl import Cavl
from oneof.methods.lws import Lws
from oneof.methods.rc import Rc
from oneof.nets import build_net
from oneof.nets.base import peek
from tests.methods.by_hand import (
    DTYPES,
    MASKS,
    TOLERANCE,
    RowByRow,
    assert_linear_fit_equals,
    sample_logits,
    softmax_within,
)
from tests.methods.harness import MethodTester, fit
from tests.methods.test_baselines import problems


class TestRc(MethodTester):
    method = Rc()


class RcRow(RowByRow):
    def update(self, i, before, after, mask):
        return softmax_within(after, mask)


def test_training_equals_the_hand_computation():
    assert_linear_fit_equals(Rc(), RcRow())


@settings(max_examples=50)
@given(problems(), st.sampled_from(DTYPES))
def test_weights_after_a_step_match_their_slow_twin(problem, dtype):
    z, mask = problem
    logits = torch.tensor(z, dtype=dtype)
    state = State(nn.Identity())
    state.rows.add("target", torch.full(z.shape, -1.0, dtype=dtype))
    rows = torch.arange(len(z)).flip(0)
    Rc().after_step(state, Batch(rows, (logits[rows],), torch.tensor(mask)[rows]), None)
    expected = [softmax_within(row, keep) for row, keep in zip(logits.double().numpy(), mask)]
    assert np.allclose(state.rows["target"], expected, **TOLERANCE[dtype])
    assert (state.rows["target"].numpy()[~mask] == 0).all()


def test_only_the_rows_of_the_batch_change():
    state = State(nn.Identity())
    state.rows.add("target", torch.full((9, 4), -1.0, dtype=torch.float64))
    rows = torch.tensor([7, 1, 4, 0, 3])
    Rc().after_step(state, Batch(rows, (sample_logits().detach(),), MASKS), None)
    assert (state.rows["target"][[2, 5, 6, 8]] == -1).all()
    assert torch.allclose(state.rows["target"][rows].sum(dim=1), torch.ones(5, dtype=torch.float64))


# ---- the forward pass after the step, which RC, LWS and CAVL share ------------------------------


def normalised_net():
    torch.manual_seed(3)
    net = build_net("mlp", 4, 4, hidden=(6,), batch_norm=True)
    net(torch.randn(16, 4) * 3 + 1)  # statistics that differ from those of the batch below
    return net


@pytest.mark.parametrize("method", [Rc(), Lws(), Cavl()], ids=lambda m: m.info.name)
def test_forward_after_the_step_uses_the_batch_and_records_nothing(method):
    net, x = normalised_net(), sample_logits().detach().float()
    state = State(net)
    state.rows.add("target", torch.zeros(5, 4))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    method.after_step(state, Batch(torch.arange(5), (x,), MASKS), None)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())

    # batch statistics by hand
    hidden = (x @ net.features[0].weight.T).detach().numpy().astype(np.float64)
    hidden = (hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + net.features[1].eps)
    logits = np.maximum(hidden, 0) @ net.head.weight.detach().numpy().T + net.head.bias.detach().numpy()
    other = State(nn.Identity())
    other.rows.add("target", torch.zeros(5, 4))
    method.after_step(other, Batch(torch.arange(5), (torch.tensor(logits).float(),), MASKS), None)
    assert torch.allclose(state.rows["target"], other.rows["target"], atol=1e-5)


@pytest.mark.parametrize("method", [Rc(), Lws(), Cavl()], ids=lambda m: m.info.name)
def test_statistics_move_once_per_step(method):
    trained = fit(method, recipe={"epochs": 3, "batch_size": 16})
    assert trained.state.net.features[1].num_batches_tracked == 3 * (120 // 16)


def test_peek_keeps_modes_and_builds_no_graph():
    net, x = normalised_net(), torch.randn(5, 4)
    assert not peek(net, x).requires_grad
    net.features[1].eval()
    expected = net(x)
    assert torch.equal(peek(net, x), expected)
    assert [m.training for m in net.modules()].count(False) == 1


def test_statistics_are_recorded_again_after_an_error():
    net = normalised_net()
    with pytest.raises(RuntimeError):
        peek(net, torch.randn(5, 3))
    count = net.features[1].num_batches_tracked.clone()
    net(torch.randn(5, 4))
    assert net.features[1].num_batches_tracked == count + 1
