"""RPLG as published, its ablations, and RPLG+."""

from oneof.methods.rplg.ablations import RplgNewU, RplgNmPrior, RplgNoRollback, RplgPrior
from oneof.methods.rplg.plus import RplgPlus
from oneof.methods.rplg.rplg import Rplg, RplgNm

__all__ = ["Rplg", "RplgNewU", "RplgNm", "RplgNmPrior", "RplgNoRollback", "RplgPlus", "RplgPrior"]
