"""The figures of `oneof theory` as verdicts, as Markdown and as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from oneof.lab.theory.prior import PriorCheck
from oneof.lab.theory.reference import REFERENCE, Agreement, compare
from oneof.lab.theory.theorems import TheoremCheck
from oneof.lab.theory.trained import FRESH, TAU


@dataclass
class Findings:
    """Everything one run of `oneof theory` found."""

    command: str
    seconds: float
    theorems: dict[str, list[TheoremCheck]]
    """By name of the posterior; the reference values belong to `random logits`."""
    trained: dict[str, dict[str, Any]]
    """What `check_trained` found, by name of the setting."""
    delta: float
    seed: int = 0
    prior: dict[str, list[PriorCheck]] = field(default_factory=dict)
    """What RPLG+ adds to the theory, by name of the posterior."""

    @property
    def comparisons(self) -> list[Agreement]:
        return [found for check in self.theorems.get("random logits", []) for found in compare(check)]

    @property
    def named_checks(self) -> list[tuple[str, TheoremCheck]]:
        return [(name, check) for name, checks in self.theorems.items() for check in checks]


class Verdict(NamedTuple):
    """A statement of the theory, and whether the figures bear it out."""

    statement: str
    holds: bool
    detail: str


def verdicts(found: Findings) -> list[Verdict]:
    """What must hold exactly, and the agreement with the reference values."""
    checks = [check for _, check in found.named_checks]
    rows = [row for check in checks for row in check.sweep]
    bounds = [check.bound for check in checks]
    chain = [r.worst_apart >= r.pointwise >= r.bound for r in rows]
    exact = [r.worst == r.identity for r in rows]
    agreed = [comparison.agrees for comparison in found.comparisons]
    priors = [check for checks in found.prior.values() for check in checks]
    return [
        Verdict(
            "Definition 1: on J some model with error epsilon is always wrong",
            all(c.f_worst == 0 and c.guaranteed_f == 0 for c in checks),
            f"{len(checks)} cases",
        ),
        Verdict(
            "Theorem 1: below its bound phi is right on all of J, and never less often than f",
            all(c.at_bound_random == c.at_bound_worst == 1 >= c.f_random for c in checks),
            f"{len(checks)} cases, bounds from {min(bounds):.0e} to {max(bounds):.0e}",
        ),
        Verdict(
            "Beyond the bound the worst case of phi is P(gap of eta' > 2 epsilon')",
            all(exact),
            f"{sum(exact)} of {len(exact)}, not one row apart",
        ),
        Verdict(
            "Theorem 2: worst case >= middle line of the proof >= 1 - C [4 epsilon epsilon' K]^lambda",
            all(chain),
            f"{sum(chain)} of {len(chain)}; the bound is above 0 in {sum(r.bound > 0 for r in rows)}",
        ),
        Verdict(
            "The reference values are met within Monte-Carlo error",
            all(agreed),
            f"{sum(agreed)} of {len(agreed)}",
        ),
        Verdict(
            "The prior of RPLG+: v is eta where mu and the branches are right, and errs no more than they do",
            all(check.fixed_point < 1e-12 and check.largest_ratio <= 1 for check in priors),
            f"{len(priors)} cases, up to {max([0.0, *(c.largest_ratio for c in priors)]):.2f} of the bound",
        ),
    ]


# ---- Markdown ---------------------------------------------------------------------------------------


def as_markdown(found: Findings) -> str:
    """All tables, for the terminal and for a file."""
    parts = [
        "# The theory of RPLG, checked where the posterior is known",
        f"`{found.command}`, {found.seconds:.0f} s, {_versions_line()}.\n"
        "What the statements mean: the page Theory of the documentation.",
        "## Verdicts",
        table(
            ["statement", "holds", "on"],
            [[v.statement, "yes" if v.holds else "NO", v.detail] for v in verdicts(found)],
        ),
        "## Definition 1 and Theorem 1: errors of chosen size, tau = 2 epsilon",
        "m: number of excluded labels, the m most probable wrong ones. Shares are shares of J on which the "
        "argmax is the Bayes label; *f, a struck out* is f itself with the excluded labels crossed out.",
        _theorem_1(found),
        "## Theorem 1 beyond its bound: P(phi right on J), random error / worst error",
        _sweep(found),
        f"## Theorem 2, on J with eta* − eta^b ≥ {found.delta:g}",
        "Bound: 1 − C [4 epsilon epsilon' K]^lambda with K the supremum of (1 − Σ)/(eta* − eta^b); a bound "
        "below 0 says nothing. C is the smallest with which the margin condition holds in the sample.",
        _theorem_2(found),
        "## Reference values",
        _reference(found),
    ]
    if found.prior:
        parts += [
            "## The prior of RPLG+",
            "Sets of the most probable labels. Means over rows of the largest |v − eta| of a row, with the "
            "prior and with uniform weights, for errors epsilon = epsilon' of classifier and branches.",
            _prior(found),
        ]
    if found.trained:
        parts += ["## Trained models", *_trained(found.trained)]
    return "\n\n".join(parts) + "\n"


def _prior(found: Findings) -> str:
    epsilons = list(next(iter(found.prior.values()))[0].mean_error)
    columns = ["posterior", "labels in the set", "no error: prior", "uniform", "margin left, uniform"]
    columns += [f"{epsilon:g}: prior / uniform" for epsilon in epsilons]
    rows: list[list[Any]] = [
        [name, c.size, f"{c.fixed_point:.0e}", f"{c.uniform:.3f}", f"{c.uniform_margin:.0%}"]
        + [f"{a:.3f} / {b:.3f}" for a, b in c.mean_error.values()]
        for name, checks in found.prior.items()
        for c in checks
    ]
    return table(columns, rows)


def _theorem_1(found: Findings) -> str:
    columns = ["posterior", "m", "epsilon", "P(J)", "f, random", "f, worst", "f, a struck out",
               "bound on epsilon'", "phi at the bound", "lambda", "C"]  # fmt: skip
    rows: list[list[Any]] = []
    for name, c in found.named_checks:
        assert c.margin is not None
        rows.append(
            [name, c.excluded, f"{c.epsilon:g}", f"{c.p_j:.3f}", f"{c.f_random:.3f}", f"{c.f_worst:g}",
             f"{c.f_struck:.3f}", f"{c.bound:.1e}", f"{c.at_bound_random:g} / {c.at_bound_worst:g}",
             f"{c.margin.exponent:.2f}", f"{c.margin.constant:.1f}"]
        )  # fmt: skip
    return table(columns, rows)


def _sweep(found: Findings) -> str:
    shown = (0.01, 0.05, 0.1, 0.2, 0.4)
    rows: list[list[Any]] = []
    for name, c in found.named_checks:
        cells = [f"{r.random:.4f} / {r.worst:.3f}" for r in c.sweep if r.epsilon_reduced in shown]
        rows.append([name, c.excluded, f"{c.epsilon:g}", *cells])
    return table(["posterior", "m", "epsilon", *(f"epsilon' {e:g}" for e in shown)], rows)


def _theorem_2(found: Findings) -> str:
    shown = (0.005, 0.01, 0.02, 0.05)
    rows: list[list[Any]] = []
    for name, c in found.named_checks:
        if c.excluded == 1:
            assert c.margin_apart is not None
            fit = [f"{c.margin_apart.exponent:.2f}", f"{c.margin_apart.holding_constant:.1f}"]
            values = [r for r in c.sweep if r.epsilon_reduced in shown]
            cells = [f"{r.worst_apart:.3f} / {r.pointwise:.3f} / {r.bound:.2f}" for r in values]
            rows.append([name, f"{c.epsilon:g}", f"{c.slope:.1f}", *fit, *cells])
    columns = ["posterior", "epsilon", "K", "lambda", "C"]
    return table([*columns, *(f"epsilon' {e:g}: worst / middle / bound" for e in shown)], rows)


def _reference(found: Findings) -> str:
    lines: list[list[Any]] = []
    for c in found.comparisons:
        values = [f"{c.ours:.4f}", f"{c.reference:g}", f"{c.tolerance:.4f}", "yes" if c.agrees else "NO"]
        lines.append([f"{c.epsilon:g}", c.what, *values])
    for check in found.theorems.get("random logits", []):
        if check.excluded == 1 and check.epsilon in REFERENCE:
            bounds = [f"{check.bound:.1e}", f"{REFERENCE[check.epsilon].bound:.1e}"]
            lines.append([f"{check.epsilon:g}", "bound on epsilon' (a minimum)", *bounds, "", ""])
    return table(["epsilon", "what", "ours", "reference", "tolerance", "agrees"], lines)


def _trained(trained: dict[str, dict[str, Any]]) -> list[str]:
    first, checks = next(iter(trained.values())), trained.values()
    measured = {f"epsilon (f), {q}": [c["epsilon"][q] for c in checks] for q in first["epsilon"]}
    for q in first["epsilon"]:
        measured[f"epsilon' (phi^a), {q}"] = [c["epsilon_reduced"][q] for c in checks]
    measured |= {f"P(J), tau = {tau}": [c["p_j"][tau] for c in checks] for tau in first["p_j"]}
    for model, text in (("f", "2 · error of f < gap of eta"), ("phi", "2 · error of phi^a < gap of eta'")):
        measured[f"share of x with {text}"] = [c["certain"][model] for c in checks]
    measured |= {fact: [c["facts"][fact] for c in checks] for fact in first["facts"]}
    return [
        f"Mean ± standard deviation of {len(first['epsilon']['max'])} draws of the data. f is trained by "
        "PRODEN, phi^a is branch a of RPLG-NM, a the runner-up.",
        table(["measured", *trained], [[name, *map(mean_std, row)] for name, row in measured.items()]),
        f"Argmax among all labels is the Bayes label, {FRESH:,} fresh instances, J with tau = {TAU:g}:",
        _by_region(trained, "fresh"),
        "Argmax of the pseudo-label is the Bayes label (ties shared), training rows with the Bayes label and "
        f"a among their candidates; J with tau = {TAU:g}, and with tau = 2 epsilon (95 %).\n"
        "mu: f of PRODEN; u^a: branch a of RPLG-NM; u^out: its branches outside S, which lack no candidate; "
        "v, q: RPLG-NM (uniform weights) and RPLG (learned). Without a: a struck out of that opinion.",
        _by_region(trained, "consistency", "rows_in"),
    ]


def _by_region(trained: dict[str, dict[str, Any]], shares: str, sizes: str = "") -> str:
    rows: list[list[Any]] = []
    for name, check in trained.items():
        for region, by_opinion in check[shares].items():
            count = [f"{np.mean(check[sizes][region]):.0f}"] if sizes else []
            rows.append([name, region, *count, *map(mean_std, by_opinion.values())])
    return table(["data", "region", *(["rows"] if sizes else []), *by_opinion], rows)


def mean_std(values: list[float]) -> str:
    """Over the draws in which there was something to measure."""
    known = np.asarray([v for v in values if not np.isnan(v)])
    if not len(known):
        return "–"
    spread = f" ± {known.std(ddof=1):.3f}" if len(known) > 1 else ""
    return f"{known.mean():.3f}{spread}"


def table(columns: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table that is also readable as text."""
    texts = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [columns, *texts]) for i in range(len(columns))]
    lines = [columns, ["-" * width for width in widths], *texts]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in lines)


# ---- plain values -----------------------------------------------------------------------------------


def as_values(found: Findings) -> dict[str, Any]:
    """Everything as JSON values, numbers to six digits."""
    theorems = {
        name: [{"p_j": c.p_j, **asdict(c)} for c in checks] for name, checks in found.theorems.items()
    }
    values = {
        "command": found.command,
        "seconds": round(found.seconds, 1),
        "versions": versions(),
        "verdicts": [verdict._asdict() for verdict in verdicts(found)],
        "theorems": theorems,
        "delta": found.delta,
        "seed": found.seed,
        "reference": [{**c._asdict(), "agrees": c.agrees} for c in found.comparisons],
        "trained": found.trained,
        "prior": {name: [asdict(check) for check in checks] for name, checks in found.prior.items()},
    }
    return {name: _rounded(value) for name, value in values.items()}


def _rounded(value: Any) -> Any:
    """JSON has no NaN: a share of no rows is null."""
    if isinstance(value, dict):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        return None if np.isnan(value) else float(f"{value:.6g}")
    return value


def versions() -> dict[str, str]:
    from oneof.lab.run import versions as all_versions

    found = all_versions()
    return {name: found[name] for name in ("oneof", "numpy", "torch", "python", "machine")}


def _versions_line() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions().items() if name != "machine")
