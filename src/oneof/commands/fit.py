"""`oneof fit`: from a table with a candidate column to a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from oneof.candidates import Candidates
    from oneof.estimator import PartialLabelClassifier

SHOWN_NAMES = 8


@dataclass
class Fit:
    """Learn a classifier from a table in which one column holds candidate labels.

    A candidate cell is text such as cat|dog, or a list such as ["cat", "dog"]. All other columns
    that have a name are features unless --features or --ignore say otherwise. Writes the model folder
    with labels.csv in it: for every row the label the model believes in and how sure it is.
    """

    table: Annotated[Positional[Path], arg(metavar="TABLE")]
    """CSV, TSV, Parquet or npz file."""
    candidates: Annotated[str, arg(metavar="COLUMN")]
    """Column with the candidate labels (in an npz file: a mask, with an optional array "classes")."""
    out: Annotated[Path, arg(metavar="FOLDER")] = Path("model")
    """Folder for the model; one that is there already is replaced."""
    clean: Annotated[str | None, arg(metavar="COLUMN")] = None
    """Column with trusted labels, empty where unknown."""
    clean_weight: float = 0.0
    """Weight of cross-entropy on the clean rows in the loss, for methods that do not learn from them."""
    features: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Feature columns; default: all others."""
    ignore: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Columns to leave out, such as ids."""
    method: str = "rplg"
    """How to learn; `oneof methods` lists them."""
    set: Annotated[tuple[str, ...], arg(metavar="NAME=VALUE ...")] = ()
    """Hyper-parameters of the method; `oneof methods NAME` lists them."""
    net: Literal["mlp", "linear"] = "mlp"
    """The network."""
    scaling: Literal["standard", "global", "minmax", "none"] = "standard"
    """How features are scaled."""
    epochs: int = 100
    """Passes over the rows."""
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

    def run(self) -> int:
        import shutil

        import numpy as np

        from oneof.estimator import PartialLabelClassifier
        from oneof.tables import read_table

        table = read_table(self.table)
        candidates = table.candidates(self.candidates)
        taken = [self.candidates, *self.ignore, *([self.clean] if self.clean else [])]
        advice = "Leave columns that are no features out with --ignore, or name the features with --features."
        x, names = table.features(self.features, without=taken, advice=advice)
        clean = table.labels(self.clean) if self.clean else None
        more = f", … {names[-1]}" if len(names) > SHOWN_NAMES else ""
        print(f"{self.table}: {candidates.describe()}")
        print(f"{len(names)} features: {', '.join(names[:SHOWN_NAMES])}{more}", flush=True)
        self.out.mkdir(parents=True, exist_ok=True)  # a place that cannot be written is noticed now
        checkpoints = self.out / "run"
        if self.resume and checkpoints.exists():
            print(f"continues the training in {checkpoints}", flush=True)
        model = PartialLabelClassifier(
            self.method,
            method_params=self._method_params(),
            net=self.net,
            scaling=self.scaling,
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            clean_weight=self.clean_weight,
            random_state=self.seed,
            device=self.device,
            run=checkpoints if self.resume else None,
            verbose=True,
        )
        try:
            model.fit(x, candidates, clean=clean)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"{stop}\n  The same command goes on there." if str(stop) else ""
            ) from None
        model.feature_names_in_ = np.asarray(names, dtype=object)
        model.save(self.out)
        self._write_labels(model, candidates)
        if self.resume:
            shutil.rmtree(checkpoints, ignore_errors=True)  # the model is saved: nothing to continue
        last = model.history_[-1]
        print(f"{model.method_.info.name}: {len(model.history_)} epochs, loss {last['loss']:.3f}")
        if model.n_clean_:
            sets = model.clean_source_ == "held-out sets"
            name = "predictions in their set" if sets else "accuracy on them"
            print(f"clean rows: {model.n_clean_} ({model.clean_source_}), {name} {last['selection']:.1%}")
        print(f"model:  {self.out}\nlabels: {self.out / 'labels.csv'}")
        print(f"next:   oneof predict {self.out} TABLE")
        return 0

    def _method_params(self) -> dict[str, Any]:
        import json

        params = {}
        for setting in self.set:
            name, equals, text = setting.partition("=")
            if not equals:
                raise ValueError(f"--set {setting}: write it as name=value, such as alpha=0.3.")
            try:
                params[name] = json.loads(text)
            except ValueError:
                params[name] = {"None": None, "True": True, "False": False}.get(text, text)
        return params

    def _write_labels(self, model: PartialLabelClassifier, candidates: Candidates) -> None:
        from oneof.tables import SEPARATOR, write_csv

        best = model.transduction_.argmax(axis=1)
        write_csv(
            self.out / "labels.csv",
            {
                "row": range(len(best)),
                "label": [candidates.classes[k] for k in best],
                "confidence": [f"{p:.4f}" for p in model.transduction_.max(axis=1)],
                "candidates": [SEPARATOR.join(map(str, names)) for names in candidates.sets()],
            },
        )
