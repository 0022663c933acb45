"""How to train: everything about the loop that is not about the method, and the optimiser that follows it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from oneof.methods.base import State, StepInfo
from oneof.methods.optimisers import like_parameters, make_optimiser
from oneof.methods.settings import check_settings
from oneof.nets.base import Net, training_mode
from oneof.nets.fast import can_be_wrapped, takes_channels_last
from oneof.training.randomness import DefaultGenerators


class TrainingError(RuntimeError):
    """Training cannot go on. The message says where it stood and what to try."""


@dataclass(frozen=True)
class Recipe:
    """Optimiser, schedule, length, stopping and seeds of one training."""

    epochs: int = 100
    batch_size: int | None = None
    """Rows per step; None: 64, fewer of less than 1,000 rows (at least 16), up to 256 of more than 5,000."""
    optimiser: Literal["sgd", "adam", "adamw"] = "adam"
    lr: float = 1e-2
    momentum: float = 0.9
    """Of SGD."""
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine", "one-cycle", "multi-step"] = "one-cycle"
    milestones: tuple[float, ...] = (0.5, 0.75)
    """Multi-step: parts of the training after which the learning rate falls to a tenth."""
    patience: int | None = None
    """Stop when the accuracy on the selection rows has not improved for so many epochs; None: never."""
    select: Literal["best", "last"] | None = None
    """Which epoch's weights to keep; None: the best where there is a patience, else the last."""
    clean_weight: float = 0.0
    """Weight of cross-entropy on the clean rows, added to any method's loss (equal information)."""
    clean_batch: int = 64
    """Clean rows in that term per step."""
    checkpoint_every: int = 10
    """Epochs between checkpoints, where a run folder is given."""
    max_seconds: float | None = None
    """Start no epoch that would end later than this; at least one is trained. None: no limit."""
    seed: int = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bf16"] = "auto"
    """Of the features' passes; auto: bf16 for images on a GPU or on a processor that multiplies in bf16
    (AMX, AVX-512 BF16), else float32."""
    speed: Literal["auto", "eager", "graph", "compiled"] = "auto"
    """graph: a step is one CUDA graph; compiled: and the features are compiled first, which takes a
    minute; auto: graph for images on a GPU, else eager. Methods that cannot be captured run eagerly."""
    workers: int = 0
    """Processes that load rows which do not fit the device."""
    shards: int | None = None
    """Parts into which rows are divided; every batch takes equally from all. None: one per process that
    trains. More than one in a single process gives the batches that so many processes would see."""
    sync_batch_norm: bool = False
    """Several processes with GPUs: normalise by the whole batch, not by each process' part of it."""

    def __post_init__(self) -> None:
        """Raise on values that cannot be meant: by their types, whole numbers of at least 1 (seeds and
        workers: 0), other numbers of at least 0, or one of a few words; None where it is allowed."""
        check_settings(self, lambda name, whole: int(whole and name not in ("seed", "workers")))

    def rows_per_step(self, n_rows: int, shards: int = 1) -> int:
        """The batch size for n rows: never more than there are, and an equal part from every shard."""
        if self.batch_size and self.batch_size % shards:
            raise ValueError(
                f"batch_size is {self.batch_size}, which {shards} shards cannot take equal parts of.\n"
                f"  Give a multiple of {shards}."
            )
        usual = min(256, max(n_rows // 80, min(64, max(16, n_rows // 16))))
        wanted = min(self.batch_size or usual, n_rows)
        return max(shards, wanted - wanted % shards)

    @property
    def keeps_best(self) -> bool:
        return self.select == "best" or (self.select is None and self.patience is not None)


def choose_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device is {name!r}; give "auto", "cpu" or "cuda".') from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but torch sees no GPU here; give 'auto' or 'cpu'.")
    return device


@dataclass(frozen=True)
class Speed:
    """How steps are computed: what a recipe asks for, as far as device, inputs and method allow it."""

    precision: torch.dtype | None = None
    """Of the features' passes; None: that of the net."""
    channels_last: bool = False
    captured: bool = False
    compiled: bool = False

    @property
    def wraps_features(self) -> bool:
        return self.precision is not None or self.channels_last or self.compiled


def choose_speed(recipe: Recipe, device: torch.device, net: Net, example: Tensor, capturable: bool) -> Speed:
    """Images are fast by default, as far as device and net allow it; everything else is as it is written."""
    gpu, images = device.type == "cuda", example.ndim == 4
    speed = recipe.speed if recipe.speed != "auto" else "graph" if gpu and images else "eager"
    by_itself = recipe.precision == "auto" and images and can_be_wrapped(net) and multiplies_bf16(device)
    return Speed(
        precision=torch.bfloat16 if by_itself or recipe.precision == "bf16" else None,
        channels_last=images and takes_channels_last(net, example),
        captured=gpu and capturable and speed in ("graph", "compiled"),
        compiled=speed == "compiled",
    )


def multiplies_bf16(device: torch.device) -> bool:
    """Whether matrices are multiplied in bf16 there faster than in single precision."""
    if device.type == "cuda":
        return True
    # of older versions of torch nothing is known
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return device.type == "cpu" and any(known.get(name, False) for name in ("amx_bf16", "avx512_bf16"))


@dataclass
class EarlyStopping:
    """Remembers the best score and how long ago it was. Equal scores do not count as better."""

    patience: int | None = None
    best: float = float("-inf")
    best_epoch: int = -1

    def improved(self, score: float, epoch: int) -> bool:
        if score <= self.best:
            return False
        self.best, self.best_epoch = score, epoch
        return True

    def exhausted(self, epoch: int) -> bool:
        return self.patience is not None and epoch - self.best_epoch >= self.patience

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.best, self.best_epoch = values["best"], values["best_epoch"]


def check_weights(net: nn.Module, dtype: torch.dtype, example: Tensor) -> None:
    """Raise where a network has nothing to train, or weights of a type that rows are not learned from in."""
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise TrainingError(
            "no weight of the network is trained: requires_grad is False for all.\n"
            "  Leave it True at least for the last layer."
        )
    inputs = example.dtype if example.is_floating_point() else dtype
    if dtype not in (torch.float32, torch.float64) or inputs != dtype:
        raise TrainingError(
            f"the network's weights are {dtype}; they must be torch.float32 (on tables also torch.float64).\n"
            "  Give net.float(); precision='bf16' computes its features in bf16 all the same."
        )


def check_batch_norm(net: nn.Module, example: Tensor, rows: int, clean_rows: int) -> None:
    """Raise where one of a step's passes, of rows with candidates and of clean rows in the loss, has one row
    and the network normalises by the rows of a pass."""
    if 1 not in (rows, clean_rows) or not any(isinstance(part, _BatchNorm) for part in net.modules()):
        return
    try:
        # tried on a copy, since maps of an image may be enough to normalise by
        with DefaultGenerators(0, example.device).lent(), torch.no_grad():
            training_mode(copy.deepcopy(net))(example[:1].to(next(net.parameters()).dtype))
    except ValueError as error:
        if rows == 1:
            what, more = "batch_size leaves one row in a step", "batch_size=2 or more"
        else:
            what, more = "there is one clean row in the loss of a step", "two or more, or clean_weight=0"
        raise TrainingError(
            f"{what}, but batch normalisation needs at least two: {error}\n"
            f"  Give {more}, or a network without batch normalisation (batch_norm=False)."
        ) from error


# ---- the optimiser and its learning rate ------------------------------------------------------


def _one_cycle(done: float, recipe: Recipe) -> float:
    rise, start, end = 0.3, 1 / 25, 1 / 25e4
    if done < rise:
        return start + (1 - start) * 0.5 * (1 - math.cos(math.pi * done / rise))
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))


SCHEDULES: dict[str, Callable[[float, Recipe], float]] = {
    "constant": lambda done, recipe: 1.0,
    "cosine": lambda done, recipe: 0.5 * (1 + math.cos(math.pi * done)),
    "one-cycle": _one_cycle,
    "multi-step": lambda done, recipe: 0.1 ** sum(done >= milestone for milestone in recipe.milestones),
}
"""Pure functions of how far training has come, in [0, 1): there is nothing to checkpoint."""


class MainOptimiser:
    """Moves all that no method moves itself.

    Where steps are recorded and replayed, learning rates are tensors that the recording reads.
    """

    def __init__(
        self, recipe: Recipe, groups: list[dict[str, Any]], state: State, step: StepInfo, recorded: bool
    ) -> None:
        self.recipe, self.state, self.step, self.recorded = recipe, state, step, recorded
        self.optimiser: Optimizer = make_optimiser(
            recipe.optimiser, groups, recipe.lr, recipe.weight_decay, recipe.momentum
        )
        self.base_lrs = [group["lr"] for group in self.optimiser.param_groups]
        self.parameters: list[Tensor] = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.as_recorded()

    def as_recorded(self) -> None:
        """Learning rates and step counters where a recording needs them."""
        for each in (self.optimiser, *self.state.optimisers.values()):
            for group in each.param_groups:
                if "capturable" in group:  # Adam: its step counter must live on the GPU
                    group["capturable"] = self.recorded
        if self.recorded:
            device = self.step.generator.device
            self.step.lr = torch.tensor(float(self.step.lr), device=device)
            for group in self.optimiser.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=device)

    def set_lr(self, done: float) -> None:
        """The learning rates after a part of the training."""
        factor = SCHEDULES[self.recipe.schedule](done, self.recipe)
        self.step.lr = _moved(self.step.lr, self.recipe.lr * factor)
        for group, base in zip(self.optimiser.param_groups, self.base_lrs):
            group["lr"] = _moved(group["lr"], base * factor)

    def load_state_dict(self, saved: dict[str, Any], own: dict[str, Any]) -> None:
        """Of this optimiser and of the method's own; they may come from steps that were not recorded."""
        self.optimiser.load_state_dict(saved)
        for name, optimiser in self.state.optimisers.items():
            optimiser.load_state_dict(own[name])
        self.as_recorded()
        for optimiser in (self.optimiser, *self.state.optimisers.values()):
            like_parameters(optimiser)


def _moved(lr: float | Tensor, value: float) -> float | Tensor:
    """The new value, in the place of the old one where a recording reads it."""
    return lr.fill_(value) if isinstance(lr, Tensor) else value
