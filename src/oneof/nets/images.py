"""Convolutional nets for small images, and the pieces they share.

ResNet-32 (He et al. 2016, section 4.2) with a 1 × 1 convolution where the width changes, ResNet-18 and 34
with the ImageNet widths (the "CIFAR form" of the contrastive-learning papers): a 3 × 3 stem without pooling,
mean over the last map. Wide ResNet and pre-activation ResNet-18 normalise before they convolve. LeNet with
batch normalisation is the net of POP, IDGP and VALEN's journal version for the MNIST family.
"""

from __future__ import annotations

from typing import TypeAlias

from torch import Tensor, nn

from oneof.nets.base import Net


def conv3x3(n_in: int, n_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)


def conv1x1(n_in: int, n_out: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)


class MeanOverMap(nn.Module):
    """The mean over height and width: a vector per image, whatever the image's size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


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


Plan: TypeAlias = tuple[tuple[int, int, int], ...]
"""Width, number of blocks and stride of the first block, for every stage."""
RESNET18: Plan = ((64, 2, 1), (128, 2, 2), (256, 2, 2), (512, 2, 2))


def _of_blocks(
    block: type[nn.Module],
    shape: tuple[int, int, int],
    n_classes: int,
    stem: int,
    plan: Plan,
    normalised_last: bool = False,
) -> Net:
    """A convolution, stages of blocks and the mean, normalised after the convolution or after the blocks.

    Kaiming's rule by outputs for convolutions; the biases of the head start at zero.
    """
    first, width, blocks = conv3x3(shape[0], stem), stem, nn.Sequential()
    for n_out, n_blocks, stride in plan:
        for number in range(n_blocks):
            blocks.append(block(width, n_out, stride if number == 0 else 1))
            width = n_out
    normalised = [nn.BatchNorm2d(width if normalised_last else stem), nn.ReLU(inplace=True)]
    body = [blocks, *normalised] if normalised_last else [*normalised, blocks]
    features, head = nn.Sequential(first, *body, MeanOverMap()), nn.Linear(width, n_classes)
    for part in features.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    nn.init.zeros_(head.bias)
    return Net(features, head)


def resnet32(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Fifteen blocks of widths 16, 32, 64; 466,906 parameters for ten classes."""
    return _of_blocks(BasicBlock, shape, n_classes, 16, ((16, 5, 1), (32, 5, 2), (64, 5, 2)))


def resnet18(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Eight blocks of widths 64 to 512; 11,173,962 parameters for ten classes."""
    return _of_blocks(BasicBlock, shape, n_classes, 64, RESNET18)


def resnet34(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Sixteen blocks of widths 64 to 512; 21,282,122 parameters for ten classes."""
    return _of_blocks(BasicBlock, shape, n_classes, 64, ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)))


def wide_resnet(shape: tuple[int, int, int], n_classes: int, depth: int = 28, widen: int = 2) -> Net:
    """WRN-depth-widen (Zagoruyko and Komodakis 2016); 28-2 has 1,467,610 parameters for ten classes."""
    if depth % 6 != 4 or depth < 10:
        raise ValueError(f"depth is {depth}; a wide ResNet has 6n + 4 layers, such as 16, 22 or 28.")
    plan = tuple((width * widen, (depth - 4) // 6, stride) for width, stride in ((16, 1), (32, 2), (64, 2)))
    return _of_blocks(PreActBlock, shape, n_classes, 16, plan, normalised_last=True)


def preact_resnet18(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Pre-activation ResNet-18 as used on TinyImageNet at 32 px (normalised stem, no final normalisation);
    11,268,744 parameters for 200 classes. The mean over the last map serves 64 px as well."""
    return _of_blocks(PreActBlock, shape, n_classes, 64, RESNET18)


def lenet(shape: tuple[int, int, int], n_classes: int) -> Net:
    """Two 5 × 5 convolutions and a layer of 500; 1,257,220 parameters for 28 × 28 and ten classes."""
    channels, height, width = shape
    features = nn.Sequential(
        nn.Conv2d(channels, 20, 5, padding=2),
        nn.BatchNorm2d(20),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5, padding=2),
        nn.BatchNorm2d(50),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * (height // 4) * (width // 4), 500),
        nn.BatchNorm1d(500),
        nn.ReLU(),
    )
    return Net(features, nn.Linear(500, n_classes))
