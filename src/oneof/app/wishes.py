"""What to write about the rows of a table: the options of `oneof predict` and of `predict_file`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import arg


@dataclass(frozen=True)
class Wishes:
    """What to write besides label and confidence."""

    probabilities: bool = True
    """Write the probability of every class."""
    coverage: float | None = None
    """Also write the set of classes that remain possible; 0.9: it holds the right one in 90 % of the rows."""
    score: Literal["probability", "adaptive"] = "probability"
    """How these sets are made: small on average, or larger where the model is unsure."""
    reject_below: Annotated[float | None, arg(metavar="PROBABILITY")] = None
    """No label for rows whose most probable class is less probable than this."""
    allowed: Annotated[tuple[str, ...], arg(metavar="CLASS ...")] = ()
    """The only classes that can be right; default: all."""
    keep: Annotated[tuple[str, ...], arg(metavar="COLUMN ...")] = ()
    """Columns of the table to copy, such as ids."""
    batch: int | None = None
    """Rows worked on at once; default: as many as fit into 32 MB."""
