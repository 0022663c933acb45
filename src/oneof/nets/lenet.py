"""LeNet with batch normalisation: the net of POP, IDGP and VALEN's journal version for the MNIST family."""

from __future__ import annotations

from torch import nn

from oneof.nets.base import Net


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
