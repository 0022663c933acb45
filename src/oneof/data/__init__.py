"""Data sets, splits and scaling."""

from oneof.data.errors import DataError, MissingDataError
from oneof.data.registry import DataSet, data_folder, load, names
from oneof.data.scaling import Scaling
from oneof.data.splits import Split, hold_out, k_fold, split_80_10_10

__all__ = [
    "DataError",
    "DataSet",
    "MissingDataError",
    "Scaling",
    "Split",
    "data_folder",
    "hold_out",
    "k_fold",
    "load",
    "names",
    "split_80_10_10",
]
