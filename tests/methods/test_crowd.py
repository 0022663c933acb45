"""The crowd method: answers weighed by who gave them, all labels possible, confusions estimated again."""

import numpy as np
import pytest
import torch

from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.evidence import EVERYBODY, SMOOTHING, SaidTable, estimate_true_labels
from oneof.methods.crowd import Crowd
from oneof.methods.proden import Proden
from oneof.training import Run
from tests.methods.harness import C, KillAfter, Killed, MethodTester, assert_same_fit, blobs, fit


class TestCrowd(MethodTester):
    method = Crowd()


def crowd_answers(y, per_row=3, workers=6, seed=0, named=True):
    """People who are right in 50 to 95 % of the cases; the last one always says 0."""
    rng = np.random.default_rng(seed)
    right = np.linspace(0.5, 0.95, workers)
    row = np.repeat(np.arange(len(y)), per_row)
    worker = np.concatenate([rng.choice(workers, per_row, replace=False) for _ in y])
    label = np.where(rng.random(len(row)) < right[worker], y[row], rng.integers(C, size=len(row)))
    label[worker == workers - 1] = 0
    return Answers(row, worker, label, tuple(f"w{k}" for k in range(workers)), named)


def crowd_sets(y, outside=True, **more):
    answers = crowd_answers(y, **more)
    mask = answers.counts(len(y), C) > 0
    made = Candidates.from_mask(mask, truth=y, truth_may_be_outside=True)
    if not outside:
        made = made.replace(truth=None, truth_may_be_outside=False)
    return Annotations(made, answers=answers).candidates


def likelihood_by_hand(answers, n, beliefs):
    """One answer after the other: log p(answers | truth), and nobody's confusions without the crowd's."""
    workers = answers.worker if answers.named else np.zeros(len(answers), dtype=int)
    said = {}
    crowd = np.full((C, C), SMOOTHING)
    for i, w, label in zip(answers.row, workers, answers.label):
        for t in range(C):
            said[w, label, t] = said.get((w, label, t), 0.0) + beliefs[i, t]
            crowd[label, t] += beliefs[i, t]
    made = np.zeros((n, C))
    for i, w, label in zip(answers.row, workers, answers.label):
        for t in range(C):
            mine = said[w, label, t] + EVERYBODY * crowd[label, t] / crowd[:, t].sum()
            total = sum(said.get((w, other, t), 0.0) for other in range(C)) + EVERYBODY
            made[i, t] += np.log(mine / total)
    return made


@pytest.mark.parametrize("named", [True, False])
def test_likelihoods_match_their_slow_twin(named):
    y = blobs(30)[1]
    answers = crowd_answers(y, named=named)
    beliefs = np.random.default_rng(1).dirichlet(np.ones(C), len(y))
    found = SaidTable.of_answers(answers, len(y), C).log_likelihood(beliefs)
    np.testing.assert_allclose(found, likelihood_by_hand(answers, len(y), beliefs), atol=1e-10)


def test_targets_follow_the_classifier_and_the_answers():
    """After an epoch the confusions come from the targets as they are then."""
    _, y = blobs()
    candidates = crowd_sets(y)
    one = fit(Crowd(), candidates=candidates, dtype=torch.float64, recipe={"epochs": 1})
    q = one.pseudo_labels
    assert np.allclose(q.sum(axis=1), 1)
    support = one.state.rows["support"].numpy()
    expected = Crowd().exponent * likelihood_by_hand(candidates.answers, len(y), q)
    np.testing.assert_allclose(support, expected, atol=1e-8)
    assert (q[~candidates.mask] > 0).any()  # labels that nobody named are possible


def test_a_promise_and_rows_without_answers_keep_to_the_candidates():
    _, y = blobs()
    inside = crowd_sets(y, outside=False)
    q = fit(Crowd(), candidates=inside).pseudo_labels
    assert (q[~inside.mask] == 0).all()
    some = crowd_sets(y)
    answers = some.answers
    kept = answers.row >= 5
    few = Answers(answers.row[kept], answers.worker[kept], answers.label[kept], answers.workers)
    q = fit(Crowd(), candidates=some.replace(answers=few)).pseudo_labels
    assert (q[:5][~some.mask[:5]] == 0).all()
    assert (q[5:][~some.mask[5:]] > 0).any()


def test_the_first_targets_are_no_worse_than_dawid_and_skene():
    _, y = blobs()
    for seed in range(3):
        answers = crowd_answers(y, seed=seed)
        classic = estimate_true_labels(answers, len(y), C).posterior
        spoken = SaidTable.of_answers(answers, len(y), C).log_likelihood(classic)
        assert (spoken.argmax(axis=1) == y).mean() >= (classic.argmax(axis=1) == y).mean()


def test_without_answers_it_is_proden():
    a, b = fit(Crowd()), fit(Proden())
    assert [row["test"] for row in a.history] == [row["test"] for row in b.history]
    np.testing.assert_allclose(a.pseudo_labels, b.pseudo_labels, atol=1e-6)


@pytest.mark.parametrize("named", [True, False])
def test_resumes_with_answers(tmp_path, named):
    sets = crowd_sets(blobs()[1], named=named)
    recipe = {"epochs": 5, "checkpoint_every": 2}
    whole = fit(Crowd(), candidates=sets, recipe=recipe)
    with pytest.raises(Killed):
        fit(Crowd(), candidates=sets, recipe=recipe, run=Run(tmp_path), progress=KillAfter(3))
    assert_same_fit(whole, fit(Crowd(), candidates=sets, recipe=recipe, run=Run(tmp_path)))


def test_a_run_is_not_continued_with_other_answers(tmp_path):
    sets = crowd_sets(blobs()[1])
    a = sets.answers
    with pytest.raises(Killed):
        fit(Crowd(), candidates=sets, run=Run(tmp_path), progress=KillAfter(2))
    other = sets.replace(answers=Answers(a.row, a.worker[::-1], a.label, a.workers))
    with pytest.raises(Exception, match="answers"):
        fit(Crowd(), candidates=other, run=Run(tmp_path))
