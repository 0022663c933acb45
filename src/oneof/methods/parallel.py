"""Several processes that train one model together: how they meet, and what they average.

Every process works on its own rows and computes its own gradients; before parameters move, gradients are
averaged, so that all processes keep the same parameters. Methods that move parts of their own call
`average_` or `averaged` at the same place. A wrapper around the net would not do: it does not see gradients
that come from `torch.autograd.grad`, nor those in closed form.

Outside of `join` there is one process, and everything here gives back at once what it was given.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

_group: dist.ProcessGroup | None = None
"""Set by `join` alone: a program that uses torch.distributed for something else trains as one process."""


@contextmanager
def join(backend: str | None = None) -> Iterator[None]:
    """Inside, trainings are shared by all processes that `torchrun` started.

    Started without torchrun the program is one process and nothing changes, so that the same script
    serves for both. A process group that is there already is used and left in place.

    Parameters
    ----------
    backend : str, optional
        Of torch.distributed. Default: gloo on the CPU, nccl between GPUs.
    """
    global _group
    if _group is not None:
        raise RuntimeError(
            "these processes have joined already: oneof.methods.parallel.join cannot be nested."
        )
    there = dist.is_available() and dist.is_initialized()
    if not there and "RANK" not in os.environ:
        yield
        return
    gpus = torch.cuda.device_count()
    if gpus:
        # as many processes as GPUs on a machine; where there are more, they share
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % gpus)
    backend = backend or ("cpu:gloo,cuda:nccl" if gpus else "gloo")
    if there:
        _group = dist.new_group(backend=backend)
    else:
        dist.init_process_group(backend)
        _group = dist.group.WORLD
    try:
        yield
        dist.barrier(_group)  # nobody leaves while another still works
    finally:
        group, _group = _group, None
        dist.destroy_process_group(group if there else None)
        del group
        gc.collect()  # threads of a group that outlives the interpreter end the process with an error


def rank() -> int:
    """Number of this process; 0 is the one that writes and prints."""
    return 0 if _group is None else dist.get_rank(_group)


def world_size() -> int:
    """How many processes train together."""
    return 1 if _group is None else dist.get_world_size(_group)


def process_group() -> dist.ProcessGroup | None:
    """For parts of torch that communicate themselves; None for one process."""
    return _group


@torch.no_grad()
def averaged(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The mean of each tensor over the processes, sent in one piece; without gradient.

    Every process must give tensors of the same shapes in the same order. The mean over all rows is what
    comes out where every process gives the mean over as many rows.
    """
    given = list(tensors)
    if _group is None or not given:
        return given
    flat = torch.cat([tensor.detach().reshape(-1) for tensor in given])
    dist.all_reduce(flat, group=_group)
    flat.div_(world_size())
    parts = flat.split([tensor.numel() for tensor in given])
    return [part.view(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, given)]


@torch.no_grad()
def average_(tensors: Iterable[Tensor]) -> None:
    """`averaged`, in place."""
    given = list(tensors)
    if _group is not None:
        for tensor, mean in zip(given, averaged(given)):
            tensor.copy_(mean)


def average_gradients_(parameters: Iterable[Tensor]) -> None:
    """The mean of the gradients, to be called between `backward` and the optimiser's step."""
    if _group is not None:
        average_(parameter.grad for parameter in parameters if parameter.grad is not None)


@torch.no_grad()
def from_first_(tensors: Iterable[Tensor]) -> None:
    """The first process' values for all, in place."""
    for tensor in tensors if _group is not None else ():
        there = tensor.detach().contiguous()
        dist.broadcast(_bytes(there), group=_group, group_src=0)
        tensor.copy_(there)


def agreed(value: float) -> float:
    """The first process' number: for decisions that all must take alike."""
    if _group is None:
        return value
    shared = torch.tensor(value, dtype=torch.float64)
    from_first_([shared])
    return float(shared)


def anywhere(fact: bool) -> bool:
    """Whether it holds in any of the processes."""
    if _group is None:
        return fact
    count = torch.tensor(int(fact))
    dist.all_reduce(count, group=_group)
    return bool(count)


@torch.no_grad()
def from_all(tensor: Tensor) -> list[Tensor]:
    """The tensors of all processes, which have the same shape, by rank."""
    if _group is None:
        return [tensor]
    sent = _bytes(tensor.detach().contiguous())
    parts = [torch.empty_like(sent) for _ in range(world_size())]
    dist.all_gather(parts, sent, group=_group)
    return [part.view(tensor.dtype).view(tensor.shape) for part in parts]


def _bytes(tensor: Tensor) -> Tensor:
    """The same memory as bytes: not every backend knows every type."""
    return tensor.view(-1).view(torch.uint8)
