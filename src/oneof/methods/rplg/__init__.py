"""RPLG as published, its ablations, and RPLG+."""

from oneof.methods.rplg.ablations import (
    RplgAveraged,
    RplgNewU,
    RplgNmPrior,
    RplgNoRollback,
    RplgPlusThreeViews,
    RplgPrior,
    RplgThreeViews,
)
from oneof.methods.rplg.plus import RplgPlus
from oneof.methods.rplg.rplg import Rplg, RplgNm

__all__ = [
    "Rplg",
    "RplgAveraged",
    "RplgNewU",
    "RplgNm",
    "RplgNmPrior",
    "RplgNoRollback",
    "RplgPlus",
    "RplgPlusThreeViews",
    "RplgPrior",
    "RplgThreeViews",
]
