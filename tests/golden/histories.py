"""Short trainings of every method on small made-up problems, as numbers to compare with.

    python -m tests.golden.histories            compare with the stored numbers, show the largest difference
    python -m tests.golden.histories --add      store the numbers of new cases, forget cases that are gone
    python -m tests.golden.histories --write    store today's numbers

Write only when a change of behaviour is meant, and say in the commit which cases changed and why. A change
of structure must leave `histories.json` as it is; what is stored is never touched by `--add`.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.golden import paths

FILE = Path(__file__).with_name("histories.json")
RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Sums in single precision move in their last digits with the number of threads and the processor."""
RELATIVE_IMAGES = 1e-4
"""Convolutions are longer sums."""
CLASSES = 5


@dataclass
class Problem:
    """Rows with candidate sets, and others whose labels are known."""

    x: np.ndarray
    candidates: Any
    clean: Any
    net: Callable[[], Any]
    views: Any = None


@dataclass
class Case:
    """One training."""

    problem: Callable[[], Problem]
    method: Any
    clean: bool = False
    recipe: dict[str, Any] = field(default_factory=dict)


def _sets(rng: np.random.Generator, labels: np.ndarray) -> Any:
    """A fifth of the rows have one candidate, the others one to three more; none has all."""
    mask = np.eye(CLASSES, dtype=bool)[labels]
    for i in range(len(labels) // 5, len(labels)):
        mask[i, rng.choice(CLASSES, size=rng.integers(1, 4), replace=False)] = True
    return paths.Candidates(mask, tuple("abcde"), labels)


def table() -> Problem:
    rng = np.random.default_rng(7)
    labels = rng.integers(CLASSES, size=150)
    x = (rng.normal(size=(150, 6)) + 2 * np.eye(CLASSES, 6)[labels]).astype(np.float32)
    clean = paths.CleanRows(x[120:], np.eye(CLASSES, dtype=bool)[labels[120:]])
    return Problem(
        x[:120],
        _sets(rng, labels[:120]),
        clean,
        lambda: paths.build_net("mlp", 6, CLASSES, hidden=(16, 12), batch_norm=True),
    )


def with_dropout() -> Problem:
    made = table()
    made.net = lambda: paths.build_net("mlp", 6, CLASSES, hidden=(16,), batch_norm=False, dropout=0.3)
    return made


def images() -> Problem:
    rng = np.random.default_rng(8)
    labels = rng.integers(CLASSES, size=60)
    colour = rng.integers(40, 216, size=(CLASSES, 3, 1, 1))
    x = np.clip(colour[labels] + rng.normal(0, 40, size=(60, 3, 8, 8)), 0, 255).astype(np.uint8)
    clean = paths.CleanRows(x[48:], np.eye(CLASSES, dtype=bool)[labels[48:]])
    views = paths.ImageViews((0.5, 0.5, 0.5), (0.25, 0.25, 0.25), "autoaugment", cutout=4, pad=1)
    return Problem(
        x[:48],
        _sets(rng, labels[:48]),
        clean,
        lambda: paths.build_net("lenet", (3, 8, 8), CLASSES),
        views,
    )


def cases() -> dict[str, Case]:
    """All trainings by name."""
    names = [info.name for info in paths.list_methods()]
    made = {name: Case(table, paths.make_method(name)) for name in names if name != "clean-only"}
    for name in names:
        made[f"{name}, clean rows in the loss"] = Case(
            table, paths.make_method(name), True, {"clean_weight": 0.5, "clean_batch": 16}
        )
    for name in ("rplg", "rplg-nm", "rplg-prior", "rplg+", "clean-only"):
        made[f"{name}, clean rows"] = Case(table, paths.make_method(name), True)
    for name, method in paths.rplg_variants().items():
        made[name] = Case(table, method, True)
    made["rplg, clean rows, dropout"] = Case(with_dropout, paths.make_method("rplg"), True)
    made["pop, early removals"] = Case(
        table, paths.make_method("pop", {"warm_up": 1, "window": 1, "theta": 0.3})
    )
    # the loop itself
    made["proden, sgd, best epoch"] = Case(
        table,
        paths.make_method("proden"),
        True,
        {"optimiser": "sgd", "schedule": "cosine", "weight_decay": 1e-3, "patience": 2, "lr": 0.05},
    )
    made["proden, adamw, multi-step"] = Case(
        table,
        paths.make_method("proden"),
        False,
        {"optimiser": "adamw", "schedule": "multi-step", "weight_decay": 1e-2, "batch_size": 50},
    )
    made["proden, two shards"] = Case(table, paths.make_method("proden"), False, {"shards": 2})
    # plain descent: Adam would make steps of full size out of the rounding errors that are all the gradient
    # of a bias before batch normalisation; the same precision on every processor
    descent = {"optimiser": "sgd", "lr": 0.02, "precision": "float32"}
    for name in ("proden", "plcr", "pico", "rplg"):
        made[f"{name}, images"] = Case(images, paths.make_method(name), name == "rplg", descent)
    return made


def numbers(case: Case) -> dict[str, Any]:
    """What a training did: its history, and its end in sums that no renaming changes."""
    problem = case.problem()
    settings = {"epochs": 3, "lr": 0.01, "seed": 3, "device": "cpu", **case.recipe}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rplg without clean rows says that its weights stay uniform
        trained = paths.train(
            case.method,
            problem.net,
            problem.x,
            problem.candidates,
            recipe=paths.Recipe(**settings),
            clean=problem.clean if case.clean else None,
            views=problem.views,
        )
    x = torch.from_numpy(problem.x)
    with torch.no_grad():
        logits = trained.method.logits(trained.state, x if problem.views is None else problem.views.plain(x))
    tensors = [value for value in trained.state.state_dict().values() if value.numel()]
    return {
        "history": trained.history,
        "best_epoch": trained.best_epoch,
        # in the order of the layers
        "nets": [
            [norm(value) for value in net.state_dict().values()]
            for net in trained.method.predictors(trained.state)
        ],
        # everything the method keeps, by size: names and order are nobody's promise
        "state": sorted(norm(value) for value in tensors),
        "logits": summary(logits.numpy()),
        "pseudo_labels": summary(trained.pseudo_labels),
    }


def norm(value: torch.Tensor) -> float:
    return float(value.double().norm())


def summary(values: np.ndarray) -> dict[str, Any]:
    """A matrix (n, c) as one sum, the classes it names, and its first rows with more than one candidate."""
    weights = np.cos(np.arange(values.size)).reshape(values.shape)
    return {
        "shape": list(values.shape),
        "sum": float((np.abs(values.astype(np.float64)) * weights).sum()),
        "argmax": np.bincount(values.argmax(axis=1), minlength=values.shape[1]).tolist(),
        "rows": values[-3:].astype(np.float64).tolist(),
    }


def differences(
    found: Any, stored: Any, relative: float = RELATIVE, where: str = "", size: float = 0.0
) -> Iterator[tuple[str, Any, Any]]:
    """Places where two trees differ by more than rounding of the number itself, or of a `size` beside it.

    Logits of a row come from the same sums: a small one is as exact as the largest of them, no more.
    """
    if isinstance(stored, dict) and isinstance(found, dict) and stored.keys() == found.keys():
        for key in stored:
            yield from differences(found[key], stored[key], relative, f"{where}/{key}")
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        size = max(map(abs, stored)) if "/rows/" in where else 0.0
        for i, (one, other) in enumerate(zip(found, stored)):
            yield from differences(one, other, relative, f"{where}/{i}", size)
    elif isinstance(stored, float | int) and isinstance(found, float | int):
        if not math.isclose(found, stored, rel_tol=relative, abs_tol=max(ABSOLUTE, relative * size)):
            yield where, found, stored
    elif found != stored:
        yield where, found, stored


def read() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def _largest(found: Any, stored: Any) -> float:
    """The largest difference relative to its tolerance."""
    if isinstance(stored, dict):
        return max((_largest(found[key], stored[key]) for key in stored), default=0.0)
    if isinstance(stored, list):
        return max((_largest(one, other) for one, other in zip(found, stored)), default=0.0)
    if isinstance(stored, float | int):
        return abs(found - stored) / max(ABSOLUTE, RELATIVE * abs(stored))
    return 0.0


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store today's numbers")
    parser.add_argument("--add", action="store_true", help="store the numbers of new cases only")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    kept = read() if chosen.add else {}
    made = {name: kept.get(name) or numbers(case) for name, case in cases().items()}
    if chosen.write or chosen.add:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(_rounded(v))}" for k, v in made.items())
        FILE.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
        print(f"{len(made)} cases, {FILE.stat().st_size} bytes: {FILE.name}")
        return
    stored = read()
    print("missing:", sorted(stored.keys() ^ made.keys()))
    far = {name: _largest(made[name], stored[name]) for name in stored if name in made}
    for name in sorted(far, key=far.__getitem__)[-5:]:
        print(f"{far[name]:9.2e} of the tolerance  {name}")


if __name__ == "__main__":
    run()
