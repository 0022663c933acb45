"""What is said before a training that cannot work, and after one that has come to nothing."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from oneof.training.given import TrainingError
from oneof.training.randomness import DefaultGenerators


def check_batch_norm(net: nn.Module, example: Tensor, rows: int, clean_rows: int) -> None:
    """Raise where a pass of a step has one row and the network normalises by the rows of a pass.

    Parameters
    ----------
    rows, clean_rows : int
        Rows per pass in this process: those with candidates, and the clean ones in the loss.
    """
    if 1 not in (rows, clean_rows) or not any(isinstance(part, _BatchNorm) for part in net.modules()):
        return
    try:
        # tried on a copy, since maps of an image may be enough to normalise by
        with DefaultGenerators(0, example.device).lent(), torch.no_grad():
            copy.deepcopy(net).train()(example[:1].to(next(net.parameters()).dtype))
    except ValueError as error:
        if rows == 1:
            what, more = "batch_size leaves one row in a step", "batch_size=2 or more"
        else:
            what, more = "there is one clean row in the loss of a step", "two or more, or clean_weight=0"
        raise TrainingError(
            f"{what}, but batch normalisation needs at least two: {error}\n"
            f"  Give {more}, or a network without batch normalisation (batch_norm=False)."
        ) from error


def warn_of_equal_predictions(logits: Tensor, x: Tensor) -> None:
    """Say so where a trained network cannot tell different rows apart, or overflows on them."""
    different = bool((x != x[:1]).any())
    if logits.isfinite().all() and not (different and (logits == logits[:1]).all()):
        return
    warnings.warn(
        "the trained network gives all rows the same prediction, or none that is a number: it has learned "
        f"nothing. The largest input is {float(x.abs().max()):.3g}.\n"
        "  Scale the features (scaling='standard') or lower the learning rate.",
        stacklevel=4,
    )
