"""What goes into a training and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneof.candidates import Candidates
from oneof.methods.base import Method, State
from oneof.training.clean import CleanRows
from oneof.views import RowItself, Views


class TrainingError(RuntimeError):
    """Training cannot go on. The message says where it stood and what to try."""


@dataclass
class Trained:
    """The result of a training."""

    method: Method
    state: State
    history: list[dict[str, Any]]
    """One row per epoch, as in `metrics.jsonl`."""
    labels_of: Callable[[Tensor], Tensor]
    """(B, c): of some rows the pseudo-labels, which together may be larger than all they are made from."""
    n_rows: int
    best_epoch: int
    """Epoch whose weights are kept."""
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def pseudo_labels(self) -> np.ndarray:
        """(n, c): the disambiguated training set, at the last epoch."""
        return self.labels_of(torch.arange(self.n_rows)).numpy()


@dataclass
class Given:
    """The rows of a training, as the caller has them; see `train`."""

    x: Any
    candidates: Candidates
    clean: CleanRows | None = None
    selection: CleanRows | None = None
    test: tuple[Any, Any] | None = None
    views: Views = field(default_factory=RowItself)
