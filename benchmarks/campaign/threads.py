"""Fits in four threads equal those one after the other, and the caller's generators stay what they are.

An attempt is one fit among eight that run together; the eight are one round.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from benchmarks.campaign import Attempt, Failed, begin
from oneof.candidates import Candidates
from oneof.methods import make_method
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, train

AT_ONCE, ROUND = 4, 8
CLASSES, FEATURES, ROWS = 4, 5, 90
METHODS = ("proden", "rplg", "rplg+", "valen", "pico", "lws", "sdct", "rc")
NETS: dict[str, dict[str, Any]] = {
    "batch normalisation": {"batch_norm": True},
    "dropout": {"batch_norm": False, "dropout": 0.3},
    "plain": {"batch_norm": False},
}


def fit(method: str, net: str, seed: int) -> list[bytes]:
    """Everything a training ends with."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=ROWS)
    x = (3 * np.eye(CLASSES, FEATURES)[truth] + rng.standard_normal((ROWS, FEATURES))).astype(np.float32)
    mask = (rng.random((ROWS, CLASSES)) < 0.3) | np.eye(CLASSES, dtype=bool)[truth]
    trained = train(
        make_method(method),
        lambda: build_net("mlp", FEATURES, CLASSES, hidden=(16,), **NETS[net]),
        x[20:],
        Candidates.from_mask(mask[20:]),
        clean=CleanRows(x[:20], np.eye(CLASSES, dtype=bool)[truth[:20]]),
        recipe=Recipe(epochs=4, batch_size=16, seed=seed, device="cpu"),
    )
    losses = repr([row["loss"] for row in trained.history]).encode()
    return [losses, *(value.numpy().tobytes() for value in trained.state.state_dict().values())]


alone = cache(fit)


def generators() -> tuple[Any, ...]:
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002


def start(templates: Path) -> Attempt:
    found: list[tuple[str, bool]] = []

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, bool]:
        if not found:
            begin(folder, "a round")
            found.extend(together(rng))
        kind, same = found.pop()
        if not same:
            begin(folder, kind)
            raise Failed("a fit in threads differs from the same fit alone")
        return kind, True

    return attempt


def together(rng: np.random.Generator) -> list[tuple[str, bool]]:
    """A round: the kind of every fit, and whether it is what it is alone."""
    cases = [
        (METHODS[rng.integers(len(METHODS))], list(NETS)[rng.integers(len(NETS))], int(rng.integers(20)))
        for _ in range(ROUND)
    ]
    expected = [alone(*case) for case in cases]
    before = generators()
    made = Parallel(AT_ONCE, backend="threading")(delayed(fit)(*case) for case in cases)
    if generators() != before:
        raise Failed("the caller's generators have changed")
    return [(case[1], a == b) for case, a, b in zip(cases, expected, made)]
