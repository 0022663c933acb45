"""ABLE: ambiguity-induced contrastive learning.

Xia, Lv, Xu, Geng, "Ambiguity-Induced Contrastive Learning for Instance-Dependent Partial Label Learning",
IJCAI 2022.

A classifier with self-updated targets C (as PRODEN) and a projection head on one encoder. The weak and the
strong view go through it in one pass. With p, ŷ = argmax_{j ∈ S} p_j of the weak view and G_c the rows of
the batch with ŷ = c, every candidate brings its group as positives, by the anchor's confidence in it:

    W_ik = C_{i,ŷ_k} / |G_{ŷ_k}| if ŷ_k ∈ S_i, else 0
    L_con,a = −(τ / 0.07) Σ_{b ≠ a} W_ab log( e^{z_a·z_b/τ} / Σ_{b' ≠ a} e^{z_a·z_b'/τ} )

over the 2B embeddings z, W being the same for all four pairs of views. L = L_cls + weight · L_con with
L_cls = −Σ_j C_ij log p_ij on the weak view; then C_i ← p_i normalised within S_i, from the same forward.

Adapted on tables: one view, so its embeddings stand for both and each anchor meets itself as a positive.

Deviations: C is looked up by the row's number in the data. The authors' code, and its port in PLENCH, take
the rows 0 … B − 1 for every batch in L_con, so that published figures come from other weights: an anchor's
sum to 1 here, there to the mass that another row's C has on its candidates, about a third on CIFAR-10. The
weak view is this library's mirrored crop, as in PLENCH; the authors' is a resized crop with changes of
colour. It is the only view that L_cls sees, so that on images the classifier learns from milder views than
those of methods that average over weak and strong ones.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import cross_entropy
from oneof.methods.parts.contrast import BASE_TEMPERATURE, Projection, both_heads, contrast
from oneof.methods.targets import best_candidate, candidate_softmax


@register(
    "able", year=2022, venue="IJCAI", forwards=1, backwards=1, note="adapted on tables; two views on images"
)
@dataclass(frozen=True)
class Able(Method):
    """Contrastive learning with positives from every candidate label, weighted by confidence."""

    weight: float = hyper(1.0, choices=(0.5, 1.0, 2.0), text="weight of the contrastive loss")
    temperature: float = hyper(0.1, choices=(0.03, 0.05, 0.07, 0.09, 0.1), text="τ of the contrastive loss")
    size: int = hyper(128, choices=(64, 128, 256), text="length of an embedding")

    views = ("weak", "strong")
    capturable = True

    def setup(self, task: Task) -> State:
        state = State(task.net, projection=Projection(task, self.size))
        state.rows.add("target", task.uniform, support=task.candidates)
        return state

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        target = state.rows.take(batch.index, "target")
        rows = len(target)
        logits, embedding = both_heads(state.net, state.projection, torch.cat(batch.views))
        logits = logits[:rows]  # the weak view comes first
        if len(batch.views) == 1:
            embedding = embedding.repeat(2, 1)
        label = best_candidate(logits.detach(), batch.candidates)
        state.rows.put(batch.index, target=candidate_softmax(logits.detach(), batch.candidates))

        positive = ambiguity_weights(target, label).repeat(2, 2)
        others = ~torch.eye(2 * rows, dtype=torch.bool, device=label.device)
        contrastive = contrast(embedding, embedding, positive, others, self.temperature)
        contrastive = self.temperature / BASE_TEMPERATURE * contrastive.view(2, rows).mean(dim=0)
        return cross_entropy(logits, target) + self.weight * contrastive


def ambiguity_weights(target: Tensor, label: Tensor) -> Tensor:
    """W (B, B): anchor i's confidence in the label of k, shared by all rows that have this label.

    Labels that are no candidates of i have no confidence, so the mask need not be asked.
    """
    size = one_hot(label, target.shape[1]).sum(dim=0)
    return target[:, label] / size[label]
