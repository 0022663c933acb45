"""CAVL: class activation value learning.

Zhang, Feng, Han, Liu, Niu, Qin, Sugiyama, "Exploiting Class Activation Value for Partial-Label
Learning", ICLR 2022.

The class activation value of label k is v_k = z_k · |1 − z_k| on the raw logits. After every step a
forward pass on the same batch picks the candidate with the largest value, and the row's next visit is
trained with cross-entropy against it alone. The first visit of a row uses 1/|S| on its candidates.

Deviations: non-candidates have the value −∞. Public code multiplies by the mask instead, so that they
have the value 0 and one of them is picked whenever all candidates have negative logits. The forward
pass after the step leaves the statistics of batch normalisation alone (see RC). With several views the
loss is their mean and the choice comes from the first (the paper trains on one, without augmentation).

v is not monotone for z in (½, 1), and depends on the offset of the logits, which cross-entropy leaves
free: both are the method's own.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from oneof.methods.base import register
from oneof.methods.rc import Rc


@register("cavl", year=2022, venue="ICLR", forwards=2, backwards=1)
@dataclass(frozen=True)
class Cavl(Rc):
    """Hard labels: after every step, the candidate with the largest class activation value."""

    # loss and forward pass after the step are RC's; only the rule for the next target differs

    def weights(self, logits: Tensor, mask: Tensor) -> Tensor:
        return activation_choice(logits, mask)


def activation_choice(logits: Tensor, mask: Tensor) -> Tensor:
    """One-hot rows: the candidate with the largest z · |1 − z|; the first of equals."""
    value = logits * (1 - logits).abs()
    # a value that overflows must still be better than no candidate at all
    value = value.clamp(min=torch.finfo(value.dtype).min).masked_fill(~mask, float("-inf"))
    return torch.zeros_like(logits).scatter_(-1, value.argmax(dim=-1, keepdim=True), 1)
