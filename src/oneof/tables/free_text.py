"""Texts as features: categories, words of free text (TF-IDF, SVD), vectors of a sentence model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from oneof.candidates.cells import cell_text, short
from oneof.tables.errors import DataError
from oneof.tables.files import reading, sha256_of
from oneof.tables.table import DATED, OneColumn

MOST_VALUES = 50
"""Of a category; rarer ones share a column."""
LEAST_WORDS = 3
"""A column of many different texts is prose from so many words per cell on: names and ids have fewer."""
MOST_WORDS = 5000
MOST_DIMENSIONS = 200
ENOUGH_ROWS = 20_000
"""Words and directions are learned from about so many rows, spread over the column."""
DATE_TEXT = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}([ T].*)?")
A_WORD = re.compile(r"[^\W\d_]{2}")


def is_prose(counts: Counter[str]) -> bool:
    """Whether texts are written for people: several words each, by the first thousand."""
    first = list(islice(counts, 1000))
    words = sum(A_WORD.search(word) is not None for text in first for word in text.split())
    return words >= LEAST_WORDS * max(1, len(first))


def text_counts(values: Sequence[Any]) -> Counter[str]:
    """How often every text occurs; missing cells are not counted."""
    made: Counter[str] = Counter()
    for value, count in Counter(values).items():
        text = cell_text(value)
        if text is not None:
            made[text] += count
    return made


def why_no_category(counts: Counter[str], largest: int) -> str | None:
    """Why a column of texts tells a classifier nothing, or None where its values can be told apart."""
    rows, different = counts.total(), len(counts)
    if all(DATE_TEXT.fullmatch(text) for text in counts):
        return DATED
    if different == rows > 10:
        return "has a different text in every row (an id, or free text)"
    if different > largest and different > rows / 2:
        return f"has {different} different texts in {rows} rows (free text, or ids)"
    return None


@dataclass(frozen=True)
class CategoryColumn(OneColumn):
    """A text per row: one column of 0 and 1 for every value seen in training.

    With more than `MOST_VALUES` values the rarer ones share a column, and values that were never seen
    join them. Where no value was rare there is no such column: it would have been 0 in every training
    row and its weights never learned. An unseen value is then none of the known ones.
    """

    name: str
    values: list[str]
    other: bool
    flag: bool

    kind: ClassVar[str] = "category"

    @classmethod
    def fit(cls, name: str, column: list[Any]) -> CategoryColumn:
        counts = text_counts(column)
        frequent = sorted(counts, key=lambda text: (-counts[text], text))[:MOST_VALUES]
        absent = counts.total() < len(column)
        return cls(name, sorted(frequent), len(counts) > MOST_VALUES, absent)

    @property
    def parts(self) -> list[str]:
        return [f"{self.name}={value}" for value in [*self.values, *["(other)"] * self.other]]

    def encode(self, column: Any, title: str) -> np.ndarray:
        width = len(self.names)
        place: dict[str | None, int] = {value: k for k, value in enumerate(self.values)}
        unseen = len(self.values) if self.other else width
        place[None] = width - 1 if self.flag else unseen
        cells = column.tolist() if isinstance(column, np.ndarray) else column
        try:
            codes = {value: place.get(cell_text(value), unseen) for value in set(cells)}
        except TypeError:
            raise DataError(f"{title} holds lists; the model was trained on single values there.") from None
        hot = np.fromiter(map(codes.__getitem__, cells), dtype=np.int64, count=len(cells))
        new = [] if self.other else [v for v in codes if codes[v] == width and cell_text(v) is not None]
        if 2 * int((hot == width).sum()) > len(cells) and new:
            what = f"most texts are new to the model, such as {new[0]!r:.80}; it knows {short(self.values)}."
            warnings.warn(f"{title}: {what}", stacklevel=2)
        made = np.zeros((len(cells), width + 1), dtype=np.float32)  # the last column takes what is none
        made[np.arange(len(cells)), hot] = 1.0
        return made[:, :width]

    def is_sound(self) -> bool:
        known = isinstance(self.other, bool) and all(isinstance(v, str) for v in self.values)
        return known and len(set(self.values)) == len(self.values) <= MOST_VALUES


@dataclass(frozen=True)
class TextColumn(OneColumn):
    """A text per row: words weighed by TF-IDF, along the main directions of the training rows (SVD).

    A missing text, and one of unknown words only, is 0 in all of them.
    """

    name: str
    words: list[str]
    weights: list[float]
    """Inverse document frequency of every word."""
    directions: str
    """(dimensions, words) float32, little-endian, in base64: an encoder is stored as JSON."""
    flag: bool

    kind: ClassVar[str] = "text"

    @classmethod
    def fit(cls, name: str, column: Any) -> TextColumn | str:
        """What was learned, or why there is nothing to learn."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = [text for text in map(cell_text, column) if text is not None]
        some = texts[:: max(1, len(texts) // ENOUGH_ROWS)]
        counted = TfidfVectorizer(min_df=2, max_df=0.95, max_features=MOST_WORDS, sublinear_tf=True)
        try:
            weighed = counted.fit_transform(some)
        except ValueError:  # no word is left
            return "has no word that stands in several rows, and not in all"
        # more directions than a quarter of the rows would be noise
        size = max(1, min(MOST_DIMENSIONS, len(some) // 4, weighed.shape[1]))
        found = TruncatedSVD(size, random_state=0).fit(weighed).components_.astype("<f4")
        words, weights = counted.get_feature_names_out().tolist(), counted.idf_.tolist()
        absent = len(texts) < len(column)
        return cls(name, words, weights, base64.b64encode(found.tobytes()).decode(), absent)

    @cached_property
    def _matrix(self) -> np.ndarray:
        content = np.frombuffer(base64.b64decode(self.directions, validate=True), dtype="<f4")
        return content.reshape(-1, len(self.words))

    @cached_property
    def _counted(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        made = TfidfVectorizer(vocabulary=self.words, sublinear_tf=True, dtype=np.float32)
        made.idf_ = np.array(self.weights)
        return made

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self._matrix)

    def encode(self, column: Any, title: str) -> np.ndarray:
        texts = _texts(column, title)
        made = self._counted.transform([text or "" for text in texts]) @ self._matrix.T
        return self.flagged(made, [text is None for text in texts])

    def is_sound(self) -> bool:
        if not self.words or len(self.words) > MOST_WORDS or not all(isinstance(w, str) for w in self.words):
            return False
        numbers = np.array(self.weights, dtype=np.float64), self._matrix
        return (
            len(set(self.words)) == len(self.words) == len(self.weights)
            and 0 < len(self._matrix) <= MOST_DIMENSIONS
            and all(bool(np.isfinite(values).all()) for values in numbers)
        )


@dataclass(frozen=True)
class SentenceColumn(OneColumn):
    """A text per row, as the vector that a sentence-transformers model gives; a missing one is all 0.

    The sentence model is no part of this: a digest says which one it must be, and `use_sentences` reads it.
    """

    name: str
    digest: str
    width: int
    flag: bool

    kind: ClassVar[str] = "sentence"

    @classmethod
    def fit(cls, name: str, column: Any, digest: str) -> SentenceColumn:
        width = len(_sentence_models[digest].encode(["a text"])[0])
        return cls(name, digest, width, any(cell_text(v) is None for v in column))

    def encode(self, column: Any, title: str) -> np.ndarray:
        model = _sentence_models.get(self.digest)
        if model is None:
            others = "; another one was given" if _sentence_models else ""
            raise DataError(
                f'column "{self.name}" is read by the sentence model that it was trained with{others}.\n'
                "  Say in which folder it is: --embed FOLDER, in Python "
                "oneof.tables.free_text.use_sentences(folder)."
            )
        texts = _texts(column, title)
        made = np.zeros((len(texts), self.width), dtype=np.float32)
        present = [i for i, text in enumerate(texts) if text is not None]
        if present:
            made[present] = model.encode([texts[i] for i in present], show_progress_bar=False)
        return self.flagged(made, [text is None for text in texts])

    def is_sound(self) -> bool:
        return isinstance(self.digest, str) and isinstance(self.width, int) and 0 < self.width < 1 << 16


_sentence_models: dict[str, Any] = {}
"""Those this process was given, by digest: a file never says from where to load one."""


def use_sentences(folder: Path | str) -> str:
    """Read a sentence-transformers model from a folder, for columns that need it; returns its digest.

    Nothing is fetched, weights must be safetensors, and code of the folder's own is refused.
    """
    folder = Path(folder)
    if not (folder / "modules.json").is_file():
        raise DataError(f"{folder} holds no modules.json: it is no folder of a sentence-transformers model.")
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise DataError(
            f"--embed {folder} needs sentence-transformers, which is not installed: "
            "pip install 'oneof[embed]'.\n  Without --embed the words of the texts are used."
        ) from None
    digest = hashlib.sha256()
    with reading(folder, "sentence-transformers model"):
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            digest.update(f"{path.relative_to(folder).as_posix()} {sha256_of(path)}\n".encode())
        kinds = [part["type"] for part in json.loads((folder / "modules.json").read_bytes())]
        if not all(str(kind).startswith("sentence_transformers.") for kind in kinds):
            raise DataError(f"{folder} brings code of its own ({short(kinds)}), which is not run.")
        weights = {"use_safetensors": True}
        model = SentenceTransformer(str(folder), local_files_only=True, model_kwargs=weights)
    _sentence_models[digest.hexdigest()] = model
    return digest.hexdigest()


def _texts(column: Any, title: str) -> list[str | None]:
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        raise DataError(f"{title} holds lists; the model was trained on texts there.")
    return [cell_text(cell) for cell in cells]
