"""Evidence in targets: a pure function with a slow twin, in every layout; never worse than the votes."""

import math

import numpy as np
import pytest
import torch

from oneof import PartialLabelClassifier
from oneof.candidates import Candidates
from oneof.candidates.compact import CompactSets
from oneof.candidates.evidence import estimate_true_labels, log_likelihoods
from oneof.datasets import data_folder
from oneof.methods import make_method, rows
from oneof.methods.base import Task
from oneof.methods.rows import CandidateRows
from oneof.methods.targets import EXPONENT, weighed
from oneof.tables.importers import from_answers
from tests.methods.harness import C, D, blobs, fit, random_candidates, tiny_net


def weighed_by_hand(target, mask, evidence, exponent):
    made = []
    for q, keep, e in zip(target, mask, evidence):
        product = [a * b**exponent if k else 0.0 for a, b, k in zip(q, e, keep)]
        made.append([v / sum(product) for v in product])
    return np.array(made)


def with_scores(candidates, seed=0):
    return candidates.replace(evidence=np.random.default_rng(seed).random(len(candidates.positions)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_targets_times_evidence_match_their_slow_twin(dtype):
    rng = np.random.default_rng(0)
    mask = random_candidates(blobs(20)[1]).mask
    target = rng.random(mask.shape) * mask
    target /= target.sum(axis=1, keepdims=True)
    evidence = rng.random(mask.shape) * mask
    logs = torch.tensor(EXPONENT * np.log(np.where(mask, evidence, 1.0)), dtype=dtype)
    found = weighed(torch.tensor(target, dtype=dtype), torch.tensor(mask), logs)
    np.testing.assert_allclose(found, weighed_by_hand(target, mask, evidence, EXPONENT), atol=1e-6)
    plain = torch.tensor(target)
    assert weighed(plain, torch.tensor(mask), None) is plain


@pytest.mark.parametrize("name", ["proden", "rplg+"])
def test_a_fit_is_the_same_in_every_layout(monkeypatch, name):
    sets = with_scores(random_candidates(blobs()[1]))
    dense = fit(make_method(name), candidates=sets)
    plain = fit(make_method(name), candidates=sets.replace(evidence=None))
    assert not np.allclose(dense.pseudo_labels, plain.pseudo_labels)
    monkeypatch.setattr(rows, "DENSE", 0)
    monkeypatch.setattr(rows, "places_per_row", lambda sizes, c: 2)  # larger sets are apart
    compact = fit(make_method(name), candidates=sets)
    assert compact.history == dense.history
    np.testing.assert_array_equal(compact.pseudo_labels, dense.pseudo_labels)


def test_rows_hand_out_the_evidence_of_their_candidates(monkeypatch):
    sets = with_scores(random_candidates(blobs()[1]))
    logs = torch.from_numpy(log_likelihoods(sets))
    index = torch.tensor([7, 0, 33, 8, 7])
    expected = sets.compact.dense(index.numpy(), logs.numpy())
    for places in (None, 1, 2, C):
        monkeypatch.setattr(rows, "places_per_row", lambda sizes, c, places=places: places)
        made = CandidateRows(sets.compact, "cpu", logs)
        np.testing.assert_array_equal(made.evidence(index), expected)
    assert CandidateRows(sets.compact).evidence(index) is None


@pytest.mark.parametrize("name", ["pop", "valen", "cavl"])
def test_other_methods_start_from_it(name):
    sets = with_scores(random_candidates(blobs()[1]))
    assert np.isfinite(fit(make_method(name), candidates=sets).history[-1]["loss"])


def beginning(name, mask, evidence, truth):
    """The target table before the first step, of a task whose candidates have (log) evidence."""
    logs = torch.tensor(np.log(np.array(evidence)[np.array(mask)]), dtype=torch.float32)
    candidates = CandidateRows(CompactSets.of_mask(np.array(mask)), "cpu", logs)
    task = Task(
        net=tiny_net(), candidates=candidates, example=torch.zeros(2, D), device=torch.device("cpu"),
        dtype=torch.float32, epochs=1, batch_size=2, steps_per_epoch=1, lr=0.1, truth=torch.tensor(truth),
    )  # fmt: skip
    return make_method(name).begin(task).rows["target"]


MASK = [[True, True, False, False], [True, True, True, False]]
VOTES = [[3.0, 1.0, 0, 0], [1.0, 1.0, 2.0, 0]]


def test_the_oracle_keeps_a_truth_that_nobody_named():
    table = beginning("oracle", MASK, VOTES, truth=[3, 1])
    assert table.tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]


def test_lws_pushes_other_labels_down_from_the_first_visit_on_where_there_are_votes():
    table = beginning("lws", MASK, VOTES, truth=[0, 2])
    np.testing.assert_allclose(table, [[0.75, 0.25, -0.25, -0.25], [0.25, 0.25, 0.5, -0.25]], atol=1e-6)


# ---- never below the votes --------------------------------------------------------------------


def a_crowd(per_row, seed):
    """Two classes of four are easily taken for one another; people differ, one in five answers at random."""
    x, y = blobs(240, seed, spread=1.3)
    rng = np.random.default_rng(seed)
    skill = np.where(rng.random(60) < 0.2, 0.0, rng.uniform(0.4, 0.9, 60))
    answers = []
    for i, truth in enumerate(y):
        for w in rng.choice(60, per_row, replace=False):
            other = truth ^ 1 if rng.random() < 0.4 and skill[w] else rng.integers(C)
            answers.append((i, f"w{w}", int(truth if rng.random() < skill[w] else other)))
    return x, y, from_answers(*zip(*answers), n_rows=len(y), classes=range(C))


def labels_by_hand(made):
    n, c = made.candidates.shape
    votes = made.answers.counts(n, c)
    chance = np.random.default_rng(0).random(votes.shape)
    classic = estimate_true_labels(made.answers, n, c).posterior
    return (votes + chance).argmax(axis=1), classic.argmax(axis=1)


@pytest.mark.parametrize("method", ["proden", "rplg+", "crowd"])
@pytest.mark.parametrize("seed", range(2))
def test_46_answers_are_never_made_worse(method, seed):
    x, y, made = a_crowd(46, seed)
    voted, classic = labels_by_hand(made)
    assert (voted == y).mean() > 0.97
    model = PartialLabelClassifier(method, epochs=20, lr=3e-3, device="cpu").fit(x, made.candidates)
    found = model.transduction_.argmax(axis=1)
    assert (found == y).mean() >= max((voted == y).mean(), (classic == y).mean())


@pytest.mark.parametrize("seed", range(2))
def test_a_few_answers_are_made_better(seed):
    x, y, made = a_crowd(4, seed)
    voted, classic = labels_by_hand(made)
    model = PartialLabelClassifier("crowd", epochs=20, lr=3e-3, device="cpu").fit(x, made.candidates)
    found = model.transduction_.argmax(axis=1)
    assert (found == y).mean() >= max((voted == y).mean(), (classic == y).mean())


@pytest.mark.skipif(
    not (data_folder() / "crowd" / "labelme_answers.csv").is_file(), reason="needs LabelMe in ONEOF_DATA"
)
def test_labelme_without_clean_rows():
    folder = data_folder() / "crowd"
    table = np.genfromtxt(folder / "labelme_answers.csv", delimiter=",", skip_header=1, dtype=int)
    with np.load(folder / "labelme_features.npz") as p:
        made = from_answers(*table[:, :3].T, n_rows=1000, classes=range(8))
        voted, classic = labels_by_hand(made)
        model = PartialLabelClassifier("crowd", epochs=20, lr=3e-3, device="cpu")
        model.fit(p["X_train"], made.candidates)
        right = (model.transduction_.argmax(axis=1) == p["y_train"]).mean()
        assert right > max((voted == p["y_train"]).mean(), (classic == p["y_train"]).mean()) + 0.03
        assert model.score(p["X_test"], p["y_test"]) >= 0.84


def test_votes_of_28_to_12_to_1_are_certain():
    made = Candidates.from_mask([[1, 1, 1]] * 3, evidence=[[28, 12, 1], [12, 28, 1], [1, 2, 28]])
    first = np.exp(EXPONENT * log_likelihoods(made)[:3])
    assert first[0] / first.sum() > 0.9
    assert math.isclose(first[0], 1.0)
