"""Theorems 1 and 2 on known posteriors with errors of chosen size (steps 1 to 4 of docs/theory.md).

Two passes over the same draws: the first keeps the gaps of every instance, which give the region J, the
bound on epsilon' and the constants of the margin condition; the second adds errors and counts who is
right, some rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oneof.lab.theory import disturbing
from oneof.lab.theory.disturbing import Gaps, error_bounds, random_error, ranked, worst_error
from oneof.lab.theory.posteriors import Posterior, blocks

EPSILONS = (0.05, 0.10, 0.20)
SWEEP = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.30, 0.40)
"""Errors epsilon' of the model without the disturbing labels, far beyond the bound of Theorem 1."""
FIT_AT = (0.005, 0.01, 0.02, 0.04)
"""Margins t at which C and lambda are fitted."""
INSIDE = 0.999
"""Theorem 1 asks for an error strictly below its bound; this share of it is taken."""


@dataclass(frozen=True)
class MarginCondition:
    """P(margin ≤ t) ≤ C t^lambda, fitted by least squares of the logarithms."""

    exponent: float
    exponent_se: float
    constant: float
    """C of the fit."""
    constant_se: float
    holding_constant: float
    """The smallest C, not below the fit's, with which the condition holds in the sample (but for its
    hundred smallest margins)."""

    def bound(self, t: float) -> float:
        """1 − C t^lambda: at least so many margins are above t."""
        return 1.0 - self.holding_constant * t**self.exponent


@dataclass
class SweepRow:
    """Shares of J on which the argmax of phi is the Bayes label, for one epsilon'."""

    epsilon_reduced: float
    random: float = 0.0
    worst: float = 0.0
    identity: float = 0.0
    """P(gap of eta' > 2 epsilon'), which the worst case must equal."""
    worst_apart: float = 0.0
    """Worst case on J with eta* − eta^b ≥ delta only, where Theorem 2 has a finite constant."""
    pointwise: float = 0.0
    """P(eta* − eta^s > 4 epsilon epsilon' (1 − Σ)/(eta* − eta^b)) there: the proof's middle line."""
    bound: float = 0.0
    """Theorem 2's lower bound there; below 0 it says nothing."""


@dataclass
class TheoremCheck:
    """All figures for one posterior, one epsilon and one number of excluded labels."""

    epsilon: float
    excluded: int
    rows: int
    rows_in_j: int
    bound: float
    """The bound on epsilon' of Theorem 1, over the draws in J."""
    guaranteed_f: float
    """P(2 epsilon < gap of eta) on J: 0, that is what J means."""
    margin: MarginCondition
    """On J."""
    margin_apart: MarginCondition
    """On J with eta* − eta^b ≥ delta."""
    rows_apart: int
    """Draws in J with eta* − eta^b ≥ delta."""
    slope: float
    """Supremum there of (1 − Σ)/(eta* − eta^b)."""
    f_random: float = 0.0
    f_worst: float = 0.0
    f_struck: float = 0.0
    """f with random error when its excluded labels are simply struck out: no second model at all."""
    at_bound_random: float = 0.0
    at_bound_worst: float = 0.0
    sweep: list[SweepRow] = field(default_factory=list)

    @property
    def p_j(self) -> float:
        return self.rows_in_j / self.rows


def check_theorems(
    posterior: Posterior,
    rows: int,
    seed: int,
    epsilons: Sequence[float] = EPSILONS,
    sweep: Sequence[float] = SWEEP,
    excluded: int = 1,
    delta: float = 0.05,
) -> list[TheoremCheck]:
    """Draw posteriors, add errors, count. One check for each epsilon, with tau = 2 epsilon."""
    gap = known_gaps(posterior, rows, seed, excluded)
    checks = [_from_gaps(gap, epsilon, sweep, excluded, delta) for epsilon in epsilons]
    _add_errors(checks, posterior, seed, delta)
    return checks


def known_gaps(posterior: Posterior, rows: int, seed: int, excluded: int = 1) -> Gaps:
    """The gaps of all draws."""
    parts = [disturbing.gaps(ranked(eta).eta, excluded) for eta in blocks(posterior, rows, seed)]
    return Gaps(*(np.concatenate(column) for column in zip(*parts)))


def running_bound(gap: Gaps, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The bound on epsilon' over the first 1, 10, 100 … draws in J: it falls towards 0 with their number."""
    inside = _in_j(gap, epsilon)
    counts = np.unique(np.geomspace(1, len(inside.rest), 80).astype(int))
    bounds = np.minimum.accumulate(error_bounds(inside, epsilon))
    return counts, np.minimum(1.0, bounds[counts - 1])


def _in_j(gap: Gaps, epsilon: float) -> Gaps:
    return gap.take(disturbing.disturbed(gap, disturbing.widest_tau(epsilon)))


def _from_gaps(
    gap: Gaps, epsilon: float, sweep: Sequence[float], excluded: int, delta: float
) -> TheoremCheck:
    """What follows from the gaps alone: J, the bound, the margin condition and Theorem 2's right side."""
    inside, n = _in_j(gap, epsilon), len(gap.rest)
    if not len(inside.rest):
        raise ValueError(f"none of {n} draws has a disturbing label at epsilon {epsilon}; draw more.")
    apart = inside.take(inside.to_rival >= delta)
    check = TheoremCheck(
        epsilon,
        excluded,
        n,
        len(inside.rest),
        bound=float(min(1.0, error_bounds(inside, epsilon).min())),
        guaranteed_f=float((inside.to_first > 2 * epsilon).mean()),
        margin=fit_margin(inside.to_first),
        margin_apart=fit_margin(apart.to_first),
        rows_apart=len(apart.rest),
        slope=float((apart.rest / apart.to_rival).max()),
    )
    for e in sweep:
        row = SweepRow(e, identity=float((inside.reduced > 2 * e).mean()))
        row.pointwise = float((apart.to_first > 4 * epsilon * e * apart.rest / apart.to_rival).mean())
        row.bound = float(check.margin_apart.bound(4 * epsilon * e * check.slope))
        check.sweep.append(row)
    return check


def _add_errors(checks: list[TheoremCheck], posterior: Posterior, seed: int, delta: float) -> None:
    """Second pass: models with errors, counted on J."""
    rng = np.random.default_rng([seed, 1])  # errors do not depend on how the posteriors were drawn
    rows, m = checks[0].rows, checks[0].excluded
    right: Counter[tuple[float, float, str]] = Counter()
    for block in blocks(posterior, rows, seed):
        order = ranked(block).eta
        gap = disturbing.gaps(order, m)
        for check in checks:
            inside = disturbing.disturbed(gap, disturbing.widest_tau(check.epsilon))
            eta, apart = order[inside], gap.to_rival[inside] >= delta
            f = random_error(eta, check.epsilon, rng)
            models = {
                (0.0, "f_random"): f,
                (0.0, "f_struck"): np.delete(f, np.s_[1 : m + 1], axis=1),
                (0.0, "f_worst"): worst_error(eta, check.epsilon),
            }
            reduced = disturbing.reduced_posterior(eta, m)
            for e in (INSIDE * check.bound, *(row.epsilon_reduced for row in check.sweep)):
                models[e, "random"] = random_error(reduced, e, rng)
                models[e, "worst"] = worst_error(reduced, e)
            for (e, name), model in models.items():
                wins = disturbing.best_label_wins(model)
                right[check.epsilon, e, name] += int(wins.sum())
                right[check.epsilon, e, f"{name}_apart"] += int(wins[apart].sum())
    for check in checks:
        share = {key[1:]: n / check.rows_in_j for key, n in right.items() if key[0] == check.epsilon}
        for name in ("f_random", "f_struck", "f_worst"):
            setattr(check, name, share[0.0, name])
        bound = INSIDE * check.bound
        check.at_bound_random, check.at_bound_worst = share[bound, "random"], share[bound, "worst"]
        for row in check.sweep:
            e = row.epsilon_reduced
            row.random, row.worst = share[e, "random"], share[e, "worst"]
            row.worst_apart = right[check.epsilon, e, "worst_apart"] / check.rows_apart


def fit_margin(margin: np.ndarray) -> MarginCondition:
    """C and lambda from the shares of margins up to a few small t, with their standard errors."""
    n, t = len(margin), np.asarray(FIT_AT)
    ordered = np.sort(margin)
    share = np.searchsorted(ordered, t, side="right") / n
    if not (share > 0).all():
        raise ValueError(f"no margin of {n} is below {t[0]}; draw more rows to fit C and lambda.")
    design = np.stack([np.log(t), np.ones_like(t)], axis=1)
    weights = np.linalg.pinv(design)
    exponent, log_constant = weights @ np.log(share)
    # the shares are nested counts: Cov(log P_i, log P_j) = (1 − P_max) / (n P_max)
    larger = np.maximum(share[:, None], share[None, :])
    spread = np.sqrt(np.diag(weights @ ((1 - larger) / (n * larger)) @ weights.T))
    constant = float(np.exp(log_constant))
    # the share of the very smallest margins is too rough to judge the condition by
    positions = np.unique(np.geomspace(max(1, min(100, n // 20)), n, 400).astype(int))
    needed = positions / n / ordered[positions - 1] ** exponent
    values = exponent, spread[0], constant, constant * spread[1], max(constant, needed.max())
    return MarginCondition(*map(float, values))
