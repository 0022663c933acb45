"""CC: the classifier-consistent method.

Feng, Lv, Han, Xu, Niu, Geng, An, Sugiyama, "Provably Consistent Partial-Label Learning", NeurIPS 2020.

If a candidate set is uniform among all sets that contain the true label, then
P(S | x) = Σ_{k ∈ S} P(k | x) / (2^{c−1} − 1). CC fits this model of the observed set by maximum
likelihood: L = −log Σ_{k ∈ S} softmax(z)_k.

Deviations: the constant log(2^{c−1} − 1) is left out of the loss, as public code does; the sum is
taken in log space, since a sum of softmax entries underflows when all candidates are improbable.
With several views the loss is their mean (the paper trains on one, without augmentation).
"""

from dataclasses import dataclass

from torch import Tensor

from oneof.methods.base import Batch, Method, State, StepInfo, register
from oneof.methods.losses import mean_of, set_loss


@register("cc", year=2020, venue="NeurIPS", forwards=1, backwards=1)
@dataclass(frozen=True)
class Cc(Method):
    """Maximum likelihood of the candidate set; nothing is stored per row."""

    watched = ()
    capturable = True
    shardable = True

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        return mean_of([set_loss(state.net(view), batch.candidates) for view in batch.views])
