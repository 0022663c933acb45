"""The figures of `oneof theory` as verdicts, as Markdown and as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oneof.lab.run import versions as all_versions
from oneof.lab.theory.prior import EPSILONS, PriorCheck
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
    seed: int
    prior: dict[str, list[PriorCheck]]
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
    always_wrong = all(c.f_worst == 0 and c.guaranteed_f == 0 for c in checks)
    always_right = all(c.at_bound_random == c.at_bound_worst == 1 >= c.f_random for c in checks)
    positive = sum(row.bound > 0 for row in rows)
    kept = all(check.fixed_point < 1e-12 and check.largest_ratio <= 1 for check in priors)
    largest = max([0.0, *(check.largest_ratio for check in priors)])
    return [
        Verdict("Definition 1: on J some model with error epsilon is always wrong",
                always_wrong, f"{len(checks)} cases"),
        Verdict("Theorem 1: below its bound phi is right on all of J, and never less often than f",
                always_right, f"{len(checks)} cases, bounds from {min(bounds):.0e} to {max(bounds):.0e}"),
        Verdict("Beyond the bound the worst case of phi is P(gap of eta' > 2 epsilon')",
                all(exact), f"{sum(exact)} of {len(exact)}, not one row apart"),
        Verdict("Theorem 2: worst case >= middle line of the proof >= 1 - C [4 epsilon epsilon' K]^lambda",
                all(chain), f"{sum(chain)} of {len(chain)}; the bound is above 0 in {positive}"),
        Verdict("The reference values are met within Monte-Carlo error",
                all(agreed), f"{sum(agreed)} of {len(agreed)}"),
        Verdict("The prior of RPLG+: v is eta where mu and the branches are right, and errs no more than "
                "they do", kept, f"{len(priors)} cases, up to {largest:.2f} of the bound"),
    ]  # fmt: skip


# ---- Markdown ---------------------------------------------------------------------------------------


def as_markdown(found: Findings) -> str:
    """All tables, for the terminal and for a file."""
    told = [[v.statement, "yes" if v.holds else "NO", v.detail] for v in verdicts(found)]
    text = _text("theory.md").format(
        command=found.command,
        seconds=found.seconds,
        versions=", ".join(f"{name} {version}" for name, version in versions().items() if name != "machine"),
        delta=found.delta,
        verdicts=table(["statement", "holds", "on"], told),
        theorem_1=_by_check(found, THEOREM_1),
        sweep=_by_check(found, SWEPT),
        theorem_2=_by_check(found, THEOREM_2, only_one=True),
        reference=_reference(found),
        prior=_prior(found),
    )
    if found.trained:
        text += _text("theory_trained.md").format(**_trained(found.trained))
    return text


def _text(template: str) -> str:
    return (Path(__file__).parents[1] / "templates" / template).read_text(encoding="utf-8")


Columns = dict[str, str]
"""Heading, and what stands below it: c is a check, at[...] what it says of one epsilon'."""
THEOREM_1: Columns = {
    "m": "{c.excluded}",
    "epsilon": "{c.epsilon:g}",
    "P(J)": "{c.p_j:.3f}",
    "f, random": "{c.f_random:.3f}",
    "f, worst": "{c.f_worst:g}",
    "f, a struck out": "{c.f_struck:.3f}",
    "bound on epsilon'": "{c.bound:.1e}",
    "phi at the bound": "{c.at_bound_random:g} / {c.at_bound_worst:g}",
    "lambda": "{c.margin.exponent:.2f}",
    "C": "{c.margin.constant:.1f}",
}
SWEPT: Columns = {name: THEOREM_1[name] for name in ("m", "epsilon")} | {
    f"epsilon' {e}": f"{{at[{e}].random:.4f}} / {{at[{e}].worst:.3f}}"
    for e in ("0.01", "0.05", "0.1", "0.2", "0.4")
}
THEOREM_2: Columns = {
    "epsilon": "{c.epsilon:g}",
    "K": "{c.slope:.1f}",
    "lambda": "{c.margin_apart.exponent:.2f}",
    "C": "{c.margin_apart.holding_constant:.1f}",
} | {
    f"epsilon' {e}: worst / middle / bound": (
        f"{{at[{e}].worst_apart:.3f}} / {{at[{e}].pointwise:.3f}} / {{at[{e}].bound:.2f}}"
    )
    for e in ("0.005", "0.01", "0.02", "0.05")
}


def _by_check(found: Findings, columns: Columns, only_one: bool = False) -> str:
    """A line for every check, or for those of one excluded label."""
    rows: list[list[Any]] = []
    for name, check in found.named_checks:
        if check.excluded == 1 or not only_one:
            at = {f"{row.epsilon_reduced:g}": row for row in check.sweep}
            rows.append([name, *(text.format(c=check, at=at) for text in columns.values())])
    return table(["posterior", *columns], rows)


def _prior(found: Findings) -> str:
    columns = ["posterior", "labels in the set", "no error: prior", "uniform", "margin left, uniform"]
    rows: list[list[Any]] = [
        [name, c.size, f"{c.fixed_point:.0e}", f"{c.uniform:.3f}", f"{c.uniform_margin:.0%}"]
        + [f"{a:.3f} / {b:.3f}" for a, b in c.mean_error.values()]
        for name, checks in found.prior.items()
        for c in checks
    ]
    return table([*columns, *(f"{epsilon:g}: prior / uniform" for epsilon in EPSILONS)], rows)


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


def _trained(trained: dict[str, dict[str, Any]]) -> dict[str, Any]:
    first, checks = next(iter(trained.values())), trained.values()
    gap = {"f": "2 · error of f < gap of eta", "phi": "2 · error of phi^a < gap of eta'"}
    names = [("epsilon", q, f"epsilon (f), {q}") for q in first["epsilon"]]
    names += [("epsilon_reduced", q, f"epsilon' (phi^a), {q}") for q in first["epsilon"]]
    names += [("p_j", tau, f"P(J), tau = {tau}") for tau in first["p_j"]]
    names += [("certain", model, f"share of x with {text}") for model, text in gap.items()]
    names += [("facts", fact, fact) for fact in first["facts"]]
    rows = [[text, *(mean_std(check[part][name]) for check in checks)] for part, name, text in names]
    return {
        "measured": table(["measured", *trained], rows),
        "draws": len(first["epsilon"]["max"]),
        "fresh": _by_region(trained, "fresh"),
        "consistency": _by_region(trained, "consistency", "rows_in"),
        "fresh_rows": FRESH,
        "tau": TAU,
    }


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
    return _rounded({
        "command": found.command,
        "seconds": round(found.seconds, 1),
        "versions": versions(),
        "verdicts": [verdict._asdict() for verdict in verdicts(found)],
        "theorems": {
            name: [{"p_j": c.p_j, **asdict(c)} for c in checks] for name, checks in found.theorems.items()
        },
        "delta": found.delta,
        "seed": found.seed,
        "reference": [{**c._asdict(), "agrees": c.agrees} for c in found.comparisons],
        "trained": found.trained,
        "prior": {name: [asdict(check) for check in checks] for name, checks in found.prior.items()},
    })  # fmt: skip


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
    found = all_versions()
    return {name: found[name] for name in ("oneof", "numpy", "torch", "python", "machine")}
