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
    found: list[Agreement] = []

    def add(what: str, ours: float, theirs: float, error: float, half_a_digit: float) -> None:
        tolerance = STANDARD_ERRORS * error + half_a_digit
        found.append(Agreement(check.epsilon, what, ours, theirs, tolerance))

    def share(what: str, ours: float, theirs: float, n: float, n_there: float, half: float = 5e-4) -> None:
        add(what, ours, theirs, math.sqrt(theirs * (1 - theirs) * (1 / n + 1 / n_there)), half)

    in_j = check.rows_in_j, reference.p_j * ROWS
    share("P(J)", check.p_j, reference.p_j, check.rows, ROWS)
    share("f right, random error", check.f_random, reference.f_random, *in_j)
    add("f right, worst error", check.f_worst, 0.0, 0.0, 0.0)
    for row in check.sweep:
        if row.epsilon_reduced in reference.reduced:
            random, worst = reference.reduced[row.epsilon_reduced]
            name = f"phi right, epsilon' = {row.epsilon_reduced:g}"
            half = 5e-5 if random > 0.999 else 5e-4  # the probe printed a fourth digit there
            share(f"{name}, random error", row.random, random, *in_j, half)
            share(f"{name}, worst error", row.worst, worst, *in_j)
    # the probe fitted the same number of draws, so its standard error is ours at that number
    both, margin = math.sqrt(1 + check.rows / ROWS), check.margin
    add("lambda", margin.exponent, reference.exponent, both * margin.exponent_se, 5e-3)
    add("C", margin.constant, reference.constant, both * margin.constant_se, 0.05)
    return found
