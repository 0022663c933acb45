"""Tables by candidate hold what dense tables hold, and trainings with them are the same to the bit."""

from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oneof.candidates.compact import CompactSets
from oneof.methods import list_methods, make_method, rows
from oneof.methods.rows import CandidateRows, Layout, padded_labels, places_per_row
from oneof.methods.state import RowState
from oneof.methods.targets import uniform
from oneof.training import Run
from tests.candidates.test_sets import masks
from tests.methods.harness import KillAfter, Killed, assert_same_fit, blobs, fit, random_candidates
from tests.methods.steps import SmallTask

pytestmark = pytest.mark.filterwarnings("ignore:there are no clean rows")


def by_candidate(places=2, block=64):
    """As if all rows × classes were too many: tables of so many places, worked on in small blocks."""
    return mock.patch.multiple(rows, places_per_row=lambda sizes, n_classes: places, BLOCK=block)


def compact_rows(mask, places):
    with by_candidate(places):
        return CandidateRows.of_mask(torch.tensor(mask))


@st.composite
def sets_and_places(draw):
    mask = draw(masks())
    return mask, draw(st.integers(1, mask.shape[1]))


def some_rows(n, seed=0):
    return torch.tensor(np.random.default_rng(seed).permutation(n)[: max(1, n // 2)])


# ---- the sets ---------------------------------------------------------------------------------


@given(sets_and_places())
def test_labels_of_a_row_differ_and_begin_with_its_candidates(given_sets):
    mask, places = given_sets
    labels = padded_labels(CompactSets.of_mask(mask), places)
    assert labels.shape == (len(mask), places)
    for row, found in zip(mask, labels.tolist()):
        assert len(set(found)) == places
        assert all(0 <= label < mask.shape[1] for label in found)
        if row.sum() <= places:
            assert found[: row.sum()] == np.flatnonzero(row).tolist()


@given(sets_and_places())
def test_sets_by_position_have_a_dense_twin(given_sets):
    mask, places = given_sets
    made = compact_rows(mask, places)
    assert made.mask is None
    assert (made.n_rows, made.n_classes) == mask.shape
    assert made.largest == mask.sum(axis=1).max(initial=0)
    np.testing.assert_array_equal(made.dense(), mask)
    if len(mask):
        index = some_rows(len(mask))
        np.testing.assert_array_equal(made.take(index), mask[index.numpy()])
    several = mask & (mask.sum(axis=1, keepdims=True) > 1)
    holders, counts = made.by_label()
    np.testing.assert_array_equal(holders, np.nonzero(several.T)[1])
    np.testing.assert_array_equal(counts, several.sum(axis=0))


def test_places_are_those_that_cost_least():
    sizes = np.array([5] * 999_999 + [1000])
    assert places_per_row(sizes, 1000) == 5  # one row with all labels is kept apart
    assert places_per_row(np.array([5] * 1000), 1000) is None  # small: dense
    assert places_per_row(np.full(100_000, 600), 1000) is None  # nothing to gain
    mixed = np.repeat([2, 40], [900_000, 100_000])
    costs = {k: 10**6 * k + (mixed > k).sum() * 1000 for k in (2, 40)}
    assert places_per_row(mixed, 1000) == min(costs, key=costs.__getitem__) == 40


# ---- the tables -------------------------------------------------------------------------------


def tables(mask, places):
    """A compact state and a dense one with a table of each kind."""
    made = []
    for support in (compact_rows(mask, places), CandidateRows.of_mask(torch.tensor(mask))):
        state = RowState()
        state.add("target", partial(uniform, dtype=torch.float64), support=support)
        state.add("alive", torch.clone, support=support)
        state.add(
            "given", torch.tensor(mask * np.arange(1.0, 1 + mask.size).reshape(mask.shape)), support=support
        )
        state.add("seen", torch.zeros(len(mask), dtype=torch.bool))
        made.append(state)
    return made


def assert_same_tables(compact, dense):
    assert compact.row_dims == dense.row_dims
    for name in dense.row_dims:
        assert compact.shape(name) == dense.shape(name) == tuple(dense[name].shape)
        assert compact[name].dtype == dense[name].dtype
        assert torch.equal(compact[name], dense[name]), name


@given(sets_and_places())
def test_tables_by_candidate_have_a_dense_twin(given_sets):
    mask, places = given_sets
    if not len(mask):
        return
    compact, dense = tables(mask, places)
    assert_same_tables(compact, dense)
    sets, rng = torch.tensor(mask), np.random.default_rng(1)
    for seed in range(3):
        index = some_rows(len(mask), seed)
        values = torch.tensor(rng.standard_normal((len(index), mask.shape[1]))) * sets[index]
        alive = torch.tensor(rng.random((len(index), mask.shape[1])) < 0.5) & sets[index]
        for state in (compact, dense):
            state.put(index, target=values, alive=alive, seen=torch.ones(len(index)))
        for one, other in zip(*(s.take(index, "target", "alive", "seen") for s in (compact, dense))):
            assert torch.equal(one, other)
    assert_same_tables(compact, dense)
    for state in (compact, dense):
        state.change(lambda t: {"target": t.abs().round()}, "target")  # with ties, and rows of zeros
    assert torch.equal(compact.best("target"), dense["target"].argmax(dim=1))
    assert torch.equal(dense.best("target"), dense["target"].argmax(dim=1))
    label = torch.tensor(mask.argmax(axis=1))
    with mock.patch.object(rows, "BLOCK", 5):
        results = [
            s.each(lambda t, a, y: t.gather(1, y[:, None]).squeeze(1) + a.sum(1), "target", "alive", label)
            for s in (compact, dense)
        ]
        assert torch.equal(*results)
        for state in (compact, dense):
            state.change(lambda t, a: {"target": t * 2, "alive": ~a & (t > 0)}, "target", "alive")
            state.copy("given", "target")
    assert_same_tables(compact, dense)


@given(sets_and_places())
def test_dense_tables_of_a_checkpoint_can_be_loaded(given_sets):
    mask, places = given_sets
    if not len(mask) or places == mask.shape[1]:
        return
    compact, dense = tables(mask, places)
    dense.put(torch.arange(len(mask)), target=torch.tensor(mask * np.pi))
    compact.load_state_dict(dense.state_dict())
    assert_same_tables(compact, dense)


def test_padding_and_rows_of_nobody_stay_zero():
    mask = np.array([[1, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=bool)
    state, _ = tables(mask, 2)
    everything = torch.full((3, 4), torch.inf, dtype=torch.float64)
    state.put(torch.arange(3), target=everything)
    stored = state.state_dict()
    assert stored["target"].tolist() == [[torch.inf, 0], [0, 0], [torch.inf, torch.inf]]
    assert stored["target_apart"].tolist() == [[torch.inf] * 4, [0.0] * 4]
    assert not any("labels" in name for name in stored)  # sets make them


def test_layouts_move_with_the_tables():
    state, _ = tables(np.eye(3, dtype=bool), 1)
    moved = state.to("meta")
    assert {layout.labels.device.type for layout in moved.layouts.values()} == {"meta"}


def test_a_table_is_declared_once():
    state, _ = tables(np.eye(3, dtype=bool), 1)
    with pytest.raises(ValueError, match="'target' exists already"):
        state.add("target", torch.zeros(3, 3))


def test_no_table_is_as_large_as_rows_times_classes():
    n, c = 20_000, 1000
    sets = CompactSets.of_sizes(np.tile([3, 500], n), np.full(n, 2), c).with_full(np.arange(n) == 7)
    made = CandidateRows(sets)
    assert isinstance(made.layout, Layout)
    task = SmallTask()
    task.net, task.candidates, task.dtype = torch.nn.Identity(), made, torch.float32
    state = make_method("proden").setup(task)
    assert sum(value.numel() for value in state.state_dict().values()) == n * 2 + 2 * c
    assert state.rows.take(torch.tensor([6, 7]), "target").sum(dim=1).tolist() == pytest.approx([1, 1])


# ---- trainings --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [info.name for info in list_methods()])
def test_trainings_are_the_same_to_the_bit(name):
    method = make_method(name, {"warm_up": 1, "window": 2, "theta": 0.3} if name == "pop" else {})
    dense = fit(method)
    with by_candidate():
        compact = fit(method)
    assert compact.history == dense.history
    assert np.array_equal(compact.pseudo_labels, dense.pseudo_labels)
    for (key, one), (_, other) in zip(
        *(t.state.net.state_dict().items() for t in (compact, dense)), strict=True
    ):
        assert torch.equal(one, other), key
    for table in dense.state.rows.row_dims:
        assert torch.equal(compact.state.rows[table], dense.state.rows[table]), table


@pytest.mark.parametrize("name", ["proden", "rplg+", "pop"])
def test_a_killed_training_continues(name, tmp_path):
    method, recipe = make_method(name), {"epochs": 7, "checkpoint_every": 2}
    dense = fit(method, recipe=recipe)
    with by_candidate():
        whole = fit(method, recipe=recipe)
        with pytest.raises(Killed):
            fit(method, recipe=recipe, run=Run(tmp_path / "a"), progress=KillAfter(5))
        assert_same_fit(whole, fit(method, recipe=recipe, run=Run(tmp_path / "a")))
    with pytest.raises(Killed):  # begun with dense tables, as earlier versions did
        fit(method, recipe=recipe, run=Run(tmp_path / "b"), progress=KillAfter(5))
    with by_candidate():
        assert_same_fit(whole, fit(method, recipe=recipe, run=Run(tmp_path / "b")))
    assert whole.history == dense.history


def test_large_pseudo_labels_are_made_when_they_are_asked_for():
    with by_candidate():
        trained = fit(make_method("proden"))
    assert "pseudo_labels" not in vars(trained)
    before = trained.pseudo_labels
    assert before is trained.pseudo_labels
    assert np.array_equal(before, trained.state.rows["target"])


def test_sets_that_are_all_apart_change_nothing():
    candidates = random_candidates(blobs()[1])
    dense = fit(make_method("rplg-nm"), candidates=candidates)
    with by_candidate(places=1):
        assert fit(make_method("rplg-nm"), candidates=candidates).history == dense.history


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a CUDA device")
@pytest.mark.parametrize("name", ["proden", "rplg+", "rplg-nm"])
def test_recorded_steps_do_the_same(name):
    recipe = {"device": "cuda", "epochs": 6}
    with by_candidate():
        eager, recorded = (fit(make_method(name), recipe={**recipe, "speed": s}) for s in ("eager", "graph"))
    dense = fit(make_method(name), recipe={**recipe, "speed": "graph"})
    for other in (recorded, dense):
        np.testing.assert_allclose(other.pseudo_labels, eager.pseudo_labels, atol=1e-4)
