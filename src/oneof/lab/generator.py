"""The clean generator: a network trained once on the true labels, whose doubts make the candidate sets.

It is trained on all training rows of a data set with a recipe of that data set, evaluated, and kept in
`candidates/` of the data folder: weights (safetensors), facts with its accuracies (JSON) and its
distribution over the wrong labels. How far it over-fits shapes the sets, so its accuracies belong to
every result made with them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from oneof.candidates.generate import wrong_label_q
from oneof.candidates.sets import Candidates
from oneof.datasets.ready_made import GeneratorBeliefs, ready_made_q
from oneof.datasets.registry import DataSet, data_folder
from oneof.datasets.scaling import Scaling
from oneof.methods.baselines import Oracle
from oneof.nets import Net, mlp
from oneof.tables.errors import DataError
from oneof.tables.files import replacing, write_text, write_with
from oneof.training import Recipe, Trained, train
from oneof.training.sources import in_batches
from oneof.views import RowItself

if TYPE_CHECKING:
    from oneof.training.progress import Progress


@dataclass(frozen=True)
class Generator:
    """A network and how to train it."""

    net: str
    build: Callable[[DataSet], Net]
    recipe: Recipe


class Pixels(nn.Module):
    """Bytes to normalised numbers, inside the net: images stay bytes in memory."""

    mean: Tensor
    std: Tensor

    def __init__(self, data: DataSet) -> None:
        super().__init__()
        for name in ("mean", "std"):
            by_channel = torch.tensor(data.facts.get(name, (0.5,) * data.x_train.shape[1]))
            self.register_buffer(name, by_channel.view(-1, 1, 1) * 255)

    def forward(self, x: Tensor) -> Tensor:
        return (x.to(self.mean.dtype) - self.mean) / self.std


def _image_mlp(data: DataSet) -> Net:
    """The network of VALEN for the MNIST family: 300-301-302-303 with batch normalisation."""
    inner = mlp(int(np.prod(data.x_train.shape[1:])), len(data.classes), hidden=(300, 301, 302, 303))
    return Net(nn.Sequential(Pixels(data), nn.Flatten(), inner.features), inner.head)


def _image_conv(data: DataSet) -> Net:
    """Six convolutions, three resolutions, mean over the last map."""
    layers: list[nn.Module] = [Pixels(data)]
    width = data.x_train.shape[1]
    for size in (64, 128, 256):
        for _ in range(2):
            layers += [nn.Conv2d(width, size, 3, padding=1, bias=False), nn.BatchNorm2d(size), nn.ReLU()]
            width = size
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return Net(nn.Sequential(*layers), nn.Linear(width, len(data.classes)))


def _table_mlp(data: DataSet) -> Net:
    """Features scaled by one standard deviation, then 300-300-300."""
    scaling = Scaling.fit(data.x_train, "global")
    inner = mlp(data.x_train.shape[1], len(data.classes), hidden=(300, 300, 300))
    first = nn.Linear(data.x_train.shape[1], data.x_train.shape[1])
    with torch.no_grad():
        first.weight.copy_(torch.diag(torch.as_tensor(1 / scaling.scale)))
        first.bias.copy_(torch.as_tensor(-scaling.shift / scaling.scale))
    first.requires_grad_(False)
    return Net(nn.Sequential(first, inner.features), inner.head)


# Optimiser, learning rate and weight decay are those of VALEN's scripts for CIFAR-10. Weight decay keeps the
# network from being sure of everything: without it q is more peaked and the sets are smaller
# (results/candidates has the figures).
_SGD: dict[str, Any] = {"batch_size": 256, "optimiser": "sgd"}
_MLP = Generator("mlp", _image_mlp, Recipe(epochs=20, lr=0.05, weight_decay=1e-3, schedule="cosine", **_SGD))
_CONV = Generator(
    "conv", _image_conv, Recipe(epochs=30, lr=0.1, weight_decay=5e-4, schedule="one-cycle", **_SGD)
)
_TABLE = Generator(
    "mlp", _table_mlp, Recipe(epochs=60, batch_size=128, optimiser="adam", lr=2e-3, schedule="one-cycle")
)

GENERATORS = dict.fromkeys(("mnist", "fmnist", "kmnist"), _MLP)
GENERATORS |= dict.fromkeys(("cifar10", "cifar100", "tiny-imagenet"), _CONV)
"""The generator of each image data set; tables all have the same."""


def beliefs(
    data: DataSet,
    folder: Path | str | None = None,
    *,
    epochs: int | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> GeneratorBeliefs:
    """The distribution over the wrong labels of a data set: ready-made, cached, or from a new generator,
    which is trained for so many `epochs` instead of its recipe's."""
    folder = data_folder(folder)
    stored = ready_made_q(data.name, len(data.y_train), len(data.classes), folder)
    if stored is not None:
        if stored.facts.get("labels_sha256") not in (None, _digest(data.y_train)):
            raise DataError(
                f"{folder / 'candidates' / stored.file}: made from other labels than those of {data.name}; "
                "remove the file to train a new generator."
            )
        trained_for = stored.facts.get("generator", {}).get("recipe", {}).get("epochs", "other")
        if epochs not in (None, trained_for):
            raise DataError(
                f"{folder / 'candidates' / stored.file}: made by {trained_for} epochs of training, "
                f"not {epochs}; remove the file to train a new generator."
            )
        return stored
    generator = GENERATORS.get(data.name, _TABLE)
    recipe = replace(generator.recipe, device=device)
    recipe = recipe if epochs is None else replace(recipe, epochs=epochs)
    if progress is not None:  # the first epoch on images takes minutes on a processor
        what = f"a network is trained to draw candidate sets for {data.name}: {recipe.epochs} epochs"
        print(what, file=sys.stderr, flush=True)
    trained = train(
        Oracle(),
        lambda: generator.build(data),
        _as_rows(data.x_train),
        Candidates.from_labels(data.y_train, classes=range(len(data.classes))),
        recipe=recipe,
        progress=progress,
        title=f"generator of candidate sets for {data.name}",
    )
    return _stored(trained, data, generator.net, recipe, folder / "candidates")


def _stored(trained: Trained, data: DataSet, name: str, recipe: Recipe, inside: Path) -> GeneratorBeliefs:
    """What a trained generator says of the data, kept for the next time."""
    net = trained.state.net
    logits = _logits(net, data.x_train)
    test = None
    if data.x_test is not None and data.y_test is not None:
        test = _accuracy(_logits(net, data.x_test), data.y_test)
    facts: dict[str, Any] = {
        "data_set": data.name,
        "n": len(data.y_train),
        "classes": len(data.classes),
        "labels_sha256": _digest(data.y_train),
        "generator": {
            "network": name,
            "parameters": sum(p.numel() for p in net.parameters() if p.requires_grad),
            "mode": "eval",
            "recipe": asdict(recipe),
            "seconds": round(trained.seconds, 1),
            "train_accuracy": _accuracy(logits, data.y_train),
            "test_accuracy": test,
            "torch": torch.__version__,
        },
    }
    q = wrong_label_q(logits, data.y_train).astype(np.float32)
    stem = f"{data.name}_{name}"
    with replacing(inside / f"{stem}.safetensors") as beside:
        save_file({name: value.contiguous().cpu() for name, value in net.state_dict().items()}, beside)
    write_text(inside / f"{stem}.json", json.dumps(facts, indent=1) + "\n")
    # q comes last: a generator counts as stored when its q is there
    write_with(inside / f"{stem}_q.npy", lambda out: np.save(out, q))
    return GeneratorBeliefs(q, facts, f"{stem}_q.npy")


def _as_rows(x: np.ndarray) -> Tensor:
    return torch.as_tensor(x if x.dtype == np.uint8 else x.astype(np.float32))


def _logits(net: Net, x: np.ndarray) -> np.ndarray:
    device = next(net.parameters()).device
    found = in_batches(net, _as_rows(x), views=RowItself(), modules=[net], device=device, size=2048)
    return found.double().cpu().numpy()


def _digest(labels: np.ndarray) -> str:
    return hashlib.sha256(labels.astype("<i8").tobytes()).hexdigest()


def _accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return round(float((logits.argmax(axis=1) == labels).mean()), 5)
