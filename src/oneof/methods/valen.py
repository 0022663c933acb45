"""VALEN: variational label enhancement.

Xu, Qiao, Geng, Zhang, "Instance-Dependent Partial Label Learning", NeurIPS 2021.

A latent label distribution d per row has a Dirichlet posterior that an encoder gives. Two tables are kept:
O, what the classifier f believes, and D, what the encoder e believes. After `warm_up` epochs of
self-training of f alone (PRODEN, filling O, with D = O at its end), every step takes z = f(x), a = e(x)
and

    d ~ Dirichlet(s + 0.01),  s = softmax(a) normalised on S, with gradient through the sample
    L_rec = c_x MSE(dec(d), x) + 0.01 BCE(d, S) + MSE(rowsoftmax(sigmoid(d dᵀ)), A)
    L_KL = KL(Dir(α) ‖ Dir(1)),  α = exp(a/4) in [0.01, 30]
    L = −Σ_j D_j log softmax(z)_j + γ (−Σ_j O_j log softmax(a)_j) + L_rec + β L_KL
    D ← correct · (d normalised on S) + (1 − correct) · O;  then O ← softmax(z) normalised on S

A is the graph of the k nearest neighbours (with self-loops, rows normalised), of which the batch's block
is used: built from the rows on tables, from f's features after warm-up on images. BCE reads d as logits,
as the authors' code does. e starts as f did; on images, as f is after warm-up (so in the authors' code for
instance-dependent CIFAR-10 and Kuzushiji-MNIST). On images the cross-entropies are taken over three views
(the journal's form), all else on the plain one; on tables there is one view, and this is the conference's
form.

Deviations: no graph convolution in the encoder (the paper has one, its code none). Neighbours are kept as
ids. Supports are the candidate sets, not what happens to be positive in a table. s has its gradient
through the normaliser, and the floor 0.01 also on images (the journal's 10⁻⁶ makes samples degenerate in
single precision). α is clipped in log space. Views are averaged and the other terms divided by their
number: the journal's ratios at the scale of one view. Warm-up takes at most a quarter of the training. On
CIFAR-100 the authors' e starts as f did. The graph's features are those of evaluation mode (the authors'
are of training mode). Defaults are the authors' for CIFAR-10 and CIFAR-100; for small tables they have γ
20, β 0.01, c_x 1 and `correct` 1.
"""

import copy
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet
from torch.nn.functional import binary_cross_entropy_with_logits

from oneof.methods.base import Batch, Method, Restart, State, StepInfo, Task, hyper, register
from oneof.methods.losses import mean_cross_entropy
from oneof.methods.parts.neighbours import adjacency, nearest
from oneof.methods.parts.schedules import at_most_a_quarter
from oneof.methods.targets import candidate_softmax, restrict

CONCENTRATION_FLOOR = 0.01
SET_WEIGHT = 0.01


@register("valen", year=2021, venue="NeurIPS", forwards=2, backwards=2, note="three views on images")
@dataclass(frozen=True)
class Valen(Method):
    """Targets are sampled from a Dirichlet posterior learned by an encoder alongside the classifier."""

    warm_up: int = hyper(10, choices=(10, 20, 30), text="epochs of self-training before the encoder joins")
    gamma: float = hyper(
        10.0, low=0.02, high=20.0, log=True, text="γ, encoder's weight against the classifier's belief"
    )
    beta: float = hyper(0.1, low=1e-4, high=10.0, log=True, text="β, Kullback-Leibler term of the encoder")
    correct: float = hyper(0.2, low=0.2, high=1.0, text="share of the encoder's sample in the target")
    reconstruct: float = hyper(0.01, choices=(0.01, 1.0), text="c_x, weight of reconstructing the input")
    neighbours: int = hyper(3, choices=(3, 4), text="k of the neighbour graph")

    views = ("plain", "strong", "strong2")
    capturable = True
    uses_default_generator = True  # torch's Dirichlet takes no other
    watched = ("target", "belief")  # the target holds a random sample, so the belief speaks for the method

    def setup(self, task: Task) -> State:
        state = State(
            task.net,
            encoder=copy.deepcopy(task.net),
            decoder=decoder(task.n_classes, task.example[0].numel()).to(task.device, task.dtype),
            joined=False,
        )
        for name in ("belief", "target"):
            state.rows.add(name, task.uniform, support=task.candidates)
        k = min(self.neighbours, task.n_rows - 1)
        state.rows.add("neighbours", torch.zeros(task.n_rows, k, dtype=torch.long, device=task.device))
        return state

    def row_numbers(self, n_classes: int) -> int:
        return 2 * n_classes + 2 * self.neighbours

    def warm_up_of(self, epochs: int) -> int:
        return at_most_a_quarter(self.warm_up, epochs)

    def stage(self, state: State, step: StepInfo) -> Hashable:
        return step.epoch < self.warm_up_of(step.epochs)

    def param_groups(self, state: State) -> list[dict[str, Any]]:
        moving = [state.net, state.encoder, state.decoder] if state.joined else [state.net]
        return [{"params": [p for part in moving for p in part.parameters()]}]

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> Restart | None:
        if step.epoch + 1 != self.warm_up_of(step.epochs):
            return None
        table = task.example.dim() == 2
        features = task.each_row(lambda x: x if table else state.net.features(x))
        state.rows["neighbours"].copy_(nearest(features, state.rows["neighbours"].shape[1]))
        if not table:
            state.encoder.load_state_dict(state.net.state_dict())
        state.joined.fill_(True)
        return Restart()

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        belief, target = state.rows.take(batch.index, "belief", "target")
        logits = [state.net(view) for view in batch.views]
        fresh = candidate_softmax(logits[0].detach(), batch.candidates)
        if self.stage(state, step):
            state.rows.put(batch.index, belief=fresh, target=fresh)
            return mean_cross_entropy(logits, belief)

        encoded = [state.encoder(view) for view in batch.views]
        concentration = candidate_softmax(encoded[0], batch.candidates) + CONCENTRATION_FLOOR
        sample = Dirichlet(concentration, validate_args=False).rsample()
        state.rows.put(
            batch.index,
            target=belief.lerp(restrict(sample.detach(), batch.candidates), self.correct),
            belief=fresh,
        )
        graph = adjacency(batch.index, state.rows.take(batch.index, "neighbours"))
        plain = (
            self.reconstruct * (state.decoder(sample) - batch.views[0].flatten(1)).square().mean(dim=1)
            + SET_WEIGHT * set_reconstruction(sample, batch.candidates)
            + graph_reconstruction(sample, graph)
            + self.beta * dirichlet_divergence(encoded[0])
        )
        supervised = mean_cross_entropy(logits, target) + self.gamma * mean_cross_entropy(encoded, belief)
        return supervised + plain / len(batch.views)


def decoder(n_classes: int, size: int) -> nn.Sequential:
    """From a label distribution back to the input."""
    made = nn.Sequential(nn.Linear(n_classes, size), nn.ReLU(), nn.Linear(size, size))
    for layer in (made[0], made[2]):
        nn.init.xavier_normal_(layer.weight)  # type: ignore[arg-type]
        nn.init.constant_(layer.bias, 0.01)  # type: ignore[arg-type]
    return made


def set_reconstruction(sample: Tensor, mask: Tensor) -> Tensor:
    """Mean binary cross-entropy between the set and the sample read as logits."""
    target = mask.to(sample.dtype)
    return binary_cross_entropy_with_logits(sample, target, reduction="none").mean(dim=1)


def graph_reconstruction(sample: Tensor, graph: Tensor) -> Tensor:
    """Mean squared difference between similarities of samples and the neighbour graph, per row."""
    similarity = (sample @ sample.T).sigmoid().softmax(dim=1)
    return (similarity - graph).square().mean(dim=1)


def dirichlet_divergence(logits: Tensor) -> Tensor:
    """KL(Dir(α) ‖ Dir(1, …, 1)) for α = exp(logits/4), clipped to [0.01, 30]."""
    # clipped before exp: after it, the gradient of an overflow would be 0 · ∞
    alpha = (logits / 4).clamp(math.log(0.01), math.log(30)).exp()
    total = alpha.sum(dim=1)
    spread = ((alpha - 1) * (alpha.digamma() - total.digamma()[:, None])).sum(dim=1)
    return total.lgamma() - alpha.lgamma().sum(dim=1) - math.lgamma(logits.shape[1]) + spread
