"""A second network of the same shape with a start of its own."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def independent_copy(module: M) -> M:
    """The same architecture, initialised anew from torch's default generator.

    Every part that has `reset_parameters`, as all layers of torch have, is reset by it. A parameter
    that belongs to none of them starts as a copy.
    """
    made = copy.deepcopy(module)
    for part in made.modules():
        reset = getattr(part, "reset_parameters", None)
        if callable(reset):
            reset()
    return made
