"""Every name of oneof that the tests of this folder use, and how variants of RPLG are made today.

Nothing else here imports oneof: when modules or options move, only this file changes.
"""

from __future__ import annotations

from typing import Any

from oneof import Candidates, PartialLabelClassifier, __version__, list_methods, load, train
from oneof.app.cli import main
from oneof.app.review.decisions import Decisions, trusted_labels
from oneof.app.review.folder import ReviewData
from oneof.methods import Method, make_method
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

# under names that stay what they are when options get other names or homes; all of them see clean rows
_VARIANTS: dict[str, dict[str, Any]] = {
    "rplg, gradient of the head": {"meta_gradient": "head"},
    "rplg, gradient by a difference": {"meta_gradient": "difference"},
    "rplg, exact gradient": {"meta_gradient": "exact"},
    "rplg, unrolled gradient": {"meta_gradient": "unrolled"},
    "rplg, no rollback": {"rollback": False},
    "rplg, U recomputed": {"recompute_u": True},
    # as in the recorded tables and as on images
    "rplg, slope with the learning rate": {"meta_scale": "rate", "meta_schedule": "constant"},
    "rplg, hidden layer in the meta-learner": {"alpha": 0.3, "meta_hidden": 8},
    "rplg, branches of small rank": {"branches": "candidates", "branch_rank": 2},
    "rplg, few clean rows in proportion": {"clean_batch": 8, "clean_draw": "balanced"},
    "rplg, prior from mu and likely rows": {"prior": "mu", "branch_rows": "likely"},
}


def rplg_variants() -> dict[str, Method]:
    """RPLG with something other than its defaults, by a neutral name."""
    return {name: make_method("rplg", params) for name, params in _VARIANTS.items()}
