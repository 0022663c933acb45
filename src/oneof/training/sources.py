"""Where rows come from: resident on the device, or loaded batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from oneof.tables.sealed import digest_of
from oneof.training.checkpoint import content_bytes

SAMPLED = 100
"""Rows of a `Dataset` that are read to know it again."""


class Rows(Protocol):
    def __len__(self) -> int:
        """Rows of the whole training."""
        ...

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers and inputs, both on the training device."""
        ...

    def digest(self) -> str:
        """What the inputs are, for the configuration of a run: other inputs are another run."""
        ...

    def content(self) -> str | None:
        """A digest of the inputs themselves, as far as reading them is cheap; None: they are not known."""
        ...


class ResidentRows:
    """All rows of this process on the device: a batch is one gather.

    Parameters
    ----------
    x : Tensor
        The rows of the whole training.
    own : slice
        Those of this process: `start::step`, where several share the training.
    """

    def __init__(self, x: Tensor, device: torch.device, own: slice = slice(None)) -> None:
        self.n_rows, self.step = len(x), own.step or 1
        self.x = x[own].to(device)
        self.whole = x if self.step > 1 else self.x  # stays where it is; for the digest alone

    def __len__(self) -> int:
        return self.n_rows

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        for index in order.to(self.x.device).split(size):
            place = index if self.step == 1 else index // self.step
            yield index, self.x.index_select(0, place)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(content_bytes(self.whole)).hexdigest()[:16]

    def digest(self) -> str:
        return self._digest

    def content(self) -> str | None:
        return self._digest


class LoadedRows:
    """Rows of a `Dataset` that gives the input of row i as a tensor; for what does not fit the device."""

    def __init__(
        self, dataset: Dataset[Tensor], device: torch.device, dtype: torch.dtype, workers: int = 0
    ) -> None:
        self.dataset, self.device, self.dtype, self.workers = dataset, device, dtype, workers

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = order.cpu()
        loader: DataLoader[Tensor] = DataLoader(
            self.dataset,
            batch_sampler=[part.tolist() for part in order.split(size)],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),  # so that workers draw nothing from the fit's own generator
        )
        for index, x in zip(order.split(size), loader):
            x = x.to(self.device, non_blocking=True)
            yield index.to(self.device, non_blocking=True), as_input(x, self.dtype)

    def digest(self) -> str:
        return f"{type(self.dataset).__name__} of {len(self)} rows"  # too large to read for this

    def content(self) -> str | None:
        """Of a hundred rows; None where reading one twice gives two things (random augmentation)."""
        chosen = sorted({i * len(self) // SAMPLED for i in range(SAMPLED)})

        def digest() -> str:
            return digest_of(content_bytes(torch.as_tensor(self.dataset[i])) for i in chosen)[:16]

        first = digest()
        return first if first == digest() else None


def as_input(x: Any, dtype: torch.dtype) -> Tensor:
    """A tensor; floating point in the net's type, bytes (images) left as they are."""
    x = torch.as_tensor(x)
    return x if x.dtype == torch.uint8 else x.to(dtype)


def make_rows(
    x: Any, device: torch.device, dtype: torch.dtype, workers: int = 0, own: slice = slice(None)
) -> Rows:
    """Arrays and tensors become resident, as far as they are `own`; a `Dataset` is loaded."""
    if isinstance(x, Dataset):
        return LoadedRows(x, device, dtype, workers)
    return ResidentRows(as_input(x, dtype), device, own)
