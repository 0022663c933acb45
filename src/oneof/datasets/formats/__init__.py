"""Readers of the official on-disk formats.

Images come as uint8 arrays (n, channels, height, width), labels as int64 arrays (n,). Whatever is
wrong with a file ends in a `DataError` of one line that names the file.
"""

from oneof.datasets.formats.cifar import read_cifar_binary, read_cifar_python
from oneof.datasets.formats.idx import read_idx
from oneof.datasets.formats.tiny_imagenet import read_tiny_imagenet
from oneof.tables.image_files import read_image_folder, read_images
from oneof.tables.mat import MatTable, read_mat

__all__ = [
    "MatTable",
    "read_cifar_binary",
    "read_cifar_python",
    "read_idx",
    "read_image_folder",
    "read_images",
    "read_mat",
    "read_tiny_imagenet",
]
