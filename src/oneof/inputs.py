"""What users pass as y and as clean rows, turned into `Candidates` and labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from oneof.candidates import CandidateError, Candidates


def as_candidates(y: Any) -> Candidates:
    """A mask (array, tensor or data frame), a `Candidates`, 1-D labels, or a list of label sets."""
    if isinstance(y, Candidates):
        return y
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if _is_list_of_sets(y):
        return Candidates.from_sets(y, source="y")
    names = list(y.columns) if hasattr(y, "columns") else None
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is read as labels. "
            "Use y.ravel() for labels.",
            DataConversionWarning,
            stacklevel=3,
        )
        values = values.ravel()
    if values.ndim == 1:
        return _from_labels(values)
    return Candidates.from_mask(values, names, source="y")


def _is_list_of_sets(y: Any) -> bool:
    if not isinstance(y, list | tuple) or not len(y):
        return False
    sets = [isinstance(row, set | frozenset | list | tuple) for row in y]
    if not all(sets):
        return False
    # lists of equal length that hold only 0 and 1 are the rows of a mask
    lengths = {len(row) for row in y}
    return len(lengths) > 1 or any(isinstance(row, set | frozenset) for row in y) or not _all_binary(y)


def _all_binary(rows: Any) -> bool:
    return all(isinstance(v, bool | int | float | np.number) and v in (0, 1) for row in rows for v in row)


def _from_labels(values: np.ndarray) -> Candidates:
    missing = np.flatnonzero(~known(values))
    if len(missing):
        raise CandidateError(
            f"row {missing[0]} has no label: y[{missing[0]}] = {values[missing[0]]!r} (Input contains NaN).\n"
            "  Give a label or a set of candidates for every row, or drop the row."
        )
    check_classification_targets(values)
    classes, columns = np.unique(values, return_inverse=True)
    mask = np.zeros((len(values), len(classes)), dtype=bool)
    mask[np.arange(len(values)), columns] = True
    return Candidates(mask, tuple(classes.tolist()), truth=columns.astype(np.int64), source="y")


def known(values: np.ndarray) -> np.ndarray:
    """Which entries are labels: not None, NaN or a data frame's missing value."""
    if values.dtype.kind == "f":
        return ~np.isnan(values)
    if values.dtype.kind != "O":
        return np.ones(len(values), dtype=bool)
    return np.array([v is not None and v == v and str(v) != "<NA>" for v in values], dtype=bool)


def label_columns(labels: np.ndarray, classes: np.ndarray, what: str) -> np.ndarray:
    """Column of each label among the classes; an error names the first label that is none of them."""
    position = {name: k for k, name in enumerate(classes.tolist())}
    columns = np.empty(len(labels), dtype=np.int64)
    for i, label in enumerate(labels.tolist()):
        found = position.get(label, position.get(str(label), -1))
        if found < 0 and isinstance(label, float) and label.is_integer():
            found = position.get(int(label), -1)  # a column with missing values holds floats
        if found < 0:
            raise ValueError(
                f"{what}[{i}] = {label!r} is not one of the classes {list(position)[:10]}.\n"
                "  Clean labels must be names of candidate classes."
            )
        columns[i] = found
    return columns
