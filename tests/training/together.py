"""Trainings that two processes share, and the same ones in one process, for the tests of both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import Dataset

from oneof.methods import list_methods, make_method, parallel, rows
from oneof.methods.rplg import branches
from oneof.nets import build_net
from oneof.training import CleanRows, Recipe, Run, Trained, train
from oneof.training.checkpoint import save_tree
from tests.methods.harness import C, D, NoisyViews, blobs, random_candidates

FORMS = ("head", "difference", "exact", "unrolled")
SHARDABLE = sorted(info.name for info in list_methods() if info.cls.shardable)
N, CLEAN = 123, 41  # neither can be halved


class Loaded(Dataset):
    """Rows that are read one by one."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = torch.as_tensor(x)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.x[i]


def training(name: str, params: dict[str, Any] | None = None, **more: Any) -> Trained:
    """A short training in float64; what `more` holds beside these few reaches the recipe."""
    net_options = more.pop("net", {})
    run, views = more.pop("run", None), more.pop("views", None)
    x, y = blobs(N)
    inputs = Loaded(x) if more.pop("loaded", False) else x
    x_clean, y_clean = blobs(CLEAN, seed=5)
    x_test, y_test = blobs(80, seed=9)
    usual = {"epochs": 5, "batch_size": 16, "optimiser": "sgd", "lr": 0.1, "clean_weight": 0.3, "shards": 2}
    return train(
        make_method(name, params),
        lambda: build_net("mlp", D, C, **{"hidden": (16, 16), "batch_norm": False, **net_options}).double(),
        inputs,
        random_candidates(y),
        recipe=Recipe(**{"device": "cpu", "patience": 4, **usual, **more}),
        clean=CleanRows(x_clean, np.eye(C, dtype=bool)[y_clean]),
        test=(x_test, y_test),
        run=run,
        views=views,
    )


def of_low_rank(name: str) -> Trained:
    """As if there were too many classes for whole branches."""
    with mock.patch.multiple(branches, WHOLE_CLASSES=0, WHOLE_COST=0, RANK=2):
        return training(name)


def of_many_rows(name: str, params: dict[str, Any] | None = None) -> Trained:
    """As if rows × classes were too many for dense tables: two places per row, larger sets apart."""
    with mock.patch.object(rows, "places_per_row", return_value=2):
        return training(name, params)


NOISY: dict[str, Any] = {
    "net": {"batch_norm": True, "dropout": 0.2},
    "views": NoisyViews(),
    "clean_weight": 0.0,
    "optimiser": "adam",
    "lr": 0.01,
}

# every training: a name, and how to run it where run folders are kept below a folder
TRAININGS: dict[str, Callable[[Path], Trained]] = {
    **{f"rplg {form}": lambda _, form=form: training("rplg", {"meta_gradient": form}) for form in FORMS},
    **{name: lambda _, name=name: training(name) for name in SHARDABLE},
    "many classes": lambda _: of_low_rank("rplg"),
    "many classes, rplg+": lambda _: of_low_rank("rplg+"),
    "few clean rows, rplg+": lambda _: training("rplg+", {"clean_batch": 7, "meta_hidden": 3}),
    "purified": lambda _: training("pop", {"warm_up": 1, "window": 2, "theta": 0.3}),
    "many rows": lambda _: of_many_rows("proden"),
    "many rows, rplg+": lambda _: of_many_rows("rplg+"),
    "many rows, purified": lambda _: of_many_rows("pop", {"warm_up": 1, "window": 2, "theta": 0.3}),
    "loaded": lambda _: training("proden", loaded=True),
    "clean batch": lambda _: training("rplg", {"clean_batch": 7}),
    "run": lambda to: training("rplg", run=Run(to / "run")),
    "noisy": lambda to: training("rplg", run=Run(to / "noisy"), **NOISY),
}


def continued(name: str, folder: Path, **more: Any) -> tuple[Callable[[], Trained], Callable[[], Trained]]:
    """The first epoch of a run, and the rest of it."""
    run = Run(folder)
    return (
        lambda: training(name, run=run, checkpoint_every=1, max_seconds=1e-9, **more),
        lambda: training(name, run=run, checkpoint_every=1, **more),
    )


def keep(file: Path, trained: Trained) -> None:
    tree = {
        "history": trained.history,
        "pseudo_labels": torch.as_tensor(trained.pseudo_labels),
        "state": dict(trained.state.state_dict()),
        "best_epoch": trained.best_epoch,
    }
    save_tree(file, tree)


def work(rank: int, folder: str) -> None:
    """What each of two processes does."""
    torch.set_num_threads(1)
    to = Path(folder)
    dist.init_process_group("gloo", init_method=f"file://{to}/meeting", rank=rank, world_size=2)
    with parallel.join():
        for name, run in TRAININGS.items():
            keep(to / f"{name} {rank}.safetensors", run(to))
        errors = {}
        for name, bad in {
            "method": lambda: training("pico"),
            "shards": lambda: training("proden", shards=3),
            "batch": lambda: training("proden", batch_size=15),
            "batch norm": lambda: training("proden", sync_batch_norm=True),
            "run": lambda: training("proden", run=Run(to / "run")),
        }.items():
            try:
                bad()
            except (ValueError, RuntimeError) as error:
                errors[name] = f"{type(error).__name__}: {error}"
        save_tree(to / f"errors {rank}.safetensors", errors)
        # one process begins, two continue; two begin, one continues; two begin and continue
        keep(to / f"from one {rank}.safetensors", continued("rplg", to / "begun by one")[1]())
        keep(to / f"begun {rank}.safetensors", continued("rplg", to / "begun by two")[0]())
        begin, go_on = continued("rplg", to / "noisy in two parts", **NOISY)
        begin()
        keep(to / f"noisy in two parts {rank}.safetensors", go_on())
    assert dist.is_initialized()  # the group that was there is left in place
    dist.destroy_process_group()
