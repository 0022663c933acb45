"""`oneof demo`: the whole library in one minute, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oneof.app.commands.show import open_page, show_table
from oneof.lab.rendering import render
from oneof.tables.files import replacing, write_text
from oneof.tables.writers import write_lines

if TYPE_CHECKING:
    from oneof.candidates import Candidates
    from oneof.training import Trained

NO_PICTURE = "none, it needs matplotlib: pip install 'oneof[report]'"
LINES: dict[str, dict[str, Any]] = {
    "rplg+": {"color": "#0072B2", "linestyle": "-"},
    "rplg": {"color": "#56B4E9", "linestyle": "--"},
    "proden": {"color": "#D55E00", "linestyle": "-."},
    "average": {"color": "#999999", "linestyle": ":"},
    "oracle": {"color": "#000000", "linestyle": (0, (1, 1))},
}

NETS = {"mlp": "an MLP", "linear": "a linear model"}
SHOWN, COUNTED = 12, 50
"""Rows on the page, and rows at the head of the list whose labels are counted."""


@dataclass
class Demo:
    """Compare RPLG+ with published RPLG, PRODEN, the average baseline and the oracle on digits.

    The 1,797 digits that ship with scikit-learn get instance-dependent candidate sets: a small
    network is trained on the true labels, and the labels it confuses a digit with become its wrong
    candidates (the rule of VALEN, rate 0.4). A tenth of the rows is clean; the meta-learners of RPLG and
    RPLG+ learn from it. Every method has the same network, rows, order and learning rate.
    """

    seeds: int = 3
    """Repetitions, each with its own split, candidate sets and initial weights."""
    epochs: int = 25
    """Passes over the rows."""
    net: Literal["linear", "mlp"] = "mlp"
    """The classifier: an MLP with two hidden layers, as everywhere by default, or a linear model."""
    rate: float = 0.4
    """How ambiguous the sets are."""
    out: Path = Path("demo")
    """Folder for the page, the table and the picture."""
    browser: bool = True
    """Open the page in the browser, where there is a screen."""

    def run(self) -> int:
        if self.seeds < 1:
            raise ValueError(f"--seeds {self.seeds}: give a number of at least 1.")
        problems = [digits_problem(seed, self.rate) for seed in range(self.seeds)]
        x, sets, clean = (problems[0][part] for part in ("x", "candidates", "clean"))
        print(f"digits: {sets.describe()}; {len(clean)} clean rows", flush=True)
        runs = {
            name: [self._train(name, problem, seed) for seed, problem in enumerate(problems)]
            for name in LINES
        }
        several = self.seeds > 1
        spread = f"mean ± standard deviation of {self.seeds} seeds, in %" if several else "one seed, in %"
        table, lines = [], []
        for name, trained in runs.items():
            cells, line = [name], {"method": name}
            for key, column in (("test", "test"), ("pseudo_labels", "pseudo_label")):
                last = np.array([100 * one.history[-1][key] for one in trained])
                mean, std = last.mean(), last.std(ddof=1) if several else 0.0
                cells.append(f"{mean:.1f} ± {std:.1f}" if several else f"{mean:.1f}")
                line |= {f"{column}_mean": f"{mean:.3f}", f"{column}_std": f"{std:.3f}" if several else ""}
            table.append(cells)
            lines.append(line)
        accuracies, title = ("new digits", "training digits"), f"right labels, {self.net} model, {spread}"
        show_table(title, ("method", *accuracies), table, right=accuracies)
        self.out.mkdir(parents=True, exist_ok=True)
        write_lines(self.out / "table.csv", lines)
        picture, page = self._plot(runs), self.out / "index.html"
        setting = (
            f"There are {len(x):,} of them with {sets.sizes.mean():.1f} "
            f"labels on average, those a small network confuses. All methods train {NETS[self.net]} on them; "
            f"RPLG and RPLG+ also learn from {len(clean)} further digits with a trusted label."
        )
        shown: dict[str, Any] = {"setting": setting, "spread": f"{spread}.", "picture": picture}
        shown |= {"table": [("method", *accuracies), *table], **doubtful_rows(x, runs["rplg+"][0], sets)}
        write_text(page, render("demo.html", Path(__file__).parent, **shown))
        print(f"table:   {self.out / 'table.csv'}")
        print(f"picture: {picture or NO_PICTURE}")
        print(f"page:    {page}")
        if self.browser:
            open_page(page.resolve().as_uri())
        return 0

    def _train(self, name: str, problem: dict[str, Any], seed: int) -> Trained:
        from oneof.methods import make_method
        from oneof.nets import build_net
        from oneof.training import Recipe, default_progress, train

        sets = problem["candidates"]
        trained = train(
            make_method(name),
            lambda: build_net(self.net, problem["x"].shape[1], sets.n_classes),
            recipe=Recipe(epochs=self.epochs, seed=seed, device="cpu"),
            progress=default_progress(),
            title=f"{name:<8} digits  seed {seed + 1}/{self.seeds}",
            **problem,
        )
        for row in trained.history:
            for key in ("q_accuracy", "target_accuracy"):
                if key in row:
                    row["pseudo_labels"] = row[key]
        # a method without stored pseudo-labels is asked for its opinion at the end
        right = trained.pseudo_labels.argmax(axis=1) == sets.truth
        trained.history[-1]["pseudo_labels"] = float(right.mean())
        return trained

    def _plot(self, runs: dict[str, list[Trained]]) -> Path | None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return None
        figure = Figure(figsize=(10, 4), layout="constrained")
        thin = "; thick lines: mean, thin lines: single seeds" if self.seeds > 1 else ""
        figure.suptitle(f"digits, instance-dependent candidate sets, {self.net} model{thin}")
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        panels = {"test": "test accuracy in %", "pseudo_labels": "accuracy of training pseudo-labels in %"}
        for axis, (key, title) in zip(axes, panels.items()):
            for name, trained in runs.items():
                curves = 100 * np.array([[row.get(key, np.nan) for row in one.history] for one in trained])
                epochs, end, style = np.arange(1, self.epochs + 1), float(curves[:, -1].mean()), LINES[name]
                axis.plot(epochs, curves.mean(axis=0), linewidth=2, label=f"{name}  {end:.1f}", **style)
                axis.plot(epochs, curves.T, color=style["color"], linewidth=0.6, alpha=0.4)
                if np.isnan(curves[0, 0]):  # known at the end only
                    axis.plot(self.epochs, end, "o", color=style["color"], markersize=5, clip_on=False)
            axis.set(title=title, xlabel="epoch", xlim=(1, max(2, self.epochs)), ylim=(0, 104))
            axis.grid(alpha=0.3)
            axis.legend(loc="lower right", ncols=2, fontsize=8, title="dot: known at the end only")
        path = self.out / "learning_curves.png"
        with replacing(path) as beside:
            figure.savefig(beside, dpi=150)
        return path


def digits_problem(seed: int, rate: float) -> dict[str, Any]:
    """Digits, split 80/10/10, with candidate sets from a small network's confusions, for `train`."""
    import torch
    from sklearn.datasets import load_digits

    from oneof.candidates import Candidates
    from oneof.candidates.generate import instance_sets
    from oneof.datasets import split_80_10_10
    from oneof.methods.baselines import Oracle
    from oneof.nets import mlp
    from oneof.training import CleanRows, Recipe, train

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    split = split_80_10_10(len(x), seed, labels=y)
    truth = y[split.train]
    generator = train(
        Oracle(),
        lambda: mlp(64, 10, hidden=(32,)),
        x[split.train],
        Candidates.from_labels(truth, classes=range(10)),
        recipe=Recipe(epochs=10, seed=seed, device="cpu"),
    ).state.net
    with torch.no_grad():
        log_probabilities = generator(torch.from_numpy(x[split.train])).log_softmax(dim=-1).numpy()
    return {
        "x": x[split.train],
        "candidates": instance_sets(truth, rate, seed, log_probabilities=log_probabilities),
        "clean": CleanRows(x[split.validation], np.eye(10, dtype=bool)[y[split.validation]]),
        "test": (x[split.test], y[split.test]),
    }


def doubtful_rows(x: np.ndarray, trained: Trained, candidates: Candidates) -> dict[str, Any]:
    """The rows worth a second look, as the page shows them, and how many labels of such rows are wrong."""
    import torch

    from oneof.app.review import ReviewData, rank_rows

    with torch.no_grad():
        logits = trained.method.logits(trained.state.eval(), torch.from_numpy(x))
    labels, truth = trained.pseudo_labels, np.asarray(candidates.truth)
    nobody = np.zeros(len(x), dtype=bool)
    data = ReviewData(candidates, logits.softmax(dim=-1).numpy(), transduction=labels, trusted=nobody)
    order = [doubt.row for doubt in rank_rows(data)]
    wrong, head = labels.argmax(axis=1) != truth, order[:COUNTED]  # here the truth is known
    found = (
        f"{wrong[head].mean():.0%} of the first {len(head)} labels on this list are wrong; "
        f"of all {len(x):,} labels, {wrong.mean():.0%} are."
    )
    rows = [
        {
            "pixels": x[row].tolist(),
            "candidates": candidates.take([row]).positions.tolist(),
            "label": int(labels[row].argmax()),
            "belief": f"{labels[row].max():.0%}",
            "truth": int(truth[row]),
        }
        for row in order[:SHOWN]
    ]
    return {"found": found, "rows": rows}
