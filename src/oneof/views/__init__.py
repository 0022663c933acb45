"""Views: what a method sees of a row. On tables every role is the row itself."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from oneof.views.images import ImageViews

__all__ = ["ImageViews", "RowItself", "Views"]


class Views(Protocol):
    """Turns stored rows into the inputs a method asked for."""

    def train(self, x: Tensor, roles: tuple[str, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        """The distinct views for these roles, in their order; a single one where all are the same."""
        ...

    def plain(self, x: Tensor) -> Tensor:
        """The input as evaluation and prediction see it."""
        ...


class RowItself:
    """For tables and embeddings: nothing to augment."""

    def train(self, x: Tensor, roles: tuple[str, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        return (x,)

    def plain(self, x: Tensor) -> Tensor:
        return x
