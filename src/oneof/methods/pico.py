"""PiCO: contrastive label disambiguation.

Wang, Xiao, Li, Feng, Niu, Chen, Zhao, "PiCO: Contrastive Label Disambiguation for Partial Label Learning",
ICLR 2022.

Classifier and projection head share one encoder; a key encoder follows it with momentum m. Per step, with
embedding q and logits z of the query view, key k of the other view, ŷ = argmax_{j ∈ S} z_j:

    c = argmax_{j ∈ S} q·M_j with the prototypes M before this batch;  w ← φ w + (1 − φ) onehot(c)
    M_ŷ ← γ M_ŷ + (1 − γ) q, row after row, then unit length
    L = −Σ_j w_j log p_j + λ L_cont
    L_cont = −1/|P| Σ_{a ∈ P} log( e^{q·a/τ} / Σ_{a' ≠ q} e^{q·a'/τ} )

over the pool of the batch's embeddings, its keys and a queue of old keys, P being the entries whose ŷ is
the anchor's. In the first `start` steps w stays uniform and L_cont is instance discrimination: own key
against the queue. φ falls linearly over the epochs and lags by one, as in the authors' code.

Adapted on tables: the row itself is both views, so that contrast comes from the encoder against its moving
average only. The queue is never longer than there are rows.

Deviations: the query view is this library's mirrored crop, as in PLENCH; the authors' is a resized crop
with changes of colour. It is the only view that w and log p see, so that on images the classifier learns
from milder views than those of methods that average over weak and strong ones. `start` counts steps, at
most a quarter of the training (178 as in PLENCH; the authors' one epoch has 195), and the key encoder's
memory is at most 5 epochs, as the authors' 1000 steps are: with 20 steps per epoch both would otherwise
mean something else. φ falls over the whole training, so that the uniform start of w fades later in a short
one than in the authors' 800 epochs. The key encoder follows after a step, not before the next one (the same
values). Slots of the queue that hold nothing yet are left out (the authors fill them with noise that acts
as negatives), so the queue's length need not be a multiple of the batch. The prototypes' sequence is
computed in closed form.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import cross_entropy
from oneof.methods.parts.contrast import Pool, Projection, Prototypes, Queue, both_heads, contrast
from oneof.methods.parts.schedules import warm_up_steps
from oneof.methods.parts.second_net import follow, follower, within_epochs
from oneof.methods.targets import best_candidate, uniform

LONGEST_MEMORY = 5  # epochs of the key encoder: the authors' 1000 steps


@register(
    "pico", year=2022, venue="ICLR", forwards=2, backwards=1, note="adapted on tables; two views on images"
)
@dataclass(frozen=True)
class Pico(Method):
    """Contrastive embeddings whose class prototypes vote for one candidate."""

    start: int = hyper(178, low=50, high=2000, log=True, text="steps before prototypes move the targets")
    weight: float = hyper(0.5, choices=(0.5, 1.0), text="λ, weight of the contrastive loss")
    prototype_momentum: float = hyper(0.99, choices=(0.9, 0.99), text="γ, memory of the prototypes")
    key_momentum: float = hyper(0.999, choices=(0.9, 0.999), text="m, memory of the key encoder")
    queue: int = hyper(8192, choices=(4096, 8192), text="number of old keys kept")
    size: int = hyper(128, choices=(64, 128, 256), text="length of an embedding")
    temperature: float = hyper(0.07, low=0.03, high=0.1, text="τ of the contrastive loss")
    first_memory: float = hyper(0.95, low=0.9, high=0.99, text="φ, memory of the targets, at the start")
    last_memory: float = hyper(0.8, low=0.7, high=0.95, text="φ at the end")

    views = ("weak", "strong")
    capturable = True

    def setup(self, task: Task) -> State:
        projection = Projection(task, self.size)
        vector = task.example.new_zeros(self.size, dtype=task.dtype)
        label = vector.new_zeros((), dtype=torch.long)
        state = State(
            task.net,
            projection=projection,
            key_net=follower(task.net),
            key_projection=follower(projection),
            prototypes=Prototypes(task.n_classes, self.size, like=vector),
            queue=Queue(min(self.queue, task.n_rows), vector=vector, label=label),
        )
        state.rows.add("target", task.uniform, support=task.candidates)
        return state

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return self.memory(step) if step.step >= warm_up_steps(self.start, step) else None

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        logits, embedding = both_heads(state.net, state.projection, batch.view("weak"))
        with torch.no_grad():
            key = both_heads(state.key_net, state.key_projection, batch.view("strong"))[1]
        label = best_candidate(logits.detach(), batch.candidates)
        target = state.rows.take(batch.index, "target")
        pool = Pool.of(embedding, key, state.queue["vector"], state.queue.filled)

        if step.step >= warm_up_steps(self.start, step):
            # the vote comes from the prototypes before this batch, and is used at once
            vote = best_candidate(state.prototypes.scores(embedding.detach()), batch.candidates)
            target = moved_target(target, vote, self.memory(step))
            state.rows.put(batch.index, target=target)
            pool_label = pool.facts(label, state.queue["label"])
            positive = same_label(label, pool_label, pool.others, like=embedding)
            contrastive = contrast(embedding, pool.vectors, positive, pool.others, self.temperature)
        else:
            contrastive = pool.instance_loss(embedding, self.temperature)

        state.prototypes.update(embedding, label, self.prototype_momentum)
        state.queue.push(vector=key, label=label)
        return cross_entropy(logits, target) + self.weight * contrastive

    def after_step(self, state: State, batch: Batch, step: StepInfo) -> None:
        momentum = within_epochs(self.key_momentum, LONGEST_MEMORY, step)
        follow(state.key_net, state.net, momentum)
        follow(state.key_projection, state.projection, momentum)

    def memory(self, step: StepInfo) -> float:
        """φ: linear from the first to the last value, one epoch late."""
        done = max(step.epoch - 1, 0) / step.epochs
        return self.first_memory + done * (self.last_memory - self.first_memory)


def moved_target(target: Tensor, label: Tensor, memory: float) -> Tensor:
    """memory · target + (1 − memory) · onehot(label); a target that is one-hot already stays exactly so."""
    return target.lerp(one_hot(label, target.shape[1]).to(target.dtype), 1 - memory)


def same_label(label: Tensor, pool_label: Tensor, allowed: Tensor, like: Tensor) -> Tensor:
    """Weights (B, P): equal over the allowed entries with the anchor's label, 0 elsewhere."""
    return uniform((label[:, None] == pool_label) & allowed, like=like)
