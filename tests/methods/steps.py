"""Single steps of a method outside the loop, for tests that follow its state from step to step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from oneof.methods.base import Batch, Method, StepInfo, Task
from oneof.nets import Net, evaluation_mode

N, D, C, B = 12, 3, 4, 5


def step_at(epoch=0, step=0, epochs=10, steps_per_epoch=4, seed=0) -> StepInfo:
    return StepInfo(epoch, step, epochs, steps_per_epoch, 0.1, torch.Generator().manual_seed(seed))


class SmallTask(Task):
    """Twelve rows, a net without batch normalisation, everything in double precision.

    The first row is a singleton, the second a full set. `size` scales the logits.
    """

    def __init__(self, seed: int = 0, size: float = 1.0, features: nn.Module | None = None) -> None:
        torch.manual_seed(seed)  # for the parts that methods add
        rng = np.random.default_rng(seed)
        mask = rng.random((N, C)) < 0.4
        mask[np.arange(N), rng.integers(C, size=N)] = True
        mask[0], mask[1] = np.eye(C, dtype=bool)[2], True
        self.x = torch.tensor(rng.standard_normal((N, D)))
        head = nn.Linear(D, C, dtype=torch.float64)
        with torch.no_grad():
            head.weight.copy_(torch.tensor(rng.standard_normal((C, D)) * size))
        super().__init__(
            net=Net(features or nn.Identity(), head),
            candidates=torch.tensor(mask),
            example=self.x[:2],
            device=torch.device("cpu"),
            dtype=torch.float64,
            epochs=10,
            batch_size=B,
            steps_per_epoch=N // B,
            lr=0.1,
            row_pass=self._all,
        )

    @torch.no_grad()
    def _all(self, function) -> Tensor:
        with evaluation_mode(self.net):
            parts = zip(self.x.split(5), torch.arange(N).split(5))
            return torch.cat([function(part, index) for part, index in parts])

    def batch(self, method: Method, index, noise: float = 0.0) -> Batch:
        """Rows by number; with `noise` every view the method asks for is another one."""
        index = torch.as_tensor(index)
        x = self.x[index]
        shifts = torch.randn(len(method.views), *x.shape, dtype=x.dtype)
        views = tuple(x + noise * shift for shift in shifts) if noise else (x,)
        return Batch(index, views, self.candidates.take(index), method.views)


def move(state: nn.Module, loss: Tensor, lr: float = 0.1) -> None:
    """A step of plain gradient descent on everything that is trainable."""
    parameters = [p for p in state.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(loss.mean(), parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            if gradient is not None:
                parameter -= lr * gradient


def values(tensor: Tensor) -> np.ndarray:
    return tensor.detach().numpy().copy()


def unit(v):
    length = np.sqrt(sum(a * a for a in v))
    return [a / length for a in v] if length > 0 else list(v)


def dot(a, b):
    return sum(s * t for s, t in zip(a, b))


def contrast_by_hand(anchor, pool, weight, allowed, temperature):
    """−Σ_b weight_b log( e^{a·b/τ} / Σ_{b' allowed} e^{a·b'/τ} ) of one anchor."""
    scores = [dot(anchor, b) / temperature for b in pool]
    top = max(s for s, ok in zip(scores, allowed) if ok)
    log_sum = top + np.log(sum(np.exp(s - top) for s, ok in zip(scores, allowed) if ok))
    return -sum(w * (s - log_sum) for w, s, ok in zip(weight, scores, allowed) if ok)


def argmax_within(scores, mask):
    best = None
    for k, score in enumerate(scores):
        if mask[k] and (best is None or score > scores[best]):
            best = k
    return best
