"""Reference values, and whether new figures agree with them within Monte-Carlo error.

They come from an independent probe: six classes, posteriors = softmax of N(0, 1.5²) logits, 200,000
draws, tau = 2 epsilon, one excluded label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from oneof.lab.theory.theorems import TheoremCheck

ROWS = 200_000
STANDARD_ERRORS = 4.0
"""How many standard errors of the difference are still agreement."""


@dataclass(frozen=True)
class Reference:
    """What the probe printed for one epsilon."""

    p_j: float
    f_random: float
    exponent: float
    constant: float
    bound: float
    """The bound on epsilon': a minimum over the draws, so only its size can be compared."""
    reduced: dict[float, tuple[float, float, float]]
    """epsilon': P(phi right on J) with random error, half a unit of its last printed digit, worst case."""


REFERENCE = {
    0.05: Reference(
        0.232,
        0.812,
        0.97,
        9.6,
        2.6e-8,
        {
            0.01: (0.9995, 5e-5, 0.993),
            0.05: (0.986, 5e-4, 0.852),
            0.10: (0.949, 5e-4, 0.567),
            0.20: (0.840, 5e-4, 0.232),
        },
    ),
    0.10: Reference(
        0.416,
        0.793,
        0.97,
        5.3,
        1.3e-8,
        {
            0.01: (0.9996, 5e-5, 0.996),
            0.05: (0.992, 5e-4, 0.918),
            0.10: (0.970, 5e-4, 0.719),
            0.20: (0.891, 5e-4, 0.298),
        },
    ),
    0.20: Reference(
        0.680,
        0.745,
        0.97,
        3.3,
        6.6e-9,
        {
            0.01: (0.9998, 5e-5, 0.998),
            0.05: (0.995, 5e-4, 0.950),
            0.10: (0.982, 5e-4, 0.828),
            0.20: (0.931, 5e-4, 0.485),
        },
    ),
}


@dataclass(frozen=True)
class Comparison:
    """One figure beside its reference."""

    epsilon: float
    what: str
    ours: float
    reference: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        return abs(self.ours - self.reference) <= self.tolerance


def compare(check: TheoremCheck) -> list[Comparison]:
    """Every reference value of this epsilon beside ours; nothing where there is no reference."""
    reference = REFERENCE.get(check.epsilon)
    if reference is None or check.excluded != 1 or check.margin is None:
        return []
    epsilon, there = check.epsilon, reference.p_j * ROWS

    def share(what: str, ours: float, theirs: float, n: float, n_there: float, half: float) -> Comparison:
        return Comparison(epsilon, what, ours, theirs, _tolerance(theirs, n, n_there, half))

    found = [
        share("P(J)", check.p_j, reference.p_j, check.rows, ROWS, 5e-4),
        share("f right, random error", check.f_random, reference.f_random, check.rows_in_j, there, 5e-4),
        Comparison(epsilon, "f right, worst error", check.f_worst, 0.0, 0.0),
    ]
    for row in check.sweep:
        if row.epsilon_reduced in reference.reduced:
            random, half, worst = reference.reduced[row.epsilon_reduced]
            name = f"phi right, epsilon' = {row.epsilon_reduced:g}"
            found += [
                share(f"{name}, random error", row.random, random, check.rows_in_j, there, half),
                share(f"{name}, worst error", row.worst, worst, check.rows_in_j, there, 5e-4),
            ]
    # the probe fitted the same number of draws, so its standard error is ours at that number
    both = math.sqrt(1 + check.rows / ROWS)
    margin = check.margin
    found += [
        Comparison(
            epsilon,
            "lambda",
            margin.exponent,
            reference.exponent,
            STANDARD_ERRORS * both * margin.exponent_se + 5e-3,
        ),
        Comparison(
            epsilon,
            "C",
            margin.constant,
            reference.constant,
            STANDARD_ERRORS * both * margin.constant_se + 0.05,
        ),
    ]
    return found


def _tolerance(share: float, n: float, n_there: float, half_a_digit: float) -> float:
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) * (1 / n + 1 / n_there)) + half_a_digit
