"""Step 5: the artificial errors replaced by those of trained models.

f is trained by PRODEN, branches and weights by RPLG-NM (uniform) and RPLG (learned), all on the same
instance-dependent candidate sets. Since the posterior is known, epsilon and epsilon' can be measured and
every pseudo-label compared with the Bayes label.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneof.candidates import Candidates
from oneof.candidates.generate import instance_sets
from oneof.lab.theory.disturbing import disturbed, gaps, ranked, widest_tau
from oneof.lab.theory.posteriors import POSTERIORS, Posterior, draw_labels
from oneof.methods.base import Method, State
from oneof.methods.proden import Proden
from oneof.methods.rplg.branches import Opinions
from oneof.methods.rplg.rplg import Rplg, RplgNm
from oneof.methods.targets import candidate_softmax, restrict, uniform
from oneof.nets import Net, linear, mlp
from oneof.training import CleanRows, Recipe, train

FRESH = 20_000
"""Fresh instances on which errors are measured."""
TAU = 0.2
"""tau of the fixed region J; the other one has tau = 2 epsilon, with the measured 95 % quantile."""
EDGES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
"""Bins of the margin eta* − eta^a for the curves."""
OPINIONS = ("mu", "mu without a", "u^a", "u^out", "u^out without a", "v uniform", "v learned", "q learned")
"""mu: f of PRODEN within the candidates; u^a: branch a of RPLG-NM; u^out: mean of its branches j ∉ S, which
lack no candidate; v and q: of RPLG-NM (uniform weights) and RPLG (learned). "without a": the label a struck
out of the finished opinion, which asks whether more than striking it out is gained."""
QUANTILES = {"max": 1.0, "95 %": 0.95, "median": 0.5}


@dataclass(frozen=True)
class Setting:
    """A posterior, the net that learns it, and how much data it gets."""

    name: str
    posterior: Posterior
    net: Callable[[int, int], Net]
    rows: int = 4000
    clean: int = 400
    """Rows with a known label, for the weights of RPLG."""
    rate: float = 0.4
    """Strength of the candidate sets (`instance_sets`), which follow the true posterior."""
    epochs: int = 40


def settings() -> list[Setting]:
    return [
        Setting("gaussian", POSTERIORS["gaussian"], linear),
        Setting("network", POSTERIORS["network"], small_mlp),
    ]


def small_mlp(n_features: int, n_classes: int) -> Net:
    return mlp(n_features, n_classes, hidden=(64,), batch_norm=False)


def _lists() -> dict[str, list[Any]]:
    return defaultdict(list)


def _by_region() -> dict[str, dict[str, list[float]]]:
    return defaultdict(_lists)


@dataclass
class TrainedCheck:
    """Figures of one setting. Lists have one entry per draw of the data."""

    setting: Setting
    epsilon: dict[str, list[float]] = field(default_factory=_lists)
    """Quantiles over x of max_k |f^k − eta^k|, f by PRODEN."""
    epsilon_reduced: dict[str, list[float]] = field(default_factory=_lists)
    """Quantiles over x of max_k |phi^k − eta'^k|, phi = branch a of RPLG-NM."""
    certain: dict[str, list[float]] = field(default_factory=_lists)
    """Share of x whose gap exceeds twice the model's error at that x: eta and f, eta' and phi."""
    p_j: dict[str, list[float]] = field(default_factory=_lists)
    """Share of x in J, by the tau that defines it."""
    facts: dict[str, list[float]] = field(default_factory=_lists)
    """About the candidate sets."""
    fresh: dict[str, dict[str, list[float]]] = field(default_factory=_by_region)
    """Region: argmax over all labels that is the Bayes label, for models asked about fresh x."""
    rows_in: dict[str, list[int]] = field(default_factory=_lists)
    consistency: dict[str, dict[str, list[float]]] = field(default_factory=_by_region)
    """Region: share of training rows whose pseudo-label agrees with the Bayes label, by opinion."""
    curve_rows: np.ndarray = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    curve_right: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.zeros(len(EDGES) - 1) for name in OPINIONS}
    )
    """Rows, and rows that agree, by bin of the margin, over all draws."""


def check_trained(
    setting: Setting, draws: int, seed: int, say: Callable[[str], None] = lambda text: None
) -> TrainedCheck:
    """Draw data, train the three methods, measure; `draws` times."""
    check = TrainedCheck(setting)
    with one_thread():
        for draw in range(draws):
            say(f"{setting.name}: training PRODEN, RPLG-NM and RPLG, draw {draw + 1} of {draws}")
            _one_draw(check, seed + draw)
    return check


def _one_draw(check: TrainedCheck, seed: int) -> None:
    setting, posterior = check.setting, check.setting.posterior
    rng = np.random.default_rng([seed, 2])
    x, eta = posterior.draw(rng, setting.rows)
    candidates = candidate_sets(rng, eta, setting.rate, seed)
    clean_x, clean_eta = posterior.draw(rng, setting.clean)
    clean = CleanRows(clean_x, np.eye(posterior.n_classes, dtype=bool)[draw_labels(rng, clean_eta)])
    states = fit_methods(setting, x, candidates, clean, seed)
    fresh_x, fresh_eta = posterior.draw(rng, FRESH)
    with torch.no_grad():
        epsilon = _measure_errors(check, states, _tensor(fresh_x), fresh_eta)
        _measure_pseudo_labels(check, states, _tensor(x), eta, candidates, epsilon)


def candidate_sets(rng: np.random.Generator, eta: np.ndarray, rate: float, seed: int) -> Candidates:
    """Labels drawn from the posterior, wrong labels added by it; no singletons and no full sets, as in
    the paper."""
    rules: dict[str, Any] = {"forbid_singletons": True, "forbid_full_sets": True}
    return instance_sets(draw_labels(rng, eta), rate, seed, log_probabilities=np.log(eta), **rules)


def fit_methods(
    setting: Setting, x: np.ndarray, candidates: Candidates, clean: CleanRows, seed: int
) -> dict[str, State]:
    """The three methods with the library's defaults, on the same rows in the same order."""
    recipe = Recipe(epochs=setting.epochs, batch_size=256, seed=seed, device="cpu")
    sizes = (setting.posterior.n_features, setting.posterior.n_classes)
    methods: dict[str, Method] = {"PRODEN": Proden(), "RPLG-NM": RplgNm(), "RPLG": Rplg()}
    return {
        name: train(method, lambda: setting.net(*sizes), x, candidates, recipe=recipe, clean=clean).state
        for name, method in methods.items()
    }


# ---- errors, on fresh instances ---------------------------------------------------------------------


def _measure_errors(check: TrainedCheck, states: dict[str, State], x: Tensor, eta: np.ndarray) -> float:
    """Fills epsilon, epsilon' and who is right among all labels; returns the 95 % quantile of epsilon."""
    order = ranked(eta)
    gap = gaps(order.eta)
    rows, a = np.arange(len(eta)), order.labels[:, 1]
    f = states["PRODEN"].net(x).double().softmax(dim=1).numpy()
    auxiliary = states["RPLG-NM"]
    logits = auxiliary.branches.logits(auxiliary.net.features(x)).double()
    phi = auxiliary.branches.probabilities(logits)[torch.from_numpy(rows), torch.from_numpy(a)].numpy()
    reduced = _without(eta, a)
    reduced /= reduced.sum(axis=1, keepdims=True)
    error, error_reduced = np.abs(f - eta).max(axis=1), np.abs(phi - reduced).max(axis=1)
    for name, level in QUANTILES.items():
        check.epsilon[name].append(float(np.quantile(error, level)))
        check.epsilon_reduced[name].append(float(np.quantile(error_reduced, level)))
        tau = widest_tau(float(np.quantile(error, level)))
        check.p_j[f"2 epsilon ({name})"].append(float(disturbed(gap, tau).mean()))
    inside = disturbed(gap, TAU)
    check.p_j[f"{TAU}"].append(float(inside.mean()))
    check.certain["f"].append(float((2 * error < gap.to_first).mean()))
    check.certain["phi"].append(float((2 * error_reduced < gap.reduced).mean()))

    answers = {
        "f": f,
        "f without a": _without(f, a),
        "phi^a": phi,
        "f of RPLG-NM": states["RPLG-NM"].net(x).numpy(),
        "f of RPLG": states["RPLG"].net(x).numpy(),
    }
    for region, where in {"J": inside, "outside J": ~inside}.items():
        for name, answer in answers.items():
            right = (answer.argmax(axis=1) == order.labels[:, 0])[where]
            check.fresh[region][name].append(float(right.mean()))
    return float(np.quantile(error, QUANTILES["95 %"]))


def _without(p: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A copy with 0 at one label per row."""
    kept = p.copy()
    kept[np.arange(len(p)), labels] = 0.0
    return kept


# ---- pseudo-labels, on the training rows ------------------------------------------------------------


def _measure_pseudo_labels(
    check: TrainedCheck,
    states: dict[str, State],
    x: Tensor,
    eta: np.ndarray,
    candidates: Candidates,
    epsilon: float,
) -> None:
    """Consistency with the Bayes label on rows whose set holds both this label and its runner-up."""
    order = ranked(eta)
    gap = gaps(order.eta)
    rows, bayes, a = np.arange(len(eta)), order.labels[:, 0], order.labels[:, 1]
    mask, sizes = candidates.mask, candidates.sizes
    both = mask[rows, bayes] & mask[rows, a]
    for name, value in {
        "mean size": sizes.mean(),
        "pairs": (sizes == 2).mean(),
        "Bayes label in the set": mask[rows, bayes].mean(),
        "Bayes label and a in the set": both.mean(),
    }.items():
        check.facts[name].append(float(value))

    labels = pseudo_labels(states, x, torch.from_numpy(mask.copy()), torch.from_numpy(a))
    right = {name: agreement(p.double().numpy(), bayes) for name, p in labels.items()}
    measured, inside = disturbed(gap, widest_tau(epsilon)), disturbed(gap, TAU)
    w = branch_opinions(states["RPLG"], x, torch.from_numpy(mask.copy()))[0].double().numpy()
    near = both & inside
    for name, value in {
        "learned weight of branch a, in J": w[rows, a][near].mean(),
        "learned weight of the Bayes label's branch, in J": w[rows, bayes][near].mean(),
        "uniform weight, in J": (1 / sizes[near]).mean(),
    }.items():
        check.facts[name].append(float(value))
    regions = {
        "J": near,
        "J, sets of 3 or more": near & (sizes > 2),
        "outside J": both & ~inside,
        "J of the measured epsilon": both & measured,
        "outside J of the measured epsilon": both & ~measured,
    }
    for region, where in regions.items():
        check.rows_in[region].append(int(where.sum()))
        for name, credit in right.items():
            share = float(credit[where].mean()) if where.any() else float("nan")
            check.consistency[region][name].append(share)
    check.curve_rows += np.histogram(gap.to_first[both], EDGES)[0]
    for name, credit in right.items():
        check.curve_right[name] += np.histogram(gap.to_first[both], EDGES, weights=credit[both])[0]


def pseudo_labels(states: dict[str, State], x: Tensor, mask: Tensor, a: Tensor) -> dict[str, Tensor]:
    """The opinions that are compared, as distributions on the candidates. `a` is the runner-up."""
    rows = torch.arange(len(x))
    struck = mask.clone()
    struck[rows, a] = False
    struck = torch.where(struck.any(dim=1, keepdim=True), struck, mask)
    f, f_rplg = states["PRODEN"].net(x), states["RPLG"].net(x)
    w_uniform, u_uniform = branch_opinions(states["RPLG-NM"], x, mask)
    w_learned, u_learned = branch_opinions(states["RPLG"], x, mask)
    alpha, v = Rplg().alpha, u_learned.mix(w_learned)
    outside = u_uniform.mix(uniform(~mask, like=w_uniform))
    return {
        "mu": candidate_softmax(f, mask),
        "mu without a": candidate_softmax(f, struck),
        "u^a": u_uniform.mix(torch.nn.functional.one_hot(a, mask.shape[1]).to(w_uniform)),
        "u^out": outside,
        "u^out without a": restrict(outside, struck),
        "v uniform": u_uniform.mix(w_uniform),
        "v learned": v,
        "q learned": alpha * candidate_softmax(f_rplg, mask) + (1 - alpha) * v,
    }


def branch_opinions(state: State, x: Tensor, mask: Tensor) -> tuple[Tensor, Opinions]:
    """w (n, c) and U (n, c, c) of trained branches: v = w U."""
    z = state.net.features(x)
    w = candidate_softmax(state.meta(z), mask) if hasattr(state, "meta") else uniform(mask, like=z)
    return w, state.branches.opinions(z, mask)


def agreement(p: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Per row the probability that the argmax is this label when ties are broken at random.

    Ties matter: with two candidates and uniform weights v is (1/2, 1/2).
    """
    best = p >= p.max(axis=1, keepdims=True) - 1e-6
    return best[np.arange(len(p)), label] / best.sum(axis=1)


def _tensor(x: np.ndarray) -> Tensor:
    return torch.from_numpy(x).float()


@contextmanager
def one_thread() -> Iterator[None]:
    """Small nets train fastest on one core, and one core is what the time limit counts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
