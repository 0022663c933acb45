"""The declared experiments. Each states everything a reader needs to repeat it.

Common to the table protocols on feature vectors: random 80/10/10 splits by seed (the training seed is the
split's), scaling fitted on the training rows, SGD with momentum 0.9, batches of 256, at most 250 epochs,
stop after 50 epochs without a better accuracy on the validation rows, a constant learning rate. The
validation rows carry clean labels: methods that learn from clean rows learn from them, all methods select
the epoch by them; the test accuracy is that of the selected epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from oneof.bench.errors import LabError
from oneof.bench.search import Criterion, Search

ALL_METHODS = (
    "rplg", "dirk", "sdct", "pop", "idgp", "able", "valen", "plcr", "pico",
    "cavl", "lws", "rc", "cc", "proden",
)  # fmt: skip
TABULAR_METHODS = tuple(m for m in ALL_METHODS if m not in ("sdct", "able", "plcr", "pico"))
"""The paper leaves out, on feature vectors, the four methods that need augmentation."""
BENCHMARKS = ("cifar10", "cifar100", "tiny-imagenet")
REAL_WORLD = ("lost", "birdsong", "msrcv2", "soccer-player", "yahoo-news")
SMALL = ("lost", "birdsong", "msrcv2", "digits")

NETS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "mlp": {"name": "mlp", "hidden": [300, 300], "batch_norm": True},
    "wrn-28-2": {"name": "wrn-28-2"},
    "resnet18": {"name": "resnet18"},
    "lenet": {"name": "lenet"},
    "by data": {},
}
"""`by data`: the net that the literature uses for the data set."""
NET_OF_DATA = {
    "mnist": "lenet", "fmnist": "lenet", "kmnist": "lenet",
    "cifar10": "wrn-28-2", "cifar100": "wrn-28-2", "tiny-imagenet": "resnet18",
}  # fmt: skip
_CUTOUT_ONLY: dict[str, Any] = {"policy": "none", "cutout": 16, "pad": 4, "flip": True}
VIEWS: dict[str, dict[str, Any]] = {
    "mnist": {**_CUTOUT_ONLY, "flip": False},  # a mirrored character is another one, or none
    "kmnist": {**_CUTOUT_ONLY, "flip": False},
    "fmnist": _CUTOUT_ONLY,
    "other": {"policy": "autoaugment", "cutout": 16, "pad": 4, "flip": True},
}
"""The strong view of a data set, by PLCR's recipe: AutoAugment and Cutout, on grey images Cutout alone."""


def views_for(data: str, policy: str) -> dict[str, Any]:
    """The views of a data set; `policy` is that of colour images."""
    return VIEWS[data] if data in VIEWS else {**VIEWS["other"], "policy": policy}


def net_for(net: str, data: str) -> dict[str, Any]:
    """The description of a net for a data set."""
    return NETS[NET_OF_DATA.get(data, "mlp") if net == "by data" else net]


PAPER_RECIPE: dict[str, Any] = {
    "epochs": 250,
    "batch_size": 256,
    "optimiser": "sgd",
    "momentum": 0.9,
    "schedule": "constant",
    "patience": 50,
    "select": "best",
    "clean_weight": 0.0,
    "clean_batch": 64,
}
FIXED_LENGTH: dict[str, Any] = {"patience": None, "select": "last"}


@dataclass(frozen=True)
class Entry:
    """A row of the table: a method with some hyper-parameters given."""

    label: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    tuned_as: str | None = None
    """Label of the entry whose best configuration this one varies; None: it has a search of its own."""
    reported: bool = True


def plain(*methods: str) -> tuple[Entry, ...]:
    """Methods with their defaults. On tables, where the learning rate is constant, RPLG's look-ahead keeps
    it as a factor, as in all trainings recorded so far."""
    rplg = {"meta_scale": "rate", "meta_schedule": "constant"}
    return tuple(Entry(name, name, rplg if name == "rplg" else {}) for name in methods)


@dataclass(frozen=True)
class Protocol:
    """A declared experiment."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    data: tuple[str, ...]
    nets: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=lambda: dict(PAPER_RECIPE))
    report_recipe: Mapping[str, Any] = field(default_factory=dict)
    """What the reported trainings change in the recipe of the search."""
    lr: float = 0.05
    weight_decay: float = 1e-3
    scaling: str = "global"
    """Learning rate, weight decay and scaling of the first configuration, or of the only one."""
    policy: str = "autoaugment"
    """What the strong view of colour images does beside flip, crop and Cutout."""
    information: Literal["select", "loss"] = "select"
    """`select`: clean rows are for the methods that learn from them and for selection. `loss`: they are in
    every method's loss; the search uses one half for that and the other half to select."""
    criterion: Criterion = "accuracy"
    search: Search | None = field(default_factory=Search)
    seeds: tuple[int, ...] = tuple(range(10))
    """Splits of the reported trainings, the same for all entries."""
    curves: int = 0
    """Of how many reported splits the epoch log is kept."""
    reference: str = "rplg"
    """The entry all others are tested against."""
    figures: tuple[str, ...] = ("accuracies", "ranks", "curves")
    """Names of `oneof.bench.plots.PLOTS`."""
    paper_table: str | None = None
    """Which published table has the same rows."""

    @property
    def on_images(self) -> bool:
        return self.nets == ("by data",)

    def entry(self, label: str) -> Entry:
        return next(e for e in self.entries if e.label == label)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Protocol:
        made = dict(values)
        made["entries"] = tuple(Entry(**e) for e in made["entries"])
        if made["search"] is not None:
            made["search"] = Search(**{k: _tuple(v) for k, v in made["search"].items()})
        known = {f.name for f in fields(cls)}  # plans of earlier versions say more
        return cls(**{k: _tuple(v) for k, v in made.items() if k in known})

    def _given(self) -> str:
        """What entries set beside the defaults, as a sentence."""
        shown = [
            f"{entry.label}: {', '.join(f'{k} {v}' for k, v in entry.params.items())}"
            for entry in self.entries
            if entry.params and entry.tuned_as is None
        ]
        return f" Set otherwise: {'; '.join(shown)}." if shown else ""

    def rules(self) -> list[str]:
        """The protocol in sentences, for reports."""
        r, end = self.recipe, {**self.recipe, **self.report_recipe}
        lines = [
            "Images: official training rows split 90/10 into training and validation by seed, official test "
            "rows, candidate sets drawn by that seed; weak views (flip, crop) and strong ones (also Cutout "
            f"and, on colour images, the policy {self.policy})."
            if self.on_images
            else f"Splits: random 80/10/10, {len(self.seeds)} reported (seeds {_span(self.seeds)}), "
            "the same for all methods; the training seed is the split's.",
            f"Optimiser: {r['optimiser']}, momentum {r['momentum']}, batch {r['batch_size']}, "
            f"{r['schedule']} learning rate.",
        ]
        if end["select"] == "best":
            lines.append(
                f"Length: at most {end['epochs']} epochs"
                + (f", stop after {end['patience']} without improvement" if end["patience"] else "")
                + f"; the epoch with the best {_score(self.criterion)} on the validation rows counts."
            )
        else:
            lines.append(f"Length: {end['epochs']} epochs, no early stop; the last epoch counts.")
        if self.information == "loss":
            lines.append(
                f"Clean rows: all validation rows are in every method's loss (weight {r['clean_weight']:g}, "
                f"{r['clean_batch']} rows a step)."
                + (
                    " Hyper-parameters are chosen with one half of them in the loss and the other half for "
                    "selection."
                    if self.search
                    else ""
                )
            )
        elif self.criterion == "accuracy":
            lines.append(
                "Clean rows: the validation rows; RPLG's meta-learner learns from them, all methods select "
                "by them."
            )
        else:
            lines.append("Clean rows: none. Selection and meta-learner see candidate sets only.")
        if self.search is None:
            lines.append(
                f"Hyper-parameters: the methods' defaults, learning rate {self.lr:g}, weight decay "
                f"{self.weight_decay:g}"
                + ("." if self.on_images else f", scaling {self.scaling}.")
                + self._given()
            )
        else:
            s = self.search
            lines.append(
                f"Hyper-parameters: random search, {s.configurations} configurations per method, data set "
                f"and net (the first is the default), best mean {_score(self.criterion)} on "
                f"{len(s.seeds)} splits (seeds {_span(s.seeds)}) that are not reported; learning rate "
                f"{s.lr[0]:g} to {s.lr[1]:g}, weight decay {s.weight_decay[0]:g} to {s.weight_decay[1]:g}, "
                f"scaling {' or '.join(s.scaling)}, and the method's own."
            )
        return lines


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _span(seeds: tuple[int, ...]) -> str:
    whole = len(seeds) > 2 and seeds == tuple(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _score(criterion: str) -> str:
    return {
        "accuracy": "clean accuracy",
        "covering": "covering rate",
        "approximated": "approximated accuracy (epochs: covering rate)",
    }[criterion]


# On images: alpha as in the paper's CIFAR-10 figure, and a meta-learner with a hidden layer of 128, the
# number of WRN-28-2's features. Its rivals have their defaults.
ON_IMAGES: dict[str, Any] = {"alpha": 0.3, "meta_hidden": 128}
IMAGE_ENTRIES = (
    Entry("rplg", "rplg", ON_IMAGES),
    Entry("rplg-nm", "rplg-nm", {"alpha": ON_IMAGES["alpha"]}),
    *plain("proden", *(m for m in ALL_METHODS if m not in ("rplg", "proden"))),
)
SHORT_RECIPE: dict[str, Any] = {**PAPER_RECIPE, "epochs": 70, "schedule": "cosine", "patience": None}
SHORT_POLICY = "simple"
"""On CIFAR-10 and 70 epochs PRODEN does better with the milder strong view than with AutoAugment, RPLG-NM
does worse (validation rows; results/table1)."""

RPLG_FAMILY = plain("rplg", "rplg-nm", "proden")
EXTENSIONS = (
    *plain("rplg"),
    Entry("prior from mu", "rplg", {"prior": "mu"}, tuned_as="rplg"),
    Entry("likely rows", "rplg", {"branch_rows": "likely"}, tuned_as="rplg"),
    Entry("both", "rplg", {"prior": "mu", "branch_rows": "likely"}, tuned_as="rplg"),
)
"""Changes to RPLG that are not in the paper, with the hyper-parameters that RPLG's own search chose."""
FIGURE: dict[str, Any] = {
    "data": SMALL,
    "nets": ("mlp",),
    "report_recipe": FIXED_LENGTH,
    "curves": 5,
    "seeds": tuple(range(5)),
}

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(
            "table1",
            "Instance-dependent benchmarks (table 1 of the paper)",
            tuple(e for e in IMAGE_ENTRIES if e.label != "rplg-nm"),
            BENCHMARKS,
            ("by data",),
            search=None,
            seeds=tuple(range(5)),
            curves=5,
            paper_table="table1",
        ),
        Protocol(
            "images",
            "Images, 70 epochs: table 1 of the paper on a short schedule",
            IMAGE_ENTRIES,
            ("cifar10", "fmnist", "cifar100"),
            ("by data",),
            recipe=SHORT_RECIPE,
            policy=SHORT_POLICY,
            search=None,
            seeds=tuple(range(3)),
            curves=3,
            figures=("accuracies", "curves", "consistency", "convergence", "weights"),
            paper_table="table1",
        ),
        Protocol(
            "images-equal-information",
            "Images, 70 epochs, every method with the same clean rows in its loss",
            IMAGE_ENTRIES,
            ("cifar10", "fmnist", "cifar100"),
            ("by data",),
            recipe={**SHORT_RECIPE, **FIXED_LENGTH, "clean_weight": 0.5},
            policy=SHORT_POLICY,
            information="loss",
            search=None,
            seeds=tuple(range(3)),
            curves=3,
        ),
        Protocol(
            "images-alpha",
            "Images, 70 epochs: RPLG by alpha",
            tuple(Entry(f"alpha {a}", "rplg", {**ON_IMAGES, "alpha": a}) for a in (0.1, 0.3, 0.5, 0.7, 0.9)),
            ("cifar10", "fmnist"),
            ("by data",),
            recipe=SHORT_RECIPE,
            policy=SHORT_POLICY,
            search=None,
            seeds=(0,),
            reference="alpha 0.3",
            figures=("sensitivity",),
        ),
        Protocol(
            "table2",
            "Real-world sets, the paper's protocol (table 2)",
            plain(*TABULAR_METHODS, "rplg-nm"),
            REAL_WORLD,
            ("linear", "mlp"),
            curves=1,
            paper_table="table2",
        ),
        Protocol(
            "table3",
            "RPLG against RPLG-NM, which has no meta-learner (table 3)",
            plain("rplg", "rplg-nm"),
            (*REAL_WORLD, "digits"),  # on images: the protocol `images`
            ("linear", "mlp"),
            curves=1,
            paper_table="table3",
        ),
        Protocol(
            "equal-information",
            "Every method with the same clean rows in its loss",
            plain(*TABULAR_METHODS, "rplg-nm"),
            REAL_WORLD,
            ("mlp",),
            recipe={**PAPER_RECIPE, **FIXED_LENGTH, "epochs": 100, "clean_weight": 1.0},
            information="loss",
            curves=1,
        ),
        Protocol(
            "quick",
            "A first look: digits with instance-dependent candidates",
            plain(*TABULAR_METHODS, "rplg-nm", "oracle"),
            ("digits",),
            ("mlp",),
            recipe={**PAPER_RECIPE, "epochs": 60, "patience": 20},
            search=None,
            seeds=tuple(range(5)),
            curves=5,
            figures=("accuracies", "curves", "consistency"),
        ),
        Protocol(
            "sensitivity",
            "RPLG for alpha from 0.1 to 0.9",
            (
                replace(plain("rplg")[0], reported=False),
                *(Entry(f"alpha {a / 10}", "rplg", {"alpha": a / 10}, tuned_as="rplg") for a in range(1, 10)),
            ),
            SMALL,
            ("linear", "mlp"),
            figures=("sensitivity",),
            reference="alpha 0.5",
        ),
        Protocol(
            "consistency",
            "Share of training rows whose pseudo-label is the true label, per epoch",
            RPLG_FAMILY,
            figures=("consistency", "curves"),
            **FIGURE,
        ),
        Protocol(
            "convergence",
            "Change of the pseudo-labels per epoch, entropy of w and its mass on the true label's branch",
            RPLG_FAMILY,
            figures=("convergence", "weights"),
            **FIGURE,
        ),
        Protocol(
            "rollback",
            "The authors' ablations: no rollback of the virtual step; U recomputed after the meta step",
            (
                *plain("rplg"),
                Entry("no rollback", "rplg", {"rollback": False}, tuned_as="rplg"),
                Entry("U recomputed", "rplg", {"recompute_u": True}, tuned_as="rplg"),
            ),
            SMALL,
            ("linear", "mlp"),
            paper_table="rollback",
        ),
        Protocol(
            "extensions",
            "RPLG with changes that are not in the paper: a prior from mu; branches that weigh their rows",
            EXTENSIONS,
            SMALL,
            ("linear", "mlp"),
        ),
        Protocol(
            "extensions-equal-information",
            "RPLG with the same changes and clean rows in the loss",
            EXTENSIONS,
            REAL_WORLD,
            ("mlp",),
            recipe={**PAPER_RECIPE, **FIXED_LENGTH, "epochs": 100, "clean_weight": 1.0},
            information="loss",
        ),
    )
}


def protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise LabError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
