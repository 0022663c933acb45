"""The parts of the campaign (`benchmarks/campaign/`).

A part is a module with `start(templates)`: it may write what its attempts copy into that folder, and gives
a function of a random generator and an empty folder. That function makes one attempt by the generator alone
and gives its kind and how often it hit; anything that must not be is an exception. `begin` notes the kind,
for attempts that fail.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

Attempt = Callable[[np.random.Generator, Path], tuple[str, int]]
PARTS = ("kills", "faults", "fuzz", "server", "numbers", "threads")


class Failed(AssertionError):
    """Something was lost, or changed without a word."""


def begin(folder: Path, kind: str) -> str:
    (folder / "kind").write_text(kind, encoding="utf-8")
    return kind
