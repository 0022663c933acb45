"""Every method on degenerate data: finite results that are distributions, or an error in our words.

Attempt k is case k of all (method, case), so that as many attempts as there are try each once.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign import Attempt, Failed, begin
from oneof import PartialLabelClassifier
from oneof.candidates import Candidates
from oneof.methods import list_methods
from oneof.training import RunError, TrainingError

ROWS, FEATURES, CLASSES = 40, 4, 3
OURS = (ValueError, TypeError, TrainingError, RunError)
MADE_BY = ("oneof", "sklearn")
"""Whose code may raise such an error: scikit-learn checks arrays for us, in words of its own."""
Case = Callable[["Problem"], None]
CASES: dict[str, Case] = {}


class Problem:
    """Rows, sets, truth and options; a case changes some of them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.truth = rng.integers(CLASSES, size=ROWS)
        self.x = 2 * np.eye(CLASSES, FEATURES)[self.truth] + rng.standard_normal((ROWS, FEATURES))
        self.mask = np.eye(CLASSES, dtype=bool)[self.truth]
        self.mask[np.arange(ROWS), rng.integers(CLASSES, size=ROWS)] = True
        self.options: dict[str, Any] = {}
        self.clean: Any = (self.x[:9].copy(), self.truth[:9].copy())
        self.weight: Any = None

    def keep(self, rows: Any) -> None:
        self.x, self.mask, self.truth = self.x[rows], self.mask[rows], self.truth[rows]


def _set(name: str, change: Callable[[Problem], Any]) -> None:
    """A case that is one statement."""
    CASES[name] = lambda problem: change(problem) and None


# rows
for _n in (1, 2, 3, 5, 17):
    _set(f"{_n} rows", lambda p, n=_n: p.keep(slice(n)))
_set("all rows equal", lambda p: p.x.__setitem__(slice(None), p.x[0]))
_set("every row twice", lambda p: p.keep(np.repeat(np.arange(ROWS), 2)))
_set("equal rows, other sets", lambda p: p.x.__setitem__(slice(0, 20), p.x[20:]))
_set("one class only", lambda p: p.keep(p.truth == 0))
_set("one row of a class", lambda p: p.keep((p.truth != 0) | (np.cumsum(p.truth == 0) == 1)))

# features
_set("constant features", lambda p: p.x.fill(3.0))
_set("zeros", lambda p: p.x.fill(0.0))
_set("one constant feature", lambda p: p.x[:, 0].fill(5.0))
_set("one feature", lambda p: (setattr(p, "x", p.x[:, :1]), setattr(p, "clean", None)))
_set("no features", lambda p: (setattr(p, "x", p.x[:, :0]), setattr(p, "clean", None)))
_set("a thousand features", lambda p: (setattr(p, "x", np.tile(p.x, (1, 250))), setattr(p, "clean", None)))
for _scale in (1e-300, 1e-30, 1e-8, 1e8, 1e30, 1e200):
    _set(f"features times {_scale:g}", lambda p, scale=_scale: p.x.__imul__(scale) is None)
    _set(
        f"features times {_scale:g}, not scaled",
        lambda p, scale=_scale: (p.x.__imul__(scale), p.options.update(scaling="none")),
    )
_set("one huge number", lambda p: p.x.__setitem__((3, 1), 1e30))
_set("one tiny column", lambda p: p.x[:, 1].__imul__(1e-40) is None)
_set("offset 1e12", lambda p: p.x.__iadd__(1e12) is None)
_set("bytes", lambda p: setattr(p, "x", p.x.astype(np.uint8)))
_set("half precision", lambda p: setattr(p, "x", p.x.astype(np.float16)))
_set("truth values", lambda p: setattr(p, "x", p.x > 0))
for _bad in (np.nan, np.inf, -np.inf):
    _set(f"a feature is {_bad}", lambda p, bad=_bad: p.x.__setitem__((2, 2), bad))
    _set(f"a clean feature is {_bad}", lambda p, bad=_bad: p.clean[0].__setitem__((2, 2), bad))
_set("a feature is text", lambda p: (setattr(p, "x", p.x.astype(object)), p.x.__setitem__((1, 1), "a")))

# sets
_set("all labels everywhere", lambda p: p.mask.fill(True))
_set("truth alone", lambda p: setattr(p, "mask", np.eye(CLASSES, dtype=bool)[p.truth]))
_set("an empty set", lambda p: p.mask.__setitem__(4, False))
_set("a label in no set", lambda p: setattr(p, "mask", np.c_[p.mask, np.zeros(len(p.mask), bool)]))
_set("a label in every set", lambda p: p.mask[:, 1].fill(True))
_set("the same set everywhere", lambda p: p.mask.__setitem__(slice(None), [True, True, False]))
_set("a hundred classes", lambda p: setattr(p, "mask", np.c_[p.mask, np.tile(~p.mask, (1, 33))]))
_set("truth outside every set", lambda p: setattr(p, "mask", ~np.eye(CLASSES, dtype=bool)[p.truth]))

# clean rows, weights, options
_set("no clean rows", lambda p: setattr(p, "clean", None))
_set("one clean row", lambda p: setattr(p, "clean", (p.clean[0][:1], p.clean[1][:1])))
_set("clean rows of one class", lambda p: p.clean[1].fill(1))
_set("wrong clean rows", lambda p: setattr(p, "clean", (p.clean[0], (p.clean[1] + 1) % CLASSES)))
_set("huge clean rows", lambda p: p.clean[0].__imul__(1e20) is None)
_set("weights of zero", lambda p: setattr(p, "weight", np.zeros(len(p.x))))
_set("one huge weight", lambda p: setattr(p, "weight", np.r_[1e30, np.ones(len(p.x) - 1)]))
_set("a weight is nan", lambda p: setattr(p, "weight", np.r_[np.nan, np.ones(len(p.x) - 1)]))
_set("batches of one row", lambda p: p.options.update(batch_size=1))
_set("batches of one row, no normalisation", lambda p: p.options.update(batch_size=1, batch_norm=False))
_set("learning rate 1e6", lambda p: p.options.update(lr=1e6))
_set("learning rate 1e-30", lambda p: p.options.update(lr=1e-30))
_set("a single linear layer", lambda p: p.options.update(net="linear"))
_set("clean weight 1e6", lambda p: p.options.update(clean_weight=1e6))


def start(templates: Path) -> Attempt:
    methods = [info.name for info in list_methods()]

    def attempt(rng: np.random.Generator, folder: Path) -> tuple[str, int]:
        number = int(rng.bit_generator.seed_seq.entropy)
        name = list(CASES)[number // len(methods) % len(CASES)]
        method = methods[number % len(methods)]
        begin(folder, name)
        return name, fitted(method, name)

    return attempt


def fitted(method: str, name: str) -> int:
    """Whether it was refused."""
    problem = Problem()
    CASES[name](problem)
    try:
        sets = Candidates.from_mask(problem.mask, truth=problem.truth, truth_may_be_outside=True)
        options = {"hidden": (6,), "epochs": 2, "batch_size": 16, "device": "cpu", **problem.options}
        made = PartialLabelClassifier(method, **options)
        made.fit(problem.x, sets, clean=problem.clean, sample_weight=problem.weight)
        p = made.predict_proba(problem.x)
    except OURS as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        if not any(f"/{who}/" in last for who in MADE_BY) or not str(error):
            raise Failed(f"{method}: {type(error).__name__}: {error!s:.200} ({Path(last).name})") from error
        return 1
    for what, values in {"predictions": p, "transduction": made.transduction_}.items():
        if not np.isfinite(values).all() or not np.allclose(values.sum(axis=1), 1, atol=1e-3):
            raise Failed(f"{method}: {what} are no distributions")
    if not all(np.isfinite(row["loss"]) for row in made.history_):
        raise Failed(f"{method}: losses are {[row['loss'] for row in made.history_]}")
    return 0
