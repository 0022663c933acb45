"""What the prior of RPLG+ does to the mixed opinion v, on known posteriors (docs/why-the-prior.md).

eta is the posterior within a candidate set S of m + 1 labels, and the exact opinion of branch j is eta
without j: eta_k / (1 − eta_j). Weights (1 − mu_j) / m, which sum to 1, mix such opinions into

    v_k = eta_k · mean over j ≠ k in S of (1 − mu_j) / (1 − eta_j).                                  (a)

So v is eta where mu is (b), and with errors |mu − eta| ≤ epsilon and |u^j − exact| ≤ epsilon',

    |v_k − eta_k| ≤ epsilon' + epsilon · mean over j ≠ k of eta_k / (1 − eta_j) ≤ epsilon' + epsilon,   (c)

since eta_k ≤ 1 − eta_j. Uniform weights give another v even if nobody errs: one half each on every pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneof.lab.theory.posteriors import Posterior, blocks

EPSILONS = (0.02, 0.05, 0.1)


@dataclass
class PriorCheck:
    """Figures for candidate sets of one size. Errors are the largest over the labels of a row."""

    size: int
    rows: int
    fixed_point: float
    """Largest |v − eta| with exact branches, mu = eta and the prior: 0 but for rounding."""
    uniform: float
    """Mean over rows of the same with uniform weights."""
    uniform_margin: float
    """Mean margin of v between the Bayes label and the runner-up, as a share of eta's."""
    largest_ratio: float
    """Largest |v − eta| divided by its bound (c), over all rows and errors tried: at most 1."""
    mean_error: dict[float, tuple[float, float]]
    """By epsilon = epsilon': mean |v − eta| with the prior and with uniform weights."""


def exact_opinions(eta: np.ndarray) -> np.ndarray:
    """Row j of an instance: eta without label j."""
    rest = eta[:, None, :] * (1 - np.eye(eta.shape[1]))
    return rest / rest.sum(axis=2, keepdims=True)


def mixed(opinions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.einsum("nj,njk->nk", weights, opinions)


def prior_weights(mu: np.ndarray) -> np.ndarray:
    return (1 - mu) / (mu.shape[1] - 1)


def error_bound(eta: np.ndarray, epsilon: float, epsilon_reduced: float) -> np.ndarray:
    """(c) for every label."""
    share = eta[:, None, :] / (1 - eta[:, :, None]) * (1 - np.eye(eta.shape[1]))
    return epsilon_reduced + epsilon * share.sum(axis=1) / (eta.shape[1] - 1)


def disturbed_by(p: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Another distribution on the same labels, each of them at most epsilon away."""
    other = rng.dirichlet(np.ones(p.shape[-1]), p.shape[:-1]) * (p > 0)
    other /= other.sum(axis=-1, keepdims=True)
    distance = np.abs(other - p).max(axis=-1, keepdims=True)
    return p + (other - p) * np.minimum(1, epsilon / np.maximum(distance, 1e-300))


def check_prior(posterior: Posterior, size: int, rows: int, seed: int = 0) -> PriorCheck:
    """The statements on `rows` instances, each with a set of its `size` most probable labels."""
    rng = np.random.default_rng([seed, size])
    fixed = ratio = bias = margin = 0.0
    errors = {epsilon: np.zeros(2) for epsilon in EPSILONS}
    for drawn in blocks(posterior, rows, seed):
        eta = -np.sort(-drawn, axis=1)[:, :size]
        eta /= eta.sum(axis=1, keepdims=True)
        exact, even = exact_opinions(eta), np.full_like(eta, 1 / size)
        fixed = max(fixed, float(np.abs(mixed(exact, prior_weights(eta)) - eta).max()))
        even_v = mixed(exact, even)
        bias += float(np.abs(even_v - eta).max(axis=1).sum())
        margin += float(((even_v[:, 0] - even_v[:, 1]) / np.maximum(eta[:, 0] - eta[:, 1], 1e-12)).sum())
        for epsilon in EPSILONS:
            mu, u = disturbed_by(eta, epsilon, rng), disturbed_by(exact, epsilon, rng)
            away = [np.abs(mixed(u, w) - eta) for w in (prior_weights(mu), even)]
            ratio = max(ratio, float((away[0] / error_bound(eta, epsilon, epsilon)).max()))
            errors[epsilon] += [a.max(axis=1).sum() for a in away]
    means = {epsilon: (float(a) / rows, float(b) / rows) for epsilon, (a, b) in errors.items()}
    return PriorCheck(size, rows, fixed, bias / rows, margin / rows, ratio, means)
