"""Networks by name. Each is a function of the input's size and the number of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn

from oneof.nets.base import Net, as_net, evaluation_mode
from oneof.nets.images import lenet, preact_resnet18, resnet18, resnet32, resnet34, wide_resnet
from oneof.nets.tabular import linear, mlp

TABLE_NETS: dict[str, Callable[..., Net]] = {"linear": linear, "mlp": mlp}
"""Of the number of features."""
IMAGE_NETS: dict[str, Callable[..., Net]] = {
    "lenet": lenet,
    "resnet32": resnet32,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "preact18": preact_resnet18,
    "wrn-28-2": wide_resnet,
}
"""Of the shape (channels, height, width)."""
NETS = TABLE_NETS | IMAGE_NETS

__all__ = ["IMAGE_NETS", "NETS", "TABLE_NETS", "Net", "as_net", "build_net", "evaluation_mode"]


def build_net(name: str, inputs: int | tuple[int, ...], n_classes: int, **options: Any) -> Net:
    """The net of that name, freshly initialised from torch's default generator.

    Parameters
    ----------
    inputs : int or tuple
        Number of features, or the shape (channels, height, width) of an image. Nets for tables see an
        image as one long row.
    """
    if name not in NETS:
        raise ValueError(f"there is no net {name!r}; there are {', '.join(sorted(NETS))}.")
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if name in IMAGE_NETS:
        if len(shape) != 3:
            raise ValueError(
                f"{name} is a net for images of shape (channels, height, width), but an input has "
                f"{f'{inputs} features' if isinstance(inputs, int) else f'shape {shape}'}.\n"
                f"  Use one of {', '.join(sorted(TABLE_NETS))}"
                f"{', or X[:, None] for grey images' if len(shape) == 2 else ''}."
            )
        return IMAGE_NETS[name](shape, n_classes, **options)
    net = TABLE_NETS[name](math.prod(shape), n_classes, **options)
    if isinstance(inputs, int):
        return net
    return Net(nn.Sequential(nn.Flatten(), net.features), net.head)


def check_images(X: Any, net: Any) -> None:
    """Raise on images for a net that takes tables, and on those with their channels last."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) > 2 and isinstance(net, str) and net in TABLE_NETS:
        what = f"net={net!r} takes tables; nets for images are {', '.join(IMAGE_NETS)}"
        raise ValueError(f"Found array with dim {len(shape)}, shape {shape}, but {what}.")
    last = len(shape) == 4 and shape[3] in (1, 3, 4) and min(shape[1:3]) > 4
    if last and (isinstance(net, str) or X.dtype == "uint8"):  # what other nets take is their own affair
        raise ValueError(f"X has shape {shape}, not (n, channels, height, width): X.transpose(0, 3, 1, 2).")
