"""RC: the risk-consistent method.

Feng, Lv, Han, Xu, Niu, Geng, An, Sugiyama, "Provably Consistent Partial-Label Learning", NeurIPS 2020.

If a candidate set is uniform among all sets that contain the true label, the classification risk is
R = ½ E Σ_{k ∈ S} P(k | x) / Σ_{j ∈ S} P(j | x) · ℓ(f(x), k): importance weights within the set.
The unknown posterior is replaced by the model's softmax, anew after every step:
w_k ← softmax(z)_k / Σ_{j ∈ S} softmax(z)_j for k ∈ S, with z from a forward pass *after* the step.

What separates RC from PRODEN is that forward pass. It sees the batch's statistics and live dropout, as in
public code, but leaves the running statistics of batch normalisation alone (public code updates them
twice per step).

Deviations: that; the factor ½ is dropped, as public code does; weights are normalised in log space and
for the rows of the batch only, which gives the same table. With several views the loss is their mean
and the weights come from the first (the paper trains on one, without augmentation).
"""

from dataclasses import dataclass

from torch import Tensor

from oneof.methods.base import Batch, State, StepInfo, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.proden import Proden
from oneof.methods.targets import candidate_softmax
from oneof.nets.base import peek


@register("rc", year=2020, venue="NeurIPS", forwards=2, backwards=1)
@dataclass(frozen=True)
class Rc(Proden):
    """Importance weights over the candidate set, re-estimated after every step."""

    capturable = True
    shardable = True

    # the table of weights, and that it starts uniform, is PRODEN's

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target = state.rows.take(batch.index, "target")
        return mean_cross_entropy([state.net(view) for view in batch.views], target)

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        logits = peek(state.net, batch.views[0])
        state.rows.put(batch.index, target=self.weights(logits, batch.candidates))

    def weights(self, logits: Tensor, mask: Tensor) -> Tensor:
        """The target of a row's next visit. The mask is S itself, so a label can always come back."""
        return candidate_softmax(logits, mask)
