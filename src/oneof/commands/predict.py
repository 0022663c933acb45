"""`oneof predict`: apply a saved model to a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional


@dataclass
class Predict:
    """Predict the class of every row of a table with a model saved by `oneof fit`.

    The table needs the feature columns the model was trained on, in any order; others are ignored.
    """

    model: Positional[Path]
    """Folder of the model."""
    table: Positional[Path]
    """CSV, Parquet or npz file."""
    out: Path = Path("predictions.csv")
    """Where to write label, confidence and the probability of every class."""

    def run(self) -> int:
        import warnings

        from oneof.persist import load
        from oneof.tables import read_table, write_csv

        model = load(self.model)
        table = read_table(self.table)
        wanted = list(getattr(model, "feature_names_in_", []))
        # an npz file holds whole matrices; their columns carry the matrix' name and a number
        stacked = list(dict.fromkeys(n if n in table.columns else n.rpartition(".")[0] for n in wanted))
        x, _ = table.features(stacked or None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # columns were matched by name just above
            p = model.predict_proba(x)
        best = p.argmax(axis=1)
        columns: dict[str, Any] = {
            "row": range(len(p)),
            "label": model.classes_[best].tolist(),
            "confidence": [f"{v:.4f}" for v in p.max(axis=1)],
        }
        for k, name in enumerate(model.classes_.tolist()):
            columns[f"p({name})"] = [f"{v:.4f}" for v in p[:, k]]
        write_csv(self.out, columns)
        print(f"{len(p)} predictions, mean confidence {p.max(axis=1).mean():.1%}: {self.out}")
        return 0
