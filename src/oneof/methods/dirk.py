"""DIRK and DIRK-REF: distilling reliable knowledge from a teacher that is rectified by the candidates.

Wu, Wang, Zhang, "Distilling Reliable Knowledge for Instance-Dependent Partial Label Learning", AAAI 2024.

A teacher follows the student with momentum m. Its softmax p is rectified: with a = Σ_{j ∈ S} p_j, the
shares p^c of the candidates and p^n of the others within their groups,

    λ = m_n / (m_n + a m_c),  m_n = max p^n,  m_c = min_{j ∈ S} p^c_j
    r = λ p^c + (1 − λ) p^n

so that the least candidate exceeds the best other label by the factor 1/a and both groups keep their
order. The student learns r: L = −Σ_j r_j log p_j. This is `dirk`. `dirk-ref` adds `weight` times a
contrastive loss of the student's embeddings z against the batch, the teacher's keys and a queue of old
ones:

    ω_ib = softmax_b( cos(r_i, r_b) / τ_d ) over the entries b ≠ i with the same label argmax r
    L_con = −(τ_f / 0.07) Σ_b ω_ib log( e^{z_i·q_b/τ_f} / Σ_{b' ≠ i} e^{z_i·q_b'/τ_f} )

and in the first `start` steps instance discrimination: own key against the queue.

Deviations: λ is computed in log space, and a full set has λ = 1. So has a single candidate: the rule would
give the one label that is certain less, the surer the teacher is of it (a → 1 and m_c = 1 make r flat); at
the paper's rates no set has one label only. The teacher starts as a copy of the student (the authors' as
another random network, which must be forgotten first). argmax r is taken among the candidates, where it
lies but for ties, so that equal labels imply a common candidate, which the paper asks for too. The
teacher's memory is at most half an epoch (the authors' 100 steps are an eighth of theirs): with few steps
per epoch a slower one teaches flat targets until the student knows them by heart. `start` counts steps, at
most a quarter of the training (178 as in PLENCH; the authors: one epoch). Empty slots of the queue are
left out. The student learns from the strong view, keys come from the weak one, here a mirrored crop (the
authors': a resized crop with changes of colour), embeddings from a second strong one. On tables all views
are the row itself: one pass of each network serves all of them.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import cross_entropy
from oneof.methods.parts.contrast import BASE_TEMPERATURE, Pool, Projection, Queue, both_heads, contrast
from oneof.methods.parts.schedules import warm_up_steps
from oneof.methods.parts.second_net import follow, follower, within_epochs
from oneof.methods.targets import best_candidate, candidate_softmax

LONGEST_MEMORY = 0.5  # epochs of the teacher


@register("dirk", year=2024, venue="AAAI", forwards=2, backwards=1)
@dataclass(frozen=True)
class Dirk(Method):
    """Self-distillation from a moving-average teacher whose candidates always outrank other labels."""

    momentum: float = hyper(0.99, choices=(0.5, 0.9, 0.99), text="m, memory of the teacher")

    views: ClassVar[tuple[str, ...]] = ("strong",)
    capturable: ClassVar[bool] = True
    watched = ()  # confidences are computed anew each step, no row keeps one
    shardable: ClassVar[bool] = True

    def setup(self, task: Task) -> State:
        return State(task.net, teacher=follower(task.net))

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        x = batch.view("strong")
        with torch.no_grad():
            reliable = rectify(state.teacher(x), batch.candidates)
        return cross_entropy(state.net(x), reliable)

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        follow(state.teacher, state.net, within_epochs(self.momentum, LONGEST_MEMORY, step))


@register(
    "dirk-ref",
    year=2024,
    venue="AAAI",
    forwards=2,
    backwards=1,
    note="adapted on tables; three views on images",
)
@dataclass(frozen=True)
class DirkRef(Dirk):
    """DIRK plus a contrastive loss between rows with similar rectified confidence."""

    weight: float = hyper(1.0, choices=(0.1, 0.3, 0.5, 0.7, 0.9, 1.0), text="weight of the contrastive loss")
    start: int = hyper(178, low=50, high=1000, log=True, text="steps before labels choose the positives")
    confidence_temperature: float = hyper(0.4, choices=(0.2, 0.4, 0.6), text="τ_d, of similar confidences")
    temperature: float = hyper(0.07, choices=(0.03, 0.05, 0.07, 0.09), text="τ_f of the contrastive loss")
    queue: int = hyper(4096, choices=(4096, 8192), text="number of old keys kept")
    size: int = hyper(128, choices=(64, 128, 256), text="length of an embedding")

    views = ("strong", "weak", "strong2")
    capturable = True
    shardable = False

    def setup(self, task: Task) -> State:
        projection = Projection(task, self.size)
        vector = task.example.new_zeros(self.size, dtype=task.dtype)
        return State(
            task.net,
            projection=projection,
            teacher=follower(task.net),
            teacher_projection=follower(projection),
            queue=Queue(
                min(self.queue, task.n_rows),
                vector=vector,
                confidence=vector.new_zeros(task.n_classes),
                label=vector.new_zeros((), dtype=torch.long),
            ),
        )

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return step.step >= warm_up_steps(self.start, step)

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        distil, for_keys, for_anchors = (batch.view(role) for role in self.views)
        with torch.no_grad():
            teacher, key = both_heads(state.teacher, state.teacher_projection, distil)
            reliable = rectify(teacher, batch.candidates)
            if for_keys is not distil:
                key = both_heads(state.teacher, state.teacher_projection, for_keys)[1]
        logits, embedding = both_heads(state.net, state.projection, distil)
        if for_anchors is not distil:
            embedding = both_heads(state.net, state.projection, for_anchors)[1]

        pool = Pool.of(embedding, key, state.queue["vector"], state.queue.filled)
        label = best_candidate(reliable, batch.candidates)
        if self.stage(state, step):
            similar = confidence_weights(
                reliable,
                pool.facts(reliable, state.queue["confidence"]),
                (label[:, None] == pool.facts(label, state.queue["label"])) & pool.others,
                self.confidence_temperature,
            )
            contrastive = contrast(embedding, pool.vectors, similar, pool.others, self.temperature)
            contrastive = self.temperature / BASE_TEMPERATURE * contrastive
        else:
            contrastive = pool.instance_loss(embedding, self.temperature)
        state.queue.push(vector=key, confidence=reliable, label=label)
        return cross_entropy(logits, reliable) + self.weight * contrastive

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        super().after_step(state, batch, step)
        momentum = within_epochs(self.momentum, LONGEST_MEMORY, step)
        follow(state.teacher_projection, state.projection, momentum)


def rectify(logits: Tensor, mask: Tensor) -> Tensor:
    """r: the softmax, shifted so that every candidate has more than every other label."""
    inside, outside = logits.masked_fill(~mask, float("inf")), logits.masked_fill(mask, float("-inf"))
    certain = mask.all(dim=-1, keepdim=True) | (mask.sum(dim=-1, keepdim=True) == 1)
    # log m_n and log(a m_c); a m_c is the least probability among the candidates
    best_other = outside.amax(dim=-1, keepdim=True) - outside.logsumexp(dim=-1, keepdim=True)
    least = inside.amin(dim=-1, keepdim=True) - logits.logsumexp(dim=-1, keepdim=True)
    odds = (best_other - least).masked_fill(certain, float("inf"))  # of λ; also replaces −∞ − (−∞)
    others = outside.softmax(dim=-1).masked_fill(certain, 0)
    return odds.sigmoid() * candidate_softmax(logits, mask) + (-odds).sigmoid() * others


def confidence_weights(confidence: Tensor, pool: Tensor, positive: Tensor, temperature: float) -> Tensor:
    """ω (B, P): softmax of cos(r_i, r_b)/τ_d over the positives of i, 0 elsewhere."""
    similarity = normalize(confidence, dim=1) @ normalize(pool, dim=1).T
    return candidate_softmax(similarity / temperature, positive)
