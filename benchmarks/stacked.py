"""Many small trainings as one batched program, beside the same trainings one after the other.

    python -m benchmarks.stacked [--device cpu|cuda] [--processes 2] [--stacks 1 8 32 128]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from oneof.training.schedule import SCHEDULES

JOINED = ("state", "candidates", "clean", "rows", "selection", "method", "recipe", "step", "main", "loss_sum")
"""What of a training a step reads or changes."""


class Stack:
    """Trainings of one method, net and number of rows, whose steps are one step of all.

    The library makes the trainings, and each goes on drawing its own orders. Their tensors are stacked along
    a new first axis and become views of the stack, so that whatever is asked of one of them after an epoch
    (predictions, pseudo-labels) is answered by its own values. `one` is a copy of the first training with the
    stack's tensors in place of its own, and of numbers in which the trainings differ: `vmap` runs the library's
    own step on it.
    """

    def __init__(self, trainings: Sequence[OngoingTraining]) -> None:
        self.trainings, self.device = list(trainings), trainings[0].device
        self.tensors: list[Tensor] = []
        self.places: list[list[tuple[Any, Any]]] = []  # of each tensor: containers within `one`, and keys
        self.seen: dict[int, Any] = {}
        self.one = copy(trainings[0])
        for name in JOINED:
            vars(self.one)[name] = self.joined([vars(t)[name] for t in trainings], (vars(self.one), name))
        self.captured = CapturedStep(self.step) if self.device.type == "cuda" else None
        self.cleans = [copy(t.clean) for t in trainings]
        for clean in self.cleans:
            clean.device = torch.device("cpu")  # draws are gathered before they go to the device
        nets = trainings[0].method.predictors(trainings[0].state)
        kept = [value for net in nets for value in net.state_dict(keep_vars=True).values()]
        self.kept = [self.tensors[self.seen[id(value)]] for value in kept]
        self.best = [value.detach().clone() for value in self.kept]

    # ---- K trainings as one object ------------------------------------------------------------

    def joined(self, parts: Sequence[Any], place: tuple[Any, Any]) -> Any:
        """What the stack has in place of K things that correspond."""
        first = parts[0]
        if isinstance(first, Tensor):
            return self.stacked(parts, place)
        if isinstance(first, bool):  # a shortcut is taken where all take it
            return all(parts)
        if isinstance(first, float) and any(part != first for part in parts):
            return self.stacked([torch.tensor(part, device=self.device) for part in parts], place)
        if id(first) in self.seen:
            return self.seen[id(first)]
        if isinstance(first, Optimizer):
            self.seen[id(first)] = made = StackedOptimiser(
                parts, lambda p: self.tensors[self.seen[id(p)]]
            )
            return made
        known = isinstance(first, nn.Module) or type(first).__module__.startswith("oneof.")
        if not known and type(first) not in (dict, list, tuple):
            return first
        self.seen[id(first)] = made = list(first) if isinstance(first, tuple) else copy(first)
        if isinstance(made, dict | list):
            self.fill(made, made if isinstance(made, dict) else range(len(made)), parts)
        elif hasattr(made, "__dict__"):
            self.fill(vars(made), vars(made), [vars(part) for part in parts])
        return made

    def fill(self, made: Any, keys: Iterable[Any], parts: Sequence[Any]) -> None:
        for key in list(keys):
            made[key] = self.joined([part[key] for part in parts], (made, key))

    def stacked(self, parts: Sequence[Tensor], place: tuple[Any, Any]) -> Tensor:
        first = parts[0]
        if id(first) not in self.seen:
            length = max(len(part) for part in parts) if first.ndim else 0
            made = first.new_zeros(len(parts), *(length,) * (first.ndim > 0), *first.shape[1:])
            for own, part in zip(made, parts):
                if part.ndim and len(part) < length:  # numbers of rows by label: lists of several lengths
                    own[: len(part)] = part
                else:
                    own.copy_(part.detach())
                    part.data = own
            self.seen[id(first)] = len(self.tensors)
            self.tensors.append(made.requires_grad_(first.requires_grad))
            self.places.append([(first, None)])  # so that nothing else gets its id
        self.places[self.seen[id(first)]].append(place)
        return first

    def put(self, tensors: Sequence[Tensor]) -> OngoingTraining:
        """`one` with these tensors in all places."""
        for (_, *places), tensor in zip(self.places, tensors):
            for container, key in places:
                container[key] = tensor
        return self.one

    def over_all(self, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """A function of `one` and of stacked inputs, for all trainings at once; it may change their tensors."""
        with AsOne(len(self.trainings)):
            return vmap(lambda tensors, *given: function(self.put(tensors), *given))(self.tensors, *inputs)

    # ---- training -----------------------------------------------------------------------------

    def step(self, factor: Tensor, index: Tensor, meta_rows: Tensor, lots: Tensor) -> None:
        """One step of all; `factor` (K,) is that of the learning rate."""

        def one_step(one: OngoingTraining, factor: Tensor, index: Tensor, meta_rows: Tensor, lots: Tensor) -> Tensor:
            one.step.lr = one.recipe.lr * factor
            for group, base in zip(one.main.optimiser.param_groups, one.main.base_lrs):
                group["lr"] = base * factor
            one._step(index, one.rows.x.index_select(0, index), meta_rows, lots, index[:0])
            return one.loss_sum

        self.over_all(one_step, factor, index, meta_rows, lots)

    def run_epoch(self) -> None:
        """As `OngoingTraining.run_epoch`, without the facts that only a log needs."""
        one, first = self.one, self.trainings[0]
        step, recipe = first.step, first.recipe
        for inputs in zip(*self.drawn()):
            factor = SCHEDULES[recipe.schedule](step.step / max(1, recipe.epochs * step.steps_per_epoch), recipe)
            inputs = (torch.full((len(self.trainings),), factor, device=self.device), *inputs)
            if self.captured is None:
                self.step(*inputs)
            else:
                self.captured(one.method.stage(one.state, one.step), *inputs)
            step.step += 1
        self.select()
        self.over_all(end_epoch)
        step.epoch += 1
        one.step.epoch = step.epoch

    def drawn(self) -> list[Tensor]:
        """Rows, clean rows and their lots of all steps of an epoch, (steps, K, size) each."""
        step, drawn = self.trainings[0].step, []
        for t, clean in zip(self.trainings, self.cleans):
            order = t.shards.order(t.order, t.batch_size, t.rows.permutation)
            wanted = t.method.clean_rows(t.batch_size)
            numbers = range(step.step, step.step + step.steps_per_epoch)
            rows = [rows for _, rows in zip(numbers, clean.draws(wanted))]
            lots = [clean.lots(wanted, number) for number in numbers]
            drawn.append((order.view(len(numbers), -1), torch.stack(rows), torch.stack(lots)))
        return [torch.stack(each, dim=1).to(self.device, non_blocking=True) for each in zip(*drawn)]

    def select(self) -> None:
        """Keep the weights of those that are better than ever on their selection rows."""
        scores = self.over_all(hits).tolist()
        epoch = self.trainings[0].step.epoch
        improved = [t.stopping.improved(score, epoch) for t, score in zip(self.trainings, scores)]
        better = torch.tensor(improved, device=self.device)
        for best, value in zip(self.best, self.kept):
            torch.where(along(better, value), value.detach(), best, out=best)


def end_epoch(one: OngoingTraining) -> Tensor:
    one.method.end_epoch(one.state, one.task, one.step)
    return one.loss_sum.zero_()


@torch.no_grad()
def hits(one: OngoingTraining) -> Tensor:
    """How often the prediction is right on the selection rows."""
    x, mask = one.selection
    with evaluation_mode(one.state):
        return mask.gather(1, one.method.logits(one.state, x).argmax(dim=1, keepdim=True)).float().mean()


def along(numbers: Tensor, like: Tensor) -> Tensor:
    """A number per training, to be combined with a stacked tensor."""
    return numbers.view(-1, *[1] * (like.ndim - 1))


class StackedOptimiser:
    """SGD or Adam of all trainings at once, each with its own numbers: both work entry by entry."""

    def __init__(self, parts: Sequence[Optimizer], leaf: Callable[[Tensor], Tensor]) -> None:
        assert type(parts[0]) in (SGD, Adam), f"{type(parts[0]).__name__} is not stacked"
        self.adam = isinstance(parts[0], Adam)
        self.param_groups, self.memory = [], {}
        for groups in zip(*(part.param_groups for part in parts)):
            leaves = [leaf(p) for p in groups[0]["params"]]
            decay = torch.tensor([group["weight_decay"] for group in groups], device=leaves[0].device)
            self.param_groups.append({**groups[0], "params": leaves, "weight_decay": decay})
            for p in leaves:
                self.memory[p] = [torch.zeros_like(p, requires_grad=False) for _ in range(1 + self.adam)]
        self.steps = torch.zeros((), device=leaves[0].device)

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                lr = along(get_plain(group["lr"], len(p)), p)
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


def get_plain(value: Tensor, count: int) -> Tensor:
    """(count, ...): a stacked tensor as it is outside of `vmap`, with the trainings first."""
    level = levels.maybe_get_level(value)
    return value if level < 0 else levels._remove_batch_dim(value, level, count, 0)


class AsOne(TorchFunctionMode):
    """Inside, what a step does and `vmap` does not know, for all trainings at once.

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
            Tensor.__bool__: lambda x: bool(get_plain(x, count).all()),  # as for shortcuts in `joined`
            # in place: torch has rules for the others of their kind alone, or none for numbers that differ
            Tensor.clamp_: lambda x, **limits: stored(x).clamp_(**limits) is None or x,
            Tensor.index_copy_: lambda table, dim, index, value: table.index_put_((index,), value),
            Tensor.scatter_: lambda x, *how: x.scatter(*how),  # of a new tensor: the result alone is used
            Tensor.add_: lambda x, y, alpha=1: x.add_(y * alpha),
            Tensor.sub_: lambda x, y, alpha=1: x.sub_(y * alpha),
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.ways.get(function, function)(*args, **(kwargs or {}))

    def backward(self, loss: Tensor, **_: Any) -> None:
        losses = get_plain(loss, self.count)
        with temporarily_pop_interpreter_stack():
            losses.sum().backward()

    def grad(self, losses: tuple[Tensor, ...], parameters: Sequence[Tensor], **_: Any) -> list[Tensor]:
        (loss,) = losses
        level, plain, leaves = levels.maybe_get_level(loss), get_plain(loss, self.count), map(stored, parameters)
        with temporarily_pop_interpreter_stack():
            slopes = torch.autograd.grad(plain.sum(), list(leaves))
        return [levels._add_batch_dim(slope, 0, level) for slope in slopes]

    def set_grad(self, parameter: Tensor, gradient: Tensor | None) -> None:
        stored(parameter).grad = None if gradient is None else get_plain(gradient, self.count)


def stored(x: Tensor) -> Tensor:
    """The tensor below `vmap`."""
    return levels.get_unwrapped(x) if levels.is_batchedtensor(x) else x
