"""Small files that claim to be large, and damage that parsers trip over: refused with one error of ours."""

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import polars as pl
import pytest
from PIL import Image
from scipy.io import savemat
from scipy.sparse import csc_matrix

from oneof.app.review.folder import ReviewData, ReviewError
from oneof.candidates import Candidates
from oneof.datasets.formats import read_idx
from oneof.datasets.ready_made import ready_made_q, ready_made_sets
from oneof.tables import files, images
from oneof.tables.candidate_files import load_candidates, save_candidates
from oneof.tables.errors import DataError
from oneof.tables.files import reading
from oneof.tables.importers import from_counts
from oneof.tables.importers.files import import_file
from oneof.tables.mat import read_mat
from oneof.tables.reader import read_table
from tests.data.official import idx_bytes


@pytest.fixture
def frugal(monkeypatch):
    """A limit of 1 MB, and the block may not take more than a few."""
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def npy(shape, dtype="<f8", content=b""):
    """An npy file whose header claims a shape, whatever follows."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def npz(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content)
    return path


BOMB = npy((1 << 22,), content=bytes(8 << 22))  # 32 MB of zeros in 32 KB


def test_an_npz_bomb_is_refused_before_it_is_unpacked(tmp_path, frugal):
    path = npz(tmp_path / "a.npz", x=BOMB)
    assert path.stat().st_size < 64 << 10
    for read in (read_table, load_candidates, lambda p: import_file(p, "scores")):
        with pytest.raises(
            DataError, match=r"a\.npz: refused, .* would take 33,554,560 in memory; the limit"
        ):
            read(path)
    np.savez(tmp_path / "b.npz", x=np.zeros((1 << 18, 1)))  # as large, but not packed
    assert len(read_table(tmp_path / "b.npz")) == 1 << 18


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 20, 1 << 20), (1 << 62, 1 << 62), (-1,), (3, -2)])
def test_a_header_that_claims_terabytes_is_refused(tmp_path, frugal, shape):
    (tmp_path / "a.npy").write_bytes(npy(shape, content=bytes(64)))
    npz(tmp_path / "a.npz", x=npy(shape, content=bytes(64)))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=f"{name}: not a readable np. file"):
            read_table(tmp_path / name)


def test_arrays_of_nothing_are_refused(tmp_path):
    """(10**12,) texts of no letters take no bytes in the file."""
    (tmp_path / "a.npy").write_bytes(npy((10**12,), dtype="<U0"))
    with pytest.raises(DataError, match="only plain numbers and texts"):
        read_table(tmp_path / "a.npy")


def test_bombs_in_the_data_folder_and_in_a_review(tmp_path, frugal):
    inside = tmp_path / "candidates"
    inside.mkdir()
    npz(inside / "mine_mlp_r0.4.npz", seed0=BOMB)
    (inside / "mine_mlp_q.npy").write_bytes(npy((1 << 40,)))
    with pytest.raises(DataError, match="refused"):
        ready_made_sets("mine", 0.4, 0, np.zeros(3, int), ("a", "b"), tmp_path)
    with pytest.raises(DataError, match="claims"):
        ready_made_q("mine", 3, 2, tmp_path)
    ReviewData(Candidates.from_mask([[1, 0], [1, 1]]), np.full((2, 2), 0.5)).save(tmp_path)
    npz(tmp_path / "review.npz", mask=BOMB)
    with pytest.raises(ReviewError, match="refused"):
        ReviewData.load(tmp_path)


def test_a_gzip_bomb_is_refused(tmp_path, frugal):
    (tmp_path / "a.gz").write_bytes(gzip.compress(idx_bytes(np.zeros((1 << 14, 32, 32), np.uint8))))
    tracemalloc.reset_peak()
    with pytest.raises(DataError, match=r"a\.gz: refused"):
        read_idx(tmp_path / "a.gz")


def test_a_sparse_matrix_that_would_be_huge_is_refused(tmp_path):
    path = tmp_path / "a.mat"
    savemat(path, {"data": np.ones((3, 2)), "partial_target": csc_matrix((10**6, 10**6))})
    with pytest.raises(DataError, match=r"a\.mat: refused"):
        read_mat(path, need_truth=False)


def test_json_records_with_fields_of_their_own_are_refused(tmp_path, frugal):
    lines = [json.dumps({f"f{k}": 1}) for k in range(1000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"a\.jsonl: refused"):
        read_table(tmp_path / "a.jsonl")


def test_a_parquet_file_of_one_value_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    pl.DataFrame({"x": np.zeros(1 << 19)}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet: refused"):
        read_table(tmp_path / "a.parquet")


# ---- counts -----------------------------------------------------------------------------------


def test_counts_of_a_hundred_million_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,ant,bee\nr0,1,2\nr1,100000000,1\n")
    tracemalloc.start()
    with pytest.raises(DataError, match=r"a\.csv, line 3, row 1: it has 100000001 answers(?s:.)*Divide"):
        import_file(tmp_path / "a.csv", "counts")
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    with pytest.raises(ValueError, match="it has 1e\\+300 answers"):
        from_counts([[1e300, 0]])
    assert len(from_counts([[50_000, 50_000]]).answers) == 100_000


# ---- damage -----------------------------------------------------------------------------------


def headers():
    """Headers of arrays at which numpy fails with errors of many kinds."""
    yield from (
        "{'descr': '<f8'",
        "((((",
        "{'a': 1}",
        "\x00\x01",
        "'" * 3,
        "{**{}}",
        "-" * 5000,
        "(" * 5000,
    )
    yield repr({"descr": [("a", "<f8")], "fortran_order": False, "shape": (1,)})
    yield repr({"descr": "<f8", "fortran_order": False, "shape": (True,)})
    yield repr({"descr": "O", "fortran_order": False, "shape": (1,)})


@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"])
@pytest.mark.parametrize("text", list(headers()), ids=range(11))
def test_damaged_headers_of_arrays(tmp_path, version, text):
    size = struct.pack("<H" if version[0] == 1 else "<I", len(text.encode()))
    content = b"\x93NUMPY" + version + size + text.encode() + bytes(8)
    (tmp_path / "a.npy").write_bytes(content)
    npz(tmp_path / "a.npz", x=content)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=f"{name}: not a readable np. file without pickles"):
            read_table(tmp_path / name)


def test_every_flipped_byte_of_a_file_of_candidates_is_an_error_or_changes_nothing(tmp_path):
    path = tmp_path / "a.npz"
    given = Candidates.from_sets([["cat", "dog"], ["dog"]] * 5)
    save_candidates(given, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=150):
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << int(rng.integers(8))]) + whole[place + 1 :]
        )
        try:
            loaded = load_candidates(path)
        except DataError:
            continue
        assert loaded == given


def test_zip_members_of_an_unknown_method(tmp_path):
    path = npz(tmp_path / "a.npz", x=npy((1,), content=bytes(8)))
    content = path.read_bytes().replace(b"PK\x03\x04\x14\x00\x00\x00\x08", b"PK\x03\x04\x14\x00\x00\x00\x63")
    path.write_bytes(content.replace(b"\x14\x00\x00\x00\x08\x00", b"\x14\x00\x00\x00\x63\x00"))
    with pytest.raises(DataError, match="not a readable npz file"):
        read_table(path)


def test_facts_that_are_nested_too_deeply(tmp_path):
    deep = np.array("[" * 100_000)
    np.savez(tmp_path / "a.npz", facts=deep, mask=np.ones((1, 1), np.uint8))
    with pytest.raises(DataError, match=r"a\.npz is damaged: it is no JSON \(maximum recursion"):
        load_candidates(tmp_path / "a.npz")
    (tmp_path / "a.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"a\.json: not JSON"):
        read_table(tmp_path / "a.json")


class PanicException(BaseException):
    """What polars raises when Rust panics."""


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError("deep"), PanicException("rust"), SyntaxError()]
)
def test_foreign_errors_become_ours_in_one_place(error):
    with (
        pytest.raises(DataError, match=r"^a\.bin: .*; fetch it again\.$"),
        reading("a.bin", "thing", "fetch it again"),
    ):
        raise error


def test_a_person_who_stops_is_heard():
    with pytest.raises(KeyboardInterrupt), reading("a.bin", "thing"):
        raise KeyboardInterrupt


# ---- images -----------------------------------------------------------------------------------


def png(width, height):
    """A few bytes that claim to be an image of this size."""
    stream = io.BytesIO()
    Image.new("1", (8, 8)).save(stream, format="PNG")
    content = bytearray(stream.getvalue())
    content[16:24] = struct.pack(">II", width, height)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path):
    (tmp_path / "a.png").write_bytes(png(9000, 9000))
    with pytest.raises(DataError, match=r"a\.png: 9000 x 9000 pixels, more than 33,554,432"):
        images.read_images([tmp_path / "a.png"], size=(8, 8))
    (tmp_path / "b.png").write_bytes(png(2**31 - 1, 2**31 - 1))
    with pytest.raises(DataError, match=r"b\.png"):
        images.read_images([tmp_path / "b.png"])


def test_a_large_photograph_is_read_small(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MOST_PIXELS", 5000)
    Image.new("RGB", (200, 100), (200, 10, 10)).save(tmp_path / "a.jpg")
    read = images.read_images([tmp_path / "a.jpg"], size=(4, 4))
    assert read.shape == (1, 3, 4, 4)
    assert read[0, 0].mean() > 180


@pytest.mark.parametrize(
    "content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"II*\0" + bytes(60)]
)
def test_other_formats_behind_the_name_of_an_image_are_not_opened(tmp_path, content, monkeypatch):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *a, **k: pytest.fail("Ghostscript was called"))
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.png: not a readable image"):
        images.read_images([tmp_path / "a.png"])
