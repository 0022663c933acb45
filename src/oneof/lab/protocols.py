"""The declared experiments. Each states everything a reader needs to repeat it.

Common to the table protocols on feature vectors: random 80/10/10 splits by seed (the training seed is the
split's), scaling fitted on the training rows, SGD with momentum 0.9, batches of 256, at most 250 epochs,
stop after 50 epochs without a better accuracy on the validation rows, a constant learning rate. The
validation rows carry clean labels: methods that learn from clean rows learn from them, all methods select
the epoch by them; the test accuracy is that of the selected epoch.
"""

from __future__ import annotations

from typing import Any

from oneof.lab import LabError
from oneof.lab.protocol import NET_OF_IMAGES, PAPER_RECIPE, Information, Protocol, Row
from oneof.lab.search import Search

ALL_METHODS = (
    "rplg", "dirk", "sdct", "pop", "idgp", "able", "valen", "plcr", "pico",
    "cavl", "lws", "rc", "cc", "proden",
)  # fmt: skip
TABULAR_METHODS = tuple(m for m in ALL_METHODS if m not in ("sdct", "able", "plcr", "pico"))
"""The paper leaves out, on feature vectors, the four methods that need augmentation."""
BENCHMARKS = ("cifar10", "cifar100", "tiny-imagenet")
REAL_WORLD = ("lost", "birdsong", "msrcv2", "soccer-player", "yahoo-news")
SMALL = ("lost", "birdsong", "msrcv2", "digits")
PLUS_DATA = (*SMALL, "labelme")

NETS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "mlp": {"name": "mlp", "hidden": [300, 300], "batch_norm": True},
    **{name: {"name": name} for name in ("wrn-28-2", "resnet18", "lenet")},
    "by data": {},
}
"""`by data`: the net that the literature uses for the data set."""
GREY = ("mnist", "fmnist", "kmnist")
CHARACTERS = ("mnist", "kmnist")


def views_for(data: str, policy: str) -> dict[str, Any]:
    """The views of a data set: a policy and Cutout. Policies of pairs are for colour images only; a
    mirrored character is another one, or none."""
    policy = "none" if data in GREY and policy != "bilinear" else policy
    return {"policy": policy, "cutout": 16, "pad": 4, "flip": data not in CHARACTERS}


def net_for(net: str, data: str) -> dict[str, Any]:
    """The description of a net for a data set."""
    return NETS[NET_OF_IMAGES.get(data, "mlp") if net == "by data" else net]


FIXED_LENGTH: dict[str, Any] = {"patience": None, "select": "last"}


def default_rows(*methods: str) -> tuple[Row, ...]:
    """Methods with their defaults."""
    return tuple(Row(name, name) for name in methods)


# On images: alpha as in the paper's CIFAR-10 figure, and a meta-learner with a hidden layer of 128, the
# number of WRN-28-2's features. Its rivals have their defaults.
ON_IMAGES: dict[str, Any] = {"alpha": 0.3, "meta_hidden": 128}
# 5,000 clean rows are many: nothing has to hold g at 0.
PLUS_ON_IMAGES: dict[str, Any] = {"meta_lr": 1e-3, "meta_decay": 1e-4, "shrink": 0.0}
PLUS = Row("rplg+", "rplg+", PLUS_ON_IMAGES)
IMAGE_ENTRIES = (
    Row("rplg", "rplg", ON_IMAGES),
    PLUS,
    Row("rplg-nm", "rplg-nm", {"alpha": ON_IMAGES["alpha"]}),
    *default_rows("proden", *(m for m in ALL_METHODS if m not in ("rplg", "proden"))),
)
ALPHAS = (0.1, 0.3, 0.5, 0.7, 0.9)
IMAGE_GRIDS: dict[str, dict[str, Any]] = {
    "rplg": {"alpha": [0.3, 0.5, 0.7], "meta_lr": [1e-3, 1e-4]},
    "rplg-nm": {"alpha": [0.3, 0.5, 0.7]},
}
"""PRODEN has nothing of its own to choose."""
SHORT_RECIPE: dict[str, Any] = {**PAPER_RECIPE, **FIXED_LENGTH, "epochs": 70, "schedule": "cosine"}
"""The last epoch counts: no row that a method has learned from chooses it."""
IMAGE_FIGURES = ("accuracies", "curves", "consistency", "opinions", "convergence", "weights")


def on_cosine_schedule(
    name: str, title: str, entries: tuple[Row, ...], data: tuple[str, ...], splits: int = 3, **more: Any
) -> Protocol:
    """A protocol on images, of 70 epochs unless `more` says so; epoch logs are kept of all trainings, which
    makes them the same jobs in every such protocol."""
    common: dict[str, Any] = {"recipe": SHORT_RECIPE, "search": None}
    common |= {"seeds": tuple(range(splits)), "curves": splits}
    return Protocol(name, f"Images, cosine schedule: {title}", entries, data, ("by data",), **(common | more))


RPLG_FAMILY = default_rows("rplg", "rplg-nm", "proden")
PLUS_ROWS = default_rows("rplg+", "rplg", "rplg-nm", "rplg-nm-prior", "proden", "valen", "idgp", "cc", "dirk",
                         "clean-only", "oracle")  # fmt: skip
PLUS_RECIPE: dict[str, Any] = {**PAPER_RECIPE, **FIXED_LENGTH, "epochs": 40, "batch_size": 64}
PLUS_RECIPE |= {"optimiser": "adam", "schedule": "one-cycle"}
"""One recipe for all methods, data sets and nets: nothing is searched."""


def plus_on_tables(name: str, title: str, **more: Any) -> Protocol:
    """RPLG+ beside its relatives and the strongest rivals, on splits that no choice was made on."""
    common: dict[str, Any] = {"recipe": PLUS_RECIPE, "search": None, "seeds": tuple(range(3000, 3020))}
    common |= {"lr": 1e-2, "weight_decay": 0.0, "scaling": "standard", "reference": "rplg+"}
    entries = tuple(e for e in PLUS_ROWS if e.label != "clean-only" or more.get("information") != "none")
    common |= {"entries": entries, "data": PLUS_DATA, "nets": ("mlp", "linear")} | more
    return Protocol(name, f"RPLG+ on tables: {title}", **common)


CLEAN_SHARES = (0.005, 0.01, 0.02, 0.05, 0.1)
CLEAN_SHARE_WAYS: dict[str, tuple[str, Information]] = {
    "RPLG+": ("rplg+", "select"),
    "RPLG+ and in the loss": ("rplg+", "loss"),
    "RPLG": ("rplg", "select"),
    "PRODEN and in the loss": ("proden", "loss"),
    "clean rows alone": ("clean-only", "select"),
}
CLEAN_SHARE_ROWS = (
    Row("PRODEN, none", "proden", information="none"),
    Row("RPLG+, none", "rplg+", information="none"),
    *(
        Row(f"{way}, {share:.1%}", method, information=information, clean_share=share)
        for way, (method, information) in CLEAN_SHARE_WAYS.items()
        for share in CLEAN_SHARES
    ),
)

FIGURE: dict[str, Any] = {"data": SMALL, "nets": ("mlp",), "report_recipe": FIXED_LENGTH}
FIGURE |= {"curves": 5, "seeds": tuple(range(5))}
SHORT_DATA = ("cifar10", "fmnist", "cifar100")
CLEAN_ROWS = tuple(  # None: as many clean rows as training rows
    Row(f"{way}, {n or 256} rows", "rplg", {**ON_IMAGES, "meta_gradient": way, "clean_batch": n})
    for way in ("head", "difference")
    for n in (None, 64)
)
VIEW_ROWS = (
    IMAGE_ENTRIES[0], Row("rplg, three views", "rplg-3-views", ON_IMAGES),
    PLUS, Row("rplg+, three views", "rplg+-3-views", PLUS_ON_IMAGES),
)  # fmt: skip
FEW_CLEAN_ROWS = (  # a step of 256 has two or three of each of 100 labels
    IMAGE_ENTRIES[0], Row("rplg, prior", "rplg-prior", ON_IMAGES),
    Row("rplg, averaged slope", "rplg-averaged", ON_IMAGES), PLUS, default_rows("proden")[0],
)  # fmt: skip
ALPHA_ROWS = tuple(Row(f"alpha {a / 10}", "rplg", {"alpha": a / 10}, tuned_as="rplg") for a in range(1, 10))
ROLLBACK_ROWS = (
    Row("no rollback", "rplg-no-rollback", tuned_as="rplg"),
    Row("U recomputed", "rplg-new-u", tuned_as="rplg"),
)

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol(
            "table1", "Instance-dependent benchmarks (table 1 of the paper)",
            tuple(row for row in IMAGE_ENTRIES if row.label != "rplg-nm"), BENCHMARKS, ("by data",),
            search=None, seeds=tuple(range(5)), curves=5, paper_table="table1",
        ),
        on_cosine_schedule(
            "images", "table 1 of the paper on a short schedule", IMAGE_ENTRIES, SHORT_DATA,
            figures=IMAGE_FIGURES, paper_table="table1",
        ),
        on_cosine_schedule(
            "images-tiny", "table 1 of the paper, TinyImageNet in 30 epochs", IMAGE_ENTRIES,
            ("tiny-imagenet",), splits=1, recipe={**SHORT_RECIPE, "epochs": 30},
            figures=IMAGE_FIGURES, paper_table="table1",
        ),
        on_cosine_schedule(
            "images-long", "table 1 of the paper, as long as there", IMAGE_ENTRIES, ("cifar10",), splits=1,
            recipe={**SHORT_RECIPE, "epochs": 250}, figures=IMAGE_FIGURES, paper_table="table1",
        ),
        on_cosine_schedule(
            "images-equal-information", "every method with the same clean rows in its loss", IMAGE_ENTRIES,
            SHORT_DATA, recipe={**SHORT_RECIPE, "clean_weight": 0.5}, information="loss", reference="rplg+",
        ),
        on_cosine_schedule(
            "images-no-clean", "no method sees a clean row",
            (PLUS, *default_rows("rplg-nm-prior"), *IMAGE_ENTRIES[2:]), SHORT_DATA,
            information="none", reference="rplg+",
        ),
        on_cosine_schedule(
            "images-tuned", "RPLG and RPLG-NM with settings chosen by the validation rows",
            tuple(row for row in IMAGE_ENTRIES if row.label in ("rplg", "rplg-nm", "proden")),
            ("fmnist", "cifar10"), search=Search(seeds=(0,), grids=IMAGE_GRIDS), figures=IMAGE_FIGURES,
        ),
        on_cosine_schedule(
            "images-alpha", "RPLG by alpha",
            tuple(Row(f"alpha {a}", "rplg", {**ON_IMAGES, "alpha": a}) for a in ALPHAS),
            ("cifar10", "fmnist"), splits=1, reference="alpha 0.3", figures=("sensitivity",),
        ),
        on_cosine_schedule(
            "images-clean-rows", "RPLG by meta-gradient and by the clean rows of a step", CLEAN_ROWS,
            ("cifar10",), splits=1, reference="head, 256 rows", figures=("accuracies",),
        ),
        on_cosine_schedule(
            "images-views", "RPLG and RPLG+ with a second strong view", VIEW_ROWS, ("cifar10", "fmnist"),
            splits=1,
        ),
        on_cosine_schedule(
            "images-few-clean", "RPLG where a step has few clean rows of a label", FEW_CLEAN_ROWS,
            ("cifar100",), splits=1, figures=("accuracies", "curves", "opinions", "weights"),
        ),
        Protocol(
            "table2", "Real-world sets, the paper's protocol (table 2)",
            default_rows(*TABULAR_METHODS, "rplg-nm"), REAL_WORLD, ("linear", "mlp"),
            curves=1, paper_table="table2",
        ),
        Protocol(
            "table3", "RPLG against RPLG-NM, which has no meta-learner (table 3)",
            default_rows("rplg", "rplg-nm"),
            (*REAL_WORLD, "digits"),  # on images: the protocol `images`
            ("linear", "mlp"), curves=1, paper_table="table3",
        ),
        Protocol(
            "equal-information", "Every method with the same clean rows in its loss",
            default_rows(*TABULAR_METHODS, "rplg-nm"), REAL_WORLD, ("mlp",),
            recipe={**PAPER_RECIPE, **FIXED_LENGTH, "epochs": 100, "clean_weight": 1.0},
            information="loss", curves=1,
        ),
        Protocol(
            "quick", "A first look: digits with instance-dependent candidates",
            default_rows("rplg+", *TABULAR_METHODS, "rplg-nm", "oracle"), ("digits",), ("mlp",),
            recipe={**PAPER_RECIPE, "epochs": 60, "patience": 20}, search=None,
            seeds=tuple(range(5)), curves=5, reference="rplg+",
            figures=("accuracies", "curves", "consistency"),
        ),
        Protocol(
            "sensitivity", "RPLG for alpha from 0.1 to 0.9",
            (Row("rplg", "rplg", reported=False), *ALPHA_ROWS), SMALL,
            ("linear", "mlp"), figures=("sensitivity",), reference="alpha 0.5",
        ),
        Protocol(
            "consistency", "Share of training rows whose pseudo-label is the true label, per epoch",
            RPLG_FAMILY, figures=("consistency", "curves"), **FIGURE,
        ),
        Protocol(
            "convergence",
            "Change of the pseudo-labels per epoch, entropy of w and its mass on the true label's branch",
            RPLG_FAMILY, figures=("convergence", "weights"), **FIGURE,
        ),
        Protocol(
            "rollback",
            "The authors' ablations: no rollback of the virtual step; U recomputed after the meta step",
            (*default_rows("rplg"), *ROLLBACK_ROWS), SMALL, ("linear", "mlp"), paper_table="rollback",
        ),
        plus_on_tables("plus-none", "no method sees a clean row", information="none"),
        plus_on_tables("plus-paper", "the paper's protocol: RPLG and RPLG+ learn from the clean rows"),
        plus_on_tables(
            "plus-equal", "the same clean rows in every method's loss",
            recipe={**PLUS_RECIPE, "clean_weight": 1.0}, information="loss",
        ),
        plus_on_tables(
            "plus-robbed", "one set in ten has lost its true label", data=("lost", "birdsong", "digits"),
            robbed=0.1,
        ),
        plus_on_tables(
            "clean-share", "how many clean rows, and what for", entries=CLEAN_SHARE_ROWS, nets=("mlp",),
            recipe={**PLUS_RECIPE, "clean_weight": 1.0}, seeds=tuple(range(4000, 4010)),
            reference="RPLG+, 10.0%", figures=("clean share",),
        ),
        plus_on_tables(
            "prior", "the prior in the course of a training", data=("lost",), nets=("mlp",), curves=5,
            entries=default_rows("rplg-nm", "rplg-nm-prior", "rplg", "rplg-prior", "rplg+"),
            seeds=tuple(range(4000, 4005)), figures=("opinions", "curves"),
        ),
    )
}  # fmt: skip


def protocol(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise LabError(f"there is no protocol {name!r}; there are {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
