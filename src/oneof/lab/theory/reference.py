"""Reference values, and whether new figures agree with them within Monte-Carlo error.

They come from an independent probe: six classes, posteriors = softmax of N(0, 1.5²) logits, 200,000
draws, tau = 2 epsilon, one excluded label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from oneof.lab.theory.theorems import TheoremCheck

ROWS = 200_000
STANDARD_ERRORS = 4.0
"""How many standard errors of the difference are still agreement."""


class Reference(NamedTuple):
    """What the probe printed for one epsilon."""

    p_j: float
    f_random: float
    exponent: float
    constant: float
    bound: float
    """The bound on epsilon': a minimum over the draws, so only its size can be compared."""
    reduced: dict[float, tuple[float, float]]
    """epsilon': P(phi right on J) with random error and in the worst case."""


REFERENCE = {
    0.05: Reference(0.232, 0.812, 0.97, 9.6, 2.6e-8,
                    {0.01: (0.9995, 0.993), 0.05: (0.986, 0.852), 0.10: (0.949, 0.567), 0.20: (0.84, 0.232)}),
    0.10: Reference(0.416, 0.793, 0.97, 5.3, 1.3e-8,
                    {0.01: (0.9996, 0.996), 0.05: (0.992, 0.918), 0.10: (0.97, 0.719), 0.20: (0.891, 0.298)}),
    0.20: Reference(0.680, 0.745, 0.97, 3.3, 6.6e-9,
                    {0.01: (0.9998, 0.998), 0.05: (0.995, 0.95), 0.10: (0.982, 0.828), 0.20: (0.931, 0.485)}),
}  # fmt: skip


class Agreement(NamedTuple):
    """One figure beside its reference."""

    epsilon: float
    what: str
    ours: float
    reference: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        return abs(self.ours - self.reference) <= self.tolerance


def compare(check: TheoremCheck) -> list[Agreement]:
    """Every reference value of this epsilon beside ours; nothing where there is no reference."""
    reference = REFERENCE.get(check.epsilon)
    if reference is None or check.excluded != 1:
        return []

    def error(share: float, n: float = check.rows_in_j, n_there: float = reference.p_j * ROWS) -> float:
        return math.sqrt(share * (1 - share) * (1 / n + 1 / n_there))

    # what, ours, theirs, the standard error of the difference, half of the last digit that the probe printed
    p_j, f = reference.p_j, reference.f_random
    found = [("P(J)", check.p_j, p_j, error(p_j, check.rows, ROWS), 5e-4)]
    found.append(("f right, random error", check.f_random, f, error(f), 5e-4))
    found.append(("f right, worst error", check.f_worst, 0.0, 0.0, 0.0))
    for row in check.sweep:
        if row.epsilon_reduced in reference.reduced:
            random, worst = reference.reduced[row.epsilon_reduced]
            name, half = f"phi right, epsilon' = {row.epsilon_reduced:g}", 5e-5 if random > 0.999 else 5e-4
            found.append((f"{name}, random error", row.random, random, error(random), half))
            found.append((f"{name}, worst error", row.worst, worst, error(worst), 5e-4))
    # the probe fitted the same number of draws, so its standard error is ours at that number
    both, margin = math.sqrt(1 + check.rows / ROWS), check.margin
    found.append(("lambda", margin.exponent, reference.exponent, both * margin.exponent_se, 5e-3))
    found.append(("C", margin.constant, reference.constant, both * margin.constant_se, 0.05))
    return [
        Agreement(check.epsilon, what, ours, theirs, STANDARD_ERRORS * se + half)
        for what, ours, theirs, se, half in found
    ]
