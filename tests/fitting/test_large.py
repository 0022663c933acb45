"""Rows × classes beyond 2²⁴: the results of a small table, nothing as large as (n, c), and a limit."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from oneof import PartialLabelClassifier
from oneof.app.commands.fit import Fit
from oneof.app.fit.plan import LIBRARIES, Estimate, check_memory, parse_memory
from oneof.app.review import ReviewData, ReviewError
from oneof.app.review.ranking import ReviewList
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations
from oneof.candidates.compact import OTHERS, CompactSets, beliefs, best, dense_rows
from oneof.classifier.persist import load
from oneof.tables.candidate_files import save_annotations
from oneof.tables.errors import DataError
from tests.review.made import review_data
from tests.test_inputs import problem


def make_large(monkeypatch, entries=2**10):
    """Whatever has more entries is large from now on."""
    for place in ("candidates.compact", "methods.rows", "classifier.choice", "app.fit.plan"):
        monkeypatch.setattr(f"oneof.{place}.DENSE", entries)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """400 rows of 12 classes in files, 100 of them without candidates, 110 with a trusted label."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n, c = 400, 12
    truth = rng.integers(c, size=n)
    mask = rng.random((n, c)) < 0.2
    mask[np.arange(n), truth] = True
    mask[105] = True  # kept apart from the rows with few candidates
    mask[107, truth[107]] = False  # the trusted label is no candidate
    mask[107, (truth[107] + 1) % c] = True
    np.save("x.npy", (np.eye(c)[truth] + 0.4 * rng.normal(size=(n, c))).astype(np.float32))
    known = np.arange(100, n)
    sets = Candidates.from_mask(mask[known], [f"k{i}" for i in range(c)])
    save_annotations(Annotations(sets, ids=tuple(map(str, known))), "sets.npz")
    with open("clean.csv", "w") as file:
        file.write("id,label\n" + "".join(f"{i},k{truth[i]}\n" for i in range(100, 210)))
    return tmp_path


@pytest.mark.parametrize("method", ["proden", "rplg+", "cc"])
@pytest.mark.filterwarnings("ignore::oneof.candidates.NoInformationWarning")
def test_a_large_fit_is_that_of_a_small_table(files, monkeypatch, method):
    def fitted(out):
        command = Fit(candidates="sets.npz", table=files / "x.npy", method=method, clean=("clean.csv",))
        command.epochs, command.device, command.out = 2, "cpu", files / out
        assert command.run() == 0
        report = (files / out / "report.html").read_text()
        # only how long it took and when it was may differ
        report = re.sub(r"<dt>time</dt><dd>.*?</dd>|\d{4}-\d\d-\d\d \d\d:\d\d", "", report)
        return (files / out / "labels.csv").read_bytes(), report

    small = fitted("small")
    make_large(monkeypatch)
    large = fitted("large")
    assert small == large
    one, two = ReviewData.load(files / "small"), ReviewData.load(files / "large")
    assert not issparse(one.probabilities)
    assert issparse(two.probabilities)
    assert issparse(two.transduction)
    assert np.array_equal(two.probabilities.toarray(), one.probabilities)
    assert np.array_equal(two.transduction.toarray(), one.transduction)
    assert one.candidates == two.candidates
    lists = ReviewList(one), ReviewList(two)
    for view in ("doubtful", "all"):
        assert lists[0].rows(view) == lists[1].rows(view)
    assert [lists[0].facts(row) for row in range(30)] == [lists[1].facts(row) for row in range(30)]
    stored = [load(files / name) for name in ("small", "large")]
    assert [hasattr(model, "transduction_") for model in stored] == [True, False]


def test_small_probabilities_of_other_labels_are_left_out(monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(60), size=40)
    p[3, 20:] = 0
    mask = rng.random(p.shape) < 0.05
    sets = CompactSets.of_mask(mask)
    assert beliefs(lambda rows: p[rows], sets).dtype == np.float32
    make_large(monkeypatch)
    monkeypatch.setattr("oneof.candidates.compact.BLOCK", 60 * 7)
    kept = beliefs(lambda rows: p[rows], sets, np.float64)
    assert kept.has_canonical_format
    for row, (entries, inside) in enumerate(zip(p, mask)):
        others = np.flatnonzero(~inside)[np.argsort(-entries[~inside])][:OTHERS]
        wanted = np.zeros(60)
        wanted[inside], wanted[others] = entries[inside], entries[others]
        assert np.array_equal(dense_rows(kept, [row])[0], wanted)
    assert [part.tolist() for part in best(kept)] == [p.argmax(axis=1).tolist(), p.max(axis=1).tolist()]
    # what was left out is not given to the others
    data = ReviewData(Candidates.from_mask(np.eye(60, dtype=bool)[:40]), kept)
    listed = ReviewList(data)
    inside = np.where(dense_rows(kept, slice(None)) > 0, p, 0)[np.arange(40), np.arange(40)]
    np.testing.assert_allclose(listed.outside, 1 - inside)


# ---- files ------------------------------------------------------------------------------------


def sparse_review(tmp_path):
    whole = review_data(12, ids=False)
    data = review_data(
        12, ids=False, **{k: csr_array(getattr(whole, k)) for k in ("probabilities", "transduction")}
    )
    data.save(tmp_path)
    return data


def test_a_sparse_review_is_read_back(tmp_path):
    data = sparse_review(tmp_path)
    back = ReviewData.load(tmp_path)
    for name in ("probabilities", "transduction"):
        assert issparse(getattr(back, name))
        assert np.array_equal(getattr(back, name).toarray(), getattr(data, name).toarray())
    assert back.candidates == data.candidates
    assert json.loads((tmp_path / "review.json").read_text())["format"] == 2
    assert "mask" not in np.load(tmp_path / "review.npz")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("probabilities.indices", lambda a: np.where(np.arange(len(a)) == 3, 4, a)),
        ("probabilities.indices", lambda a: np.where(np.arange(len(a)) == 3, -1, a)),
        ("probabilities.indices", lambda a: np.where(np.arange(len(a)) == 3, 2**40, a.astype(np.int64))),
        ("probabilities.indices", lambda a: a[::-1]),
        ("probabilities.indices", np.zeros_like),
        ("probabilities.indices", lambda a: a[:-1]),
        ("probabilities.indices", lambda a: a[:, None]),
        ("probabilities.indptr", lambda a: a[:-1]),
        ("probabilities.indptr", lambda a: np.append(a, a[-1])),
        ("probabilities.indptr", lambda a: a * 1000),
        ("probabilities.indptr", lambda a: np.where(np.arange(len(a)) == 2, a[-1], a)),
        ("probabilities.indptr", lambda a: a - 1),
        ("probabilities.data", lambda a: np.full_like(a, np.nan)),
        ("probabilities.data", lambda a: -a),
        ("transduction.indices", lambda a: a + 100),
        ("positions", lambda a: a + 100),
        ("positions", np.zeros_like),
        ("starts", lambda a: a[::-1]),
        ("starts", lambda a: a * 2),
    ],
)
def test_hostile_sparse_arrays_are_refused(tmp_path, part, change):
    sparse_review(tmp_path)
    with np.load(tmp_path / "review.npz") as stored:
        arrays = dict(stored)
    arrays[part] = change(arrays[part])
    np.savez(tmp_path / "review.npz", **arrays)
    with pytest.raises(ReviewError, match="not readable"):
        ReviewData.load(tmp_path)


# ---- a choice ---------------------------------------------------------------------------------


@pytest.mark.parametrize("baselines", [True, False])
@pytest.mark.parametrize("kind", ["sets", "vector", "pair"])
def test_a_choice_on_a_large_table_compares_on_some_rows(monkeypatch, kind, baselines):
    x, y, mask = problem(400)
    clean = {"sets": None, "vector": np.where(np.arange(400) % 20, np.nan, y), "pair": (x[:30], y[:30])}[kind]
    make_large(monkeypatch, 300 * 3)
    if not baselines:  # which win where methods learn nothing
        monkeypatch.setattr("oneof.classifier.contenders.BASELINES", ())
    model = PartialLabelClassifier("auto", net="linear", epochs=1, lr=1e-9, device="cpu")
    model.fit(x, mask, clean=clean)
    assert "Contenders were compared on 300 of 400 rows." in model.selection_note_
    won = model.selection_[0]["kind"] == "baseline"
    assert won == baselines == model.selection_note_.endswith("A baseline learns from these alone.")
    assert baselines or model.trained_on_["rows"] == (380 if kind == "vector" else 400)
    assert not hasattr(model, "out_of_fold_")
    assert not hasattr(model, "label_errors_")
    some = model.transduction_of(np.array([399, 1]))
    assert np.array_equal(some, model.transduction_[[399, 1]])
    assert not some[~mask[[399, 1]]].any()
    assert (model.transduction_.argmax(axis=1)[::20] == y[::20]).all() or kind != "vector"
    assert model.chosen_model().method == model.settings_["method"]


def test_rows_to_compare_on_hold_the_trusted_ones():
    from oneof.classifier.contenders import some_rows_of

    trusted = np.arange(0, 1000, 50)
    rows = some_rows_of(1000, 100, trusted, 0)
    assert len(np.unique(rows)) == 100
    assert set(trusted) <= set(rows)
    assert not np.array_equal(rows, some_rows_of(1000, 100, trusted, 1))
    assert len(some_rows_of(1000, 100, np.arange(1000), 0)) == 100


# ---- a limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "megabytes"), [("6GB", 6000), ("500MB", 500), ("1.5 gb", 1500), ("2G", 2000)]
)
def test_sizes_as_people_write_them(text, megabytes):
    assert parse_memory(text) == megabytes


@pytest.mark.parametrize("text", ["", "much", "6", "-1GB", "0MB", "6TBs", "1e999GB"])
def test_what_is_no_size(text):
    with pytest.raises(DataError, match="such as 6GB or 500MB"):
        parse_memory(text)


def test_more_than_the_memory_is_refused_or_told(monkeypatch, capsys):
    estimate = Estimate(10, 10, {"features": 3000.0, "row tables": 700.0, "weights": 0.1}, 0.0, 1.0)
    check_memory(estimate, 3701 + LIBRARIES)
    with pytest.raises(DataError) as error:
        check_memory(estimate, 2000)
    told = str(error.value)
    assert "--memory 2.0 GB: this fit takes about 4.3 GB (features 3.0 GB, row tables 700 MB" in told
    assert "Most goes to features: give them as an .npy file" in told
    assert "weights" not in told
    monkeypatch.setattr("oneof.app.fit.plan.free_memory", lambda: 10**9)
    check_memory(estimate, None)
    assert "warning: 1.0 GB of memory are free, and this fit takes about 3.7 GB" in capsys.readouterr().out
    monkeypatch.setattr("oneof.app.fit.plan.free_memory", lambda: 10**11)
    check_memory(estimate, None)
    assert not capsys.readouterr().out


def test_where_libraries_take_most_of_the_memory_this_is_said():
    estimate = Estimate(10, 10, {"features": 0.5, "weights": 1.5}, 0.0, 1.0)
    with pytest.raises(DataError) as error:
        check_memory(estimate, 1)
    assert "Most goes to Python and torch, which every fit needs. Give more memory." in str(error.value)
    assert "smaller net" not in str(error.value)
    with pytest.raises(
        DataError, match=r"every fit needs\. Of the rest most goes to weights: take a smaller net"
    ):
        check_memory(estimate, LIBRARIES + 1)


def test_a_fit_that_takes_too_much_does_not_begin(files, capsys):
    command = Fit(candidates="sets.npz", table=files / "x.npy", method="proden", memory="100MB", device="cpu")
    with pytest.raises(DataError, match=r"--memory 100 MB: this fit takes about \d+ MB"):
        command.run()
    assert "estimate: 300 training rows" in capsys.readouterr().out
    assert not (files / "model" / "model.json").exists()


PEAK = """
import json
from pathlib import Path
import numpy as np
import oneof.app.fit.outcome
from oneof.app.commands.fit import Fit
from oneof.app.fit import plan
from oneof.candidates import Candidates
from oneof.candidates.annotations import Annotations
from oneof.tables.candidate_files import save_annotations

def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6  # of this process alone; ru_maxrss may be its parent's

n, c, d, kept, measure = 6_000, 3_000, 100, [], plan.measure
plan.measure = lambda *given: kept.append(measure(*given)) or kept[0]
first = np.random.default_rng(0).integers(c - 3, size=n)
places = (first[:, None] + np.arange(3)).ravel()
sets = Candidates.from_positions(places, np.arange(0, 3 * n + 1, 3), range(c))
save_annotations(Annotations(sets), "sets.npz")
np.savez("x.npz", x=np.random.default_rng(0).random((n, d), dtype=np.float32))
before = peak()
command = Fit(candidates="sets.npz", table=Path("x.npz"), method="proden", net="linear", epochs=1)
command.device, command.report = "cpu", False
command.run()
print(json.dumps([peak() - before, kept[0].megabytes]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak")
def test_the_estimate_is_about_what_a_fit_takes(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    took, estimated = json.loads(ended.stdout.splitlines()[-1])
    assert took / 2 < estimated < 2 * took
