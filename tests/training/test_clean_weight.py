"""The weight of the clean rows in the loss: one step of the loop, against the same step by hand."""

import numpy as np
import pytest
import torch

from oneof.candidates import Candidates
from oneof.methods.base import make_method
from oneof.nets import Net
from oneof.training import CleanRows, Recipe, train
from tests.methods.rplg_by_hand import RplgByHand, log_softmax, softmax_over

N, D, C, LR = 9, 3, 4, 0.7
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SETS = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1],
                 [1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 1]], dtype=bool)  # fmt: skip
RPLG = {"alpha": 0.4, "meta_lr": 0.5, "meta_decay": 0.0, "branch_lr": 0.5, "branch_momentum": 0.9,
        "branch_decay": 0.0}  # fmt: skip


class Problem:
    """A few rows, a few clean ones and a linear net, in double precision."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.x, self.clean_x = rng.standard_normal((N, D)), rng.standard_normal((5, D))
        self.clean_sets = np.eye(C, dtype=bool)[[0, 3, 3, 1, 2]]
        self.weight, self.bias = rng.standard_normal((C, D)), rng.standard_normal(C)

    def trained(self, method, clean_weight, clean=True, **recipe):
        head = torch.nn.Linear(D, C).double()
        with torch.no_grad():
            head.weight.copy_(torch.tensor(self.weight))
            head.bias.copy_(torch.tensor(self.bias))
        options = {"epochs": 1, "batch_size": N, "optimiser": "sgd", "momentum": 0.0, "lr": LR,
                   "schedule": "constant", "device": "cpu"}  # fmt: skip
        return train(
            make_method(method, RPLG if method == "rplg" else {}),
            Net(torch.nn.Identity(), head),
            self.x,
            Candidates.from_mask(SETS),
            recipe=Recipe(**options, clean_weight=clean_weight, **recipe),
            clean=CleanRows(self.clean_x, self.clean_sets) if clean else None,
        )

    def of_the_method(self, method):
        """Loss of the training rows in a first step, and its gradient by weight and bias."""
        if method == "rplg":
            gamma = [np.zeros((C, D)), np.zeros(C)]
            twin = RplgByHand(SETS, self.weight, self.bias, gamma, LR, **RPLG)
            return twin.step(np.arange(N), [self.x], self.clean_x, self.clean_sets, LR)
        if method == "cc":
            return set_loss_by_hand(self.weight, self.bias, self.x, SETS)
        loss, to_weight, to_bias = 0.0, np.zeros((C, D)), np.zeros(C)  # proden: uniform at first
        for x, mask in zip(self.x, SETS):
            log_p = log_softmax(self.weight @ x + self.bias)
            target = mask / mask.sum()
            loss -= target @ log_p / N
            to_weight += np.outer(np.exp(log_p) - target, x) / N
            to_bias += (np.exp(log_p) - target) / N
        return loss, to_weight, to_bias

    def of_the_clean_rows(self):
        return set_loss_by_hand(self.weight, self.bias, self.clean_x, self.clean_sets)


def set_loss_by_hand(weight, bias, rows, sets):
    """Mean of −log(probability of the set), of a single label its cross-entropy, and its gradient."""
    loss, to_weight, to_bias = 0.0, np.zeros_like(weight), np.zeros_like(bias)
    for x, mask in zip(rows, sets):
        scores = weight @ x + bias
        p = np.exp(log_softmax(scores))
        loss -= np.log(p[mask].sum()) / len(rows)
        error = (p - softmax_over(scores, np.flatnonzero(mask))) / len(rows)
        to_weight += np.outer(error, x)
        to_bias += error
    return loss, to_weight, to_bias


@pytest.mark.parametrize("clean_weight", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("method", ["proden", "cc", "rplg"])
@pytest.mark.parametrize("sets", [False, True], ids=["labels", "sets"])
def test_clean_rows_count_by_their_weight(method, clean_weight, sets):
    problem = Problem()
    if sets:  # where only candidate sets could be held out
        problem.clean_sets[:3, 1] = True
    trained = problem.trained(method, clean_weight)
    expected = [
        a + clean_weight * b for a, b in zip(problem.of_the_method(method), problem.of_the_clean_rows())
    ]
    assert trained.history[0]["loss"] == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
    head = trained.state.net.head
    np.testing.assert_allclose(head.weight.detach(), problem.weight - LR * expected[1], **CLOSE)
    np.testing.assert_allclose(head.bias.detach(), problem.bias - LR * expected[2], **CLOSE)


@pytest.mark.parametrize("method", ["proden", "cc"])
def test_without_a_weight_clean_rows_leave_the_training_as_it_is(method):
    problem = Problem()
    with_them, without = problem.trained(method, 0.0), problem.trained(method, 0.0, clean=False)
    assert torch.equal(with_them.state.net.head.weight, without.state.net.head.weight)
    assert with_them.history[0]["loss"] == without.history[0]["loss"]


def test_the_clean_term_is_a_mean_whatever_the_number_of_rows():
    """All clean rows are equal here, so that it does not matter which of them are drawn."""
    problem = Problem()
    problem.clean_x[:] = problem.clean_x[0]
    problem.clean_sets[:] = problem.clean_sets[0]
    few, all_of_them = (problem.trained("proden", 1.0, clean_batch=size) for size in (2, 64))
    assert few.history[0]["loss"] == pytest.approx(all_of_them.history[0]["loss"], abs=1e-12)
    torch.testing.assert_close(few.state.net.head.weight, all_of_them.state.net.head.weight)
