"""The `.mat` family of the real-world partial-label data sets (Lost, BirdSong, MSRCv2, ...).

Variables: `data` (n x d), `partial_target` (K x n) and `target` (K x n): the label matrices lie
across. They are sparse or dense, double or uint8, depending on who saved the file.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oneof.candidates import UNKNOWN, Candidates
from oneof.candidates.cells import CandidateError, first_where
from oneof.tables.files import FREE_BYTES, MOST_TIMES, reading, refuse_bomb, sha256_of


class MatTable(NamedTuple):
    """Features and candidate sets of one file."""

    x: np.ndarray
    candidates: Candidates


def read_mat(path: Path | str, *, need_truth: bool = True, truth_may_be_outside: bool = False) -> MatTable:
    """Features (float64; float32 when the file holds bytes) and candidate sets, whose classes are 0..K-1.

    Of a MATLAB file, version 5 to 7.2. With `need_truth` one without `target` is an error, else its true
    labels are unknown. A true label outside its set is an error unless the truth may be outside; in the
    published files there is none.
    """
    path = Path(path)
    with reading(path, "MATLAB file", "fetch it again"):
        found = _variables(path)
        wanted = _VARIABLES if need_truth else _VARIABLES[:2]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise CandidateError(
                f"variable {missing[0]!r} is missing; a partial-label file holds data (n x d), "
                "partial_target (K x n) and target (K x n)."
            )
        x = _features(found["data"])
        mask = _labels(found["partial_target"], "partial_target", len(x))
        truth = None
        if "target" in found:
            truth = _truth(_labels(found["target"], "target", len(x)), mask.shape[1])
        classes = tuple(range(mask.shape[1]))
        provenance = {"rule": "given", "file": path.name, "sha256": sha256_of(path)}
        sets = Candidates(mask, classes, truth, truth_may_be_outside, provenance, path.name)
    return MatTable(x, sets)


_VARIABLES = ("data", "partial_target", "target")


def _variables(path: Path) -> dict[str, Any]:
    """The three variables that are there, sparse ones made dense."""
    from scipy.io import loadmat, whosmat

    _check_elements(path)
    try:
        there = [(name, shape) for name, shape, _ in whosmat(path) if name in _VARIABLES]
        # sparse matrices are made dense, so that the shape counts and not what is stored
        refuse_bomb(path, sum(8 * math.prod(map(int, shape)) for _, shape in there))
        found = loadmat(path, variable_names=_VARIABLES)
    except NotImplementedError:
        raise CandidateError("MATLAB 7.3 (HDF5) file; save it again in MATLAB with the option -v7.") from None
    made = {name: found[name] for name in _VARIABLES if name in found}
    for value in made.values():
        if hasattr(value, "check_format"):  # a place outside the matrix would be written to
            value.check_format(full_check=True)
    return {name: v.toarray() if hasattr(v, "toarray") else np.asarray(v) for name, v in made.items()}


# ---- elements: scipy (1.17) believes their types and sizes, and crashes the process where they lie --------

_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)
_COMPLEX = 0x800
_PLAIN_CLASSES = range(4, 16)
"""Text, sparse and full matrices. Others hold matrices in turn; no variable that is read is such a one."""


def _check_elements(path: Path) -> None:
    """Refuse elements of unknown types, or with more bytes than there are, in a file of version 5."""
    from scipy.io.matlab import matfile_version

    content = path.read_bytes()
    if matfile_version(path)[0] != 1:
        return  # an older one is read otherwise, a newer one not at all
    order = "<" if content[126:128] == b"IM" else ">"
    unpacked = 0
    for kind, inside in _elements(content[128:], order, padded=False):
        if kind == _COMPRESSED:
            stream = zlib.decompressobj()
            inside = stream.decompress(inside, 1 + max(FREE_BYTES, MOST_TIMES * len(content)))
            unpacked += len(inside)
            refuse_bomb(path, unpacked)
            ((kind, inside),) = _elements(inside, order, padded=False)
        if kind != _MATRIX:
            raise ValueError(f"an element of type {kind} in the place of a variable")
        parts = _elements(inside, order)
        _, flags = next(parts)
        (flag,) = struct.unpack_from(f"{order}I", flags)
        if flag & 255 not in _PLAIN_CLASSES:
            continue
        if flag & _COMPLEX:
            raise ValueError("a matrix of complex numbers")
        wrong = next((kind for kind, _ in parts if kind not in _NUMBERS), None)
        if wrong is not None:
            raise ValueError(f"an element of type {wrong} in a matrix")


def _elements(content: bytes, order: str, padded: bool = True) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of one element after the other."""
    place = 0
    while place < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, place)
        begin = place + 8
        place = begin + (-(-size // 8) * 8 if padded else size)
        if kind >> 16:  # four bytes or fewer stand beside their type
            kind, size, begin, place = kind & 0xFFFF, kind >> 16, begin - 4, begin
        if begin + size > len(content):
            raise ValueError(f"an element claims {size:,} bytes, {len(content) - begin:,} follow")
        yield kind, content[begin : begin + size]


def _features(data: np.ndarray) -> np.ndarray:
    if data.ndim != 2 or not data.size or data.dtype.kind not in "biuf":
        raise CandidateError(f"data is {data.dtype} of shape {data.shape}; it must be numbers, n x d.")
    x = data.astype(np.float32 if data.dtype.itemsize == 1 else np.float64)
    for i, k in first_where(~np.isfinite(x)):
        what = f"data[{i}, {k}] is {x[i, k]} ({(~np.isfinite(x)).sum()} such values)"
        raise CandidateError(f"{what}; features must be finite numbers, fill or drop them first.")
    return x


def _labels(matrix: np.ndarray, name: str, n: int) -> np.ndarray:
    """A K x n matrix of 0 and 1 as a boolean (n, K) array."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise CandidateError(f"{name} is {matrix.dtype} of shape {matrix.shape}; it must be 0 and 1, K x n.")
    if matrix.shape[1] != n:
        what = f"{name} is {matrix.shape[0]} x {matrix.shape[1]}, but data has {n} rows; it must be K x {n}."
        if matrix.shape[0] == n:
            what += " The matrix is transposed: save it as classes x rows."
        raise CandidateError(what)
    for k, i in first_where((matrix != 0) & (matrix != 1)):
        raise CandidateError(f"{name}[{k}, {i}] is {matrix[k, i]}; label matrices hold 0 and 1 only.")
    return np.ascontiguousarray(matrix.T).astype(bool)


def _truth(target: np.ndarray, n_classes: int) -> np.ndarray:
    if target.shape[1] != n_classes:
        raise CandidateError(f"target has {target.shape[1]} classes, partial_target has {n_classes}.")
    count = target.sum(axis=1)
    for (i,) in first_where(count > 1):
        what = f"row {i} has {count[i]} true labels in target; a row has one (or none: unknown)."
        raise CandidateError(what)
    return np.where(count == 1, target.argmax(axis=1), UNKNOWN).astype(np.int64)
