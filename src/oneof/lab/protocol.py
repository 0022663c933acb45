"""What a declared experiment consists of: its rows, its data, and all that must be said to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from oneof.lab.rendering import render
from oneof.lab.search import Criterion, Search

PAPER_RECIPE: dict[str, Any] = {
    "epochs": 250, "batch_size": 256, "optimiser": "sgd", "momentum": 0.9, "schedule": "constant",
    "patience": 50, "select": "best", "clean_weight": 0.0, "clean_batch": 64,
}  # fmt: skip
"""The recipe of the paper's experiments; a protocol without one of its own has this."""

NET_OF_IMAGES = {
    "mnist": "lenet", "fmnist": "lenet", "kmnist": "lenet",
    "cifar10": "wrn-28-2", "cifar100": "wrn-28-2", "tiny-imagenet": "resnet18",
}  # fmt: skip
"""The data sets of images, each with the net that the literature uses for it."""
OFFICIAL_TEST = ("labelme",)
"""Tables that come with test rows of their own."""


Information = Literal["none", "select", "loss"]


@dataclass(frozen=True)
class Row:
    """A row of the table: a method with some hyper-parameters given."""

    label: str
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)
    tuned_as: str | None = None
    """Label of the entry whose best configuration this one varies; None: it has a search of its own."""
    reported: bool = True
    information: Information | None = None
    """What this row's clean rows are used for, where it is not the protocol's."""
    clean_share: float | None = None
    """How many of all rows are clean, at most the tenth that is kept for validation; None: all of that."""


@dataclass(frozen=True)
class Protocol:
    """A declared experiment."""

    name: str
    title: str
    entries: tuple[Row, ...]
    data: tuple[str, ...]
    nets: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=lambda: dict(PAPER_RECIPE))
    report_recipe: Mapping[str, Any] = field(default_factory=dict)
    """What the reported trainings change in the recipe of the search."""
    lr: float = 0.05
    weight_decay: float = 1e-3
    scaling: str = "global"
    """Learning rate, weight decay and scaling of the first configuration, or of the only one."""
    policy: str = "bilinear"
    """What the strong view of colour images does beside flip, crop and Cutout."""
    information: Information = "select"
    """`none`: no method sees a clean row. `select`: those that learn from clean rows do. `loss`: clean rows
    are in every method's loss; a search uses one half for that and the other half to select."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Of tables of one's own: the columns with the candidates and the truth, and answers to questions."""
    robbed: float = 0.0
    """Tables: the share of rows whose candidate set loses its true label."""
    criterion: Criterion = "accuracy"
    search: Search | None = field(default_factory=Search)
    seeds: tuple[int, ...] = tuple(range(10))
    """Splits of the reported trainings, the same for all entries."""
    curves: int = 0
    """Of how many reported splits the epoch log is kept."""
    reference: str = "rplg"
    """The entry all others are tested against."""
    figures: tuple[str, ...] = ("accuracies", "ranks", "curves")
    """Names of `oneof.lab.plots.PLOTS`."""
    paper_table: str | None = None
    """Which published table has the same rows."""

    @property
    def on_images(self) -> bool:
        return all(name in NET_OF_IMAGES for name in self.data)

    @property
    def on_tables(self) -> bool:
        return not any(name in NET_OF_IMAGES for name in self.data)

    def entry(self, label: str) -> Row:
        return next(e for e in self.entries if e.label == label)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Protocol:
        known = {f.name for f in fields(cls)}  # plans of earlier versions say more
        made = {k: _tuple(v) for k, v in values.items() if k in known}
        made["entries"] = tuple(Row(**e) for e in made["entries"])
        if made["search"] is not None:
            made["search"] = Search(**{k: _tuple(v) for k, v in made["search"].items()})
        return cls(**made)

    @property
    def official(self) -> list[str]:
        """Data sets with test rows of their own among the tables."""
        return [name for name in self.data if name in OFFICIAL_TEST]

    @property
    def set_otherwise(self) -> list[str]:
        """What entries set beside the defaults and outside of a grid."""
        grids = self.search.grids if self.search is not None else {}
        shown = []
        for entry in self.entries:
            given = {k: v for k, v in entry.params.items() if k not in grids.get(entry.method, {})}
            if given and entry.tuned_as is None:
                shown.append(f"{entry.label}: {', '.join(f'{k} {v}' for k, v in given.items())}")
        return shown

    def rules(self) -> list[str]:
        """The protocol in sentences, for reports."""
        return render("rules.txt", p=self).split("\n")[:-1]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
