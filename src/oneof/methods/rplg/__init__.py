"""RPLG, the method this library is the home of."""

from oneof.methods.rplg.rplg import Rplg, RplgNm

__all__ = ["Rplg", "RplgNm"]
