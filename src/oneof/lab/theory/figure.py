"""The figure of `oneof theory`, drawn from its record: five panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oneof.lab.panels import COLOURS, panels, save
from oneof.lab.theory.posteriors import RandomLogits
from oneof.lab.theory.reference import REFERENCE
from oneof.lab.theory.theorems import MarginCondition, known_gaps, running_bound
from oneof.lab.theory.trained import EDGES

BLUE, RED, GREEN, PURPLE, ORANGE, SKY, _ = COLOURS  # lines differ in dashes and markers as well
STYLES: dict[str, tuple[str, dict[str, Any]]] = {
    "mu": ("μ, PRODEN's own opinion", {"color": BLUE, "marker": "o", "linestyle": "-"}),
    "mu without a": ("μ with the label a struck out", {"color": SKY, "marker": "D", "linestyle": "--"}),
    "u^a": ("u of branch a, RPLG-NM", {"color": GREEN, "marker": "^", "linestyle": "-"}),
    "v uniform": ("v, uniform weights, RPLG-NM", {"color": ORANGE, "marker": "s", "linestyle": ":"}),
    "v learned": ("v, learned weights, RPLG", {"color": RED, "marker": "v", "linestyle": "-."}),
    "q learned": ("q = αμ + (1−α)v, RPLG", {"color": PURPLE, "marker": "x", "linestyle": "--"}),
}
MODEL_TITLES = {"gaussian": "normal classes, linear model", "network": "random network, small MLP"}
EPSILON = 0.1
"""The error of f in the panels that show one."""


def save_figure(values: dict[str, Any], path: Path | str) -> Path:
    """Draw all panels from the values of `summary.json`. Needs matplotlib."""
    checks = [c for c in values["theorems"]["random logits"] if c["excluded"] == 1]
    check = next(c for c in checks if c["epsilon"] == EPSILON)
    with panels(6 if values["trained"] else 3, 3.6, width=11.0) as (figure, axes):
        _theorem_1(axes[0], check)
        _vanishing_bound(axes[1], checks, values.get("seed", 0))
        _theorem_2(axes[2], check, values["delta"])
        for one, (name, found) in zip(axes[3:5], values["trained"].items()):
            _trained(one, MODEL_TITLES.get(name, name), found["curve"])
        if values["trained"]:
            _legend(axes[5])
        return save(figure, Path(path))


def _column(check: dict[str, Any], name: str) -> list[float]:
    return [row[name] for row in check["sweep"]]


def _theorem_1(axes: Any, check: dict[str, Any]) -> None:
    e = _column(check, "epsilon_reduced")
    axes.axhline(check["f_random"], color=BLUE, linestyle="-", label="f, random error")
    axes.axhline(check["f_struck"], color=SKY, linestyle="--", label="f with a struck out")
    axes.axhline(check["f_worst"], color=BLUE, linestyle=":", label="f, worst error")
    axes.plot(e, _column(check, "random"), color=GREEN, marker="^", label="φ without a, random error")
    axes.plot(e, _column(check, "identity"), color=RED, linestyle="-.", label="P(gap of η′ > 2ε′)")
    worst = _column(check, "worst")
    axes.plot(e, worst, color=RED, marker="v", linestyle="", label="φ without a, worst error")
    points = [(at, share) for at, shares in REFERENCE[check["epsilon"]].reduced.items() for share in shares]
    axes.plot(*zip(*points), "o", markersize=9, markerfacecolor="none", color="black", label="reference")
    axes.set(xlabel="error ε′ of φ", ylabel="share of J that is right", ylim=(-0.03, 1.03))
    axes.set_title(f"Theorem 1 beyond its bound, ε = {check['epsilon']:g}", fontsize=10)
    axes.legend(fontsize=6, loc="center right", bbox_to_anchor=(1.01, 0.5), labelspacing=0.35)


def _vanishing_bound(axes: Any, checks: list[dict[str, Any]], seed: int) -> None:
    gap = known_gaps(RandomLogits(), checks[0]["rows"], seed)
    for check, color, style in zip(checks, (BLUE, ORANGE, GREEN), ("-", "--", ":")):
        counts, bounds = running_bound(gap, check["epsilon"])
        label = f"ε = {check['epsilon']:g}"
        axes.step(counts, bounds, color=color, linestyle=style, where="post", label=label)
    names = {"xlabel": "draws in J, one after the other", "ylabel": "largest ε′ that Theorem 1 allows"}
    axes.set(xscale="log", yscale="log", **names)
    axes.set_title("The bound on ε′ vanishes with the sample", fontsize=10)
    axes.legend(fontsize=7)


def _theorem_2(axes: Any, check: dict[str, Any], delta: float) -> None:
    e = _column(check, "epsilon_reduced")
    worst = _column(check, "worst_apart")
    axes.plot(e, worst, color=RED, marker="v", linestyle="-.", label="φ, worst error")
    middle = _column(check, "pointwise")
    axes.plot(e, middle, color=ORANGE, marker="s", linestyle=":", label="middle line of the proof")
    fine = np.linspace(0.0, max(e), 400)
    bound = MarginCondition(**check["margin_apart"]).bound(4 * check["epsilon"] * fine * check["slope"])
    axes.plot(fine, np.where(bound >= 0, bound, np.nan), color="black", label="1 − C [4εε′K]^λ")
    axes.set(xlabel="error ε′ of φ", ylabel=f"share of J with η* − η^b ≥ {delta:g}", ylim=(-0.03, 1.03))
    axes.set_title(f"Theorem 2, ε = {check['epsilon']:g}", fontsize=10)
    axes.legend(fontsize=7)


def _trained(axes: Any, kind: str, curve: dict[str, Any]) -> None:
    middles, rows = np.mean([EDGES[:-1], EDGES[1:]], axis=0), np.asarray(curve["rows"])
    for name, (_, style) in STYLES.items():
        share = np.divide(curve["right"][name], rows, out=np.full(len(rows), np.nan), where=rows > 0)
        axes.plot(middles, share, markersize=4.5, linewidth=1.4, **style)
    label = "share equal to the Bayes label"
    axes.set(xlabel="margin η* − η^a of the row", ylabel=label, ylim=(0.45, 1.01))
    axes.set_title(f"Trained: {kind}", fontsize=10)


def _legend(axes: Any) -> None:
    axes.axis("off")
    for text, style in STYLES.values():
        axes.plot([], [], markersize=5, linewidth=1.4, label=text, **style)
    axes.legend(fontsize=9, loc="upper left", frameon=False, title="argmax of the pseudo-label within S",
                title_fontsize=9, alignment="left", labelspacing=0.8)  # fmt: skip
    text = (
        "Training rows whose candidates hold the Bayes\nlabel and its runner-up a; the less margin,\n"
        "the more a disturbs. u of branch a and μ without\na know which label to leave out; v must find it."
    )
    axes.text(0.02, 0.02, text, fontsize=8, color="#555555", transform=axes.transAxes, va="bottom")
