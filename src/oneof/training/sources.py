"""Where rows come from: resident on the device, or loaded batch by batch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

EVALUATION_BATCH = 4096


class Rows(Protocol):
    def __len__(self) -> int: ...

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers and inputs, both on the training device."""
        ...

    def digest(self) -> str:
        """What the inputs are, for the configuration of a run: other inputs are another run."""
        ...


class ResidentRows:
    """All rows on the device: a batch is one gather."""

    def __init__(self, x: Tensor, device: torch.device) -> None:
        self.x = x.to(device)

    def __len__(self) -> int:
        return self.x.shape[0]

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        for index in order.to(self.x.device).split(size):
            yield index, self.x.index_select(0, index)

    def digest(self) -> str:
        return hashlib.sha256(self.x.contiguous().cpu().numpy().tobytes()).hexdigest()[:16]


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


def as_input(x: Any, dtype: torch.dtype) -> Tensor:
    """A tensor; floating point in the net's type, bytes (images) left as they are."""
    x = torch.as_tensor(x)
    return x if x.dtype == torch.uint8 else x.to(dtype)


def make_rows(x: Any, device: torch.device, dtype: torch.dtype, workers: int = 0) -> Rows:
    """Arrays and tensors become resident; a `Dataset` is loaded."""
    if isinstance(x, Dataset):
        return LoadedRows(x, device, dtype, workers)
    return ResidentRows(as_input(x, dtype), device)
