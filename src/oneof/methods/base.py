"""What a method is: a frozen dataclass of hyper-parameters and a few hooks that the loop calls."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from oneof.candidates.annotations import Answers
from oneof.candidates.compact import BLOCK
from oneof.methods.rows import CandidateRows
from oneof.methods.settings import check_settings
from oneof.methods.state import RowState, State
from oneof.methods.targets import uniform, weighed
from oneof.nets import Net

__all__ = [
    "Batch", "CandidateRows", "CleanBatch", "Method", "MethodInfo", "Restart", "RowState", "State",
    "StepInfo", "Task", "hyper", "list_methods", "make_method", "register",
]  # fmt: skip


@dataclass(slots=True)
class CleanBatch:
    """Rows with trusted labels. `mask` marks the one right label."""

    x: Tensor
    mask: Tensor
    draw: Tensor | None = None
    """A uniform random number for each, where the method learns from them: the same for any number of
    processes."""


@dataclass(slots=True)
class Batch:
    """One mini-batch, by name.

    `views` holds the *distinct* inputs the method asked for, in its order; on tables there is one,
    the row itself, and `view(role)` gives it for every role.
    """

    index: Tensor
    views: tuple[Tensor, ...]
    candidates: Tensor
    roles: tuple[str, ...] = ("plain",)
    clean: CleanBatch | None = None
    evidence: Tensor | None = None
    """(B, c): the logarithm of the tempered evidence for the candidates, 0 outside; None without any."""

    def weighed(self, target: Tensor) -> Tensor:
        """A distribution on the candidates times what speaks for each of them."""
        return weighed(target, self.candidates, self.evidence)

    def view(self, role: str) -> Tensor:
        """The input in a role: `plain`, `weak`, `strong`, `strong2`."""
        return self.views[self.roles.index(role)] if len(self.views) > 1 else self.views[0]


@dataclass(slots=True)
class StepInfo:
    """Where training stands. `generator` is the source of randomness on the training device."""

    epoch: int
    step: int
    epochs: int
    steps_per_epoch: int
    lr: float | Tensor
    """Of the main optimiser; a 0-d tensor where steps are recorded and replayed."""
    generator: torch.Generator


@dataclass
class Task:
    """What a method is told about the fit it takes part in."""

    net: Net
    candidates: CandidateRows
    """The sets of all rows, on the training device: `take(index)` gives those of some rows as a mask. What is
    given as a boolean tensor (n, c) becomes this."""
    example: Tensor
    """A few inputs, to find out shapes."""
    device: torch.device
    dtype: torch.dtype
    epochs: int
    batch_size: int
    steps_per_epoch: int
    lr: float
    clean_counts: Tensor | None = None
    """How many clean rows have each label (c,); None where there are no clean rows."""
    truth: Tensor | None = None
    """True labels (−1 unknown): for the supervised oracle and for reports only."""
    answers: Answers | None = None
    """Who said what about the rows, where that is known."""
    truth_may_be_outside: bool = False
    """Whether the true label may be none of the candidates."""
    row_pass: Callable[[Callable[[Tensor, Tensor], Tensor]], Tensor] | None = None
    """A function of inputs and numbers of rows, applied to all rows in their order."""

    def __post_init__(self) -> None:
        if isinstance(self.candidates, Tensor):
            self.candidates = CandidateRows.of_mask(self.candidates)

    @property
    def has_clean(self) -> bool:
        return self.clean_counts is not None

    @property
    def n_rows(self) -> int:
        return self.candidates.n_rows

    @property
    def n_classes(self) -> int:
        return self.candidates.n_classes

    def uniform(self, mask: Tensor) -> Tensor:
        """What tables of targets start from."""
        return uniform(mask, dtype=self.dtype)

    def each_row(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`function` of every row, in row order: evaluation mode, no gradient, no augmentation."""
        assert self.row_pass is not None, "each_row is there once training has begun"
        return self.row_pass(lambda x, index: function(x))

    def each_set(self, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The same for a function of rows and the masks of their sets."""
        assert self.row_pass is not None, "each_set is there once training has begun"
        return self.row_pass(lambda x, index: function(x, self.candidates.take(index)))


class Restart:
    """Returned by `end_epoch`: parameter groups are read again and the main optimiser is new."""


class Method:
    """Base of all methods. A method holds hyper-parameters, never state.

    Subclasses are frozen dataclasses that override `loss` and, where they need it, other hooks.
    """

    info: ClassVar[MethodInfo]
    views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    """Inputs the method asks for, by role."""
    watched: ClassVar[tuple[str, ...]] = ("target",)
    """Row tables that hold pseudo-labels; their accuracy is logged each epoch."""
    dropped: ClassVar[dict[str, tuple[Any, ...] | None]] = {}
    """Hyper-parameters of earlier versions and the values that still mean what the method does; None: any.
    They belong to the method that names them: a subclass has another name, which nobody wrote them for."""
    capturable: ClassVar[bool] = False
    """Whether a step can be recorded and replayed: fixed shapes, no wait for the GPU, and no number that
    changes from step to step outside of tensors, except those that `stage` names."""
    shardable: ClassVar[bool] = False
    """Whether several processes can train it, each on its own rows: the loss is a mean over rows that do not
    look at one another, and whatever the method moves itself it moves by averages (`parallel.py`)."""
    uses_default_generator: ClassVar[bool] = False
    """Whether it draws from torch's default generators, not only from `step.generator`. Trainings that do
    wait for one another in threads."""

    def __post_init__(self) -> None:
        check_settings(self, lambda name, whole: -math.inf)

    def __init_subclass__(cls, **more: Any) -> None:
        """Whoever writes another loss says again what can be done with it: a parent's word is for its own."""
        super().__init_subclass__(**more)
        if "loss" in vars(cls):
            cls.capturable = vars(cls).get("capturable", False)
            cls.shardable = vars(cls).get("shardable", False)

    def setup(self, task: Task) -> State:
        """Everything this fit needs beyond the hyper-parameters."""
        return State(task.net)

    def begin(self, task: Task) -> State:
        """`setup`, and pseudo-labels that start from the evidence, for every method that stores some.

        What becomes of them is the method's: those whose targets are opinions within the candidates
        (PRODEN, RPLG) multiply them too, `batch.weighed`.
        """
        state = self.setup(task)
        for index in torch.arange(task.n_rows, device=task.device).split(max(1, BLOCK // task.n_classes)):
            evidence, mask = task.candidates.evidence(index), task.candidates.take(index)
            if evidence is None:
                break
            for name in self.watched:
                if name in state.rows:
                    table = state.rows.take(index, name)  # what it holds of other labels stays (LWS)
                    state.rows.put(index, **{name: table.where(~mask, weighed(table, mask, evidence))})
        return state

    def stage(self, state: State, step: StepInfo) -> Hashable:
        """Names the way through `loss` and `after_step` where it is not always the same; each way is a
        recording of its own."""
        return None

    def captures(self, state: State) -> bool:
        """Whether the steps of this very fit can be recorded, of a method that is `capturable`."""
        return True

    def param_groups(self, state: State) -> list[dict[str, Any]]:
        """Parameter groups of the main optimiser: by default all that no own optimiser moves."""
        own = state.own_parameters()
        return [{"params": [p for p in state.parameters() if p.requires_grad and p not in own]}]

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        """One value per row, or a 0-d tensor where the paper's loss is no mean over rows."""
        raise TypeError(f"{type(self).__name__} does not define a loss")

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        """Called after the optimiser's step."""

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> Restart | None:
        """Called after each epoch, and once before the first (epoch −1)."""

    def clean_rows(self, batch_size: int) -> int:
        """How many clean rows the method learns from in a step, as `batch.clean`; 0: none."""
        return 0

    def predictors(self, state: State) -> tuple[nn.Module, ...]:
        """The nets that make the prediction: the mean of their logits."""
        return (state.net,)

    def logits(self, state: State, x: Tensor) -> Tensor:
        """What prediction, evaluation, export and the clean term use."""
        nets = self.predictors(state)
        if len(nets) == 1:
            return nets[0](x)
        return torch.stack([net(x) for net in nets]).mean(dim=0)

    def pseudo_labels(self, state: State, task: Task, index: Tensor) -> Tensor:
        """(B, c): some rows of the disambiguated training set, where a watched table holds them."""
        return state.rows.take(index, self.watched[-1])

    def report(self, state: State, truth: Tensor | None) -> dict[str, Tensor]:
        """Facts for the epoch's log: accuracy of every watched table where the truth is known."""
        if truth is None:
            return {}
        known = truth >= 0
        return {
            f"{name}_accuracy": (state.rows.best(name) == truth)[known].float().mean()
            for name in self.watched
            if name in state.rows
        }

    def row_numbers(self, n_classes: int) -> int:
        """How many numbers of four bytes it keeps of a training row: by default its watched tables."""
        return len(self.watched) * n_classes

    def extra_numbers(self, n_classes: int, n_features: int, batch_size: int) -> int:
        """How many numbers it keeps beside the net and its rows, and needs in a step."""
        return 0

    def params(self) -> dict[str, Any]:
        """Hyper-parameters by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class MethodInfo:
    """What `oneof methods` shows of a method."""

    name: str
    year: int
    venue: str
    cls: type[Method]
    forwards: float
    backwards: float
    note: str = ""

    @property
    def summary(self) -> str:
        return (self.cls.__doc__ or "").strip().splitlines()[0]


_METHODS: dict[str, MethodInfo] = {}

M = TypeVar("M", bound=type[Method])


def register(
    name: str, *, year: int, venue: str, forwards: float, backwards: float, note: str = ""
) -> Callable[[M], M]:
    """Give a method its name. `forwards` and `backwards` are its cost per step and row, one view."""

    def add(cls: M) -> M:
        if "__dataclass_params__" not in vars(cls):
            raise TypeError(f"{cls.__name__}: put @dataclass(frozen=True) below @register({name!r}, ...).")
        if name in _METHODS and _METHODS[name].cls is not cls:
            raise ValueError(f"two methods are called {name!r}: {_METHODS[name].cls} and {cls}")
        cls.info = _METHODS[name] = MethodInfo(name, year, venue, cls, forwards, backwards, note)
        return cls

    return add


def list_methods() -> list[MethodInfo]:
    """All registered methods, by name."""
    return [_METHODS[name] for name in sorted(_METHODS)]


def make_method(name: str | Method, params: dict[str, Any] | None = None) -> Method:
    """A method from its name and hyper-parameters, with an error that lists what there is."""
    if isinstance(name, Method):
        if "info" not in vars(type(name)):  # it would go by the name of its parent, in saved models too
            raise TypeError(f"{type(name).__name__} has no name of its own; put @register(...) on it.")
        return dataclasses.replace(name, **(params or {}))  # type: ignore[type-var]
    if name not in _METHODS:
        raise ValueError(
            f"there is no method {name!r}; there are {', '.join(sorted(_METHODS))}. "
            "One of your own: import its module first, or add --plugin FILE.py."
        )
    cls = _METHODS[name].cls
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given, dropped = {}, vars(cls).get("dropped", {})
    for key, value in (params or {}).items():
        if key in known:
            given[key] = value
        elif key not in dropped:
            there = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{name} has no hyper-parameter {key!r}; it has {there}.")
        elif (only := dropped[key]) is not None and value not in only:
            raise ValueError(
                f"{name} no longer has the hyper-parameter {key!r}, which is {value!r} here; only "
                f"what was made with {only[0]!r} can still be used."
            )
    return cls(**given)


def hyper(
    default: Any,
    *,
    text: str,
    low: float | None = None,
    high: float | None = None,
    log: bool = False,
    choices: tuple[Any, ...] | None = None,
) -> Any:
    """A hyper-parameter: default, search range and one line of meaning side by side."""
    if (low is None) != (high is None):
        raise ValueError(f"{text!r}: a range needs both ends, low and high, not {low} and {high}.")
    if log and not (low and low > 0):
        raise ValueError(f"{text!r}: a range on a logarithmic scale needs low above 0, not {low}.")
    metadata = {"text": text, "low": low, "high": high, "log": log, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)
