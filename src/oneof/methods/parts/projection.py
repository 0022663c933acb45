"""The head of contrastive methods: features to points on the unit sphere."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from oneof.methods.base import Task
from oneof.nets import Net, evaluation_mode


def feature_size(task: Task) -> int:
    """Length of the vectors that the net's features have."""
    with torch.no_grad(), evaluation_mode(task.net):
        return task.net.features(task.example).shape[1]


class Projection(nn.Module):
    """Two layers d–d–ReLU–`size`, and division by the length."""

    def __init__(self, task: Task, size: int) -> None:
        super().__init__()
        width = feature_size(task)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size))
        self.layers.to(task.device, task.dtype)

    def forward(self, features: Tensor) -> Tensor:
        return normalize(self.layers(features), dim=-1)


def both_heads(net: Net, projection: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and embedding from one pass through the features."""
    features = net.features(x)
    return net.head(features), projection(features)
