"""What a fit leaves in its folder besides the model: labels, review data and the report."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse

from oneof.app.fit.clean import CleanLabels
from oneof.app.fit.plan import as_time
from oneof.app.fit.training_data import TrainingData
from oneof.app.fit_page.facts import Checked, FitFacts
from oneof.app.fit_page.page import REVIEWED, model_settings, render
from oneof.app.review.folder import ReviewData
from oneof.app.review.ranking import places_of
from oneof.candidates.cells import SEPARATOR, native
from oneof.candidates.compact import Beliefs, CompactSets, beliefs, best
from oneof.classifier.estimator import PartialLabelClassifier
from oneof.tables.encoding import TableEncoder
from oneof.tables.files import write_text
from oneof.tables.table import Table
from oneof.tables.writers import write_lines, writing

LINES = 50_000
"""Lines of `labels.csv` that are written at a time."""
MOST_SHOWN = 8
LONGEST_SHOWN = 300


@dataclass
class Fitted:
    """A fitted model with the rows it came from."""

    data: TrainingData
    clean: CleanLabels
    rows: np.ndarray
    """Those that `fit` got."""
    model: PartialLabelClassifier
    encoder: TableEncoder | None
    x: np.ndarray

    def __post_init__(self) -> None:
        """Check the model by clean rows that nothing was learned from; its prediction sets go by them too."""
        self.checked, aside = None, self.clean.aside
        if len(aside):
            inputs = (self.x if self.clean.x is None else self.clean.x)[aside]
            labels = self.clean.named(self.data.candidates.classes, aside)
            self.model.calibrate(inputs, labels, record_accuracy=True)
            self.checked = Checked(self.model.predict_proba(inputs), self.clean.columns[aside])

    @cached_property
    def transduction(self) -> Beliefs:
        """(n, c): what the model made of the rows it got, and the trusted label of those kept aside."""
        n, c = self.data.candidates.shape
        place, trusted = np.full((2, n), -1)
        place[self.rows] = np.arange(len(self.rows))
        trusted[self.clean.left_out] = self.clean.columns[self.clean.left_out]

        def said(rows: slice) -> np.ndarray:
            here, label = place[rows], trusted[rows]
            made = (label[:, None] == np.arange(c)).astype(np.float32)
            made[here >= 0] = self.model.transduction_of(here[here >= 0])
            return made

        return beliefs(said, self.data.candidates.compact)

    @cached_property
    def wrong(self) -> np.ndarray | None:
        """(n,): how probably the label of a row is wrong, by models that had not seen it; 0 where trusted."""
        found = getattr(self.model, "label_errors_", None)
        if found is None:
            return None
        made = np.zeros(len(self.data))
        made[self.rows] = found.wrong
        return made

    @cached_property
    def review(self) -> ReviewData:
        """What `oneof review` shows."""
        data = self.data
        return ReviewData(
            candidates=data.candidates,
            probabilities=beliefs(
                lambda rows: self.model.predict_proba(self.x[rows]), data.candidates.compact
            ),
            transduction=self.transduction,
            ids=data.names,
            ids_are_numbers=data.ids is None,
            answers=data.answers,
            features=shown_columns(data.table, self.encoder),
            images=list(map(str, data.image_files)) or None,
            image_folder=None if data.image_folder is None else str(data.image_folder),
            trusted=np.isin(np.arange(len(data)), self.clean.trusted),
            wrong=self.wrong,
            id_column=data.id_column,
            fingerprint=data.fingerprint,
            places=places_of(self.x, self.model.prepare),
        )

    def write(self, folder: Path) -> None:
        """The model, `labels.csv`, the review data and, where annotators are known, `annotators.csv`."""
        review, model = self.review, self.model
        further, said = self.data.rest_inputs(self.encoder), None
        if further is not None:
            nothing = CompactSets.of_sizes([], np.zeros(len(further)), len(model.classes_))
            said = beliefs(lambda rows: model.predict_proba(further[rows]), nothing, np.float64)
        if not issparse(self.transduction):  # what is large is in the review alone
            model.with_transduction(self.transduction)
        if self.encoder is not None:
            # last: a model that knows names warns about the arrays it was given so far
            model.with_encoder(self.encoder)
        model.save(folder)
        review.save(folder)
        self._write_labels(folder / "labels.csv", said)
        (folder / "annotators.csv").unlink(missing_ok=True)  # of the fit before
        if review.annotators:
            write_lines(folder / "annotators.csv", [line.columns() for line in review.annotators])

    def _write_labels(self, path: Path, said: Beliefs | None) -> None:
        """For every row the label the model believes in and how sure it is; rows without candidates last.

        `said` are the probabilities of those. `row` is the number of a row in its table.
        """
        data, (believed, sure) = self.data, best(self.transduction)
        sure = sure if self.wrong is None else 1 - self.wrong
        if said is not None:
            believed, sure = (np.append(*parts) for parts in zip((believed, sure), best(said)))
        ids = None if data.names is None else (*data.names, *data.rest_ids)
        numbers = np.append(data.numbers, data.rest_numbers)
        with writing(path) as writer:
            for first in range(0, len(sure), LINES):
                some = slice(first, min(first + LINES, len(sure)))
                known = np.arange(some.start, min(some.stop, len(data)))
                sets = data.candidates.take(known).sets() if len(known) else []
                columns: dict[str, Any] = {"row": numbers[some]}
                if ids is not None:
                    columns["id"] = ids[some]
                columns["label"] = [data.candidates.classes[k] for k in believed[some]]
                columns["confidence"] = [f"{p:.4f}" for p in sure[some]]
                written = [SEPARATOR.join(map(str, names)) for names in sets]
                columns["candidates"] = written + [""] * (len(columns["row"]) - len(written))
                writer.write(columns)

    def write_report(self, folder: Path, seconds: float) -> None:
        """`report.html` in the folder."""
        facts = FitFacts.of(
            self.model,
            self.data.source,
            self.review,
            checked=self.checked,
            clean=self.clean.sentence(),
            notes=self.data.notes,
            settings=self._settings(seconds),
        )
        facts.thumbnails = thumbnails(self.data.pixels, facts.doubtful[:REVIEWED])
        write_text(folder / "report.html", render(facts))

    def _settings(self, seconds: float) -> dict[str, str]:
        """How the model was made, for the end of the report."""
        data, clean, encoder, model = self.data, self.clean, self.encoder, self.model
        learned = "These rows were learned from: this is no test."
        made = {
            "rows": f"{len(data):,}, {len(self.rows):,} of them in training",
            "candidates": data.candidates.describe(),
            "features": "images" if encoder is None else encoder.describe(),
            "clean rows": f"{clean.sentence()} Weight in the loss: {model.clean_weight_:g}.",
            **model_settings(model),
            "time": as_time(seconds),
            "curve": "Clean rows predicted right, by epoch. "
            + (learned if clean.learns else "Nothing was learned from them."),
        }
        if encoder is not None and encoder.left_out:
            made["left out"] = "; ".join(f"{name} {why}" for name, why in encoder.left_out.items())
        known = data.candidates.provenance
        origin = ", ".join(f"{name} {known[name]}" for name in ("format", "rule", "file") if name in known)
        return {**made, "origin of the candidates": origin} if origin else made


def shown_columns(table: Table | None, encoder: TableEncoder | None) -> dict[str, list[Any]] | None:
    """A few columns that help a person to judge a row: texts first."""
    if table is None or encoder is None:
        return None
    prose = [code.name for code in encoder.codes if code.kind in ("text", "sentence")]
    words = [name for name, why in encoder.left_out.items() if "text" in why]
    names = list(dict.fromkeys([*prose, *words, *encoder.column_names]))
    names = [name for name in names if _single(table.columns[name])]
    return {name: list(map(_shown, table.columns[name])) for name in names[:MOST_SHOWN]} or None


def _single(values: Any) -> bool:
    """Whether a column has one value per row: vectors are nothing to read."""
    first = values[0] if len(values) else None
    return getattr(values, "ndim", 1) == 1 and not isinstance(first, list | tuple | np.ndarray)


def _shown(value: Any) -> Any:
    value = native(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:LONGEST_SHOWN] + "…" * (len(str(value)) > LONGEST_SHOWN)


def thumbnails(pixels: np.ndarray | None, rows: list[int]) -> dict[int, str]:
    """Small pictures of some rows as data URIs."""
    if pixels is None or pixels.ndim != 4 or pixels.shape[1] != 3 or pixels.dtype != np.uint8:
        return {}
    try:
        from PIL import Image
    except ImportError:
        return {}
    made = {}
    for row in rows:
        image = Image.fromarray(np.ascontiguousarray(pixels[row].transpose(1, 2, 0)))
        image.thumbnail((96, 96))
        stream = io.BytesIO()
        image.save(stream, format="PNG")
        made[row] = "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
    return made
