"""`oneof fit`: from a table with a candidate column to a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional


@dataclass
class Fit:
    """Learn a classifier from a table in which one column holds candidate labels.

    A candidate cell is a list or text such as "cat|dog". All other columns are features unless
    --features or --ignore say otherwise. Writes the model folder, with labels.csv beside it: for
    every row the label the model believes in and how sure it is.
    """

    table: Positional[Path]
    """CSV, Parquet or npz file."""
    candidates: str
    """Column with the candidate labels (in an npz file: a mask, with an optional array "classes")."""
    out: Path = Path("model")
    """Folder for the model."""
    clean: str | None = None
    """Column with trusted labels, empty where unknown."""
    features: tuple[str, ...] = ()
    """Feature columns; default: all others."""
    ignore: tuple[str, ...] = ()
    """Columns to leave out, such as ids."""
    method: str = "rplg"
    """How to learn; `oneof methods` lists them."""
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
        from oneof.tables import read_table, write_csv

        table = read_table(self.table)
        candidates = table.candidates(self.candidates)
        taken = {self.candidates, *self.ignore, "classes"} | ({self.clean} if self.clean else set())
        x, names = table.features(list(self.features) or None, without=taken)
        clean = table.labels(self.clean) if self.clean else None
        print(f"{self.table}: {candidates.describe()}, {len(names)} features")
        checkpoints = self.out / "run"
        model = PartialLabelClassifier(
            self.method,
            net=self.net,
            scaling=self.scaling,
            epochs=self.epochs,
            lr=self.lr,
            weight_decay=self.weight_decay,
            random_state=self.seed,
            device=self.device,
            run=checkpoints if self.resume else None,
            verbose=True,
        )
        model.fit(x, candidates, clean=clean)
        model.feature_names_in_ = np.asarray(names, dtype=object)
        model.save(self.out)
        best = model.transduction_.argmax(axis=1)
        write_csv(
            self.out / "labels.csv",
            {
                "row": range(len(best)),
                "label": [candidates.classes[k] for k in best],
                "confidence": [f"{p:.4f}" for p in model.transduction_.max(axis=1)],
                "candidates": ["|".join(map(str, s)) for s in candidates.sets()],
            },
        )
        if self.resume:
            shutil.rmtree(checkpoints, ignore_errors=True)  # the model is saved: nothing to continue
        last = model.history_[-1]
        print(f"{model.method_.info.name}: {len(model.history_)} epochs, loss {last['loss']:.3f}")
        if model.n_clean_:
            sets = model.clean_source_ == "held-out sets"
            name = "predictions in their set" if sets else "accuracy on them"
            print(f"clean rows: {model.n_clean_} ({model.clean_source_}), {name} {last['selection']:.1%}")
        print(f"model: {self.out}   labels: {self.out / 'labels.csv'}")
        print(f"next:  oneof predict {self.out} TABLE")
        return 0
