"""Parquet files with impossible counts are refused before polars asks for memory and ends the process."""

import contextlib

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneof.tables.errors import DataError
from oneof.tables.unpacking import scan


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    cells = {
        "x": [1.5, 2.5, 3.5] * 20,
        "labels": ["cat", "owl", None] * 20,
        "sets": [["a"], [], ["a", "b"]] * 20,
    }
    pl.DataFrame(cells).write_parquet(path)
    return path


def test_a_whole_file_is_read(whole):
    assert scan(whole).collect().shape == (60, 3)
    assert scan(whole, whole=True).collect().equals(pl.read_parquet(whole))


def test_a_negative_number_of_values_is_refused(whole, tmp_path):
    """60 as a signed number is 120 behind a field's head; 119 is -60, of which polars makes 2⁶¹ bytes."""
    content = whole.read_bytes()
    place = content.index(b"\x15\x78")  # the first page's number of values
    path = tmp_path / "b.parquet"
    path.write_bytes(content[: place + 1] + b"\x77" + content[place + 2 :])
    with pytest.raises(DataError, match=r"b\.parquet: not a readable Parquet file \(-60 is no count\)"):
        scan(path)


@settings(max_examples=150)
@given(st.data())
def test_other_damage_is_an_error_of_ours_or_left_to_polars(whole, tmp_path_factory, data):
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    path.write_bytes(content[: data.draw(st.integers(12, len(content)))])
    with contextlib.suppress(DataError):
        scan(path, whole=True)
