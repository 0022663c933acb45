"""`TableEncoder`: columns of a table as the numbers a network takes, learned from the training rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oneof.candidates.cells import counted, short
from oneof.tables.column_codes import ColumnCode, learned_code, stored_code
from oneof.tables.columns import as_column, as_columns
from oneof.tables.errors import DataError

FORMAT = 1
KINDS_IN_WORDS = {
    "number": "numeric",
    "category": "categorical",
    "vector": "vector",
    "text": "text",
    "sentence": "embedded text",
}


@dataclass(frozen=True)
class TableEncoder:
    """How the columns of a table become features. Learned by `fit`, stored as JSON, never as code."""

    codes: tuple[ColumnCode, ...]
    left_out: dict[str, str]
    """Columns that are no features, and why not."""

    @classmethod
    def fit(
        cls,
        columns: Any,
        wanted: Collection[str] = (),
        without: Collection[str] = (),
        texts: Collection[str] = (),
        sentences: str | None = None,
    ) -> TableEncoder:
        """Learn medians and values from training rows.

        Parameters
        ----------
        columns : dict of columns, Table or data frame
            Numbers, texts, booleans, or vectors in list cells; missing cells are None, NaN or empty.
        wanted : names, optional
            Columns to use; default: all that have a name and can be used. One that cannot is an error
            here and left out (see `left_out`) otherwise.
        without : names, optional
            Columns to leave out.
        texts : names, optional
            Columns of free text; others are found out by their many words.
        sentences : str, optional
            What `use_sentences` gave: the sentence model that reads free text; default: TF-IDF and SVD.
        """
        table, where = as_columns(columns), _where(columns)
        for name in (*wanted, *without, *texts):
            if name not in table:
                raise DataError(f'there is no column "{name}"{where}; there are {short(table, 20)}.')
        # a column without a name is the row number that data frames write in front of a table
        chosen = list(wanted) or [name for name in table if name and name not in without]
        chosen += [name for name in texts if name not in chosen]
        codes: list[ColumnCode] = []
        left_out: dict[str, str] = {}
        for name in chosen:
            made = learned_code(name, as_column(table[name]), where, name in texts, sentences)
            if not isinstance(made, str):
                codes.append(made)
            elif wanted or name in texts:
                raise DataError(f'column "{name}"{where} {made}: it cannot be a feature.')
            else:
                left_out[name] = made
        if not codes:
            reasons = "".join(f'\n  "{name}" {why}' for name, why in list(left_out.items())[:5])
            raise DataError(f"there is no feature column left{where}.{reasons}")
        if sentences is not None and not any(code.kind == "sentence" for code in codes):
            raise DataError(f"there is no column of free text{where} for --embed; name one with --text.")
        return cls(tuple(codes), left_out)

    @property
    def column_names(self) -> list[str]:
        """The columns of the table that `transform` reads."""
        return [code.name for code in self.codes]

    @property
    def feature_names(self) -> list[str]:
        """One name per column of what `transform` gives."""
        return [name for code in self.codes for name in code.names]

    def transform(self, columns: Any) -> np.ndarray:
        """(n, d) float32: the features of rows, which need the columns of the training table by name."""
        table, where = as_columns(columns), _where(columns)
        absent = [name for name in self.column_names if name not in table]
        if absent:
            others = f" and {len(absent) - 1} more ({short(absent[1:], 20)})" if len(absent) > 1 else ""
            raise DataError(
                f'there is no column "{absent[0]}"{others}{where}, a feature the model was trained on.\n'
                f"  There are {short(table, 20)}."
            )
        made: np.ndarray | None = None
        at = 0
        for code in self.codes:
            part = code.encode(as_column(table[code.name]), where)
            if made is None:
                made = np.empty((len(part), len(self.feature_names)), dtype=np.float32)
            if len(part) != len(made):
                raise DataError(f'column "{code.name}"{where} has {len(part)} rows, others {len(made)}.')
            with np.errstate(over="ignore"):
                made[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        assert made is not None
        return made

    def describe(self) -> str:
        """One line: how many columns of which kind."""
        parts = []
        for kind, text in KINDS_IN_WORDS.items():
            count = sum(code.kind == kind for code in self.codes)
            if count:
                parts.append(f"{count} {text}")
        absent = sum(code.flag for code in self.codes)
        more = f", {absent} with missing values" if absent else ""
        columns = "column" if len(self.codes) == 1 else "columns"
        return f"{' and '.join(parts)} {columns}{more}: {counted(len(self.feature_names), 'feature')}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        codes = [{"kind": code.kind, **asdict(code)} for code in self.codes]
        return {"format": FORMAT, "columns": codes, "left_out": dict(self.left_out)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """What `to_dict` gave, checked: a file that lies is refused."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise DataError(f"a stored table encoder has format {FORMAT}; this is none.")
        try:
            codes = tuple(stored_code(dict(entry)) for entry in values["columns"])
            left_out = {str(name): str(why) for name, why in dict(values.get("left_out", {})).items()}
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"a stored table encoder cannot be read: {error}") from None
        if not codes or len({code.name for code in codes}) != len(codes):
            raise DataError("a stored table encoder has no columns, or one of them twice.")
        return cls(codes, left_out)


def _where(columns: Any) -> str:
    path = getattr(columns, "path", None)
    return f" in {path}" if isinstance(path, str | Path) else ""
