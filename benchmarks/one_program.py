"""Trainings that differ in seed, split or numbers as one batched program, the methods being as they are.

`Stack(trainings)` takes trainings of the library's loop and runs their steps as one, under `torch.func.vmap`
and, on a GPU, recorded in a CUDA graph; `stacked.py` checks and measures it. It cannot run steps that look at
one training's numbers (`.item()`, masks as indices), that draw, or that use torch's `_foreach` functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch as levels
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.func import vmap
from torch.optim import SGD, Adam, Optimizer
from torch.overrides import TorchFunctionMode

from oneof.nets import evaluation_mode
from oneof.training.capture import CapturedStep
from oneof.training.ongoing import OngoingTraining
from oneof.training.recipe import SCHEDULES

JOINED = ("state", "candidates", "clean", "rows", "selection", "method", "recipe", "step", "main", "loss_sum")
"""What of a training a step reads or changes."""


class Stack:
    """Trainings of one method, net and number of rows, whose steps are one step of all.

    The library makes the trainings, and each goes on drawing its own orders. Their tensors are stacked along
    a new first axis and become views of the stack, so that whatever is asked of one of them after an epoch
    (predictions, pseudo-labels) is answered by its own values. `one` is a copy of the first training with the
    stack's tensors in place of its own, and of numbers in which trainings differ: `vmap` runs the library's
    own step on it. Trainings that would stop early go on with the others; the weights of their best epoch
    are kept.
    """

    def __init__(self, trainings: Sequence[OngoingTraining], recorded: bool = True) -> None:
        first = trainings[0]
        for name, value in first.method.params().items():
            if not isinstance(value, float) and any(t.method.params()[name] != value for t in trainings):
                raise ValueError(f"{name} is not the same in all trainings; only floats may differ")
        self.trainings, self.device, self.dtype = list(trainings), first.device, first.dtype
        self.tensors: list[Tensor] = []
        self.places: list[list[tuple[Any, Any]]] = []  # of each tensor: containers within `one`, and keys
        self.seen: dict[int, Any] = {}
        self.one = copy(first)
        for name in JOINED:
            vars(self.one)[name] = self.joined([vars(t)[name] for t in trainings], (vars(self.one), name))
        records = recorded and self.device.type == "cuda" and first.method.capturable
        self.captured = CapturedStep(self.step) if records and first.method.captures(first.state) else None
        self.cleans = [copy(t.clean) for t in trainings]
        for clean in self.cleans:
            clean.device = torch.device("cpu")  # draws are gathered before they go to the device
        nets = first.method.predictors(first.state)
        kept = [value for net in nets for value in net.state_dict(keep_vars=True).values()]
        self.kept = [self.tensors[self.seen[id(value)]] for value in kept]
        self.best = [value.detach().clone() for value in self.kept]

    # ---- K trainings as one object ------------------------------------------------------------

    def joined(self, parts: Sequence[Any], place: tuple[Any, Any]) -> Any:
        """What the stack has in place of K things that correspond."""
        first = parts[0]
        if isinstance(first, Tensor):
            return self.stacked(parts, place)
        if isinstance(first, bool):
            return all(parts)  # a shortcut is taken where all take it
        if isinstance(first, float) and any(part != first for part in parts):
            numbers = torch.tensor(parts, device=self.device, dtype=self.dtype)
            return self.stacked(list(numbers), place)
        if id(first) in self.seen:
            return self.seen[id(first)]
        if isinstance(first, Optimizer):
            made: Any = StackedOptimiser(parts, lambda p: self.tensors[self.seen[id(p)]])
        elif isinstance(first, dict | list | tuple | nn.Module) or type(first).__module__.startswith(
            "oneof."
        ):
            made = list(first) if isinstance(first, tuple) else copy(first)
        else:
            return first
        self.seen[id(first)] = made
        if isinstance(made, dict | list):
            self.fill(made, parts)
        elif hasattr(first, "__dict__") and not isinstance(first, Optimizer):
            self.fill(vars(made), [vars(part) for part in parts])
        return made

    def fill(self, made: Any, parts: Sequence[Any]) -> None:
        for key in list(made) if isinstance(made, dict) else range(len(made)):
            made[key] = self.joined([part[key] for part in parts], (made, key))

    def stacked(self, parts: Sequence[Tensor], place: tuple[Any, Any]) -> Tensor:
        first = parts[0]
        if id(first) not in self.seen:
            longest = max(parts, key=lambda part: part.shape)
            made = longest.new_zeros(len(parts), *longest.shape)
            for own, part in zip([made[i] for i in range(len(parts))], parts):
                if part.shape == longest.shape:
                    own.copy_(part.detach())
                    part.data = own
                else:  # lists of the rows with a label
                    own[: len(part)] = part
            self.seen[id(first)] = len(self.tensors)
            self.tensors.append(made.requires_grad_(first.requires_grad))
            self.places.append([(first, None)])  # kept, so that nothing else gets its id
        self.places[self.seen[id(first)]].append(place)
        return first

    def over_all(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """`function` of `one` and stacked inputs, for all trainings at once; it may change their tensors."""

        def of_one(tensors: Sequence[Tensor], *inputs: Tensor) -> Tensor:
            for (_, *places), tensor in zip(self.places, tensors):
                for container, key in places:
                    container[key] = tensor
            return function(self.one, *inputs)

        with AsOne(len(self.trainings)):
            return vmap(of_one)(self.tensors, *inputs)

    # ---- training -----------------------------------------------------------------------------

    def run_epoch(self) -> None:
        """As `OngoingTraining.run_epoch`, without the facts that only a log needs."""
        one, step, recipe = self.one, self.trainings[0].step, self.trainings[0].recipe
        for drawn in zip(*self.drawn()):
            done = step.step / max(1, recipe.epochs * step.steps_per_epoch)
            factor = torch.full_like(
                drawn[0][:, 0], SCHEDULES[recipe.schedule](done, recipe), dtype=self.dtype
            )
            if self.captured is None:
                self.step(factor, *drawn)
            else:
                self.captured(one.method.stage(one.state, one.step), factor, *drawn)
            step.step += 1
        self.select()
        self.over_all(end_epoch)
        step.epoch += 1
        one.step.epoch = step.epoch

    def step(self, *inputs: Tensor) -> None:
        self.over_all(one_step, *inputs)

    def drawn(self) -> list[Tensor]:
        """Rows, clean rows and their lots of all steps of an epoch, (steps, K, size) each."""
        step, drawn = self.trainings[0].step, []
        for t, clean in zip(self.trainings, self.cleans):
            order = t.shards.order(t.generators["order"], t.batch_size, t.rows.permutation)
            wanted = t.method.clean_rows(t.batch_size)
            numbers = range(step.step, step.step + step.steps_per_epoch)
            rows = [rows for _, rows in zip(numbers, clean.draws(wanted))]
            lots = [clean.lots(wanted, number) for number in numbers]
            drawn.append((order.view(len(numbers), -1), torch.stack(rows), torch.stack(lots)))
        return [torch.stack(each, dim=1).to(self.device, non_blocking=True) for each in zip(*drawn)]

    def select(self) -> None:
        """Keep the weights of those that are better than ever on their selection rows."""
        scores, epoch = self.over_all(hits).tolist(), self.trainings[0].step.epoch
        improved = [t.stopping.improved(score, epoch) for t, score in zip(self.trainings, scores)]
        better = torch.tensor(improved, device=self.device)
        for best, value in zip(self.best, self.kept):
            torch.where(along(better, value), value.detach(), best, out=best)


def one_step(one: OngoingTraining, factor: Tensor, index: Tensor, meta_rows: Tensor, lots: Tensor) -> Tensor:
    """The library's step, at `factor` times the learning rate."""
    one.step.lr = one.recipe.lr * factor
    for group, base in zip(one.main.optimiser.param_groups, one.main.base_lrs):
        group["lr"] = base * factor
    one._step(index, one.rows.x.index_select(0, index), meta_rows, lots, index[:0])
    return one.loss_sum


def end_epoch(one: OngoingTraining) -> Tensor:
    one.method.end_epoch(one.state, one.task, one.step)
    return one.loss_sum.zero_()


@torch.no_grad()
def hits(one: OngoingTraining) -> Tensor:
    """How often the prediction is right on the selection rows."""
    x, mask = one.selection
    with evaluation_mode(one.state):
        return mask.gather(1, one.method.logits(one.state, x).argmax(dim=1, keepdim=True)).float().mean()


class StackedOptimiser:
    """SGD or Adam of all trainings at once, each with its own numbers: both work entry by entry."""

    def __init__(self, parts: Sequence[Optimizer], leaf: Callable[[Tensor], Tensor]) -> None:
        assert type(parts[0]) in (SGD, Adam), f"{type(parts[0]).__name__} is not stacked"
        self.adam = isinstance(parts[0], Adam)
        self.param_groups: list[dict[str, Any]] = []
        self.memory: dict[Tensor, list[Tensor]] = {}
        for groups in zip(*(part.param_groups for part in parts)):
            leaves = [leaf(p) for p in groups[0]["params"]]
            decay = leaves[0].new_tensor([group["weight_decay"] for group in groups])
            self.param_groups.append({**groups[0], "params": leaves, "weight_decay": decay})
            for p in leaves:
                self.memory[p] = [torch.zeros_like(p, requires_grad=False) for _ in range(1 + self.adam)]
        self.steps = leaves[0].new_zeros(())

    def zero_grad(self) -> None:
        for p in self.memory:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                lr = along(below(group["lr"], len(p)), p)
                slope = p.grad.addcmul(p, along(group["weight_decay"], p))
                if not self.adam:
                    (velocity,) = self.memory[p]
                    p.addcmul_(velocity.mul_(group["momentum"]).add_(slope), -lr)
                    continue
                mean, square = self.memory[p]
                one, two = group["betas"]
                mean.lerp_(slope, 1 - one)
                square.mul_(two).addcmul_(slope, slope, value=1 - two)
                scale = (square / (1 - two**self.steps)).sqrt_().add_(group["eps"])
                p.addcdiv_(mean * -(lr / (1 - one**self.steps)), scale)


def along(numbers: Tensor, like: Tensor) -> Tensor:
    """A number per training, to be combined with a stacked tensor."""
    return numbers.view(-1, *[1] * (like.ndim - 1))


# ---- what `vmap` does not do --------------------------------------------------------------------


class AsOne(TorchFunctionMode):
    """Inside, what a step does and `vmap` does not, for all trainings at once.

    Gradients are those of ordinary autograd below `vmap`, of the sum of all losses: no training's loss
    depends on another's parameters.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.ways: dict[Any, Callable[..., Any]] = {
            Tensor.backward: self.backward,
            torch.autograd.grad: self.grad,
            Tensor.grad.__set__: self.set_grad,
            Tensor.requires_grad.__get__: lambda x: stored(x).requires_grad,
            Tensor.__bool__: lambda x: bool(below(x, count).all()),  # as for shortcuts in `joined`
            # Torch's rules for rows of stacked tables gather every entry by itself, or loop over the
            # trainings, or bring numbers from the host, which no recording allows.
            Tensor.__getitem__: self.rows_of,
            Tensor.index_select: self.index_select,
            Tensor.index_copy_: self.index_copy_,
            # It has none for these in place, or for a factor that differs.
            Tensor.clamp_: self.clamp_,
            Tensor.scatter_: lambda x, *how: x.scatter(*how),  # of a new tensor: the result alone is used
            Tensor.add_: lambda x, y, alpha=1: x.add_(y * alpha),
            Tensor.sub_: lambda x, y, alpha=1: x.sub_(y * alpha),
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.ways.get(function, function)(*args, **(kwargs or {}))

    def backward(self, loss: Tensor, **_: Any) -> None:
        losses = below(loss, self.count)
        with temporarily_pop_interpreter_stack():
            losses.sum().backward()

    def grad(
        self, output: Any, parameters: Sequence[Tensor], grad_outputs: Any = None, **_: Any
    ) -> list[Tensor]:
        (output,) = output if isinstance(output, tuple) else (output,)
        (slope,) = grad_outputs if isinstance(grad_outputs, tuple) else (grad_outputs,)
        loss = output if slope is None else output * slope
        losses, level, leaves = below(loss, self.count), levels.maybe_get_level(loss), map(stored, parameters)
        with temporarily_pop_interpreter_stack():
            slopes = torch.autograd.grad(losses.sum(), list(leaves))
        return [levels._add_batch_dim(slope, 0, level) for slope in slopes]

    def set_grad(self, parameter: Tensor, gradient: Tensor | None) -> None:
        stored(parameter).grad = None if gradient is None else below(gradient, self.count)

    def index_select(self, x: Tensor, dim: int, index: Tensor) -> Tensor:
        return x.index_select(dim, index) if dim else self.rows_of(x, index)

    def rows_of(self, x: Tensor, index: Any) -> Tensor:
        if not (isinstance(index, Tensor) and levels.is_batchedtensor(index) and levels.is_batchedtensor(x)):
            return x[index]
        table, flat = self.flat(x, index)
        made = table.index_select(0, flat).view(self.count, *index.shape, *x.shape[1:])
        return levels._add_batch_dim(made, 0, levels.maybe_get_level(x))

    def index_copy_(self, x: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor:
        if dim:
            return x.index_copy_(dim, index, value)
        table, flat = self.flat(x, index)
        table.index_copy_(0, flat, below(value, self.count).flatten(0, 1))
        return x

    def flat(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of all trainings one after the other, as a view, and the numbers of some among them."""
        table, index = below(x, self.count), below(index, self.count)
        first = torch.arange(0, self.count * table.shape[1], table.shape[1], device=table.device)
        return table.view(-1, *table.shape[2:]), (index + along(first, index)).flatten()

    def clamp_(self, x: Tensor, **limits: float) -> Tensor:
        stored(x).clamp_(**limits)
        return x


def stored(x: Tensor) -> Tensor:
    """The very tensor that `vmap` has wrapped."""
    return levels.get_unwrapped(x) if levels.is_batchedtensor(x) else x


def below(x: Tensor, count: int) -> Tensor:
    """(count, ...): the values of all trainings; of a tensor that they share, as often as there are some."""
    if not levels.is_batchedtensor(x):
        return x.expand(count, *x.shape)
    return levels._remove_batch_dim(x, levels.maybe_get_level(x), count, 0)
