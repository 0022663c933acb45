"""`oneof predict`: apply a saved model to a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    import numpy as np

    from oneof.estimator import PartialLabelClassifier
    from oneof.tables import Table


@dataclass
class Predict:
    """Predict the class of every row of a table with a model saved by `oneof fit`.

    The table needs the feature columns the model was trained on, in any order; others are ignored.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    """Folder of the model."""
    table: Annotated[Positional[Path], arg(metavar="TABLE")]
    """CSV, TSV, Parquet or npz file."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("predictions.csv")
    """Where to write label, confidence and the probability of every class."""

    def run(self) -> int:
        import warnings

        from oneof.persist import load
        from oneof.tables import read_table, write_csv

        model = load(self.model)
        x = model_inputs(model, read_table(self.table))
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


def model_inputs(model: PartialLabelClassifier, table: Table) -> np.ndarray:
    """The columns of a table that a model was trained on, in its order."""
    from oneof.data.errors import DataError

    wanted = list(getattr(model, "feature_names_in_", []))
    if not wanted:
        x, names = table.features(advice="The model has no feature names: the table must hold only features.")
        if len(names) != model.n_features_in_:
            raise DataError(
                f"{table.path} has {len(names)} feature columns, the model was trained on "
                f"{model.n_features_in_} without names.\n  The table must hold these and nothing else."
            )
        return x
    # an npz file holds whole matrices; their columns carry the matrix' name and a number
    stacked = {name: name.rpartition(".")[0] for name in wanted}
    sources = {name: name if name in table.columns else stacked[name] for name in wanted}
    missing = [name for name in wanted if sources[name] not in table.columns]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DataError(
            f'{table.path} has no column "{missing[0]}"{others}, a feature the model was trained on.\n'
            f"  It has {', '.join(map(repr, list(table.columns)[:20]))}."
        )
    x, names = table.features(list(dict.fromkeys(sources.values())))
    if sorted(names) != sorted(wanted):
        different = sorted(set(names) ^ set(wanted))
        raise DataError(
            f"{table.path} has {len(names)} feature columns where the model was trained on {len(wanted)}; "
            f'"{different[0]}" is in one of them only.'
        )
    place = {name: k for k, name in enumerate(names)}
    return x[:, [place[name] for name in wanted]]
