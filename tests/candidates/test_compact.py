"""Sets by position say what a dense mask says: every fact beside a dense twin."""

import copy
import hashlib
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.candidates import CandidateError, Candidates, NoInformationWarning, compact
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.compact import CompactSets
from oneof.candidates.describe import describe
from oneof.candidates.evidence import estimate_true_labels
from oneof.candidates.generate import class_sets, flip_sets, instance_sets, uniform_sets
from oneof.tables.candidate_files import load_annotations, load_candidates, save_annotations
from oneof.tables.errors import DataError
from tests.candidates.test_sets import masks, quiet

pytestmark = pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")

SMALL_BLOCK = 7


@pytest.fixture
def small_blocks(monkeypatch):
    """Work that goes in blocks goes in many."""
    monkeypatch.setattr(compact, "BLOCK", SMALL_BLOCK)


def any_mask(draw, n, c):
    flat = draw(st.lists(st.booleans(), min_size=n * c, max_size=n * c))
    return np.array(flat, dtype=bool).reshape(n, c)


@st.composite
def loose_masks(draw):
    """Boolean masks whose rows may be empty."""
    return any_mask(draw, draw(st.integers(0, 9)), draw(st.integers(1, 6)))


def evidence_for(mask, seed=0):
    return np.random.default_rng(seed).integers(0, 5, size=int(mask.sum())) / 4


def hash_of_a_dense_mask(mask, classes):
    """The hash as it was when sets were dense."""
    digest = hashlib.sha256(repr((mask.shape, classes)).encode())
    digest.update(np.packbits(mask, axis=1).tobytes())
    return digest.hexdigest()[:16]


# ---- CompactSets ------------------------------------------------------------------------------


@given(loose_masks(), st.data())
def test_compact_sets_have_a_dense_twin(mask, data):
    sets = CompactSets.of_mask(mask)
    n, c = mask.shape
    assert sets.shape == mask.shape
    np.testing.assert_array_equal(sets.dense(), mask)
    np.testing.assert_array_equal(sets.sizes, mask.sum(axis=1))
    np.testing.assert_array_equal(sets.rows, np.nonzero(mask)[0])
    np.testing.assert_array_equal(sets.complement().dense(), ~mask)
    full = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    np.testing.assert_array_equal(sets.with_full(full).dense(), mask | full[:, None])
    if n:
        rows = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=8)), dtype=np.int64)
        np.testing.assert_array_equal(sets.take(rows).dense(), mask[rows])
        np.testing.assert_array_equal(sets.dense(rows), mask[rows])
        columns = np.array([data.draw(st.integers(0, c - 1)) for _ in rows], dtype=np.int64)
        np.testing.assert_array_equal(sets.holds(rows, columns), mask[rows, columns])
        values = np.arange(1.0, 1 + mask.sum())
        dense = np.zeros(mask.shape)
        dense[mask] = values
        np.testing.assert_array_equal(sets.dense(rows, values), dense[rows])
    row, column = np.nonzero(mask)
    order = np.array(data.draw(st.permutations(range(len(row)))), dtype=np.int64)
    twice = np.r_[order, order[:2]]
    again = CompactSets.of_pairs(row[twice], column[twice], mask.shape)
    np.testing.assert_array_equal(again.dense(), mask)


# ---- Candidates -------------------------------------------------------------------------------


@given(masks(), st.booleans())
def test_the_hash_is_what_it_was_when_masks_were_dense(mask, with_names):
    classes = [f"k{j}" for j in range(mask.shape[1])] if with_names else None
    c = quiet(mask, classes=classes)
    assert c.hash == hash_of_a_dense_mask(mask, c.classes)


@pytest.mark.usefixtures("small_blocks")
def test_the_hash_does_not_depend_on_the_blocks():
    mask = np.random.default_rng(0).random((50, 9)) < 0.4
    mask[:, 3] = True
    assert quiet(mask).hash == hash_of_a_dense_mask(mask, tuple(range(9)))


@given(masks(), st.data())
def test_positions_in_any_order_are_the_same_sets(mask, data):
    c = quiet(mask)
    evidence = evidence_for(mask)
    order = [data.draw(st.permutations(range(a, b))) for a, b in zip(c.starts, c.starts[1:])]
    order = np.array([i for part in order for i in part], dtype=np.int64)
    again = Candidates.from_positions(
        c.positions[order], c.starts, range(mask.shape[1]), evidence=evidence[order]
    )
    assert again == c.replace(evidence=evidence)
    assert again.hash == c.replace(evidence=evidence).hash


@given(masks(), st.data())
def test_evidence_stays_with_its_candidates(mask, data):
    evidence = evidence_for(mask)
    dense = np.zeros(mask.shape)
    dense[mask] = evidence
    c = quiet(mask, evidence=dense)
    np.testing.assert_array_equal(c.evidence, evidence)
    if not len(mask):
        return
    rows = np.array(data.draw(st.lists(st.integers(0, len(mask) - 1), max_size=8)), dtype=np.int64)
    np.testing.assert_array_equal(c.evidence_of(rows), dense[rows])
    np.testing.assert_array_equal(c.take(rows).evidence_of(np.arange(len(rows))), dense[rows])
    np.testing.assert_array_equal(c.rows(rows), mask[rows])
    np.testing.assert_array_equal(quiet(mask).evidence_of(rows), mask[rows].astype(float))


@given(masks())
def test_evidence_is_part_of_what_sets_are(mask):
    plain, evidence = quiet(mask), evidence_for(mask)
    with_evidence = plain.replace(evidence=evidence)
    assert with_evidence != plain
    assert with_evidence.hash != plain.hash
    assert with_evidence == plain.replace(evidence=evidence)
    if len(mask):
        assert plain.replace(evidence=evidence + 1) != with_evidence
        assert plain.replace(evidence=evidence + 1).hash != with_evidence.hash
    assert with_evidence.replace(evidence=None) == plain
    assert "evidence" in repr(with_evidence)


@given(masks())
def test_copies_are_equal_and_frozen(mask):
    c = quiet(mask, evidence=evidence_for(mask))
    assert c.mask is c.mask  # kept while it is small
    for again in (copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        assert again == c
        assert again.hash == c.hash
    with pytest.raises(AttributeError, match="frozen"):
        c.evidence = None
    with pytest.raises(AttributeError, match="frozen"):
        del c.classes
    with pytest.raises(ValueError, match="read-only"):
        c.positions[...] = 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Candidates.from_positions([0, 2], [0, 1, 2], "ab"), "row 1 has position 2"),
        (lambda: Candidates.from_positions([-1], [0, 1], "ab"), "row 0 has position -1"),
        (lambda: Candidates.from_positions([1, 0, 1], [0, 3], "ab"), "row 0 has position 1 twice"),
        (lambda: Candidates.from_positions([0, 1], [0, 1], "ab"), "starts"),
        (lambda: Candidates.from_positions([0, 1], [1, 2], "ab"), "starts"),
        (lambda: Candidates.from_positions([0, 1], [0, 2, 1], "ab"), "starts"),
        (lambda: Candidates.from_positions([0, 1], [], "ab"), "starts"),
        (lambda: Candidates.from_positions([0.5], [0, 1], "ab"), "whole numbers"),
        (lambda: Candidates.from_positions([0], [0, 0, 1], "ab"), "row 0 has no candidate"),
        (lambda: quiet([[1, 0]], evidence=[1, 2]), "one number per candidate"),
        (lambda: quiet([[1, 0]], evidence=["x"]), "one number per candidate"),
        (lambda: quiet([[1, 0]], evidence=[-1]), "row 0 has evidence -1.0"),
        (lambda: quiet([[1, 0], [0, 1]], evidence=[1, np.nan]), "row 1 has evidence nan"),
        (lambda: quiet([[1, 0], [0, 1]], evidence=[[1, 0], [2, 0]]), "row 1 has evidence 2 for class 0"),
    ],
)
def test_wrong_positions_and_evidence_are_named(make, words):
    with pytest.raises(CandidateError, match=words):
        make()


# ---- what is made from them -------------------------------------------------------------------


def described_by_hand(mask, truth):
    """The facts that need pairs of classes, from a dense mask."""
    c = mask.shape[1]
    together = mask.astype(int).T @ mask.astype(int)
    pairs = sorted((-together[a, b], a, b) for a in range(c) for b in range(a + 1, c) if together[a, b])
    single = np.diag(together)
    wrong = [
        mask[(truth == y)][:, k].mean() for y in set(truth.tolist()) for k in range(c) if k != y and y >= 0
    ]
    return {
        "confused": [(a, b, -rows) for rows, a, b in pairs[:10]],
        "never_apart": sorted([a, b] for rows, a, b in pairs if -rows == single[a] == single[b]),
        "never_alone": [k for k in range(c) if single[k] and not mask[mask.sum(1) == 1][:, k].any()],
        "never": [k for k in range(c) if not single[k]],
        "ambiguity": round(max(wrong, default=0.0), 5),
    }


@given(masks(), st.sampled_from([1e-9, 1e9]))
def test_describe_matches_a_dense_twin(mask, dense_share):
    if not len(mask):
        return
    truth = mask.argmax(axis=1)
    with pytest.MonkeyPatch.context() as patch:  # by a matrix product, or by a sparse one
        patch.setattr("oneof.candidates.compact.DENSE_SHARE", dense_share)
        facts = describe(quiet(mask, truth=truth))
        np.testing.assert_array_equal(
            quiet(mask).compact.together().toarray(), mask.astype(int).T @ mask.astype(int)
        )
    twin = described_by_hand(mask, truth)
    assert [(p["a"], p["b"], p["rows"]) for p in facts["confused_pairs"]] == twin["confused"]
    assert facts["classes_never_apart"] == twin["never_apart"]
    assert facts["classes_never_alone"] == twin["never_alone"]
    assert facts["classes_never_candidate"] == twin["never"]
    assert facts["ambiguity"] == twin["ambiguity"]
    assert facts["truth_inside"] == 1.0


def generated():
    y = np.arange(40) % 5
    q = np.random.default_rng(1).dirichlet(np.ones(5), 40)
    q[np.arange(40), y] = 0
    q /= q.sum(axis=1, keepdims=True)
    return [
        uniform_sets(y, 5, 3),
        flip_sets(y, 5, 0.3, 3, forbid_singletons=True),
        class_sets(y, np.full((5, 5), 0.4), 3, forbid_full_sets=True),
        instance_sets(y, 0.4, 3, q=q),
        instance_sets(y, 0.4, 3, log_probabilities=np.log(q + 1e-3)),
    ]


def test_generators_draw_the_same_in_blocks(monkeypatch):
    whole = generated()
    monkeypatch.setattr(compact, "BLOCK", SMALL_BLOCK)
    for one, other in zip(whole, generated(), strict=True):
        assert one == other
        assert one.provenance == other.provenance


@pytest.mark.usefixtures("small_blocks")
def test_errors_of_generators_name_the_row_of_the_whole():
    q = np.full((9, 3), 0.5)
    q[7] = 0.1
    with pytest.raises(CandidateError, match="row 7 of q"):
        instance_sets(np.zeros(9, dtype=int), 0.4, 0, q=q)
    matrix = np.full((3, 3), 0.5)
    matrix[1] = 0
    with pytest.raises(CandidateError, match=r"row 6 \(true label 1"):
        class_sets([0, 0, 0, 0, 0, 0, 1], matrix, 0, forbid_singletons=True)


def test_dawid_skene_finds_the_same_in_blocks(monkeypatch):
    rng = np.random.default_rng(2)
    row = np.repeat(np.arange(30), 4)
    answers = Answers(row, rng.integers(5, size=120), rng.integers(3, size=120), tuple("abcde"))
    whole = estimate_true_labels(answers, 30, 3)
    monkeypatch.setattr(compact, "BLOCK", SMALL_BLOCK)
    blocks = estimate_true_labels(answers, 30, 3)
    np.testing.assert_allclose(whole.posterior, blocks.posterior, atol=1e-12)
    assert whole.log_likelihood == pytest.approx(blocks.log_likelihood)


# ---- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["npz", "parquet"])
@pytest.mark.parametrize("with_evidence", [False, True])
def test_files_keep_sets_truth_and_evidence(tmp_path, ending, with_evidence):
    mask = np.random.default_rng(0).random((20, 4)) < 0.5
    mask[:, 1] |= ~mask.any(axis=1)
    truth = np.where(np.arange(20) % 3, mask.argmax(axis=1), -1)
    evidence = evidence_for(mask) if with_evidence else None
    c = quiet(mask, classes=["a", "b", "c", "d"], truth=truth, evidence=evidence)
    save_annotations(Annotations(c), tmp_path / f"sets.{ending}")
    again = load_candidates(tmp_path / f"sets.{ending}")
    assert again == c
    assert again.hash == c.hash


@pytest.mark.parametrize("metadata", [{}, {"oneof": "{}"}])
def test_a_parquet_table_is_no_file_of_candidates(tmp_path, metadata):
    polars = pytest.importorskip("polars")
    column = "labels" if metadata else "candidates"
    polars.DataFrame({column: [["a"], ["b"]]}).write_parquet(tmp_path / "t.parquet", metadata=metadata)
    with pytest.raises(DataError, match="not a file of candidates; write it with save_annotations"):
        load_candidates(tmp_path / "t.parquet")


def test_a_file_with_the_bits_of_a_mask_still_loads(tmp_path):
    mask = np.array([[1, 0, 1], [0, 1, 0]], dtype=bool)
    facts = (
        '{"kind": "oneof candidates", "classes": ["a", "b", "c"], "truth_may_be_outside": false, '
        f'"provenance": {{}}, "hash": "{hash_of_a_dense_mask(mask, ("a", "b", "c"))}"}}'
    )
    np.savez(tmp_path / "old.npz", facts=facts, mask=np.packbits(mask, axis=1))
    assert load_candidates(tmp_path / "old.npz").sets() == [["a", "c"], ["b"]]


def test_a_file_whose_numbers_do_not_fit_is_refused(tmp_path):
    c = Candidates.from_sets([["a", "b"], ["b"]])
    save_annotations(Annotations(c), tmp_path / "sets.npz")
    with np.load(tmp_path / "sets.npz") as stored:
        arrays = dict(stored)
    for name, wrong in (("sizes", [2, 2]), ("positions", [0, 1, 9]), ("positions", [0, 1, 0])):
        np.savez(tmp_path / "wrong.npz", **arrays | {name: np.array(wrong, dtype=np.uint8)})
        with pytest.raises(DataError):
            load_annotations(tmp_path / "wrong.npz")


# ---- memory -----------------------------------------------------------------------------------


def test_nothing_is_as_large_as_the_mask(tmp_path):
    n, c, k = 20_000, 1_000, 3  # a mask of 20 MB
    rng = np.random.default_rng(0)
    first = rng.integers(c - k, size=n)
    positions = (first[:, None] + np.arange(k)).ravel()
    starts = np.arange(0, n * k + 1, k)
    tracemalloc.start()
    try:
        made = Candidates.from_positions(positions, starts, range(c), truth=first, evidence=positions)
        describe(made)
        save_annotations(Annotations(made), tmp_path / "sets.npz")
        assert load_candidates(tmp_path / "sets.npz") == made
        made.take(np.arange(n)[::-1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * c


def test_full_rows_are_told_of_positions_too():
    with pytest.warns(NoInformationWarning, match="1 of 2 rows"):
        c = Candidates.from_positions([0, 1, 1], [0, 2, 3], "ab")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c.take([0])
