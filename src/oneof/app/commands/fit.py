"""`oneof fit`: from ambiguous rows to a model, a report and a list of rows to look at."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from tyro.conf import Positional, UseAppendAction, arg

from oneof.app.commands.show import show_table
from oneof.candidates.cells import counted
from oneof.candidates.questions import Answer
from oneof.tables.errors import DataError
from oneof.tables.files import only_plain_entries
from oneof.tables.text import TextForm

if TYPE_CHECKING:
    from oneof.app.fit.clean import CleanLabels
    from oneof.app.fit.outcome import Fitted
    from oneof.app.fit.plan import Given, Limits
    from oneof.app.fit.training_data import TrainingData
    from oneof.classifier.estimator import PartialLabelClassifier

SHOWN_NAMES = 8
REPLACED = ("labels.csv", "annotators.csv", "report.html")


@dataclass
class Fit:
    """Learn a classifier from rows that carry candidate labels.

    Rows come as a table (CSV, TSV, Parquet; numbers, categories, free text, gaps), as embeddings (npy, npz)
    or as a folder of images (--images). Candidates are a column of the table, such as cat|dog or
    ["cat", "dog"], or a file made by `oneof candidates import`. Writes a folder with the model, labels.csv
    (for every row the label the model believes in), annotators.csv (where it is known who answered),
    report.html, and what `oneof review` needs.
    """

    candidates: Annotated[str, arg(metavar="COLUMN|FILE")]
    """Column with the candidate labels (in an npz file: a mask, with an optional array "classes"), or a file
    of candidates."""
    table: Annotated[Positional[Path | None], arg(metavar="TABLE")] = None
    """CSV, TSV, Parquet, npz or npy file."""
    images: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Folder of images in place of a table; ids of the candidates are the names of the files inside it."""
    image_size: int = 32
    """Images are brought to so many pixels, both ways."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("model")
    """Folder for the model; one that is there already is replaced."""
    id: Annotated[str | None, arg(metavar="COLUMN")] = None
    """Column that names the rows: candidates and clean labels in other files are matched by it."""
    clean: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="COLUMN|FILE")] = ()
    """Trusted labels: a column (empty where unknown), a file with id (or row) and label, the decisions.jsonl
    of `oneof review`, or a table of further rows with a column "label". May be given several times; the
    later one counts."""
    clean_weight: float | None = None
    """Weight of cross-entropy on the clean rows in the loss; default: 1, on images 0.5."""
    check_share: float = 0.2
    """Part of the clean rows that nothing is learned from, for an honest accuracy in the report; none are
    kept aside where they would be fewer than 20."""
    features: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Feature columns; default: all others that can be used."""
    ignore: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Columns to leave out."""
    text: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Columns of free text, whose words become features; default: found out (three words a cell and more)."""
    embed: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Folder of a sentence-transformers model to read free text by, in place of its words (extra embed);
    predictions need it too."""
    sep: str | None = None
    """What stands between the cells of a CSV file; default: found out (, ; tab |)."""
    encoding: str | None = None
    """Encoding of a CSV file; default: found out (UTF-8, UTF-16, cp1252)."""
    accept: tuple[Answer, ...] = ()
    """Answers to questions about data that look like a mistake; each question says which one fits."""
    method: str = "auto"
    """How to learn; `oneof methods` lists them. auto: a few methods, nets and lengths and plain baselines are
    compared on your rows, and the best is taken."""
    set: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Hyper-parameters of the method; `oneof methods NAME` lists them."""
    net: str = "auto"
    """The network: mlp or linear for tables; lenet (small), resnet18 and others for images. auto: mlp or
    resnet18. Which of mlp and linear is better depends on the rows: --method auto compares both."""
    scaling: Literal["standard", "global", "minmax", "none"] = "standard"
    """How features are scaled."""
    epochs: int | None = None
    """Passes over the rows; default: 40, but 800 to 3,000 steps in 4 to 100 epochs."""
    budget: Annotated[str | None, arg(metavar="TIME")] = None
    """Time for everything, such as 30s, 10m or 2h: trainings are shortened, and comparisons left out, to keep
    it."""
    cluster: Annotated[str | None, arg(metavar="ADDRESS")] = None
    """Compare on a Ray cluster (extra cluster); auto finds the one this machine belongs to."""
    memory: Annotated[str | None, arg(metavar="SIZE")] = None
    """Memory for everything, such as 6GB or 500MB: what is estimated to take more does not begin. Default:
    what is free on this machine, with a warning."""
    lr: float = 1e-2
    """Learning rate."""
    weight_decay: float = 0.0
    """Weight decay."""
    seed: int = 0
    """Seed of everything random."""
    device: str = "auto"
    """Where to train; auto is the GPU where there is one."""
    resume: bool = True
    """Keep checkpoints in the model folder and continue from them after an interruption."""
    report: bool = True
    """Write report.html."""
    track: Literal["tensorboard"] | None = None
    """Send every epoch's numbers to TensorBoard too (extra track-tensorboard)."""

    def run(self) -> int:
        began = time.perf_counter()  # a budget pays for the imports too

        from oneof.app.fit.clean import read_all_clean
        from oneof.app.fit.outcome import Fitted
        from oneof.app.fit.plan import Limits, parse_budget, parse_memory
        from oneof.tables.free_text import use_sentences

        if not 0 <= self.check_share < 1:
            raise ValueError(f"--check-share {self.check_share:g}: give a part of the clean rows, below 1.")
        limits = Limits(parse_budget(self.budget), parse_memory(self.memory), began)
        data = self._read()
        print(f"{data.source}: {data.candidates.describe()}")
        clean = read_all_clean(self.clean, data, self.id or data.id_column)
        model = self._model("mlp" if data.pixels is None else "resnet18")
        learns = len(clean) > 0 and self._learns(model, data, len(clean))
        clean.divide(learns, self.check_share, self.seed)
        rows, to_encode = (np.delete(np.arange(len(data)), out) for out in (clean.left_out, clean.checked))
        taken = [*self.ignore, *(c for c in self.clean if data.table and c in data.table.columns)]
        sentences = None if self.embed is None else use_sentences(self.embed)
        x, encoder = data.inputs(to_encode, self.features, taken, self.text, sentences)
        clean.encode(encoder)
        self._say_what_is_learned_from(data, encoder, clean)

        inputs = x if len(rows) == len(x) else x[rows]  # an array in a file stays there
        given = inputs, data.candidates.take(rows), clean.argument(data.candidates.classes, rows)
        self._claim_folder()
        self._train(model, given, limits)
        fitted = Fitted(data, clean, rows, model, encoder, x)
        fitted.write(self.out)
        if self.report:
            fitted.write_report(self.out, limits.spent)
        if self.resume:
            shutil.rmtree(self.out / "run", ignore_errors=True)  # the model is saved: nothing to continue
        self._say_how_it_went(fitted)
        return 0

    def _train(self, model: PartialLabelClassifier, given: Given, limits: Limits) -> None:
        from oneof.app.fit.plan import keep_within, one_thread_for_small_steps

        x, sets, clean = given
        with one_thread_for_small_steps(model, given):
            epochs = keep_within(limits, model, given)
            if self.track is not None:  # not the trainings that were measured
                from oneof.training.tracking import TensorBoardTracker

                model.set_params(callbacks=[TensorBoardTracker(self.out / "tensorboard")])
            try:
                model.fit(x, sets, clean=clean)
            except KeyboardInterrupt as stop:
                told = f"{stop}\n  The same command goes on there." if str(stop) else ""
                raise KeyboardInterrupt(told) from None
        if model.max_seconds is not None and len(model.history_) < epochs:
            print(f"stopped by the budget after {len(model.history_)} of {epochs} epochs")

    # ---- before training ----------------------------------------------------------------------

    def _claim_folder(self) -> None:
        """Make the folder of the model; one that holds other things is left alone."""
        if self.out.exists() and not self.out.is_dir():
            raise DataError(f"{self.out} is a file; --out names a folder for the model.")
        ours = any((self.out / name).exists() for name in ("model.json", "run"))
        given = {Path(file).resolve() for file in (self.table or "", self.candidates, *self.clean)}
        for name in REPLACED:
            if (self.out / name).exists() and (not ours or (self.out / name).resolve() in given):
                raise DataError(
                    f"{self.out / name} would be replaced, and it is "
                    f"{'what this fit reads' if ours else 'in a folder that holds no model'}.\n"
                    "  Choose another folder with --out."
                )
        only_plain_entries(self.out, ("run", "tensorboard"))
        self.out.mkdir(parents=True, exist_ok=True)

    def _read(self) -> TrainingData:
        from oneof.app.fit.training_data import from_images, from_table
        from oneof.nets import IMAGE_NETS

        if (self.table is None) == (self.images is None):
            raise DataError(
                "give the rows as a TABLE or as a folder of images (--images FOLDER)"
                + (", not both." if self.table else ".")
            )
        if self.images is not None and self.net not in ("auto", *IMAGE_NETS):
            raise DataError(
                f"--net {self.net} takes no images; those that do are {', '.join(IMAGE_NETS)}.\n"
                "  The smallest, quick enough without a GPU, is --net lenet."
            )
        if self.images is not None:
            return from_images(self.images, self.candidates, self.image_size)
        assert self.table is not None
        form = TextForm(sep=self.sep, encoding=self.encoding)
        data = from_table(self.table, self.candidates, self.id, form, self.accept)
        return data.with_pixels() if self.net in IMAGE_NETS else data

    def _model(self, usual_net: str) -> PartialLabelClassifier:
        from oneof.classifier.estimator import PartialLabelClassifier
        from oneof.lab.overrides import read_setting

        params = dict(read_setting(setting, "alpha=0.3") for setting in self.set)
        if params and self.method == "auto":
            what = "hyper-parameters belong to a method; name it with --method."
            raise ValueError(f"--set {' '.join(self.set)}: {what}")
        return PartialLabelClassifier(
            self.method,
            method_params=params,
            net=usual_net if self.net == "auto" else self.net,
            scaling=self.scaling,
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            clean_weight=self.clean_weight,
            random_state=self.seed,
            device=self.device,
            cluster=self.cluster,
            run=self.out / "run" if self.resume else None,
            verbose=True,
        )

    def _learns(self, model: PartialLabelClassifier, data: TrainingData, n_clean: int) -> bool:
        """Whether clean rows have a part in training."""
        from oneof.classifier.rows import learns_from_clean
        from oneof.classifier.settings import clean_weight
        from oneof.methods import make_method

        if self.method == "auto":
            return True
        weight = clean_weight(self.clean_weight, n_clean, images=data.pixels is not None)
        recipe = replace(model.recipe(), clean_weight=weight)
        return learns_from_clean(make_method(model.method, model.method_params), recipe, len(data))

    def _say_what_is_learned_from(self, data: TrainingData, encoder: Any, clean: CleanLabels) -> None:
        lines = [*data.notes, *clean.notes]
        if encoder is None:
            assert data.pixels is not None
            lines.append(f"images of {' x '.join(map(str, data.pixels.shape[1:]))}")
        else:
            names = encoder.column_names
            more = f", … {names[-1]}" if len(names) > SHOWN_NAMES else ""
            lines.append(f"{encoder.describe()}: {', '.join(names[:SHOWN_NAMES])}{more}")
            lines += [f'left out: column "{name}" {why}' for name, why in encoder.left_out.items()]
        print("\n".join([*lines, clean.sentence()] if len(clean) else lines))

    # ---- after training -----------------------------------------------------------------------

    def _say_how_it_went(self, fitted: Fitted) -> None:
        model, checked = fitted.model, fitted.checked
        if self.method == "auto":
            self._say_what_was_chosen(model)
        else:
            loss = model.history_[-1]["loss"]
            print(f"{model.method_.info.name}: {counted(len(model.history_), 'epoch')}, loss {loss:.3f}")
        if checked is not None:
            print(f"accuracy on rows that nothing was learned from: {checked.right}")
        elif model.n_clean_:
            print(f"accuracy: not known, all {model.n_clean_} clean rows were learned from")
        if fitted.wrong is not None:
            assert fitted.review.trusted is not None
            n, wrong = np.count_nonzero(~fitted.review.trusted), fitted.review.expected_errors
            print(f"labels expected to be wrong: {wrong:,} of the {n:,} it chose, first in the review list")
        lines: dict[str, Any] = {"model": self.out, "labels": self.out / "labels.csv"}
        if self.report:
            lines["report"] = self.out / "report.html"
        if fitted.review.annotators:
            lines["annotators"] = self.out / "annotators.csv"
        what = "TABLE" if self.images is None else "FOLDER"
        width = max(map(len, lines)) + 2
        lines["next"] = f"oneof review {self.out}, oneof predict {self.out} {what}"
        for name, text in lines.items():
            print(f"{name + ':':{width}} {text}")

    def _say_what_was_chosen(self, model: PartialLabelClassifier) -> None:
        """The best, the baselines, and whatever every fold has judged."""
        from oneof.classifier.standings import further_criteria

        rows = model.selection_
        further, most = further_criteria(rows), rows[0]["rounds"]
        shown = [r for r in rows if r["rounds"] == most or r["as_good"] or r["kind"] == "baseline"]
        if most and len(shown) > 1:
            numbers = {"score": "score", "± standard error": "standard_error", **dict(further)}
            told = ["chosen" if row["chosen"] else "yes" if row["as_good"] else "no" for row in shown]
            cells = [
                (row["name"], *(f"{row[key]:.1%}" for key in numbers.values()), what)
                for row, what in zip(shown, told)
            ]
            headings = ("contender", *numbers, "as good")
            show_table(f"{rows[0]['judged_by']}, out of fold", headings, cells, right=list(numbers))
        print(model.selection_note_)
        if self.net == "mlp" and rows[0]["kind"] == "method" and model.chosen_model().net == "linear":
            print("--net mlp was compared with linear, which did better; --method NAME --net mlp insists")
