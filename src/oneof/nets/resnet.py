"""Residual networks for small images: a 3 × 3 stem without pooling, mean over the last map.

ResNet-32 (He et al. 2016, section 4.2) with a 1 × 1 convolution where the width changes, and ResNet-18
and 34 with the ImageNet widths (the "CIFAR form" of the contrastive-learning papers).
"""

from __future__ import annotations

from torch import Tensor, nn

from oneof.nets.base import Net
from oneof.nets.convolutions import MeanOverMap, conv1x1, conv3x3, initialise, stages


class BasicBlock(nn.Module):
    """conv-BN-ReLU-conv-BN, plus the input, ReLU."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(n_in, n_out, stride), nn.BatchNorm2d(n_out)
        self.conv2, self.bn2 = conv3x3(n_out, n_out), nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = nn.Sequential(conv1x1(n_in, n_out, stride), nn.BatchNorm2d(n_out))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


def _resnet(
    shape: tuple[int, int, int], n_classes: int, stem: int, plan: tuple[tuple[int, int, int], ...]
) -> Net:
    features = nn.Sequential(
        conv3x3(shape[0], stem),
        nn.BatchNorm2d(stem),
        nn.ReLU(inplace=True),
        stages(BasicBlock, stem, plan),
        MeanOverMap(),
    )
    net = Net(features, nn.Linear(plan[-1][0], n_classes))
    initialise(net)
    return net


def resnet32(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Fifteen blocks of widths 16, 32, 64; 466,906 parameters for ten classes."""
    return _resnet(shape, n_classes, 16, ((16, 5, 1), (32, 5, 2), (64, 5, 2)))


def resnet18(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Eight blocks of widths 64 to 512; 11,173,962 parameters for ten classes."""
    return _resnet(shape, n_classes, 64, ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2)))


def resnet34(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Sixteen blocks of widths 64 to 512; 21,282,122 parameters for ten classes."""
    return _resnet(shape, n_classes, 64, ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)))
