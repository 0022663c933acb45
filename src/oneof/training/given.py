"""What goes into a training, what is refused before it begins, and what comes out of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oneof.candidates import Candidates
from oneof.methods.base import Method, State
from oneof.training.clean import CleanRows
from oneof.training.randomness import DefaultGenerators
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


def check_batch_norm(net: nn.Module, example: Tensor, rows: int, clean_rows: int) -> None:
    """Raise where one of a step's passes, of rows with candidates and of clean rows in the loss, has one row
    and the network normalises by the rows of a pass."""
    if 1 not in (rows, clean_rows) or not any(isinstance(part, _BatchNorm) for part in net.modules()):
        return
    try:
        # tried on a copy, since maps of an image may be enough to normalise by
        with DefaultGenerators(0, example.device).lent(), torch.no_grad():
            copy.deepcopy(net).train()(example[:1].to(next(net.parameters()).dtype))
    except ValueError as error:
        if rows == 1:
            what, more = "batch_size leaves one row in a step", "batch_size=2 or more"
        else:
            what, more = "there is one clean row in the loss of a step", "two or more, or clean_weight=0"
        raise TrainingError(
            f"{what}, but batch normalisation needs at least two: {error}\n"
            f"  Give {more}, or a network without batch normalisation (batch_norm=False)."
        ) from error
