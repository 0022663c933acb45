"""Batches of a table hold the same rows as the table read whole."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.app.streaming import table_batches
from oneof.tables.errors import DataError
from oneof.tables.reader import expected_rows, read_table, rows_per_batch
from oneof.tables.table import stacked
from oneof.training.sources import read_ahead

COLUMNS = {
    "number": [1.5, None, 3.0, 4.0, 5.0],
    "whole": [1, 2, 3, 4, 5],
    "text": ["a", "", None, "d,e", "f"],
    "yes": [True, None, False, True, True],
    "list": [[1, 2], [3], [], None, [4]],
}


def joined(path, rows, columns=None):
    """The columns of all batches, one after the other, and the row numbers the batches claim."""
    made, numbers = {}, []
    for first, table in table_batches(path, rows, columns):
        numbers += range(first, first + len(table))
        for name, values in table.columns.items():
            made.setdefault(name, []).extend(values if isinstance(values, list) else values.tolist())
    return made, numbers


@given(rows=st.integers(1, 7), groups=st.integers(1, 6))
@settings(max_examples=20)
def test_parquet(tmp_path_factory, rows, groups):
    path = tmp_path_factory.getbasetemp() / "t.parquet"
    pl.DataFrame(COLUMNS).write_parquet(path, row_group_size=groups)
    made, numbers = joined(path, rows)
    assert numbers == list(range(5))
    assert made["number"][0] == 1.5
    assert np.isnan(made["number"][1])
    for name in ("whole", "text", "yes", "list"):
        assert made[name] == COLUMNS[name]
    assert set(joined(path, rows, {"whole", "absent"})[0]) == {"whole"}


@pytest.mark.parametrize("kind", ["csv", "tsv", "npz", "npy"])
@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_other_files_are_read_as_always(kind, rows, tmp_path):
    path = tmp_path / f"t.{kind}"
    x = np.arange(10.0).reshape(5, 2)
    if kind == "npz":
        np.savez(path, x=x, y=np.arange(5))
    elif kind == "npy":
        np.save(path, x)
    else:
        pl.DataFrame({"a": COLUMNS["number"], "b": COLUMNS["text"]}).write_csv(
            path, separator="\t" if kind == "tsv" else ","
        )
    whole = read_table(path).columns
    made, numbers = joined(path, rows)
    assert numbers == list(range(5))
    assert made == {name: np.asarray(v).tolist() for name, v in whole.items()}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "", "no header"),
        ("t.csv", "a,b\n", "no rows"),
        ("t.csv", "a,a\n1,2\n", 'two columns are called "a"'),
        ("t.csv", "a,b\n1,2\n\n3\n", r"row 1 of .* \(line 4\) has 1 cells"),
        ("t.csv", "a\n\xc3\xa4\xff", "not UTF-8"),
        ("t.parquet", "no parquet", "not a readable Parquet file"),
        ("t.xls", "", "ends in '.xls'"),
        ("none.csv", None, "no file"),
        ("none.parquet", None, "no file"),
    ],
)
def test_files_that_cannot_be_read(name, content, words, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=words):
        list(table_batches(tmp_path / name, 10))


def test_a_parquet_file_without_rows(tmp_path):
    pl.DataFrame({"a": []}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="no rows"):
        list(table_batches(tmp_path / "t.parquet", 10))


def test_batches_fit_the_memory():
    assert rows_per_batch(1) == 32768
    assert rows_per_batch(1000) == 4194  # 32 MB, whole rows
    assert isinstance(rows_per_batch(1000), int)
    assert rows_per_batch(10**6) == 256


def test_stacked():
    whole = [np.arange(3000, dtype=np.float32), np.arange(3000) % 2 == 0, np.arange(3000, dtype=np.int8)]
    x = stacked(whole[:1] + whole[1:2])
    assert x.dtype == np.float32
    np.testing.assert_array_equal(stacked(whole), np.column_stack(whole))
    assert stacked([np.arange(3), np.array([1.0, 2, 3])]).dtype == np.float64
    assert stacked([np.array([1.0, np.nan])]) is None
    assert stacked([[1.0]]) is None
    assert stacked([np.array(["1"])]) is None


# ---- reading ahead ----------------------------------------------------------------------------


@given(st.lists(st.integers()))
@settings(max_examples=20)
def test_reading_ahead_changes_nothing(items):
    assert list(read_ahead(iter(items))) == items


def test_errors_come_where_the_item_would():
    def items():
        yield 1
        raise DataError("here")

    made = read_ahead(items())
    assert next(made) == 1
    with pytest.raises(DataError, match="here"):
        next(made)


def test_whoever_stops_early_stops_the_thread():
    made = []

    def items():
        for i in range(1000):
            made.append(i)
            yield i

    reader = read_ahead(items())
    assert next(reader) == 0
    reader.close()
    count = len(made)
    assert count < 10
    assert len(made) == count


MEMORY = """
import resource, sys
import numpy as np, polars as pl
from oneof.app.streaming import table_batches
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(len(table) for _, table in table_batches(sys.argv[1], 8192))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_a_large_file_is_not_in_memory_at_once(tmp_path):
    x = np.random.default_rng(0).standard_normal((20_000, 50)).astype(np.float32)
    parts = [tmp_path / f"{k}.parquet" for k in range(40)]
    pl.DataFrame(x).write_parquet(parts[0])
    for part in parts[1:]:
        part.hardlink_to(parts[0])
    pl.scan_parquet(parts).sink_parquet(tmp_path / "all.parquet", row_group_size=20_000)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "all.parquet")]
    rows, grown = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert rows == 800_000
    assert grown < 120_000  # kilobytes; the file has 160 000


def test_how_many_rows_a_file_has_is_known_before_it_is_read(tmp_path):
    lines = [f"{i % 10},{i % 7}" for i in range(400_000)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *lines]) + "\n")
    assert expected_rows(tmp_path / "t.csv") == pytest.approx(len(lines), rel=0.01)
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n' * 30)
    assert expected_rows(tmp_path / "t.jsonl") == 30
    pl.DataFrame({"a": range(17)}).write_parquet(tmp_path / "t.parquet")
    assert expected_rows(tmp_path / "t.parquet") == 17
    (tmp_path / "empty.csv").write_text("")
    assert (expected_rows(tmp_path / "empty.csv") or 0) <= 0
    np.save(tmp_path / "t.npy", np.zeros((3, 2)))
    assert expected_rows(tmp_path / "t.npy") is None
    assert expected_rows(tmp_path) is None
