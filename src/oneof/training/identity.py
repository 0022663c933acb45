"""What makes a training the one it is: a run folder refuses to continue with another one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import oneof
from oneof.tables.sealed import digest_of
from oneof.training.checkpoint import content_bytes
from oneof.views import RowItself

if TYPE_CHECKING:
    from oneof.training.ongoing import OngoingTraining

CONTENTS = "contents"
"""The entry of a configuration with the digest of everything that is learned from or judged by."""


def identity(training: OngoingTraining) -> dict[str, Any]:
    """Method, recipe, network, views and all rows, as plain values."""
    recipe, given, views = asdict(training.recipe), training.given, training.given.views
    # where, how safely and how fast, not what
    for name in ("device", "workers", "checkpoint_every", "speed", "max_seconds"):
        recipe.pop(name)
    divided = {"shards": training.shards.count, "sync_batch_norm": recipe.pop("sync_batch_norm")}
    recipe.pop("shards")  # the same training, whether by one process or by many
    if training.shards.count > 1:
        recipe |= divided
    recipe["precision"] = str(training.speed.precision or training.dtype).removeprefix("torch.")
    describe = getattr(views, "describe", None)
    seen = {} if isinstance(views, RowItself) else {"views": describe() if describe else type(views).__name__}
    return seen | {
        "method": {"name": training.method.info.name, **training.method.params()},
        "recipe": recipe,
        "net": training.net_text,
        "inputs": training.rows.digest(),
        "candidates": {"rows": len(given.candidates), "hash": given.candidates.hash},
        "clean": None if given.clean is None else [len(given.clean), given.clean.source],
        CONTENTS: contents(training),
        "versions": {"oneof": oneof.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def contents(training: OngoingTraining) -> dict[str, str | None]:
    """A digest of everything with numbers, by the name an error calls it; None where there is nothing."""
    clean, test, answers = training.clean, training.test, training.given.candidates.answers
    by_clean = training.given.selection is None
    said = () if answers is None else (answers.row, answers.worker, answers.label)
    asked = {"answers": digest_tensors(*(torch.from_numpy(part.copy()) for part in said))} if said else {}
    return asked | {
        "features": training.rows.content(),
        "true labels": digest_tensors(training.truth),
        "clean rows": digest_tensors(clean.x, clean.mask),
        "rows to select by": None if by_clean else digest_tensors(*(training.selection or ())),
        "test rows": None if test is None else digest_tensors(test[0], as_numbers(test[1])),
        "weights of the network": training.given_weights,
    }


def as_numbers(labels: Any) -> Tensor:
    """Labels of any kind as something to take a digest of."""
    return torch.frombuffer(bytearray(repr(np.asarray(labels).tolist()).encode()), dtype=torch.uint8)


def digest_tensors(*tensors: Tensor | None) -> str | None:
    """One short digest of types, shapes and numbers; None where one of them is missing."""
    parts: list[bytes | memoryview] = []
    for tensor in tensors:
        if tensor is None:
            return None
        parts += [f"{tensor.dtype} {tuple(tensor.shape)}".encode(), content_bytes(tensor)]
    return digest_of(parts)[:16]


def digest_weights(net: nn.Module) -> str | None:
    """Of a network as it is now."""
    return digest_tensors(*net.state_dict().values())
