"""`ReviewData`: what a person needs to see to decide about doubtful rows, as two files in a run folder.

`review.npz` holds the arrays, `review.json` everything with names. Both carry the digest of the names as
their stamp, so that a pair from two different fits is noticed, and damage too. Images are recorded, not
copied: their folder once, and one path inside it per row.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from oneof.candidates import UNKNOWN, Candidates, NoInformationWarning
from oneof.candidates.annotations import Annotations, Answers
from oneof.candidates.annotators import Annotator, annotator_table
from oneof.candidates.cells import first_where, json_value, native
from oneof.candidates.checks import checked_positions
from oneof.candidates.compact import Beliefs, CompactSets, dense_rows
from oneof.candidates.evidence import estimate_true_labels
from oneof.tables.errors import DataError
from oneof.tables.files import only_plain_entries, write_text, write_with
from oneof.tables.reader import read_json
from oneof.tables.unpacking import stored_arrays

FORMAT, LARGE = 1, 2
"""A large review has sparse arrays, and its sets by position."""
AS_THEY_ARE = ("ids", "ids_are_numbers", "id_column", "fingerprint", "image_folder")
"""Fields that stand in the file of names under their own."""
CSR, ANSWER = ("data", "indices", "indptr"), ("row", "worker", "label")
STAMP_LENGTH = 64
"""Of a digest; files of earlier versions have a shorter stamp, which was drawn."""
ARRAYS, NAMES = "review.npz", "review.json"
DAMAGE = (OSError, LookupError, TypeError, ValueError, AttributeError, NotImplementedError, MemoryError)


class ReviewError(DataError):
    """Review data that cannot be used. The message names the file or the field and says what to do."""


@dataclass
class ReviewData:
    """Everything the review list and the review page show.

    Parameters
    ----------
    candidates : Candidates
        One set per row.
    probabilities, transduction : float arrays or sparse arrays (n, c)
        The model's opinion, its full softmax, not restricted to the sets; and, optional, the disambiguated
        training rows. See `oneof.candidates.compact.Beliefs`.
    ids : sequence of n names, optional
        What the user calls the rows; default: their numbers.
    ids_are_numbers : bool
        The ids are where rows stood in a table: when it changes, they mean other rows.
    answers : Answers, optional
        Who said what.
    features : mapping of column name to n values, optional
        A few columns to show.
    images, image_folder : n paths and one, optional
        One image per row. None outside the folder is ever shown; default: the deepest that holds them all.
    trusted : bool array (n,), optional
        Rows whose label is known already; default: those with a known truth.
    id_column, fingerprint : str, optional
        The column of the user's table that the ids come from. A digest of the rows, which ties decisions to
        them where there are no ids; default: that of the sets.
    wrong : float array (n,), optional
        How probably the label of a row is wrong, by a model that had not seen it.
    places : array (n, d), optional
        Where rows lie (`places_of`), to show similar ones.
    """

    candidates: Candidates
    probabilities: Beliefs
    transduction: Beliefs | None = None
    ids: tuple[Any, ...] | None = None
    answers: Answers | None = None
    features: dict[str, list[Any]] | None = None
    images: list[str] | None = None
    image_folder: str | None = None
    trusted: np.ndarray | None = None
    id_column: str | None = None
    fingerprint: str | None = None
    wrong: np.ndarray | None = None
    places: np.ndarray | None = None
    ids_are_numbers: bool = False

    def __post_init__(self) -> None:
        self.probabilities = self._matrix("probabilities", self.probabilities)
        if self.transduction is not None:
            self.transduction = self._matrix("transduction", self.transduction)
        if self.trusted is None:
            truth = self.candidates.truth
            self.trusted = np.zeros(len(self), bool) if truth is None else truth != UNKNOWN
        self.trusted = np.asarray(self.trusted, dtype=bool)
        self.fingerprint = self.fingerprint or self.candidates.hash
        if self.ids is not None:
            self.ids = tuple(map(native, self.ids))
        if self.features is not None:
            self.features = {name: list(values) for name, values in self.features.items()}
        if self.images is not None:
            self.images = [os.path.abspath(path) for path in self.images]
            if self.image_folder is None and self.images:
                self.image_folder = os.path.commonpath([os.path.dirname(path) for path in self.images])
        if self.image_folder is not None:
            self.image_folder = os.path.abspath(self.image_folder)
        self._check()

    def _check(self) -> None:
        (n, c), answers = self.candidates.shape, self.answers
        if self.wrong is not None and not np.all(np.abs(np.asarray(self.wrong) - 0.5) < 0.5 + 1e-5):
            raise ReviewError("wrong has entries that are no probabilities from 0 to 1.")
        if answers and (answers.row.max() >= n or answers.label.max() >= c):
            named = f"answers name row {answers.row.max()} and class {answers.label.max()}"
            raise ReviewError(f"{named}, but there are {n} rows and {c} classes.")
        columns = {f"features[{name!r}]": values for name, values in (self.features or {}).items()}
        columns |= {name: getattr(self, name) for name in ("ids", "images", "trusted", "wrong", "places")}
        for what, values in columns.items():
            axes = 2 if what == "places" else 1
            if values is not None and (len(values) != n or getattr(values, "ndim", axes) != axes):
                shape = " x ".join(map(str, getattr(values, "shape", (len(values),))))
                raise ReviewError(f"{what} has {shape} entries, but there are {n} rows.")

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def expected_errors(self) -> int | None:
        """How many labels are expected to be wrong, where that is known."""
        return None if self.wrong is None else round(float(self.wrong.sum()))

    @cached_property
    def annotators(self) -> list[Annotator]:
        """What can be said about each of them, by Dawid and Skene's estimate and by trusted labels.

        Not by the model: its beliefs are soft after a short training, and everybody would look worse.
        """
        if self.answers is None or not len(self.answers) or not self.answers.named:
            return []
        beliefs = estimate_true_labels(self.answers, *self.candidates.shape).posterior
        if self.transduction is not None:
            beliefs[self.trusted] = dense_rows(self.transduction, self.trusted)
        return annotator_table(Annotations(self.candidates, answers=self.answers), beliefs)

    @cached_property
    def spread(self) -> float:
        """How far rows lie from their middle, in the mean of the squares."""
        return 0.0 if self.places is None else float(self.places.astype(np.float32).var(axis=0).sum())

    def name_of(self, row: int) -> Any:
        """What the user calls a row."""
        return row if self.ids is None else self.ids[row]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `review.npz` and `review.json` into a folder, each whole or not at all."""
        sets, answers, large = self.candidates.compact, self.answers, issparse(self.probabilities)
        features = self.features and {
            str(name): [json_value(v) for v in values] for name, values in self.features.items()
        }
        names: dict[str, Any] = {
            "kind": "oneof review",
            "format": LARGE if large else FORMAT,
            "classes": list(self.candidates.classes),
            "truth_may_be_outside": self.candidates.truth_may_be_outside,
            "provenance": dict(self.candidates.provenance),
            **{name: getattr(self, name) for name in AS_THEY_ARE},
            "workers": None if answers is None else answers.workers,
            "workers_named": answers is None or answers.named,
            "features": features,
            "images": self.images and [os.path.relpath(path, self.image_folder) for path in self.images],
        }
        try:
            names["stamp"] = _digest(names)
            text = json.dumps(names)
        except TypeError as error:
            raise ReviewError(
                f"the review data of {folder} cannot be written: {error}.\n"
                "  Names of classes and rows must be text or numbers."
            ) from None
        arrays: dict[str, Any] = {
            "stamp": names["stamp"],
            "trusted": self.trusted,
            "truth": self.candidates.truth,
            "wrong": None if self.wrong is None else np.asarray(self.wrong, dtype=np.float32),
            "places": self.places,
            **_parts("probabilities", self.probabilities),
            **_parts("transduction", self.transduction),
            **{f"answers.{part}": getattr(answers, part, None) for part in ANSWER},
        }
        if large:
            arrays |= {"positions": sets.positions, "starts": sets.starts}
        else:
            arrays["mask"] = np.concatenate([np.packbits(sets.dense(b), axis=1) for b in sets.blocks()])
        there = {name: values for name, values in arrays.items() if values is not None}
        write_with(Path(folder) / ARRAYS, lambda out: np.savez_compressed(out, **there))
        write_text(Path(folder) / NAMES, text)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ReviewData:
        """Read what `save` wrote."""
        folder = Path(folder)
        for name in (ARRAYS, NAMES):
            if not (folder / name).is_file():
                raise ReviewError(
                    f"{folder} holds no {name}: there is nothing to review.\n"
                    "  Give the folder that `oneof fit` wrote (--out); older ones must be fitted again."
                )
        only_plain_entries(folder, (ARRAYS, NAMES))
        try:
            names, arrays = read_json(folder / NAMES), stored_arrays(folder / ARRAYS)
            if str(arrays["stamp"]) != names["stamp"]:
                raise ValueError("they come from two different fits")
            if len(names["stamp"]) == STAMP_LENGTH and names["stamp"] != _digest(names):
                raise ValueError(f"{NAMES} was changed after it was written")
            return cls._from_parts(names, arrays)
        except DAMAGE as error:
            what = " ".join(str(error).split()) or type(error).__name__
            wrong = f"are not readable ({what}).\n  Run `oneof fit` again to write them."
            raise ReviewError(f"{folder}: {ARRAYS} and {NAMES} {wrong}") from None

    @classmethod
    def _from_parts(cls, names: dict[str, Any], arrays: dict[str, np.ndarray]) -> ReviewData:
        classes = tuple(names["classes"])
        if names.get("format") == LARGE:
            sets, _ = checked_positions(arrays["positions"], arrays["starts"], len(classes), "the review")
        else:
            sets = CompactSets.of_bits(arrays["mask"], len(classes))
        with warnings.catch_warnings(action="ignore", category=NoInformationWarning):  # said once, at the fit
            candidates = Candidates(
                sets, classes, arrays.get("truth"), names["truth_may_be_outside"], names["provenance"]
            )
        answers = None
        if names["workers"] is not None:
            row, worker, label = (arrays[f"answers.{part}"] for part in ANSWER)
            answers = Answers(row, worker, label, tuple(names["workers"]), names["workers_named"])
        images = names["images"]
        return cls(
            candidates,
            _joined("probabilities", arrays, candidates.shape),
            _joined("transduction", arrays, candidates.shape),
            answers=answers,
            features=names["features"],
            images=images and [os.path.join(names["image_folder"], path) for path in images],
            trusted=arrays["trusted"],
            wrong=arrays.get("wrong"),
            places=arrays.get("places"),
            **{name: names[name] for name in AS_THEY_ARE if name in names},  # early ones have fewer
        )

    def _matrix(self, name: str, given: Any) -> Beliefs:
        values: Any = (given if issparse(given) else np.asarray(given)).astype(np.float32, copy=False)
        if values.shape != self.candidates.shape:
            raise ReviewError(
                f"{name} has shape {values.shape}, but there are {len(self)} rows and "
                f"{self.candidates.n_classes} classes."
            )
        if issparse(values):
            values.check_format(full_check=True)  # every column is there
            if not values.has_canonical_format:
                raise ReviewError(f"{name} has a row whose columns do not ascend.")
        entries = values.data if issparse(values) else values
        for place in first_where(~np.isfinite(entries) | (entries < 0)):
            value = entries[tuple(place)]
            raise ReviewError(f"{name}{place} = {value}; probabilities are numbers of at least 0.")
        return values


def _parts(name: str, table: Beliefs | None) -> dict[str, np.ndarray]:
    """A table by the names its arrays have in the file."""
    if issparse(table):
        return {f"{name}.{part}": getattr(table, part) for part in CSR}
    return {} if table is None else {name: table}


def _joined(name: str, arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> Beliefs | None:
    """The same from a file, where there is such a table."""
    if f"{name}.{CSR[0]}" in arrays:
        return csr_array(tuple(arrays[f"{name}.{part}"] for part in CSR), shape=shape)
    return arrays.get(name)


def _digest(names: dict[str, Any]) -> str:
    """Of everything but the stamp, as it comes back from the file."""
    told = {name: value for name, value in names.items() if name != "stamp"}
    return hashlib.sha256(json.dumps(json.loads(json.dumps(told)), sort_keys=True).encode()).hexdigest()


def recorded_id_column(folder: Path) -> str | None:
    """The column whose ids name the rows of a folder's review, where the folder says so."""
    try:
        return read_json(folder / NAMES).get("id_column")
    except (OSError, ValueError, AttributeError):
        return None
