"""The figure of `oneof theory`: five panels, readable in print and for colour-blind eyes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from oneof.lab.theory.posteriors import RandomLogits
from oneof.lab.theory.reference import REFERENCE
from oneof.lab.theory.report import Findings
from oneof.lab.theory.theorems import TheoremCheck, known_gaps, running_bound
from oneof.lab.theory.trained import EDGES, TrainedCheck
from oneof.tables.files import replacing

# Okabe and Ito's colours; lines differ in dashes and markers as well
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#555555",
)  # fmt: skip
STYLES: dict[str, dict[str, Any]] = {
    "mu": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "mu without a": {"color": SKY, "marker": "D", "linestyle": "--"},
    "u^a": {"color": GREEN, "marker": "^", "linestyle": "-"},
    "v uniform": {"color": ORANGE, "marker": "s", "linestyle": ":"},
    "v learned": {"color": RED, "marker": "v", "linestyle": "-."},
    "q learned": {"color": PURPLE, "marker": "x", "linestyle": "--"},
}
NAMES = {
    "mu": "μ, PRODEN's own opinion",
    "mu without a": "μ with the label a struck out",
    "u^a": "u of branch a, RPLG-NM",
    "v uniform": "v, uniform weights, RPLG-NM",
    "v learned": "v, learned weights, RPLG",
    "q learned": "q = αμ + (1−α)v, RPLG",
}
EPSILON = 0.1
"""The error of f in the panels that show one."""


def require_matplotlib() -> None:
    """Fail early, before minutes of work, where the figure cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise RuntimeError(
            "the figure needs matplotlib, which is not installed: pip install 'oneof[report]', "
            "or give --no-plots."
        ) from None


def save_figure(found: Findings, path: Path | str, seed: int) -> Path:
    """Draw all panels to a PNG. Needs matplotlib."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image  # comes with matplotlib

    rows = 2 if found.trained else 1
    figure = Figure(figsize=(11.0, 3.6 * rows), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, 3, squeeze=False)
    checks = [c for c in found.theorems["random logits"] if c.excluded == 1]
    check = next(c for c in checks if c.epsilon == EPSILON)
    _theorem_1(panels[0, 0], check)
    _vanishing_bound(panels[0, 1], checks, seed)
    _theorem_2(panels[0, 2], check, found.delta)
    if found.trained:
        for axes, trained in zip(panels[1], found.trained):
            _trained(axes, trained)
        _legend(panels[1, 2])
    figure.canvas.draw()
    # few colours in a palette: a quarter of the size, the same picture
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3]).quantize(128)  # type: ignore[attr-defined]
    with replacing(path) as beside:
        picture.save(beside, format="png", optimize=True)
    return Path(path)


def _theorem_1(axes: Any, check: TheoremCheck) -> None:
    e = [row.epsilon_reduced for row in check.sweep]
    axes.axhline(check.f_random, color=BLUE, linestyle="-", label="f, random error")
    axes.axhline(check.f_struck, color=SKY, linestyle="--", label="f with a struck out")
    axes.axhline(check.f_worst, color=BLUE, linestyle=":", label="f, worst error")
    axes.plot(e, [r.random for r in check.sweep], color=GREEN, marker="^", label="φ without a, random error")
    axes.plot(e, [r.identity for r in check.sweep], color=RED, linestyle="-.", label="P(gap of η′ > 2ε′)")
    worst = [r.worst for r in check.sweep]
    axes.plot(e, worst, color=RED, marker="v", linestyle="", label="φ without a, worst error")
    reference = REFERENCE[check.epsilon].reduced
    axes.plot(
        [*reference, *reference],
        [*(r[0] for r in reference.values()), *(r[2] for r in reference.values())],
        linestyle="", marker="o", markersize=9, markerfacecolor="none", color="black", label="reference",
    )  # fmt: skip
    axes.set_ylim(-0.03, 1.03)
    axes.set(xlabel="error ε′ of φ", ylabel="share of J that is right")
    axes.set_title(f"Theorem 1 beyond its bound, ε = {check.epsilon:g}", fontsize=10)
    axes.legend(fontsize=6, loc="center right", bbox_to_anchor=(1.01, 0.5), labelspacing=0.35)
    _plain(axes)


def _vanishing_bound(axes: Any, checks: list[TheoremCheck], seed: int) -> None:
    gap = known_gaps(RandomLogits(), checks[0].rows, seed)
    for check, color, style in zip(checks, (BLUE, ORANGE, GREEN), ("-", "--", ":")):
        counts, bounds = running_bound(gap, check.epsilon)
        axes.step(counts, bounds, color=color, linestyle=style, where="post", label=f"ε = {check.epsilon:g}")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="draws in J, one after the other",
        ylabel="largest ε′ that Theorem 1 allows",
    )
    axes.set_title("The bound on ε′ vanishes with the sample", fontsize=10)
    axes.legend(fontsize=7)
    _plain(axes)


def _theorem_2(axes: Any, check: TheoremCheck, delta: float) -> None:
    e = [row.epsilon_reduced for row in check.sweep]
    worst = [r.worst_apart for r in check.sweep]
    axes.plot(e, worst, color=RED, marker="v", linestyle="-.", label="φ, worst error")
    middle = [r.pointwise for r in check.sweep]
    axes.plot(e, middle, color=ORANGE, marker="s", linestyle=":", label="middle line of the proof")
    assert check.margin_apart is not None
    fine = np.linspace(0.0, max(e), 400)
    bracket = 4 * check.epsilon * fine * check.slope
    bound = 1 - check.margin_apart.holding_constant * bracket**check.margin_apart.exponent
    axes.plot(fine, np.where(bound >= 0, bound, np.nan), color="black", label="1 − C [4εε′K]^λ")
    axes.set_ylim(-0.03, 1.03)
    axes.set(xlabel="error ε′ of φ", ylabel=f"share of J with η* − η^b ≥ {delta:g}")
    axes.set_title(f"Theorem 2, ε = {check.epsilon:g}", fontsize=10)
    axes.legend(fontsize=7)
    _plain(axes)


def _trained(axes: Any, check: TrainedCheck) -> None:
    middles = (np.asarray(EDGES[:-1]) + np.asarray(EDGES[1:])) / 2
    for name in STYLES:
        right = check.curve_right[name]
        share = np.divide(
            right, check.curve_rows, out=np.full(len(right), np.nan), where=check.curve_rows > 0
        )
        axes.plot(middles, share, markersize=4.5, linewidth=1.4, **STYLES[name])
    axes.set_ylim(0.45, 1.01)
    axes.set(xlabel="margin η* − η^a of the row", ylabel="share equal to the Bayes label")
    kind = {"gaussian": "normal classes, linear model", "network": "random network, small MLP"}
    axes.set_title(f"Trained: {kind.get(check.setting.name, check.setting.name)}", fontsize=10)
    _plain(axes)


def _legend(axes: Any) -> None:
    axes.axis("off")
    for name, style in STYLES.items():
        axes.plot([], [], markersize=5, linewidth=1.4, label=NAMES[name], **style)
    axes.legend(fontsize=9, loc="upper left", frameon=False, title="argmax of the pseudo-label within S",
                title_fontsize=9, alignment="left", labelspacing=0.8)  # fmt: skip
    text = (
        "Training rows whose candidates hold the Bayes\nlabel and its runner-up a; the less margin,\n"
        "the more a disturbs. u of branch a and μ without\na know which label to leave out; v must find it."
    )
    axes.text(0.02, 0.02, text, fontsize=8, color=GREY, transform=axes.transAxes, va="bottom")


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
