"""One training on several processes: which rows a process has, and what it tells the others.

Rows are pinned: row i belongs to shard i mod S for the whole training, so that what a method remembers of
a row stays where the row is. Every global batch takes an equal part of every shard. With S processes each
works on its own shard; one process can work on all S and sees the same batches.

Inputs are divided. Row tables have their full size everywhere, but during an epoch a process keeps only
its own rows up to date; at the end of the epoch the processes exchange them. From then on everything that
looks at the whole training (reports, `end_epoch`, pseudo-labels, checkpoints) finds the same, complete
state in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oneof.methods import parallel
from oneof.methods.base import Method, State
from oneof.methods.state import RowState
from oneof.nets import Net
from oneof.training.checkpoint import tree_from_bytes, tree_to_bytes
from oneof.training.run import Run, RunError


@dataclass(frozen=True)
class Shards:
    """How n rows are divided into `count` shards, and which of them are in this process."""

    n_rows: int
    count: int

    @property
    def own(self) -> slice:
        """Rows of this process: every row, or those of its shard."""
        return slice(parallel.rank(), None, parallel.world_size())

    def steps(self, batch_size: int) -> int:
        """Full batches in an epoch; the smallest shard decides."""
        return (self.n_rows // self.count) // (batch_size // self.count)

    def order(
        self, generator: torch.Generator, batch_size: int, permutation: Callable[..., Tensor] = torch.randperm
    ) -> Tensor:
        """Rows of this process for an epoch, step by step, in random order within each shard."""
        steps, part = self.steps(batch_size), batch_size // self.count
        shards = []
        for shard in range(self.count):  # all of them are drawn everywhere: generators stay in step
            size = len(range(shard, self.n_rows, self.count))
            rows = permutation(size, generator=generator) * self.count + shard
            shards.append(rows[: steps * part].view(steps, part))
        return torch.cat([shards[i] for i in self._here()], dim=1).flatten()

    def part(self, rows: Tensor) -> Tensor:
        """This process' part of rows that all have drawn alike; their number is a multiple of the shards."""
        return torch.cat([rows.view(self.count, len(rows) // self.count)[i] for i in self._here()])

    def _here(self) -> range:
        return range(self.count)[self.own]

    def whole(self, own: Tensor) -> Tensor:
        """Values of all rows, from each process' values of its own."""
        if parallel.world_size() == 1:
            return own
        table = own.new_empty(self.n_rows, *own.shape[1:])
        table[self.own] = own
        exchange_rows_(table)
        return table


def make_shards(n_rows: int, wanted: int | None, method: Method) -> Shards:
    """The shards a recipe asks for; by default one per process."""
    processes = parallel.world_size()
    count = wanted or processes
    if processes > 1 and count != processes:
        raise ValueError(
            f"shards is {count}, but {processes} processes train together.\n"
            f"  Give shards={processes}, or None for one per process."
        )
    if processes > 1 and not method.shardable:
        raise ValueError(
            f"{method.info.name} cannot be trained by {processes} processes: its loss compares rows with one "
            "another or with earlier ones, and no process has them all.\n"
            "  Train it in one process, or take a method that can be divided, such as rplg or proden."
        )
    if n_rows < count:
        raise ValueError(f"{n_rows} rows cannot be divided into {count} shards.")
    return Shards(n_rows, count)


@torch.no_grad()
def exchange_rows_(table: Tensor, row_dim: int = 0, which: Tensor | None = None) -> None:
    """Fill in the rows of the other processes, in place; `which`: the table begins with these rows only."""
    if which is not None:
        owner = which % parallel.world_size()
        for shard, part in enumerate(parallel.from_all(table)):
            table[: len(which)][owner == shard] = part[: len(which)][owner == shard]
        return
    rows, processes = table.movedim(row_dim, 0), parallel.world_size()
    mine = rows[parallel.rank() :: processes]
    longest = -(-len(rows) // processes)
    sent = mine.new_zeros(longest, *mine.shape[1:])  # shards may differ by one row, messages may not
    sent[: len(mine)] = mine
    for shard, part in enumerate(parallel.from_all(sent)):
        there = rows[shard::processes]
        there.copy_(part[: len(there)])


def exchange_tables_(rows: RowState) -> None:
    """Fill in the other processes' rows of all tables."""
    if parallel.world_size() > 1:
        for table, row_dim, which in rows.stored():
            exchange_rows_(table, row_dim, which)


@torch.no_grad()
def meet(state: State) -> None:
    """At the end of an epoch: every process gets the whole state. Parameters are the same already; statistics
    of batch normalisation, which each process has collected from its own rows, are averaged."""
    if parallel.world_size() == 1:
        return
    exchange_tables_(state.rows)
    norms = [part for part in state.modules() if isinstance(part, _BatchNorm)]
    statistics = [value for norm in norms for value in (norm.running_mean, norm.running_var)]
    parallel.average_(value for value in statistics if value is not None)


def synchronised(net: Net, device: torch.device) -> Net:
    """The net with batch normalisation over all processes' rows: `SyncBatchNorm`, which needs GPUs."""
    if parallel.world_size() == 1:
        return net  # a batch is whole
    if device.type != "cuda":
        raise ValueError(
            "sync_batch_norm needs GPUs; on the CPU give sync_batch_norm=False: "
            "every process then normalises by its own part of the batch."
        )
    return nn.SyncBatchNorm.convert_sync_batchnorm(net, parallel.process_group())


def start(run: Run, config: dict[str, Any]) -> dict[str, Any] | None:
    """`run.start` by the first process, its answer or its error for all: folders need not be shared."""
    if parallel.world_size() == 1:
        return run.start(config)
    answer: dict[str, Any] = {}
    if parallel.rank() == 0:
        try:
            answer = {"checkpoint": run.start(config)}
        except RunError as error:
            answer = {"error": str(error)}
    answer = _from_first(answer)
    if "error" in answer:
        raise RunError(answer["error"])
    return answer["checkpoint"]


def _from_first(tree: Any) -> Any:
    """The first process' nested values, as the bytes of a checkpoint: no pickle on the way either."""
    content = torch.frombuffer(bytearray(tree_to_bytes(tree)), dtype=torch.uint8)
    size = int(parallel.agreed(len(content)))
    if parallel.rank():
        content = torch.empty(size, dtype=torch.uint8)
    parallel.from_first_([content])
    return tree_from_bytes(content.numpy().tobytes())
