"""Data sets, splits and scaling."""

from oneof.datasets.registry import DataSet, data_folder, load, names
from oneof.datasets.scaling import Scaling
from oneof.datasets.splits import Split, hold_out, split_80_10_10
from oneof.tables.errors import DataError, MissingDataError

__all__ = [
    "DataError",
    "DataSet",
    "MissingDataError",
    "Scaling",
    "Split",
    "data_folder",
    "hold_out",
    "load",
    "names",
    "split_80_10_10",
]
