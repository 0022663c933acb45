"""Networks by name. Each is a function of the input's size and the number of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneof.nets.base import Net, as_net, evaluation_mode
from oneof.nets.tabular import linear, mlp

NETS: dict[str, Callable[..., Net]] = {"linear": linear, "mlp": mlp}


def build_net(name: str, n_features: int, n_classes: int, **options: Any) -> Net:
    """The net of that name, freshly initialised from torch's default generator."""
    if name not in NETS:
        raise ValueError(f"there is no net {name!r}; there are {', '.join(sorted(NETS))}.")
    return NETS[name](n_features, n_classes, **options)


__all__ = ["NETS", "Net", "as_net", "build_net", "evaluation_mode", "linear", "mlp"]
