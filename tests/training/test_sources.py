"""Rows that stay in a file: what is read, in which order, and what is learned from it."""

import threading

import numpy as np
import pytest
import torch

from oneof import PartialLabelClassifier
from oneof.candidates import Candidates
from oneof.datasets.scaling import Scaling
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import Recipe, sources, train
from oneof.training.sources import StoredRows, StreamedRows, make_rows
from oneof.views import RowItself

CPU = torch.device("cpu")


@pytest.fixture
def mapped(tmp_path):
    """200 rows of 4 features in a file, and their candidate sets."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    x = (np.eye(3, 4)[y] * 4 + rng.normal(size=(200, 4))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mask = np.eye(3, dtype=bool)[y]
    mask[np.arange(200), (y + 1) % 3] |= rng.random(200) < 0.5
    return np.load(tmp_path / "x.npy", mmap_mode="r"), Candidates.from_mask(mask, truth=y)


def small_blocks(monkeypatch):
    monkeypatch.setattr(sources, "BLOCK_BYTES", 5 * 16)  # five rows
    monkeypatch.setattr(sources, "WINDOW", 4)


def test_an_order_has_every_row_once_and_near_one_another(mapped, monkeypatch):
    small_blocks(monkeypatch)
    rows = make_rows(mapped[0], CPU, torch.float32)
    assert isinstance(rows, StreamedRows)
    order = rows.permutation(197, generator=torch.Generator().manual_seed(1))
    assert sorted(order.tolist()) == list(range(197))
    for part in order.split(20):  # four blocks of five rows, mixed; one block is cut, so two windows may meet
        assert len(set((part // 5).tolist())) <= 8
        assert part.tolist() != sorted(part.tolist())
    again = rows.permutation(197, generator=torch.Generator().manual_seed(1))
    assert torch.equal(order, again)
    assert not torch.equal(order, rows.permutation(197, generator=torch.Generator().manual_seed(2)))


def test_batches_are_the_rows_of_the_file(mapped):
    rows = make_rows(mapped[0], CPU, torch.float64)
    order = torch.randperm(200)
    for index, x in rows.batches(order, 32):
        assert torch.equal(x, torch.from_numpy(np.array(mapped[0][index.numpy()])).double())


def test_whoever_stops_early_leaves_no_thread(mapped):
    before = threading.active_count()
    batches = make_rows(mapped[0], CPU, torch.float32).batches(torch.arange(200), 10)
    next(batches)
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("name", ["proden", "rplg+"])
def test_a_small_file_is_learned_from_as_if_it_were_in_memory(mapped, name):
    x, sets = mapped
    found = []
    for given in (np.array(x), x):
        trained = train(
            make_method(name), lambda: build_net("linear", 4, 3), given, sets,
            recipe=Recipe(epochs=3, batch_size=20, device="cpu"),
        )  # fmt: skip
        found.append(trained.pseudo_labels)
    assert np.array_equal(*found)


def test_a_large_file_is_learned_from_in_blocks(mapped, monkeypatch):
    small_blocks(monkeypatch)
    x, sets = mapped
    models = [PartialLabelClassifier("proden", epochs=10, device="cpu").fit(x, sets) for _ in range(2)]
    assert models[0].score(x, sets.truth) > 0.9
    assert np.array_equal(models[0].transduction_, models[1].transduction_)
    assert np.array_equal(models[0].predict_proba(x), models[0].predict_proba(np.array(x)))


def test_the_estimator_leaves_features_in_their_file(mapped, monkeypatch):
    """Rows are only ever read in parts: never more than a block, a batch, or those held out."""
    small_blocks(monkeypatch)
    x, sets = mapped
    sizes = []
    read = StoredRows.__getitem__

    def reading(self, which):
        rows = read(self, which)
        sizes.append(len(rows))
        return rows

    monkeypatch.setattr(StoredRows, "__getitem__", reading)
    clean = np.full(200, np.nan)
    clean[:20] = sets.truth[:20]
    model = PartialLabelClassifier("rplg+", epochs=2, batch_size=16, device="cpu").fit(x, sets, clean=clean)
    assert model.n_clean_ == 20
    assert sizes
    assert max(sizes) <= 20


@pytest.mark.parametrize("kind", ["standard", "global", "minmax", "none"])
def test_scaling_of_blocks_is_that_of_all_rows(mapped, kind):
    x = np.array(mapped[0]) * [1, 10, 0, 1] + [0, 1e6, 3, 0]
    whole, parts = Scaling.fit(x, kind), Scaling.fit_blocks(np.array_split(x, 7), kind)
    np.testing.assert_allclose(parts.shift, whole.shift, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-9)


def test_scaling_of_images_in_blocks():
    images = np.random.default_rng(0).integers(256, size=(30, 3, 4, 5), dtype=np.uint8)
    whole, parts = Scaling.fit(images, "pixels"), Scaling.fit_blocks(np.array_split(images, 4), "pixels")
    np.testing.assert_allclose(parts.shift, whole.shift, rtol=1e-12)
    np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-12)


def test_a_large_transduction_is_made_when_asked_for(mapped, tmp_path, monkeypatch):
    import pickle

    from oneof.candidates import compact
    from oneof.classifier.persist import load

    x, sets = mapped
    small = PartialLabelClassifier("proden", epochs=2, device="cpu").fit(x, sets)
    monkeypatch.setattr(compact, "DENSE", 10)
    large = PartialLabelClassifier("proden", epochs=2, device="cpu").fit(x, sets)
    assert not hasattr(pickle.loads(pickle.dumps(large)), "transduction_")
    large.save(tmp_path / "model")
    assert not hasattr(load(tmp_path / "model"), "transduction_")
    assert np.array_equal(large.transduction_, small.transduction_)
    large.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transduction_, small.transduction_)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 35])
def test_the_kernels_that_multiply_rows_do_not_depend_on_how_many_are_asked_for(n):
    seen = []

    def doubled(part):
        seen.append(len(part))
        return 2 * part

    x = torch.arange(3.0 * n).reshape(n, 3)
    found = sources.in_batches(doubled, x, views=RowItself(), modules=[], device="cpu", size=32)
    assert torch.equal(found, 2 * x)
    assert n == 0 or min(seen) >= sources.FEWEST_ROWS


def test_few_images_are_not_repeated():
    seen = []
    images = torch.zeros(2, 3, 8, 8)
    sources.in_batches(
        lambda part: seen.append(len(part)) or part, images, views=RowItself(), modules=[], device="cpu"
    )
    assert seen == [2]
