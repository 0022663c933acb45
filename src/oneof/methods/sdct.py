"""SDCT: candidate-aware selective disambiguation by normalised entropy.

He, Yang, Feng, "Candidate-aware Selective Disambiguation Based On Normalized Entropy for
Instance-dependent Partial Label Learning", ICCV 2023.

Two networks m = 1, 2 with a table C^m each, trained at once; their mean logits predict. With p^m =
softmax(f_m) normalised on S and NE = H(p^m) / log |S| (0 for a single candidate):

Until `warm_up` each is PRODEN. Before every later epoch one evaluation pass selects, for each network, the
share η of the rows with the least NE, and takes th_c, the mean NE of the selected rows predicted as c. In
an epoch from `expand` on, a row of the batch that is not selected joins if
(a) NE < th_c for its predicted label c; then C^m = p^m; else if
(b) NE < u^m and both networks predict the same label; then C^m = p^m sharpened (power 1/T, normalised);
u^m ← lam u^m + (1 − lam) · mean NE of the batch's rows left after (a).
With ω = min(e / ramp_up, 1) and means over the selected, or over the other rows for L_comp,

    L = Σ_m CE(C^m, f_m(weak)) + ω [CE(C^m, f_m(strong)) + L_mix + L_comp],  L_comp only before `expand`
    L_mix: CE on l x_a + (1 − l) x_b of selected rows with labels argmax C^m mixed alike, l ~ Beta(4, 4)
    L_comp = −Σ_{j ∉ S} log(1 − p_j)

and after the step C^m = p^m of the forward, for the whole batch.

Adapted on tables: no strong view, so its term is left out.

Deviations: th_c is the mean over the class's selected rows (the authors' code divides by all selected) and
u lasts over epochs (there it restarts at 0 each epoch). The three epochs are shares of the training (60,
100 and 300 of the authors' 450). A batch without rows of a kind has the loss 0 for it. The mixed batch
always has as many rows as the batch, drawn from the selected ones. log(1 − p) is exact in log space. The
second network starts by torch's rule for its layers, whichever one the first started by.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from oneof.methods.base import Batch, Method, State, StepInfo, Task, hyper, register
from oneof.methods.losses import cross_entropy, negative_loss
from oneof.methods.parts.schedules import fade_in
from oneof.methods.parts.second_net import independent_copy
from oneof.methods.targets import candidate_softmax


@register(
    "sdct", year=2023, venue="ICCV", forwards=4, backwards=4, note="adapted on tables; two views on images"
)
@dataclass(frozen=True)
class Sdct(Method):
    """Two networks that learn from the rows they are sure of and admit others class by class."""

    warm_up: float = hyper(0.13, low=0.05, high=0.3, text="share of the epochs spent on plain self-training")
    ramp_up: float = hyper(
        0.22, low=0.1, high=0.5, text="share of the epochs until the other losses have full weight"
    )
    expand: float = hyper(
        0.67, low=0.4, high=0.9, text="share of the epochs after which further rows may join"
    )
    selected: float = hyper(0.6, low=0.3, high=0.9, text="η, share of the rows that are selected")
    memory: float = hyper(0.99, low=0.9, high=0.999, text="lam, memory of the threshold u")
    sharpness: float = hyper(
        0.5, low=0.2, high=1.0, text="T, power 1/T sharpens targets of rows that join late"
    )

    views = ("weak", "strong")
    capturable = True
    watched = ("target_0", "target_1")

    def setup(self, task: Task) -> State:
        zeros = task.example.new_zeros(2, task.n_classes, dtype=task.dtype)
        state = State(task.net, second=independent_copy(task.net), class_threshold=zeros, late=zeros[:, 0])
        for m in (0, 1):
            state.rows.add(f"target_{m}", task.uniform, support=task.candidates)
            state.rows.add(f"selected_{m}", torch.zeros(task.n_rows, dtype=torch.bool, device=task.device))
        return state

    def predictors(self, state: State) -> tuple[nn.Module, ...]:
        return (state.net, state.second)

    def pseudo_labels(self, state: State, task: Task, index: Tensor) -> Tensor:
        return sum(state.rows.take(index, *self.watched)) / 2

    def end_epoch(self, state: State, task: Task, step: StepInfo) -> None:
        coming = step.epoch + 1
        if coming < self.warm_up * step.epochs or coming == step.epochs:
            return
        for m, net in enumerate(self.predictors(state)):
            found = task.each_set(partial(entropy_and_label, net))
            entropy, label = found[:, 0], found[:, 1].long()
            chosen = select(entropy, self.selected)
            state.rows[f"selected_{m}"].copy_(chosen)
            state.class_threshold[m] = class_means(entropy, label, chosen, task.n_classes)

    def stage(self, state: State, step: StepInfo) -> Hashable:
        if step.epoch < self.warm_up * step.epochs:
            return None
        return fade_in(step, self.ramp_up), step.epoch >= self.expand * step.epochs

    def loss(self, state: State, batch: Batch, step: StepInfo) -> Tensor:
        mask, weak = batch.candidates, batch.view("weak")
        nets = self.predictors(state)
        logits = [net(weak) for net in nets]
        fresh = [candidate_softmax(z.detach(), mask) for z in logits]
        agree = fresh[0].argmax(dim=1) == fresh[1].argmax(dim=1)
        total = logits[0].new_zeros(())
        for m, net in enumerate(nets):
            target, chosen = state.rows.take(batch.index, f"target_{m}", f"selected_{m}")
            state.rows.put(batch.index, **{f"target_{m}": fresh[m]})
            if step.epoch < self.warm_up * step.epochs:
                total = total + cross_entropy(logits[m], target).mean()
                continue
            expanding = step.epoch >= self.expand * step.epochs
            if expanding:
                entropy = normalised_entropy(fresh[m], mask)
                sure, late = joining(
                    entropy, fresh[m], chosen, agree, state.class_threshold[m], state.late[m]
                )
                state.late[m] = next_threshold(state.late[m], entropy, ~(chosen | sure), self.memory)
                sharp = candidate_softmax(logits[m].detach() / self.sharpness, mask)
                target = torch.where(sure[:, None], fresh[m], torch.where(late[:, None], sharp, target))
                chosen = chosen | sure | late
            further = logits[m].new_zeros(())
            if len(batch.views) > 1:  # before the mixed rows, as batch normalisation remembers the last best
                further = further + masked_mean(cross_entropy(net(batch.view("strong")), target), chosen)
            further = further + self.mixed_loss(net, weak, target, chosen, step.generator)
            if not expanding:
                further = further + masked_mean(negative_loss(logits[m], mask), ~chosen)
            total = total + masked_mean(cross_entropy(logits[m], target), chosen)
            total = total + fade_in(step, self.ramp_up) * further
        return total

    @staticmethod
    def mixed_loss(
        net: nn.Module, x: Tensor, target: Tensor, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """L_mix, on a batch of full size whose rows all come from the chosen ones."""
        first, second = chosen_pairs(chosen, generator)
        # the median of seven uniform numbers has the distribution Beta(4, 4)
        share = torch.rand(7, generator=generator, device=x.device, dtype=x.dtype).median()
        share = torch.maximum(share, 1 - share)
        labels = one_hot(target.argmax(dim=1), target.shape[1]).to(target.dtype)
        mixed = torch.lerp(x[second], x[first], share)
        loss = cross_entropy(net(mixed), torch.lerp(labels[second], labels[first], share))
        return loss.mean() * chosen.any()


def normalised_entropy(p: Tensor, mask: Tensor) -> Tensor:
    """H(p) / log |S|, in [0, 1]; 0 for a single candidate."""
    size = mask.sum(dim=1).to(p.dtype)
    return torch.special.entr(p).sum(dim=1) / size.clamp(min=2).log()


def entropy_and_label(net: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """(B, 2): how undecided a net is about each row, and the label it takes."""
    p = candidate_softmax(net(x), mask)
    return torch.stack([normalised_entropy(p, mask), p.argmax(dim=1).to(p.dtype)], dim=1)


def select(entropy: Tensor, share: float) -> Tensor:
    """Mark the share of the rows, rounded up, that have the least entropy; of equals the first ones."""
    count = math.ceil(share * len(entropy) - 1e-9)  # 0.07 · 100 is 7, whatever floating point says
    chosen = torch.zeros_like(entropy, dtype=torch.bool)
    return chosen.index_fill_(0, entropy.argsort(stable=True)[:count], True)


def class_means(value: Tensor, label: Tensor, chosen: Tensor, n_classes: int) -> Tensor:
    """Mean over the chosen rows of each class; 0, below which nothing lies, for a class without any."""
    sums = value.new_zeros(2, n_classes).index_add_(
        1, label, torch.stack([value * chosen, chosen.to(value.dtype)])
    )
    return sums[0] / sums[1].clamp(min=1)


def joining(
    entropy: Tensor, p: Tensor, chosen: Tensor, agree: Tensor, class_threshold: Tensor, late_threshold: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows that join the chosen ones: by their class's threshold (a), and of the rest by agreement (b)."""
    sure = ~chosen & (entropy < class_threshold[p.argmax(dim=1)])
    late = ~chosen & ~sure & agree & (entropy < late_threshold)
    return sure, late


def next_threshold(threshold: Tensor, entropy: Tensor, left: Tensor, memory: float) -> Tensor:
    """u ← memory · u + (1 − memory) · mean entropy of the rows left; unchanged if none is."""
    moved = memory * threshold + (1 - memory) * masked_mean(entropy, left)
    return torch.where(left.any(), moved, threshold)


def masked_mean(value: Tensor, mask: Tensor) -> Tensor:
    """Mean over the marked rows; 0 if there are none."""
    return (value * mask).sum() / mask.sum().clamp(min=1)


def chosen_pairs(chosen: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """For each place of a batch two chosen rows: all of them in turn, and a random partner.

    Shapes do not depend on how many are chosen. With none chosen the rows are arbitrary.
    """
    rows = (~chosen).byte().argsort(stable=True)  # the chosen ones first
    count = chosen.sum().clamp(min=1)
    place = torch.arange(len(chosen), device=chosen.device)
    draw = torch.rand(len(chosen), generator=generator, device=chosen.device, dtype=torch.float64)
    return rows[place % count], rows[(draw * count).long()]
