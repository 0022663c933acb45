"""Step 5: the artificial errors replaced by those of trained models.

f is trained by PRODEN, branches and weights by RPLG-NM (uniform) and RPLG (learned), all on the same
instance-dependent candidate sets. Since the posterior is known, epsilon and epsilon' can be measured and
every pseudo-label compared with the Bayes label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    small_mlp = partial(mlp, hidden=(64,), batch_norm=False)
    nets: dict[str, Callable[[int, int], Net]] = {"gaussian": linear, "network": small_mlp}
    return [Setting(name, POSTERIORS[name], net) for name, net in nets.items()]


def check_trained(
    setting: Setting, draws: int, seed: int, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Draw data, train the three methods, measure; `draws` times. Where a draw has a number (see `errors` and
    `pseudo_label_shares`), the result has the list of them; the curve is that of all draws together."""
    found, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)  # fastest for small nets, and one core is what the time limit counts
    try:
        for draw in range(draws):
            say(f"{setting.name}: training PRODEN, RPLG-NM and RPLG, draw {draw + 1} of {draws}")
            found.append(_one_draw(setting, seed + draw))
    finally:
        torch.set_num_threads(threads)
    curves = [one.pop("curve") for one in found]
    right = {name: sum(curve["right"][name] for curve in curves).tolist() for name in curves[0]["right"]}
    curve = {"margins": EDGES, "rows": sum(curve["rows"] for curve in curves).tolist(), "right": right}
    given = {name: getattr(setting, name) for name in ("rows", "clean", "rate", "epochs")}
    return {**given, "tau": TAU, **_side_by_side(found), "curve": curve}


def _side_by_side(draws: list[Any]) -> Any:
    """Dictionaries of the same keys as one dictionary of lists, at every depth."""
    if not isinstance(draws[0], dict):
        return draws
    return {key: _side_by_side([draw[key] for draw in draws]) for key in draws[0]}


def _one_draw(setting: Setting, seed: int) -> dict[str, Any]:
    posterior = setting.posterior
    rng = np.random.default_rng([seed, 2])
    x, eta = posterior.draw(rng, setting.rows)
    candidates = candidate_sets(rng, eta, setting.rate, seed)
    clean_x, clean_eta = posterior.draw(rng, setting.clean)
    clean = CleanRows(clean_x, np.eye(posterior.n_classes, dtype=bool)[draw_labels(rng, clean_eta)])
    states = fit_methods(setting, x, candidates, clean, seed)
    fresh_x, fresh_eta = posterior.draw(rng, FRESH)
    with torch.no_grad():
        found = errors(states, torch.from_numpy(fresh_x).float(), fresh_eta)
        inputs, epsilon = torch.from_numpy(x).float(), found["epsilon"]["95 %"]
        return found | pseudo_label_shares(states, inputs, eta, candidates, epsilon)


def candidate_sets(rng: np.random.Generator, eta: np.ndarray, rate: float, seed: int) -> Candidates:
    """Labels drawn from the posterior, wrong ones added by it; as in the paper no singletons or full sets."""
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


def errors(states: dict[str, State], x: Tensor, eta: np.ndarray) -> dict[str, Any]:
    """How far trained models are from the posterior, and how often they are right.

    - `epsilon`: quantiles over x of max_k |f^k − eta^k|, f by PRODEN;
    - `epsilon_reduced`: quantiles of max_k |phi^k − eta'^k|, phi = branch a of RPLG-NM;
    - `certain`: share of x whose gap exceeds twice the model's error at that x: eta and f, eta' and phi;
    - `p_j`: share of x in J, by the tau that defines it;
    - `fresh`: by region the share of x where the argmax over all labels is the Bayes label.
    """
    order = ranked(eta)
    gap = gaps(order.eta)
    rows, a = torch.arange(len(eta)), order.labels[:, 1]
    f = states["PRODEN"].net(x).double().softmax(dim=1).numpy()
    auxiliary = states["RPLG-NM"]
    logits = auxiliary.branches.logits(auxiliary.net.features(x)).double()
    phi = auxiliary.branches.probabilities(logits)[rows, torch.from_numpy(a)].numpy()
    reduced = _without(eta, a)
    reduced /= reduced.sum(axis=1, keepdims=True)
    error, error_reduced = np.abs(f - eta).max(axis=1), np.abs(phi - reduced).max(axis=1)
    epsilon, epsilon_reduced = (
        {name: float(np.quantile(values, level)) for name, level in QUANTILES.items()}
        for values in (error, error_reduced)
    )
    taus = {f"2 epsilon ({name})": widest_tau(value) for name, value in epsilon.items()} | {f"{TAU}": TAU}
    inside = disturbed(gap, TAU)
    answers = {
        "f": f,
        "f without a": _without(f, a),
        "phi^a": phi,
        "f of RPLG-NM": states["RPLG-NM"].net(x).numpy(),
        "f of RPLG": states["RPLG"].net(x).numpy(),
    }
    right = {name: answer.argmax(axis=1) == order.labels[:, 0] for name, answer in answers.items()}
    return {
        "epsilon": epsilon,
        "epsilon_reduced": epsilon_reduced,
        "certain": {
            "f": float((2 * error < gap.to_first).mean()),
            "phi": float((2 * error_reduced < gap.reduced).mean()),
        },
        "p_j": {name: float(disturbed(gap, tau).mean()) for name, tau in taus.items()},
        "fresh": _by_region(right, {"J": inside, "outside J": ~inside}),
    }


def _by_region(right: dict[str, np.ndarray], regions: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Shares of the rows of a region that are right; NaN where it has none."""
    return {
        region: {n: float(hits[where].mean()) if where.any() else float("nan") for n, hits in right.items()}
        for region, where in regions.items()
    }


def _without(p: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A copy with 0 at one label per row."""
    kept = p.copy()
    kept[np.arange(len(p)), labels] = 0.0
    return kept


# ---- pseudo-labels, on the training rows ------------------------------------------------------------


def pseudo_label_shares(
    states: dict[str, State], x: Tensor, eta: np.ndarray, candidates: Candidates, epsilon: float
) -> dict[str, Any]:
    """How often pseudo-labels agree with the Bayes label, on rows whose set holds it and its runner-up.

    - `facts`: about the candidate sets and the weights of branches;
    - `rows_in`, `consistency`: by region the rows, and the share of them that agrees, by opinion;
    - `curve`: rows, and rows that agree, by bin of the margin.
    """
    order = ranked(eta)
    gap = gaps(order.eta)
    rows, bayes, a = np.arange(len(eta)), order.labels[:, 0], order.labels[:, 1]
    mask, sizes = candidates.mask, candidates.sizes
    both = mask[rows, bayes] & mask[rows, a]
    measured, inside = disturbed(gap, widest_tau(epsilon)), disturbed(gap, TAU)
    near = both & inside
    allowed = torch.from_numpy(mask.copy())
    w = branch_opinions(states["RPLG"], x, allowed)[0].double().numpy()
    facts = {
        "mean size": sizes.mean(),
        "pairs": (sizes == 2).mean(),
        "Bayes label in the set": mask[rows, bayes].mean(),
        "Bayes label and a in the set": both.mean(),
        "learned weight of branch a, in J": w[rows, a][near].mean(),
        "learned weight of the Bayes label's branch, in J": w[rows, bayes][near].mean(),
        "uniform weight, in J": (1 / sizes[near]).mean(),
    }
    regions = {
        "J": near,
        "J, sets of 3 or more": near & (sizes > 2),
        "outside J": both & ~inside,
        "J of the measured epsilon": both & measured,
        "outside J of the measured epsilon": both & ~measured,
    }
    opinions = pseudo_labels(states, x, allowed, torch.from_numpy(a))
    right = {name: agreement(p.double().numpy(), bayes) for name, p in opinions.items()}
    binned = partial(np.histogram, gap.to_first[both], EDGES)
    return {
        "facts": {name: float(value) for name, value in facts.items()},
        "rows_in": {region: int(where.sum()) for region, where in regions.items()},
        "consistency": _by_region(right, regions),
        "curve": {
            "rows": binned()[0].astype(float),
            "right": {name: binned(weights=hits[both])[0] for name, hits in right.items()},
        },
    }


def pseudo_labels(states: dict[str, State], x: Tensor, mask: Tensor, a: Tensor) -> dict[str, Tensor]:
    """The opinions that are compared, as distributions on the candidates. `a` is the runner-up.

    mu: f of PRODEN within the candidates; u^a: branch a of RPLG-NM; u^out: mean of its branches j ∉ S, which
    lack no candidate; v and q: of RPLG-NM (uniform weights) and RPLG (learned). "without a": the label a
    struck out of the finished opinion, which asks whether more than striking it out is gained.
    """
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
    """Per row the probability that the argmax is this label when ties are broken at random. They matter: with
    two candidates and uniform weights v is (1/2, 1/2)."""
    best = p >= p.max(axis=1, keepdims=True) - 1e-6
    return best[np.arange(len(p)), label] / best.sum(axis=1)
