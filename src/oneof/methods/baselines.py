"""What every comparison needs: no disambiguation at all, the clean rows alone, and the true labels."""

from dataclasses import dataclass

from torch import Tensor

from oneof.methods.base import Batch, CandidateRows, Method, State, StepInfo, Task, register
from oneof.methods.losses import mean_cross_entropy, set_loss
from oneof.methods.targets import uniform


@register("average", year=2011, venue="baseline", forwards=1, backwards=1)
@dataclass(frozen=True)
class Average(Method):
    """Every candidate stays equally likely: cross-entropy against 1/|S|."""

    watched = ()
    capturable = True
    shardable = True

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        logits = [state.net(view) for view in batch.views]
        return mean_cross_entropy(logits, uniform(batch.candidates, like=logits[0]))


@register("clean-only", year=0, venue="baseline", forwards=1, backwards=1)
@dataclass(frozen=True)
class CleanOnly(Method):
    """Supervised training on the clean rows alone: what candidate sets have to improve on."""

    watched = ()
    capturable = True
    shardable = True

    def clean_rows(self, batch_size: int) -> int:
        return batch_size

    def setup(self, task: Task) -> State:
        if not task.has_clean:
            raise ValueError("clean-only learns from clean rows, and there are none; give some with clean=.")
        return State(task.net)

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        assert batch.clean is not None
        x, mask = batch.clean.x, batch.clean.mask
        if len(x) == 1:  # twice: batch normalisation needs two rows, and the mean is the same
            x, mask = x.repeat(2, *[1] * (x.ndim - 1)), mask.repeat(2, 1)
        return set_loss(state.net(x), mask).mean()


@register("oracle", year=0, venue="reference", forwards=1, backwards=1)
@dataclass(frozen=True)
class Oracle(Method):
    """Supervised training on the hidden true labels: the best that disambiguation could reach."""

    capturable = True
    shardable = True

    def report(self, state: State, truth: Tensor | None) -> dict[str, Tensor]:
        return {}  # its targets are the truth: nothing to report

    def setup(self, task: Task) -> State:
        if task.truth is None or bool((task.truth < 0).any()):
            raise ValueError(
                "the oracle needs the true label of every training row; these candidates lack it"
            )
        state = State(task.net)
        right = CandidateRows.of_labels(task.truth, task.n_classes)
        state.rows.add("target", lambda mask: mask.to(task.dtype), support=right)
        return state

    def begin(self, task: Task) -> State:
        return self.setup(task)  # what people said does not change the truth

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target = state.rows.take(batch.index, "target")
        return mean_cross_entropy([state.net(view) for view in batch.views], target)
