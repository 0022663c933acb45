"""Where rows come from: resident on the device, streamed from a file, or loaded batch by batch; and the one
batched pass over them in evaluation mode."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from oneof.methods.base import Method, State
from oneof.nets import evaluation_mode
from oneof.tables.files import digest_of
from oneof.training.checkpoint import content_bytes
from oneof.views import Views

SAMPLED = 100
"""Rows of a `Dataset` or of a file that are read to know it again."""
BLOCK_BYTES, WINDOW = 2**20, 64
"""Rows in a file are shuffled in blocks of so many bytes, and so many random blocks among one another."""
EVALUATION_BATCH = 4096
ROWS_IN_CACHE = 1024
"""Rows of a table per pass on a CPU: more of them leave its cache and take longer."""
FEWEST_ROWS = 16
"""Of a table per pass: fewer may be multiplied by another kernel, whose last digits are others."""
T = TypeVar("T")


class Rows:
    """The inputs of a training; its length is that of the whole training, in all processes."""

    def __len__(self) -> int:
        raise NotImplementedError

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers and inputs, both on the training device."""
        raise NotImplementedError

    def permutation(self, n: int, *, generator: torch.Generator) -> Tensor:
        """The numbers below n in random order; how random may depend on what is cheap to read."""
        return torch.randperm(n, generator=generator)

    def content(self) -> str | None:
        """A digest of the inputs, of a hundred where all are too many to read; None: they are not known."""
        raise NotImplementedError

    def digest(self) -> str | None:
        """What the inputs are, for the configuration of a run: other inputs are another run."""
        return self.content()


class ResidentRows(Rows):
    """All rows of this process on the device, `own` of the whole training's: a batch is one gather."""

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

    def content(self) -> str | None:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(content_bytes(self.whole)).hexdigest()[:16]


class StoredRows:
    """Rows of a memory-mapped array, which stay in their file until some are asked for.

    `prepare` makes of rows as they are stored what the network takes; `rows`: only these, in this order.
    """

    def __init__(
        self,
        x: np.ndarray,
        prepare: Callable[[np.ndarray], np.ndarray] = np.asarray,
        rows: np.ndarray | None = None,
    ) -> None:
        self.x, self.prepare, self.rows = x, prepare, rows
        self.shape = (len(x) if rows is None else len(rows), *x.shape[1:])
        self.ndim, self.dtype = x.ndim, x.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> np.ndarray:
        """Some rows, by numbers or a slice, in memory."""
        rows = self.x[which if self.rows is None else self.rows[which]]
        return self.prepare(np.array(rows) if isinstance(which, slice) else np.asarray(rows))

    def take(self, rows: np.ndarray) -> StoredRows:
        """Some rows, still in the file."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        return StoredRows(self.x, self.prepare, rows if self.rows is None else self.rows[rows])

    def split(self, size: int) -> Iterator[Tensor]:
        """All of them, so many at a time."""
        for first in range(0, len(self), size):
            yield torch.from_numpy(self[first : first + size])

    @property
    def block(self) -> int:
        """Rows that are read at once."""
        return max(1, BLOCK_BYTES // max(1, math.prod(self.shape[1:]) * self.dtype.itemsize))


def stay_in_file(given: Any, checked: np.ndarray) -> np.ndarray | StoredRows:
    """A memory-mapped array that passed all checks as it is: its rows. Any other array itself."""
    mapped = isinstance(given, np.memmap) and np.may_share_memory(given, checked)
    return StoredRows(checked) if mapped else checked


def some_rows(x: Any, rows: np.ndarray) -> Any:
    """Some rows of an array, or of one that stays in its file."""
    return x.take(rows) if isinstance(x, StoredRows) else x[rows]


class StreamedRows(Rows):
    """Rows that stay in a file: a thread reads the next batch while one is learned from.

    Files are slow to read row by row. The order is random in two steps: blocks of rows, and the rows of some
    blocks among one another. It depends on the seed and on the size of a row alone; where all rows are
    few blocks it is that of resident rows.
    """

    def __init__(self, x: StoredRows, device: torch.device, dtype: torch.dtype) -> None:
        self.x, self.device, self.dtype = x, device, dtype

    def __len__(self) -> int:
        return len(self.x)

    def permutation(self, n: int, *, generator: torch.Generator) -> Tensor:
        block = self.x.block
        if n <= WINDOW * block:
            return torch.randperm(n, generator=generator)
        blocks = torch.randperm(-(-n // block), generator=generator)
        parts = []
        for some in blocks.split(WINDOW):
            rows = (some[:, None] * block + torch.arange(block)).flatten()
            rows = rows[rows < n]
            parts.append(rows[torch.randperm(len(rows), generator=generator)])
        return torch.cat(parts)

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        on_gpu = self.device.type == "cuda"
        parts = order.cpu().split(size)
        read = (as_input(self.x[index.numpy()], self.dtype) for index in parts)
        for index, x in zip(parts, read_ahead(x.pin_memory() if on_gpu else x for x in read)):
            yield index.to(self.device), x.to(self.device, non_blocking=True)

    def digest(self) -> str:
        return f"{len(self)} rows in a file, {self.content()}"

    def content(self) -> str | None:
        return digest_of([content_bytes(torch.from_numpy(self.x[_sample(len(self))]))])[:16]


def read_ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items, the next one made in a thread while this one is used.

    An error in the making is raised where the item would have come. Whoever stops early waits for that one.
    """
    iterator, end = iter(items), object()
    with ThreadPoolExecutor(1, "oneof-reader") as reader:
        ahead = reader.submit(next, iterator, end)
        while (item := ahead.result()) is not end:
            ahead = reader.submit(next, iterator, end)
            yield item  # type: ignore[misc]


class LoadedRows(Rows):
    """Rows of a `Dataset` that gives the input of row i as a tensor; for what does not fit the device."""

    def __init__(
        self, dataset: Dataset[Tensor], device: torch.device, dtype: torch.dtype, workers: int = 0
    ) -> None:
        self.dataset, self.device, self.dtype, self.workers = dataset, device, dtype, workers

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = order.cpu()
        # workers draw nothing from the fit's own generator, and in each epoch something else
        own = torch.Generator().manual_seed(zlib.crc32(order.numpy().tobytes()))
        loader: DataLoader[Tensor] = DataLoader(
            self.dataset,
            batch_sampler=[part.tolist() for part in order.split(size)],
            num_workers=self.workers,
            pin_memory=self.device.type == "cuda",
            generator=own,
        )
        for index, x in zip(order.split(size), loader):
            x = x.to(self.device, non_blocking=True)
            yield index.to(self.device, non_blocking=True), as_input(x, self.dtype)

    def digest(self) -> str:
        return f"{type(self.dataset).__name__} of {len(self)} rows"

    def content(self) -> str | None:
        """None where reading rows twice gives two things (random augmentation)."""
        twice = {
            digest_of(content_bytes(torch.as_tensor(self.dataset[i])) for i in _sample(len(self)).tolist())
            for _ in range(2)
        }
        return twice.pop()[:16] if len(twice) == 1 else None


def _sample(n: int) -> np.ndarray:
    """Numbers of at most a hundred rows of n."""
    return np.unique(np.arange(SAMPLED) * n // SAMPLED)


def as_input(x: Any, dtype: torch.dtype) -> Tensor:
    """A tensor; floating point in the net's type, bytes (images) left as they are."""
    x = torch.as_tensor(x)
    return x if x.dtype == torch.uint8 else x.to(dtype)


def make_rows(
    x: Any, device: torch.device, dtype: torch.dtype, workers: int = 0, own: slice = slice(None)
) -> Rows:
    """Arrays and tensors become resident, as far as they are `own`; memory-mapped ones stay in their file."""
    if isinstance(x, np.memmap | StoredRows):
        return StreamedRows(x if isinstance(x, StoredRows) else StoredRows(x), device, dtype)
    if isinstance(x, Dataset):
        return LoadedRows(x, device, dtype, workers)
    return ResidentRows(as_input(x, dtype), device, own)


# ---- what a trained network says about rows ---------------------------------------------------


@torch.no_grad()
def in_batches(
    function: Callable[[Tensor], Tensor],
    x: Any,
    *,
    views: Views,
    modules: Iterable[nn.Module],
    device: torch.device | str,
    size: int = EVALUATION_BATCH,
) -> Tensor:
    """What `function` gives for rows as they are stored: in batches, through their plain view, on the device.

    x is an array, a tensor or `StoredRows` of scaled rows or images as bytes, on any device or in a file.
    The `modules` that `function` asks are in evaluation mode meanwhile.
    """
    with evaluation_mode(*modules):
        parts = x.split(size) if isinstance(x, StoredRows) else torch.as_tensor(x).split(size)
        return torch.cat([function(views.plain(_not_few(part.to(device))))[: len(part)] for part in parts])


def _not_few(part: Tensor) -> Tensor:
    """The rows of a table, the last one repeated if they are very few: what is said of a row does not depend
    on how many others are asked for."""
    missing = FEWEST_ROWS - len(part)
    if part.ndim != 2 or missing <= 0 or not len(part):
        return part
    return torch.cat([part, part[-1:].expand(missing, -1)])


def predict(method: Method, state: State, x: Any, views: Views, device: torch.device) -> Tensor:
    """Logits of a method's state for rows as they are stored."""
    return in_batches(lambda part: method.logits(state, part), x, views=views, modules=[state], device=device)
