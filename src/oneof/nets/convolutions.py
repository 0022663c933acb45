"""Pieces that the convolutional nets share."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def conv3x3(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)


def conv1x1(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)


class MeanOverMap(nn.Module):
    """The mean over height and width: a vector per image, whatever the image's size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def stages(block: type[nn.Module], n_in: int, plan: tuple[tuple[int, int, int], ...]) -> nn.Sequential:
    """Blocks in a row; `plan` has (width, blocks, stride of the first) for every stage."""
    layers: list[nn.Module] = []
    for width, n_blocks, stride in plan:
        for number in range(n_blocks):
            layers.append(block(n_in, width, stride if number == 0 else 1))
            n_in = width
    return nn.Sequential(*layers)


@torch.no_grad()
def initialise(net: nn.Module) -> None:
    """Kaiming's rule by outputs for convolutions; biases of linear layers start at zero."""
    for part in net.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
