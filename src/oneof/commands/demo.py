"""`oneof demo`: the whole library in one minute, without a network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

METHODS = ("rplg", "rplg-nm", "proden", "average", "oracle")
LINES: dict[str, dict[str, Any]] = {
    "rplg": {"color": "#0072B2", "linestyle": "-"},
    "rplg-nm": {"color": "#56B4E9", "linestyle": "--"},
    "proden": {"color": "#D55E00", "linestyle": "-."},
    "average": {"color": "#999999", "linestyle": ":"},
    "oracle": {"color": "#000000", "linestyle": (0, (1, 1))},
}


@dataclass
class Demo:
    """Compare RPLG with its ablation, PRODEN, the average baseline and the oracle on digits.

    The 1,797 digits that ship with scikit-learn get instance-dependent candidate sets: a small
    network is trained on the true labels, and the labels it confuses a digit with become its wrong
    candidates (the rule of VALEN, rate 0.4). A tenth of the rows is clean; RPLG's meta-learner
    learns from it. Every method has the same linear model, rows, order and learning rate.
    """

    seeds: int = 3
    """Repetitions, each with its own split, candidate sets and initial weights."""
    epochs: int = 40
    """Passes over the rows."""
    net: Literal["linear", "mlp"] = "linear"
    """The classifier: linear as in the paper's tables, or an MLP with two hidden layers."""
    rate: float = 0.4
    """How ambiguous the sets are."""
    out: Path = Path("demo")
    """Folder for the table and the picture."""

    def run(self) -> int:
        import numpy as np
        from rich.table import Table

        from oneof.commands.show import show
        from oneof.data.files import write_text

        history: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in METHODS}
        for seed in range(self.seeds):
            problem = digits_problem(seed, self.rate)
            if seed == 0:
                print(f"digits: {problem.candidates.describe()}; {len(problem.clean)} clean rows")
            for name in METHODS:
                history[name].append(self._train(name, problem, seed))

        title = f"digits, {self.net} model, {self.seeds} seeds, mean ± std in %"
        table = Table(title=title, title_justify="left")
        for heading in ("method", "test accuracy", "training pseudo-labels"):
            table.add_column(heading, justify="left" if heading == "method" else "right")
        lines = ["method,test_mean,test_std,pseudo_label_mean,pseudo_label_std"]
        for name in METHODS:
            test = np.array([100 * rows[-1]["test"] for rows in history[name]])
            labels = np.array([100 * rows[-1]["pseudo_labels"] for rows in history[name]])
            table.add_row(name, *(f"{v.mean():.1f} ± {v.std(ddof=len(v) > 1):.1f}" for v in (test, labels)))
            lines.append(f"{name},{test.mean():.3f},{test.std():.3f},{labels.mean():.3f},{labels.std():.3f}")
        show(table)
        self.out.mkdir(parents=True, exist_ok=True)
        write_text(self.out / "table.csv", "\n".join(lines) + "\n")
        print(f"table:   {self.out / 'table.csv'}")
        print(f"picture: {self._plot(history)}")
        return 0

    def _train(self, name: str, problem: Any, seed: int) -> list[dict[str, Any]]:
        from oneof.methods import make_method
        from oneof.nets import build_net
        from oneof.training import Recipe, default_progress, train

        trained = train(
            make_method(name),
            lambda: build_net(self.net, problem.x.shape[1], problem.candidates.n_classes),
            problem.x,
            problem.candidates,
            recipe=Recipe(epochs=self.epochs, seed=seed, device="cpu"),
            clean=problem.clean,
            test=problem.test,
            progress=default_progress(),
            title=f"{name:<8} digits  seed {seed + 1}/{self.seeds}",
        )
        for row in trained.history:
            for key in ("q_accuracy", "target_accuracy"):
                if key in row:
                    row["pseudo_labels"] = row[key]
        # a method without stored pseudo-labels is asked for its opinion at the end
        right = trained.pseudo_labels.argmax(axis=1) == problem.candidates.truth
        trained.history[-1]["pseudo_labels"] = float(right.mean())
        return trained.history

    def _plot(self, history: dict[str, list[list[dict[str, Any]]]]) -> str:
        try:
            import matplotlib

            matplotlib.use("Agg")
            import matplotlib.pyplot as plt
        except ImportError:
            return "needs matplotlib: pip install 'oneof[report]'"
        import numpy as np

        from oneof.data.files import replacing

        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, constrained_layout=True)
        panels = {"test": "test accuracy", "pseudo_labels": "accuracy of the training pseudo-labels"}
        for axis, (key, title) in zip(axes, panels.items()):
            for name, runs in history.items():
                curves = 100 * np.array([[row.get(key, np.nan) for row in rows] for rows in runs])
                epochs, low, high = np.arange(1, curves.shape[1] + 1), curves.min(axis=0), curves.max(axis=0)
                axis.plot(epochs, curves.mean(axis=0), label=name, linewidth=1.8, **LINES[name])
                axis.fill_between(epochs, low, high, color=LINES[name]["color"], alpha=0.12, linewidth=0)
            axis.set_title(title, fontsize=10)
            axis.set_xlabel("epoch")
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel("%")
        axes[0].legend(frameon=False, fontsize=9)
        path = self.out / "learning_curves.png"
        with replacing(path) as beside:
            figure.savefig(beside, dpi=150)
        plt.close(figure)
        return f"{path} (lines: mean, bands: smallest to largest of {self.seeds} seeds)"


@dataclass
class Problem:
    """One repetition: training rows with candidates, clean rows, test rows."""

    x: Any
    candidates: Any
    clean: Any
    test: Any


def digits_problem(seed: int, rate: float) -> Problem:
    """Digits, split 80/10/10, with candidate sets from a small network's confusions."""
    import numpy as np
    import torch
    from sklearn.datasets import load_digits

    from oneof.candidates import Candidates
    from oneof.candidates.generate import instance_sets
    from oneof.data import split_80_10_10
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
    return Problem(
        x[split.train],
        instance_sets(truth, rate, seed, log_probabilities=log_probabilities),
        CleanRows(x[split.validation], np.eye(10, dtype=bool)[y[split.validation]]),
        (x[split.test], y[split.test]),
    )
