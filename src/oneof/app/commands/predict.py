"""`oneof predict` and `oneof export`: apply a saved model to a table, or write it as one ONNX file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from oneof.app.commands.show import bars
from oneof.app.wishes import Wishes
from oneof.candidates.cells import counted
from oneof.tables.text import TextForm

if TYPE_CHECKING:
    from oneof.classifier.estimator import PartialLabelClassifier


@dataclass
class Predict:
    """Predict the class of every row of a table with a model saved by `oneof fit`.

    The table needs the feature columns the model was trained on, in any order; others are ignored. Parquet
    and text files are worked on in batches and may be larger than the memory.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """Folder of the model."""
    table: Annotated[Positional[Path], arg(metavar="TABLE")]
    """CSV, TSV, Parquet, npz or npy file, or a folder of images where the model was trained on one; with
    --cluster a folder of tables."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("predictions.csv")
    """Where to write label, confidence and more: a .csv, .tsv or (large and fast) .parquet file; with
    --cluster a folder."""
    cluster: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Predict every table of a folder on a Ray cluster (extra `cluster`): its address, `auto` for the one
    this machine belongs to, `local` to start one here. All machines must see both folders."""
    device: str | None = None
    """Where to compute; default: what the model was trained with."""
    sep: str | None = None
    """What stands between the cells of a CSV file; default: found out."""
    encoding: str | None = None
    """Encoding of a CSV file; default: found out."""
    embed: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Folder of the sentence-transformers model, where the model was fitted with --embed."""
    output: Wishes = field(default_factory=Wishes)

    def run(self) -> int:
        from rich.progress import TextColumn

        from oneof.app.streaming import predict_file
        from oneof.classifier.persist import load
        from oneof.tables.free_text import use_sentences
        from oneof.tables.reader import expected_rows

        if self.embed is not None:
            use_sentences(self.embed)
        model = load(self.model)
        if self.device is not None:
            model.device = self.device
        form = TextForm(sep=self.sep, encoding=self.encoding)
        self._check_coverage(model)
        if self.cluster is not None:
            return self._on_cluster(model, form)
        expected = expected_rows(self.table)
        with bars(TextColumn("{task.completed} rows")) as update:

            def progress(rows: int) -> None:
                update(self.table.name, rows, None if expected is None else max(expected, rows))

            done = predict_file(model, self.table, self.out, self.output, progress, form)
        facts = [counted(done.rows, "prediction"), f"mean confidence {done.confidence:.1%}"]
        if self.output.reject_below is not None:
            facts.append(f"{counted(done.rejected, 'row')} without a label")
        if self.output.coverage is not None:
            facts.append(f"{done.set_size:.2f} classes per set")
        print(f"{', '.join(facts)}: {self.out}")
        if done.seconds > 10:  # worth a thought about what took the time
            share = done.waited / done.seconds
            rate = done.rows / done.seconds
            print(f"{rate:.0f} rows per second, {share:.0%} of the time waiting for the table")
        return 0

    def _check_coverage(self, model: PartialLabelClassifier) -> None:
        """Say in words of the command line what a model without calibration lacks."""
        from oneof.app.commands.fit import Fit
        from oneof.app.fit.clean import FEWEST_CHECKED
        from oneof.classifier.prediction import why_not_calibrated
        from oneof.classifier.scoring import rows_needed

        coverage = self.output.coverage
        if coverage is None or hasattr(model, "calibration_scores_"):
            return
        labels = math.ceil(max(FEWEST_CHECKED, rows_needed(coverage)) / Fit.check_share)
        raise ValueError(
            f"--coverage {coverage:g}: prediction sets need calibration rows, and "
            f"{why_not_calibrated(model)}.\n"
            f"  Fit again with at least {labels} trusted labels: `oneof fit ... --clean COLUMN|FILE` keeps "
            f"{Fit.check_share:.0%} of them aside for this (--check-share)."
        )

    def _on_cluster(self, model: PartialLabelClassifier, form: TextForm) -> int:
        from rich.progress import TextColumn

        from oneof.app.streaming import predict_tables

        assert self.cluster is not None
        out = self.out.with_suffix("") if self.out == Predict.out else self.out
        with bars(TextColumn("{task.completed} of {task.total} tables")) as update:
            progress = partial(update, self.table.name)
            rows = predict_tables(model, self.table, out, self.cluster, self.output, form, progress)
        print(f"{rows} predictions: {out}")
        return 0


@dataclass
class Export:
    """Write a saved model as an ONNX file, which runs without Python, torch and oneof.

    The scaling of the features is part of the graph. The file is run once and compared with the model; it
    is kept only if they agree to 1e-5.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """Folder of the model."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("model.onnx")
    """The file to write."""
    logits: bool = False
    """Give logits instead of probabilities."""

    def run(self) -> int:
        from oneof.classifier.export import export_onnx
        from oneof.classifier.persist import load

        model = load(self.model)
        difference = export_onnx(model, self.out, probabilities=not self.logits)
        what = "logits" if self.logits else "probabilities"
        shape = " x ".join(map(str, model.input_shape_))
        taken = f"{shape} features" if len(model.input_shape_) == 1 else f"images of {shape}"
        print(f"{self.out}: {taken} in, {what} of {len(model.classes_)} classes out")
        print(f"compared with torch: largest difference {difference:.1e}")
        encoder = getattr(model, "encoder_", None)
        if encoder is not None:
            print(
                "note: the graph takes encoded features, not the columns of a table; how they are made "
                'from the columns is in the metadata of the file, under "encoder".'
            )
        return 0
