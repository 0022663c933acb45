"""PRODEN: progressive identification of true labels.

Lv, Xu, Feng, Niu, Geng, Sugiyama, "Progressive Identification of True Labels for Partial-Label
Learning", ICML 2020.

Deviations: the candidate mask is kept beside the weights (the paper's code recovers it from
weights above 0, so that a weight which underflows is lost for ever). With several views the loss
is their mean and the weights come from the first (the paper trains on one, without augmentation). Where
candidates come with evidence (votes, scores), the weights are multiplied by it.
"""

from dataclasses import dataclass

from torch import Tensor

from oneof.methods.base import Batch, Method, State, StepInfo, Task, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.targets import candidate_softmax


@register("proden", year=2020, venue="ICML", forwards=1, backwards=1)
@dataclass(frozen=True)
class Proden(Method):
    """Self-training: a row's target is the model's previous prediction, restricted to its candidates."""

    capturable = True
    shardable = True

    def setup(self, task: Task) -> State:
        state = State(task.net)
        state.rows.add("target", task.uniform, support=task.candidates)
        return state

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target = state.rows.take(batch.index, "target")
        logits = [state.net(view) for view in batch.views]
        # the target of the next visit comes from this forward pass, before the step
        own = candidate_softmax(logits[0].detach(), batch.candidates)
        state.rows.put(batch.index, target=batch.weighed(own))
        return mean_cross_entropy(logits, target)
