"""The meta-learner g: what every branch's opinion is worth for a row."""

from torch import nn


def meta_learner(n_inputs: int, n_classes: int, hidden: int) -> nn.Module:
    """g: linear, or with one hidden layer. The last layer starts at zero, which is RPLG-NM."""
    last = nn.Linear(hidden or n_inputs, n_classes)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(n_inputs, hidden), nn.ReLU(), last) if hidden else last
