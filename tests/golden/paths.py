"""Every name of oneof that the tests of this folder use, and how variants of RPLG are made today.

Nothing else here imports oneof: when modules or options move, only this file changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from unittest import mock

from oneof import Candidates, PartialLabelClassifier, __version__, list_methods, load, train
from oneof.app.cli import main
from oneof.app.review.decisions import Decisions
from oneof.app.review.folder import ReviewData
from oneof.methods import Method, make_method
from oneof.methods.base import State, Task
from oneof.methods.rplg import Rplg, branches
from oneof.nets import build_net
from oneof.tables.candidate_files import load_annotations, load_candidates, save_annotations, save_candidates
from oneof.training import CleanRows, Recipe, Run
from oneof.views import ImageViews

__all__ = [
    "Candidates",
    "CleanRows",
    "Decisions",
    "ImageViews",
    "PartialLabelClassifier",
    "Recipe",
    "ReviewData",
    "Run",
    "__version__",
    "build_net",
    "list_methods",
    "load",
    "load_annotations",
    "load_candidates",
    "main",
    "make_method",
    "rplg_variants",
    "save_annotations",
    "save_candidates",
    "train",
    "trusted_labels",
]


def trusted_labels(path: Any, data: Any) -> dict[int, Any]:
    """The labels a review decided about, by row number."""
    decided = Decisions(path, data, strict=True).decided
    return {row: data.candidates.classes[column] for row, column in decided.items()}


@dataclass(frozen=True)
class OfLowRank(Rplg):
    """RPLG as if there were too many classes for whole branches."""

    info = Rplg.info

    def setup(self, task: Task) -> State:
        with mock.patch.multiple(branches, WHOLE_CLASSES=0, WHOLE_COST=0, RANK=2):
            return super().setup(task)


# under names that stay what they are when options get other names or homes; all of them see clean rows
_VARIANTS: dict[str, tuple[str | Method, dict[str, Any]]] = {
    "rplg, gradient of the head": ("rplg", {"meta_gradient": "head"}),
    "rplg, gradient by a difference": ("rplg", {"meta_gradient": "difference"}),
    "rplg, exact gradient": ("rplg", {"meta_gradient": "exact"}),
    "rplg, unrolled gradient": ("rplg", {"meta_gradient": "unrolled"}),
    "rplg, no rollback": ("rplg-no-rollback", {}),
    "rplg, U recomputed": ("rplg-new-u", {}),
    # as on images
    "rplg, hidden layer in the meta-learner": ("rplg", {"alpha": 0.3, "meta_hidden": 8}),
    "rplg, branches of small rank": (OfLowRank(), {}),
    "rplg+, hidden layer in the meta-learner": ("rplg+", {"meta_hidden": 8, "clean_batch": 8}),
}


def rplg_variants() -> dict[str, Method]:
    """RPLG with something other than its defaults, by a neutral name."""
    return {name: make_method(method, params) for name, (method, params) in _VARIANTS.items()}
