"""What users pass as y: `Candidates`, masks, label sets, labels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets

from oneof.candidates import CandidateError, Candidates, NoInformationWarning
from oneof.candidates.cells import COLLECTIONS, as_array, cell_labels, is_missing, spelled_as, tidy
from oneof.candidates.questions import joined_labels

NUMBERS = bool | int | float | np.number | np.bool_


def as_numpy(values: Any) -> Any:
    """A tensor, on any device, with or without gradient, as an array; the rest as it is."""
    if not isinstance(values, torch.Tensor):
        return values
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()


# ---- candidates -------------------------------------------------------------------------------


def as_candidates(y: Any) -> Candidates:
    """A mask (array, tensor or data frame), a `Candidates`, labels, or one label set per row.

    Texts with `|` in some of them, such as crow|raven, are label sets.
    """
    if isinstance(y, Candidates):
        return y
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    rows = _label_sets(y)
    if rows is not None:
        return Candidates.from_sets(rows, source="y")
    names, values = _columns(y)
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


def mask_over(y: Any, classes: np.ndarray) -> tuple[np.ndarray, bool]:
    """y as a mask (n, c) over these classes, matched by name where y has names; and whether y was 1-D: then a
    row whose label is none of the classes is empty."""
    names = classes.tolist()
    # full sets are no news to those who score by them
    with warnings.catch_warnings(action="ignore", category=NoInformationWarning):
        rows = None if isinstance(y, Candidates) else _label_sets(y, names)
        if rows is not None:
            y = Candidates.from_sets(rows, source="y")
        elif not isinstance(y, Candidates):
            titles, values = _columns(y)
            if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1 != len(names)):
                return mask_of_labels(values.ravel(), classes), True
            if titles is None and values.ndim == 2 and values.shape[1] != len(names):
                raise CandidateError(
                    f"y has {values.shape[1]} columns, but the model knows {len(names)} classes."
                )
            y = Candidates.from_mask(values, titles or names, source="y")
            if names == list(range(y.n_classes)) and not set(y.classes) & set(names):
                return y.mask, False  # fitted without names: the model's classes are numbers of columns
    return _by_name(y.mask, list(y.classes), names), False


def holds_sets(y: Any, classes: Sequence[Any] = ()) -> bool:
    """Whether y is a mask, a `Candidates` or label sets, and not one label per row; a class is one label."""
    if isinstance(y, Candidates) or _label_sets(y, classes) is not None:
        return True
    values = _columns(y)[1]
    return values.ndim == 2 and values.shape[1] > 1


def class_array(names: Iterable[Any]) -> np.ndarray:
    """Class names as a 1-D array that keeps every name what it is: numpy would turn (1, "a") into text."""
    names = list(names)
    if len({str if isinstance(n, str) else bool if isinstance(n, bool) else float for n in names}) == 1:
        made = np.asarray(names)
        if made.ndim == 1 and made.dtype.kind in "Ubiuf" and made.tolist() == names:
            return made
    made = np.empty(len(names), dtype=object)
    made[:] = names
    return made


def _label_sets(y: Any, classes: Sequence[Any] = ()) -> list[Any] | None:
    """The rows of y where each is a collection of labels, else None. A name of `classes` is one label."""
    if isinstance(y, Candidates | torch.Tensor):
        return None
    if getattr(y, "shape", ())[1:] == (1,):  # one column, such as frame[["seen_as"]]
        y = _columns(y)[1].ravel()
    if hasattr(y, "columns") or hasattr(y, "toarray"):
        return None
    if isinstance(y, np.ndarray) and (y.ndim != 1 or y.dtype.kind not in "OUT"):
        return None
    if isinstance(y, str | bytes) or not hasattr(y, "__len__") or not len(y):
        return None
    rows = list(y.to_list() if hasattr(y, "to_list") else y)
    several = [isinstance(row, COLLECTIONS) and getattr(row, "ndim", 1) == 1 for row in rows]
    if not any(several):
        # "crow|raven" is a set here as it is in files
        return joined_labels(rows, classes) if isinstance(rows[0], str) else None
    if not all(several):  # beside sets a label alone is a set, too, and a missing one has no label
        alone = [row for row, many in zip(rows, several) if not many]
        if not all(isinstance(row, Hashable) and getattr(row, "ndim", 0) == 0 for row in alone):
            return None
        return [[row] if isinstance(row, str) and row in classes else cell_labels(row) for row in rows]
    if len({len(row) for row in rows}) > 1 or any(isinstance(row, set | frozenset) for row in rows):
        return rows
    # rows of equal length that hold only 0 and 1 are the rows of a mask
    binary = (isinstance(v, NUMBERS) and (v in (0, 1) or is_missing(v)) for row in rows for v in row)
    return None if all(binary) else rows


def _columns(y: Any) -> tuple[list[Any] | None, np.ndarray]:
    """Column names, where y is a data frame, and the values as an array."""
    names = list(y.columns) if hasattr(y, "columns") else None
    values = as_array(y.toarray() if hasattr(y, "toarray") else as_numpy(y))
    if values.dtype.kind == "O" and values.ndim == 2:
        # booleans and numbers with missing values: NaN is refused later, with its row
        entries = [np.nan if is_missing(v) else v for v in values.ravel()]
        if all(isinstance(v, NUMBERS) for v in entries):
            values = np.array(entries, dtype=np.float64).reshape(values.shape)
    return names, values


def _from_labels(values: np.ndarray) -> Candidates:
    absent = np.flatnonzero(~known(values))
    if len(absent):
        raise CandidateError(
            f"row {absent[0]} has no label: y[{absent[0]}] = {values[absent[0]]!r} (Input contains NaN).\n"
            "  Give a label or a set of candidates for every row, or drop the row."
        )
    check_classification_targets(values)
    classes, columns = np.unique(values, return_inverse=True)
    starts = np.arange(len(columns) + 1)
    truth = columns.astype(np.int64)
    return Candidates.from_positions(columns, starts, classes.tolist(), truth=truth, source="y")


def _by_name(mask: np.ndarray, there: list[Any], wanted: list[Any]) -> np.ndarray:
    """The columns of a mask in another order of classes; classes that are not wanted are left out."""
    if there == wanted:
        return mask
    if not set(there) & set(wanted):
        raise CandidateError(f"y has the classes {there[:10]}, none of which the model knows: {wanted[:10]}.")
    made = np.zeros((len(mask), len(wanted)), dtype=bool)
    for k, name in enumerate(wanted):
        if name in there:
            made[:, k] = mask[:, there.index(name)]
    return made


def mask_of_labels(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(n, c): a row whose label is none of the classes is empty; raises where all are, or one is misspelt."""
    columns = label_columns(labels, classes, "y", strict=False)
    text = isinstance(classes[0], str)
    if len(labels) and (columns < 0).all() and isinstance(labels[0], str) != text:
        raise ValueError(f"no label is one of the classes {classes.tolist()[:10]}: {labels.tolist()[:3]}.")
    new = labels[columns < 0]
    for label, name in zip(new.tolist(), spelled_as(new, classes.tolist()).tolist()):
        if label != name and label == label:
            raise ValueError(f"y has the label {label!r}, spelled otherwise than the class {name!r}.")
    return one_hot(columns, len(classes))


def one_hot(columns: np.ndarray, n_classes: int) -> np.ndarray:
    """(n, c): the column of each row; none of them where it is negative."""
    return columns[:, None] == np.arange(n_classes)


# ---- labels -----------------------------------------------------------------------------------


def known(values: np.ndarray) -> np.ndarray:
    """Which entries are labels."""
    if values.dtype.kind in "biuf":
        return ~np.isnan(values)
    return np.array([not is_missing(v) for v in values], dtype=bool)


def label_columns(
    labels: np.ndarray, classes: np.ndarray, what: str, rows: np.ndarray | None = None, strict: bool = True
) -> np.ndarray:
    """Column of the label of each row among the classes; an error names the first that is none of them.

    Numbers match their text: tables hold the label 3 as 3, 3.0 (beside missing values) or "3".
    """
    if labels.ndim != 1:
        raise ValueError(f"{what} has shape {labels.shape}; give one label per row, shape (n,).")
    position = {name: k for k, name in enumerate(classes.tolist())}
    by_text = {_text(name): k for name, k in position.items()}
    numbers = range(len(labels)) if rows is None else rows.tolist()
    columns = np.empty(len(numbers), dtype=np.int64)
    values = labels.tolist()
    for place, i in enumerate(numbers):
        label = values[i]
        exact = position.get(label) if isinstance(label, Hashable) else None
        columns[place] = by_text.get(_text(label), -1) if exact is None else exact
        if columns[place] < 0 and strict:
            gaps = "; where it is not known, leave the cell empty (in Python: None or NaN)."
            raise ValueError(
                f"{what}[{i}] = {label!r} is not one of the classes {list(position)[:10]}.\n"
                f"  A clean label is the name of a candidate class{gaps if rows is not None else '.'}"
            )
    return columns


def _text(label: Any) -> str:
    """One text for a whole number however a table holds it: 3, 3.0, "3" and "3.0" are "3"."""
    return re.sub(r"(?<=\d)\.0+$", "", str(tidy(label)))
