"""Residual networks that normalise before they convolve: Wide ResNet and pre-activation ResNet-18."""

from __future__ import annotations

from torch import Tensor, nn

from oneof.nets.base import Net
from oneof.nets.convolutions import MeanOverMap, conv1x1, conv3x3, initialise, stages


class PreActBlock(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv, plus the input; where the shape changes, a 1 × 1 convolution of the
    normalised input."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(n_in), conv3x3(n_in, n_out, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(n_out), conv3x3(n_out, n_out)
        self.relu = nn.ReLU(inplace=True)
        same = stride == 1 and n_in == n_out
        self.shortcut: nn.Module | None = None if same else conv1x1(n_in, n_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        active = self.relu(self.bn1(x))
        skip = x if self.shortcut is None else self.shortcut(active)
        return self.conv2(self.relu(self.bn2(self.conv1(active)))) + skip


def wide_resnet(shape: tuple[int, int, int], n_classes: int, depth: int = 28, widen: int = 2) -> Net:
    """WRN-depth-widen (Zagoruyko and Komodakis 2016); 28-2 has 1,467,610 parameters for ten classes."""
    if depth % 6 != 4 or depth < 10:
        raise ValueError(f"depth is {depth}; a wide ResNet has 6n + 4 layers, such as 16, 22 or 28.")
    blocks = (depth - 4) // 6
    widths = [16 * widen, 32 * widen, 64 * widen]
    features = nn.Sequential(
        conv3x3(shape[0], 16),
        stages(PreActBlock, 16, tuple((w, blocks, s) for w, s in zip(widths, (1, 2, 2)))),
        nn.BatchNorm2d(widths[-1]),
        nn.ReLU(inplace=True),
        MeanOverMap(),
    )
    net = Net(features, nn.Linear(widths[-1], n_classes))
    initialise(net)
    return net


def preact_resnet18(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Pre-activation ResNet-18 as used on TinyImageNet at 32 px (normalised stem, no final normalisation);
    11,268,744 parameters for 200 classes. The mean over the last map serves 64 px as well."""
    features = nn.Sequential(
        conv3x3(shape[0], 64),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        stages(PreActBlock, 64, ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))),
        MeanOverMap(),
    )
    net = Net(features, nn.Linear(512, n_classes))
    initialise(net)
    return net
